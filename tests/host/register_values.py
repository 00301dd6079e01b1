# SPDX-License-Identifier: Apache-2.0
"""Values that every register of the faulty XRT returns, by the state they stand for."""

from __future__ import annotations

#: VERSION is ours, CONTROL idle, AXI_ERROR clear; all registers of a faulty XRT read the same
HEALTHY, MEMORY_ERROR, BUSY, ALL_ONES = 0x10004, 0x10005, 0x10000, 0xFFFFFFFF
