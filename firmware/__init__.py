# SPDX-License-Identifier: Apache-2.0
"""The kernel around a core, and the xclbin that carries it.

One more platform: platform.py. One more section of an xclbin: xclbin/sections.py. One more driver of cards: host/driver.py.
"""
