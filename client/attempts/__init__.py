# SPDX-License-Identifier: Apache-2.0
"""One request and its attempts: what follows a failure (plan.py), and the two that make them (blocking.py, background.py)."""
