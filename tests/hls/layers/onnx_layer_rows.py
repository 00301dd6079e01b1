# SPDX-License-Identifier: Apache-2.0
"""A small ONNX graph for each row of the table of ONNX operators in docs/layers.md."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tests.hls.frontend.onnx_session import Case, Node, gemm, relu


class Row(NamedTuple):
    """graph: as onnx_session.write takes it. scale: of its rows, which are normal."""

    graph: Case
    scale: float = 1.0


def pair(x: str, y: str, scale: Any, zero: Any, clip: tuple[int, int] | None = None, **options: Any) -> list[Node]:
    """QuantizeLinear and DequantizeLinear. clip: a Clip between them, as Brevitas writes it."""
    numbers, between = np.asarray(scale, np.float32), f"{y}_clip" if clip else f"{y}_n"
    ends = [np.asarray(end, zero.dtype) for end in clip or ()]
    return [
        Node("QuantizeLinear", [x], f"{y}_n", [numbers, zero], options),
        *([Node("Clip", [f"{y}_n"], between, ends)] if clip else []),
        Node("DequantizeLinear", [between], y, [numbers, zero], options),
    ]


def weights(y: str, shape: tuple[int, ...], scale: Any, **options: Any) -> Node:
    """A DequantizeLinear of constant int8 numbers."""
    numbers = np.random.default_rng(5).integers(-127, 127, shape, endpoint=True).astype(np.int8)
    scale = np.asarray(scale, np.float32)
    return Node("DequantizeLinear", [], y, [numbers, scale, np.zeros(scale.shape, np.int8)], options)


I8, U8 = np.int8, np.uint8
_IMAGE = (2, 6, 6)

CASES: dict[str, Row] = {
    "QuantizeLinear and DequantizeLinear, a scale that is a power of two": Row(
        Case(
            [
                *pair("x", "q", 1 / 32, I8(0)), weights("w", (4, 6), 1 / 128),
                Node("Gemm", ["q", "w"], "a", [(4,)], {"transB": 1}), relu("a", "r"),
                *pair("r", "s", 1 / 16, U8(0)), *pair("s", "t", 1 / 16, I8(0), (-127, 127)), gemm("t", "y", 4, 2),
            ],
            (6,),
        )
    ),
    "QuantizeLinear and DequantizeLinear, any scale and zero point": Row(
        Case(
            [
                *pair("x", "q", 0.031, U8(117)), weights("w", (4, 6), [0.01, 0.02, 0.015, 0.007], axis=0),
                Node("Gemm", ["q", "w"], "a", [(4,)], {"transB": 1}), *pair("a", "r", 0.013, I8(-128)),
                gemm("r", "b", 4, 2), *pair("b", "y", 0.02, U8(128)),
            ],
            (6,),
        )
    ),
    "QuantizeLinear and DequantizeLinear of images, a scale for each channel": Row(
        Case(
            [
                *pair("x", "q", [0.03, 0.05], np.zeros(2, I8), axis=1),
                weights("w", (3, 2, 3, 3), [1 / 64, 1 / 128, 1 / 32], axis=0),
                Node("Conv", ["q", "w"], "a", [(3,)], {"kernel_shape": [3, 3]}), relu("a", "r"), *pair("r", "s", 0.02, U8(0)),
                Node("GlobalAveragePool", ["s"], "p"), Node("Flatten", ["p"], "f"), gemm("f", "y", 3, 2),
            ],
            _IMAGE,
        )
    ),
}  # fmt: skip
