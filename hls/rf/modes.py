# SPDX-License-Identifier: Apache-2.0
"""The modes of the modules in hls/rtl/rf. hls/rf/packages.py writes them into rf_pkg.sv."""

from __future__ import annotations

from enum import IntEnum


class MapMode(IntEnum):
    """The functions of rf_map (its parameter MODE)."""

    SAME = 0
    AFFINE = 1
    LEAKY = 2
    THRESHOLD = 3
    STEP = 4


class MergeOp(IntEnum):
    """The operations of rf_merge (its parameter OP)."""

    ADD = 0
    SUBTRACT = 1
    MULTIPLY = 2
    MAXIMUM = 3
    MINIMUM = 4


class PoolOp(IntEnum):
    """The operations of rf_pool and rf_global_pool (their parameter OP)."""

    MAX = 0
    AVERAGE = 1
