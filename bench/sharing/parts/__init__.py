# SPDX-License-Identifier: Apache-2.0
"""The parts of `hypersonic bench sharing`: each module is a Part (figure.py)."""
