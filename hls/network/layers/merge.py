# SPDX-License-Identifier: Apache-2.0
"""Elementwise operations on two tensors of one shape."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from hypersonic.hls.network.attributes import refuse, shape_text
from hypersonic.hls.network.base import Tensor, TwoInputs
from hypersonic.hls.network.layer_type import LayerType
from hypersonic.hls.network.raw import Integers, cast


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


def _read(layer: Any, a: Tensor, b: Tensor, y: Tensor) -> Merge:
    operation = str(layer.get_attr("op")).lower()
    if operation not in tuple(MergeOperation):
        raise refuse(layer, f"the operation is {operation}, expected one of {', '.join(MergeOperation)}")
    if a.shape != b.shape:
        raise refuse(layer, f"its inputs are {shape_text(a.shape)} and {shape_text(b.shape)}, expected equal shapes")
    return Merge(layer.name, a, b, y, MergeOperation(operation))


# ---------------------------------------------------------------- what it computes
def _evaluate(layer: Merge, a: Integers, b: Integers) -> Integers:
    fraction = max(layer.a.precision.fraction, layer.b.precision.fraction)
    a, b = a << (fraction - layer.a.precision.fraction), b << (fraction - layer.b.precision.fraction)
    match layer.operation:
        case MergeOperation.ADD:
            y = a + b
        case MergeOperation.SUBTRACT:
            y = a - b
        case MergeOperation.MULTIPLY:
            y, fraction = a * b, 2 * fraction
        case MergeOperation.AVERAGE:
            y, fraction = a + b, fraction + 1
        case MergeOperation.MAXIMUM:
            y = np.maximum(a, b)
        case MergeOperation.MINIMUM:
            y = np.minimum(a, b)
    return cast(y, fraction, layer.y.precision)


LAYER = LayerType(Merge, _evaluate, readers={"Merge": _read})
