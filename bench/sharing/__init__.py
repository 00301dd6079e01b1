# SPDX-License-Identifier: Apache-2.0
"""How kernels, models and servers share emulated cards: run.py, and one module for each part in parts/."""
