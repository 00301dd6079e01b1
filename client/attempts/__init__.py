# SPDX-License-Identifier: Apache-2.0
"""One request and its attempts: plan.py decides what follows a failure, blocking.py and background.py make the attempts."""
