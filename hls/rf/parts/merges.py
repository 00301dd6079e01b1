# SPDX-License-Identifier: Apache-2.0
"""Elementwise operations on two tensors of one shape."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from hypersonic.hls.rf.layers import TwoInputs


class MergeOperation(StrEnum):
    """hls4ml's names of the operations."""

    ADD = "add"
    SUBTRACT = "subtract"
    MULTIPLY = "multiply"
    AVERAGE = "average"  # (a + b) * 0.5, exact
    MAXIMUM = "maximum"
    MINIMUM = "minimum"


@dataclass(frozen=True)
class Merge(TwoInputs):
    """y[i] = result(a[i] op b[i]) with an exact operation, for equal shapes; nnet_merge.h."""

    operation: MergeOperation
