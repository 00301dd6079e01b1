# SPDX-License-Identifier: Apache-2.0
"""The kernel around a core: its RTL, its registers and its description for Vitis."""
