# SPDX-License-Identifier: Apache-2.0
"""What is too wide for the modules: refused by the layer's name before anything is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hypersonic.hls.errors import UnsupportedLayerError
from hypersonic.hls.rf.stage import Stage

_Numbers = Mapping[str, int]

#: bits that rf_cast takes in, and gives out
MAX_CAST_WIDTH = 128
#: bits of an element that rf_window can pad
_MAX_WINDOW_WIDTH = 64
#: bits that rf_divide's reciprocal can have
_MAX_DIVIDE_WIDTH = 126
#: bits of rf_map's bounds and of rf_softmax's one, their sign among them
_MAX_BOUND_WIDTH = 64


def check_stage(stage: Stage) -> Stage:
    """The stage itself. Raises UnsupportedLayerError where a number inside it would not fit."""
    numbers = {key: int(value) for key, value in stage.parameters.items() if not isinstance(value, str)}
    widths = [(stream.precision.width, MAX_CAST_WIDTH, "a number") for stream in (*stage.inputs, *stage.outputs)]
    widths += [found(numbers) for found in _WIDTHS.get(stage.module, ())]
    for width, limit, what in widths:
        if width > limit:
            raise UnsupportedLayerError(
                f"layer {stage.layer!r}: {what} of {width} bits in its {stage.module}, expected up to {limit}; give the layer, "
                "or the one before it, a narrower result or accum in the model's YAML"
            )
    return stage


def _product(numbers: _Numbers) -> tuple[int, int, str]:
    return numbers["X_WIDTH"] + numbers["W_WIDTH"], MAX_CAST_WIDTH, "a product"


def _accumulator(numbers: _Numbers) -> tuple[int, int, str]:
    return numbers.get("ACC_WIDTH", 1), MAX_CAST_WIDTH, "an accumulator"


def _window(numbers: _Numbers) -> tuple[int, int, str]:
    return numbers["WIDTH"], _MAX_WINDOW_WIDTH, "an element"


def _quotient(numbers: _Numbers) -> tuple[int, int, str]:
    count = numbers.get("PIXELS", numbers.get("K_H", 1) * numbers.get("K_W", 1))
    width = numbers.get("ACC_WIDTH", 1) + (count - 1).bit_length() if numbers["OP"] == 1 else 1
    return width, _MAX_DIVIDE_WIDTH, "a quotient"


def _mapped(numbers: _Numbers) -> tuple[int, int, str]:
    a, b, x = (numbers.get(f"{letter}_WIDTH", 8) for letter in "ABX")
    width = x + 1
    if numbers["MODE"] == 1:
        width = max(x + 1 + a + numbers["PRODUCT_LEFT"], b + numbers["OFFSET_LEFT"]) + 1
    elif numbers["MODE"] == 2:
        width = x + 1 + max(a, numbers["A_FRACTION"] + 2)
    return width, MAX_CAST_WIDTH, "a number"


def _bound(numbers: _Numbers) -> tuple[int, int, str]:
    greatest = max(abs(numbers.get("LOW", 0)), abs(numbers.get("HIGH", 0)))
    return greatest.bit_length() + 1, _MAX_BOUND_WIDTH, "a bound"


def _joined(numbers: _Numbers) -> tuple[int, int, str]:
    a, b = (numbers[f"{side}_WIDTH"] + 1 + numbers[f"{side}_LEFT"] for side in "AB")
    return a + b if numbers["OP"] == 2 else max(a, b) + 1, MAX_CAST_WIDTH, "a sum or product"


def _one(numbers: _Numbers) -> tuple[int, int, str]:
    return numbers.get("ONE", 1).bit_length() + 1, _MAX_BOUND_WIDTH, "a one"


def _softmax(numbers: _Numbers) -> tuple[int, int, str]:
    return numbers.get("ACC_WIDTH", 1) + numbers.get("FACTOR_WIDTH", 1) + 2, MAX_CAST_WIDTH, "a product"


_WIDTHS: dict[str, tuple[Callable[[_Numbers], tuple[int, int, str]], ...]] = {
    "rf_mac": (_product, _accumulator),
    "rf_mac_stream": (_product, _accumulator),
    "rf_depthwise": (_product, _accumulator),
    "rf_window": (_window,),
    "rf_pool": (_accumulator, _quotient),
    "rf_global_pool": (_accumulator, _quotient),
    "rf_map": (_mapped, _bound),
    "rf_add": (_joined,),
    "rf_softmax": (_softmax, _accumulator, _one),
}
