# SPDX-License-Identifier: Apache-2.0
"""The kernel around a core, and the xclbin that carries it.

To add a platform, see platform.py. To add a section of an xclbin, see xclbin/sections.py. To add a driver of cards, see
host/driver.py.
"""
