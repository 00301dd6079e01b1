# SPDX-License-Identifier: Apache-2.0
"""A small ONNX graph for each row of the table of ONNX operators in docs/layers.md."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tests.hls.frontend.onnx_files.onnx_attention import attention
from tests.hls.frontend.onnx_files.onnx_cases import Case, Node, conv, gemm, pool, relu, whole


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


def between(node: Node, n_in: int, n_out: int) -> Case:
    """A node from "a" to "b" between two Gemm."""
    return Case([gemm("x", "a", 6, n_in), node, gemm("b", "y", n_out, 2)], (6,), opset=20)


def of_images(*nodes: Node, channels: int = 3) -> Case:
    """Nodes from "a", an image of three channels, to "b", and the mean of each channel."""
    ends = [Node("GlobalAveragePool", ["b"], "g"), Node("Flatten", ["g"], "f"), gemm("f", "y", channels, 2)]
    return Case([conv("x", "a", (3, 2, 3, 3), pads=[1, 1, 1, 1]), *nodes, *ends], _IMAGE, opset=18)


def clip(low: float | None, high: float | None) -> Node:
    """A Clip from "a" to "b"."""
    ends = [Node("Clip", ["a"], "b", [np.float32(end) for end in (low, high) if end is not None])]
    return ends[0] if low is not None else ends[0]._replace(inputs=["a", ""])


def sliced(x: str, y: str, start: list[int], end: list[int], axis: list[int], step: list[int]) -> Node:
    return Node("Slice", [x], y, [whole(*each) for each in (start, end, axis, step)])


def heads(y: str) -> list[Node]:
    """Four steps of "x", as two heads of two channels: (batch, head, step, channel)."""
    return [
        Node("MatMul", ["x"], f"{y}_a", [(3, 4)]), Node("Reshape", [f"{y}_a"], f"{y}_b", [whole(0, 4, 2, 2)]),
        Node("Transpose", [f"{y}_b"], y, [], {"perm": [0, 2, 1, 3]}),
    ]  # fmt: skip


def number(value: float) -> Any:
    return np.float32(value)


def gelu_erf() -> list[Node]:
    """Gelu of "a" in "b", as torch writes it below opset 20."""
    return [
        Node("Div", ["a"], "d", [number(2**0.5)]), Node("Erf", ["d"], "e"), Node("Add", ["e"], "f", [number(1)]),
        Node("Mul", ["a", "f"], "g"), Node("Mul", ["g"], "b", [number(0.5)]),
    ]  # fmt: skip


def gelu_tanh() -> list[Node]:
    """Gelu by a tanh, of "a" in "b", as torch writes it."""
    return [
        Node("Mul", ["a"], "h", [number(0.5)]), Node("Pow", ["a"], "c", [number(3)]),
        Node("Mul", ["c"], "d", [number(0.044715)]),
        Node("Add", ["a", "d"], "e"), Node("Mul", ["e"], "f", [number((2 / np.pi) ** 0.5)]), Node("Tanh", ["f"], "t"),
        Node("Add", ["t"], "u", [number(1)]), Node("Mul", ["h", "u"], "b"),
    ]  # fmt: skip


def layer_norm() -> list[Node]:
    """LayerNormalization of "a" in "b", as torch writes it below opset 17."""
    options = {"axes": [-1]}
    return [
        Node("ReduceMean", ["a"], "m", [], options), Node("Sub", ["a", "m"], "c"), Node("Pow", ["c"], "s", [number(2)]),
        Node("ReduceMean", ["s"], "v", [], options), Node("Add", ["v"], "w", [number(1e-5)]), Node("Sqrt", ["w"], "r"),
        Node("Div", ["c", "r"], "q"), Node("Mul", ["q"], "p", [(8,)]), Node("Add", ["p"], "b", [(8,)]),
    ]  # fmt: skip


def ends(nodes: list[Node], n: int, opset: int = 17) -> Case:
    """Nodes from "a" to "b" between two Gemm."""
    return Case([gemm("x", "a", 6, n), *nodes, gemm("b", "y", n, 2)], (6,), opset=opset)


def recurrent(kind: str, x: str, y: str, n_in: int, units: int, last: str = "", **options: Any) -> Node:
    """An LSTM or GRU. y: all steps, (steps, directions, rows, units); last: the last, (directions, rows, units)."""
    gates, sides = {"LSTM": 4, "GRU": 3}[kind] * units, 2 if options.get("direction") == "bidirectional" else 1
    return Node(kind, [x], f"{y} {last}".strip(), [(sides, gates, n_in), (sides, gates, units), (sides, 2 * gates)],
                {"hidden_size": units, **options})  # fmt: skip


def turned(x: str, y: str) -> Node:
    return Node("Transpose", [x], y, [], {"perm": [1, 0, 2]})


def squeezed(x: str, y: str, axis: int) -> Node:
    return Node("Squeeze", [x], y, [whole(axis)])


_SEQUENCE = (5, 3)
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
    "MaxPool with pads, of numbers below 0": Row(
        of_images(pool("MaxPool", "a", "b", (3, 3), strides=[2, 2], pads=[1, 1, 1, 1]))
    ),
    "AveragePool with pads that are not counted": Row(
        of_images(pool("AveragePool", "a", "b", (3, 3), strides=[2, 2], pads=[1, 1, 1, 1]))
    ),
    "HardSigmoid, any slope": Row(between(Node("HardSigmoid", ["a"], "b", [], {"alpha": 1 / 6}), 4, 4), 3.0),
    "HardSwish": Row(between(Node("HardSwish", ["a"], "b"), 4, 4), 2.0),
    "Gelu": Row(between(Node("Gelu", ["a"], "b"), 4, 4), 2.0),
    "Mish": Row(between(Node("Mish", ["a"], "b"), 4, 4), 2.0),
    "Gelu as Erf": Row(ends(gelu_erf(), 4), 2.0),
    "Gelu as Tanh": Row(ends(gelu_tanh(), 4), 2.0),
    "x * Sigmoid(x), SiLU": Row(ends([Node("Sigmoid", ["a"], "s"), Node("Mul", ["a", "s"], "b")], 4), 2.0),
    "x * Tanh(Softplus(x)), Mish": Row(
        ends([Node("Softplus", ["a"], "s"), Node("Tanh", ["s"], "t"), Node("Mul", ["a", "t"], "b")], 4), 2.0
    ),
    "LayerNormalization": Row(ends([Node("LayerNormalization", ["a"], "b", [(8,), (8,)])], 8), 0.3),
    "LayerNormalization as ReduceMean, Pow and Sqrt": Row(ends(layer_norm(), 8, 16), 0.3),
    "LSTM, its last state": Row(
        Case(
            [turned("x", "t"), recurrent("LSTM", "t", "s", 3, 4, "h"), squeezed("h", "b", 0), gemm("b", "y", 4, 2)], _SEQUENCE
        )
    ),
    "LSTM behind a GRU, all steps": Row(
        Case(
            [
                turned("x", "t"), recurrent("GRU", "t", "s", 3, 4, linear_before_reset=1), squeezed("s", "u", 1),
                recurrent("LSTM", "u", "v", 4, 3), squeezed("v", "w", 1), turned("w", "a"),
                Node("Gather", ["a"], "b", [np.int64(-1)], {"axis": 1}), gemm("b", "y", 3, 2),
            ],
            _SEQUENCE,
        )
    ),
    "LSTM of two directions, its last states": Row(
        Case(
            [
                turned("x", "t"), recurrent("LSTM", "t", "s", 3, 3, "h", direction="bidirectional"),
                *(Node("Gather", ["h"], f"h_{side}", [np.int64(side)], {"axis": 0}) for side in (0, 1)),
                Node("Concat", ["h_0", "h_1"], "b", [], {"axis": -1}), gemm("b", "y", 6, 2),
            ],
            _SEQUENCE,
        )
    ),
    "GRU of two directions, all steps": Row(
        Case(
            [
                turned("x", "t"), recurrent("GRU", "t", "s", 3, 2, linear_before_reset=1, direction="bidirectional"),
                Node("Transpose", ["s"], "u", [], {"perm": [0, 2, 1, 3]}), Node("Reshape", ["u"], "v", [whole(0, 0, -1)]),
                turned("v", "b"), Node("MatMul", ["b"], "y", [(4, 2)]),
            ],
            _SEQUENCE,
        )
    ),
    "ConvTranspose": Row(
        of_images(
            Node(
                "ConvTranspose", ["a"], "b", [(3, 2, 3, 2), (2,)],
                {"strides": [2, 2], "pads": [1, 0, 1, 0], "output_padding": [1, 0]},
            ),
            channels=2,
        )
    ),
    "Abs": Row(between(Node("Abs", ["a"], "b"), 4, 4)),
    "Conv with dilations": Row(of_images(Node("Conv", ["a"], "b", [(3, 3, 2, 2)], {"dilations": [2, 1]}))),
    "Softmax along another axis": Row(
        Case([Node("MatMul", ["x"], "s", [(3, 2)]), Node("Softmax", ["s"], "p", [], {"axis": 1}), relu("p", "y")], (4, 3))
    ),
    "Mul of tensors of different shapes": Row(
        Case([Node("MatMul", ["x"], "w", [(3, 1)]), Node("Mul", ["w", "x"], "y")], (4, 3))
    ),
    "MatMul of a constant and a tensor": Row(
        Case([Node("Neg", [], "c", [(5, 4)]), Node("MatMul", ["c", "x"], "t"), relu("t", "y")], (4, 3))
    ),
    "Concat of a constant and a tensor": Row(
        Case(
            [Node("Neg", [], "c", [(1, 1, 3)]), Node("Concat", ["c", "x"], "t", [], {"axis": 1}), relu("t", "y")], (4, 3)
        )
    ),
    "ReduceSum of an image's places": Row(
        Case(
            [
                conv("x", "a", (3, 2, 3, 3)), relu("a", "b"), Node("ReduceSum", ["b"], "c", [whole(2, 3)], {"keepdims": 0}),
                gemm("c", "y", 3, 2),
            ],
            _IMAGE,
        )
    ),
    "ReduceMean or ReduceSum of a vector": Row(
        Case(
            [
                gemm("x", "a", 6, 4), Node("ReduceMean", ["a"], "b", [whole(-1)], {"keepdims": 1}), relu("a", "r"),
                Node("ReduceSum", ["r"], "c", [whole(1)], {"keepdims": 1}), Node("Concat", ["b", "c"], "y", [], {"axis": 1}),
            ],
            (6,), opset=18,
        )
    ),
    "ReduceMean of a sequence's numbers": Row(
        Case(
            [
                Node("MatMul", ["x"], "a", [(3, 5)]), Node("ReduceMean", ["a"], "b", [whole(-1)], {"keepdims": 0}),
                gemm("b", "y", 4, 2),
            ],
            (4, 3), opset=18,
        )
    ),
    "MatMul of two computed tensors, as in attention": Row(
        Case(
            [
                *(node for side in "qkv" for node in heads(side)),
                Node("Transpose", ["k"], "k_t", [], {"perm": [0, 1, 3, 2]}), Node("MatMul", ["q", "k_t"], "s"),
                Node("Mul", ["s"], "scores", [number(2**-0.5)]), Node("Softmax", ["scores"], "p", [], {"axis": -1}),
                Node("MatMul", ["p", "v"], "m"), Node("Transpose", ["m"], "m_t", [], {"perm": [0, 2, 1, 3]}),
                Node("Reshape", ["m_t"], "j", [whole(0, 4, 4)]), Node("MatMul", ["j"], "y", [(4, 3)]),
            ],
            (4, 3), opset=18,
        )
    ),
    "Transpose that moves the rows, in PyTorch's MultiheadAttention": Row(Case(attention("x", "y", 3, 4, 2), (3, 4))),
    "Neg": Row(between(Node("Neg", ["a"], "b"), 4, 4)),
    "Celu": Row(between(Node("Celu", ["a"], "b"), 4, 4)),
    "x / (1 + Abs(x)), as torch writes softsign": Row(
        Case(
            [
                gemm("x", "a", 6, 4), Node("Abs", ["a"], "d"), Node("Add", ["d"], "e", [number(1)]),
                Node("Div", ["a", "e"], "b"), gemm("b", "y", 4, 2),
            ],
            (6,), opset=18,
        )
    ),
    "Clip from 0 to any number": Row(between(clip(0, 1.5), 4, 4)),
    "Clip between any numbers": Row(between(clip(-1, 0.5), 4, 4)),
    "Clip with one end": Row(
        Case(
            [
                gemm("x", "a", 6, 4), clip(-0.5, None), clip(None, 1.25)._replace(inputs=["b", ""], output="c"),
                gemm("c", "y", 4, 2),
            ],
            (6,),
        )
    ),
    "Split": Row(
        Case(
            [
                gemm("x", "a", 6, 8), Node("Split", ["a"], "b c", [], {"axis": 1, "num_outputs": 2}),
                Node("Sigmoid", ["c"], "d"), Node("Mul", ["b", "d"], "y"),
            ],
            (6,), opset=18,
        )
    ),
    "Split of an image's channels": Row(
        of_images(
            Node("Split", ["a"], "c d", [whole(1, 2)], {"axis": 1}), relu("d", "e"),
            Node("Concat", ["e", "c"], "b", [], {"axis": 1}),
        )
    ),
    "Slice, with steps": Row(
        of_images(sliced("a", "b", [0, 1, 0], [2, 6, 6], [1, 2, 3], [1, 1, 2]), channels=2)
    ),
    "Gather of constant indices": Row(
        between(Node("Gather", ["a"], "b", [whole(5, 0, 1, 2, 7)], {"axis": 1}), 8, 5)
    ),
    "Gather of one index": Row(
        Case(
            [
                Node("MatMul", ["x"], "a", [(4, 3)]), Node("Gather", ["a"], "b", [np.int64(-1)], {"axis": 1}),
                gemm("b", "y", 3, 2),
            ],
            (5, 4),
        )
    ),
}  # fmt: skip
