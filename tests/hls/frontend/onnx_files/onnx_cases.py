# SPDX-License-Identifier: Apache-2.0
"""ONNX files as exporters write them: nodes, weights, opsets and what else differs."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

Shape = tuple[int, ...]


class Node(NamedTuple):
    """weights: shapes of constants drawn behind the computed inputs, or the constants themselves. output: names, spaced."""

    kind: str
    inputs: list[str]
    output: str
    weights: list[Any] = []
    options: dict[str, Any] = {}


class Case(NamedTuple):
    nodes: list[Node]
    shape: Shape
    opset: int = 17
    ir_version: int = 8
    batch: Any = "batch_size"
    listed: bool = False  # constants among the inputs, as before IR 4
    external: bool = False
    sides: tuple[Any, Any] | None = None  # shapes of x and of y as the file has them, in place of (batch, *shape) and none


def conv(x: str, y: str, weight: Shape, bias: bool = True, **options: Any) -> Node:
    places = len(weight) - 2
    known = {
        "kernel_shape": weight[2:],
        "dilations": [1] * places,
        "strides": [1] * places,
        "pads": [0] * 2 * places,
        "group": 1,
    }
    return Node("Conv", [x], y, [weight, *([(weight[0],)] * bias)], {**known, **options})


def gemm(x: str, y: str, n_in: int, n_out: int) -> Node:
    return Node("Gemm", [x], y, [(n_out, n_in), (n_out,)], {"alpha": 1.0, "beta": 1.0, "transB": 1})


def norm(x: str, y: str, n: int) -> Node:
    return Node("BatchNormalization", [x], y, [(n,), (n,), (n,), np.linspace(0.3, 2, n, dtype=np.float32)], {"epsilon": 1e-5})


def relu(x: str, y: str) -> Node:
    return Node("Relu", [x], y)


def pool(kind: str, x: str, y: str, size: Shape, **options: Any) -> Node:
    return Node(kind, [x], y, [], {"kernel_shape": size, "strides": size, **options})


def whole(*sizes: int) -> Any:
    return np.array(sizes, dtype=np.int64)


CNN = [
    conv("x", "a", (3, 2, 3, 3), pads=[1, 1, 1, 1]),
    relu("a", "b"),
    conv("b", "c", (3, 3, 3, 3), bias=False, pads=[1, 1, 1, 1]),
    norm("c", "n", 3),
    Node("Add", ["n", "b"], "s"),
    relu("s", "d"),
    conv("d", "w", (3, 1, 3, 3), bias=False, group=3, pads=[1, 1, 1, 1]),
    norm("w", "v", 3),
    pool("MaxPool", "v", "e", (2, 2)),
    Node("Flatten", ["e"], "f", [], {"axis": 1}),
    gemm("f", "y", 18, 4),
]
IMAGE, LINE = (2, 6, 4), (3, 8)


def _sequences(directions: int, direction: str) -> Case:
    """An LSTM whose states are (rows, steps, directions, units) behind it, or (rows, steps, units) for one direction."""
    squeezed = [Node("Squeeze", ["s"], "u", [whole(1)]), Node("Transpose", ["u"], "y", [], {"perm": [1, 0, 2]})]
    return Case(
        [
            Node("Transpose", ["x"], "t", [], {"perm": [1, 0, 2]}),
            Node("LSTM", ["t"], "s", [(directions, 8, 4), (directions, 8, 2)], {"hidden_size": 2, "direction": direction}),
            *(squeezed if directions == 1 else [Node("Transpose", ["s"], "y", [], {"perm": [2, 0, 1, 3]})]),
        ],
        (3, 4),
    )


def cases() -> dict[str, Case]:
    block = [
        conv("x", "a", (4, 2, 3, 3), pads=[1, 1, 1, 1], bias=False), norm("a", "b", 4), relu("b", "c"),
        conv("c", "d", (4, 1, 3, 3), group=4, strides=[2, 2], pads=[1, 1, 1, 1], bias=False), norm("d", "e", 4),
        Node("Clip", ["e"], "f", [np.float32(0), np.float32(6)]), conv("f", "g", (5, 4, 1, 1)), relu("g", "h"),
    ]  # fmt: skip
    line = [conv("x", "a", (4, 3, 3)), norm("a", "b", 4), relu("b", "c"), pool("MaxPool", "c", "d", (2,))]
    wide = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4) / 8
    listed = {
        "linear": Case([gemm("x", "h", 4, 5), relu("h", "r"), gemm("r", "y", 5, 2)], (4,)),
        "product": Case([Node("MatMul", ["x"], "h", [(4, 5)]), Node("Add", ["h"], "y", [(5,)])], (4,)),
        "rows": Case([Node("MatMul", ["x"], "h", [(4, 5)]), Node("Add", ["h"], "y", [(5,)])], (3, 4)),
        "alpha": Case([Node("Gemm", ["x"], "y", [(4, 3), (1, 3)], {"alpha": 0.5, "beta": 2.0})], (4,)),
        "no_bias": Case([Node("Gemm", ["x"], "y", [(4, 3)])], (4,)),
        "scaled": Case(
            [
                Node("Sub", ["x"], "a", [(4,)]),
                Node("Div", ["a"], "b", [np.array([2, 4, 1, 3], np.float32)]),
                gemm("b", "y", 4, 2),
            ],
            (4,),
        ),
        "by_place": Case([Node("Mul", ["x"], "a", [wide]), conv("a", "y", (2, 2, 3, 3))], (2, 3, 4)),
        "by_channel": Case([Node("Mul", ["x"], "a", [(1, 2, 1, 1)]), conv("a", "y", (2, 2, 3, 3))], IMAGE),
        "conv": Case([conv("x", "y", (3, 2, 3, 3), strides=[2, 1], pads=[1, 0, 1, 0])], IMAGE),
        "same": Case([Node("Conv", ["x"], "y", [(3, 2, 3, 3)], {"auto_pad": "SAME_LOWER", "strides": [2, 2]})], IMAGE),
        "cnn": Case(CNN, IMAGE),
        "cnn_view": Case(
            [
                *CNN[:9],
                Node("Shape", ["x"], "q"),
                Node("Gather", ["q"], "o", [whole(0)], {"axis": 0}),
                Node("Concat", ["o"], "z", [whole(-1)], {"axis": 0}),
                Node("Reshape", ["e", "z"], "f"),
                CNN[-1],
            ],
            IMAGE,
        ),
        "cnn_of_16": Case(CNN, IMAGE, batch=16),
        "cnn_external": Case(CNN, IMAGE, external=True),
        "cnn_listed": Case(CNN, IMAGE, ir_version=3, listed=True),
        "mobile": Case(
            [
                *block,
                Node("GlobalAveragePool", ["h"], "i"),
                Node("Flatten", ["i"], "j"),
                gemm("j", "k", 5, 3),
                Node("Softmax", ["k"], "y", [], {"axis": 1}),
            ],
            IMAGE,
        ),
        "mean": Case([*block, Node("ReduceMean", ["h"], "y", [whole(-1, -2)], {"keepdims": 0})], IMAGE, opset=18),
        "excited": Case([*block[:3], Node("GlobalAveragePool", ["c"], "i"), conv("i", "y", (4, 4, 1, 1))], IMAGE),
        "average": Case([pool("AveragePool", "x", "y", (2, 2), pads=[1, 0, 1, 0], count_include_pad=1)], IMAGE),
        "resnet_stem": Case(
            [
                conv("x", "a", (3, 2, 3, 3)),
                relu("a", "b"),
                pool("MaxPool", "b", "y", (3, 3), strides=[2, 2], pads=[1, 1, 1, 1]),
            ],
            (2, 8, 8),
        ),
        "line": Case([*line, Node("Flatten", ["d"], "f"), gemm("f", "y", 12, 2)], LINE),
        "line_mean": Case(
            [*line[:3], Node("GlobalAveragePool", ["c"], "d"), Node("Squeeze", ["d"], "e", [whole(2)]), gemm("e", "y", 4, 2)],
            LINE,
        ),
        "sets": Case(
            [
                Node("MatMul", ["x"], "h", [(3, 5)]),
                relu("h", "r"),
                Node("ReduceMean", ["r"], "m", [], {"axes": [1], "keepdims": 0}),
                gemm("m", "y", 5, 2),
            ],
            (4, 3),
        ),
        "keras": Case(
            [
                Node("Transpose", ["x"], "a", [], {"perm": [0, 3, 1, 2]}),
                conv("a", "b", (3, 2, 3, 3)),
                relu("b", "c"),
                Node("Transpose", ["c"], "d", [], {"perm": [0, 2, 3, 1]}),
                Node("Reshape", ["d"], "e", [whole(-1, 24)]),
                Node("MatMul", ["e"], "f", [(24, 3)]),
                Node("Add", ["f"], "y", [(3,)]),
            ],
            (6, 4, 2),
        ),
        "flat_first": Case([Node("Flatten", ["x"], "a"), gemm("a", "y", 48, 2)], IMAGE),
        "flat_last": Case([conv("x", "a", (3, 2, 3, 3)), Node("Flatten", ["a"], "y")], IMAGE),
        "joined": Case(
            [conv("x", "a", (3, 2, 1, 1)), relu("a", "b"), Node("Concat", ["b", "x", "a"], "y", [], {"axis": 1})], IMAGE
        ),
        "padded": Case([Node("Pad", ["x"], "a", [whole(0, 0, 1, 0, 0, 0, 0, 1)]), conv("a", "y", (3, 2, 2, 2))], IMAGE),
        "resized": Case(
            [
                conv("x", "a", (3, 2, 3, 3)),
                Node(
                    "Resize",
                    ["a", "", ""],
                    "b",
                    [whole(1, 3, 8, 4)],
                    {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
                ),
                relu("b", "y"),
            ],
            IMAGE,
        ),
        "curves": Case(
            [
                Node("Sigmoid", ["x"], "a"),
                Node("Tanh", ["a"], "b"),
                Node("Elu", ["b"], "c", [], {"alpha": 0.5}),
                Node("LeakyRelu", ["c"], "d", [], {"alpha": 0.1}),
                Node("PRelu", ["d"], "e", [(4,)]),
                Node("Softplus", ["e"], "y"),
            ],
            (4,),
        ),
        "merged": Case([Node("Max", ["x"], "y", [(4,)])], (4,)),
        "dilated": Case([conv("x", "y", (3, 2, 3, 2), dilations=[2, 3], pads=[2, 0, 2, 3])], (2, 8, 8)),
        "dilated_depthwise": Case([conv("x", "y", (2, 1, 3), dilations=[2], group=2, strides=[2])], (2, 9)),
        "dilated_pool": Case([pool("MaxPool", "x", "y", (2, 2), dilations=[2, 2])], (2, 8, 8)),
        "sizes": Case([conv("x", "a", (3, 2, 1, 1)), Node("Abs", ["a"], "y")], IMAGE),
        "groups": Case([conv("x", "y", (4, 1, 3, 3), group=2)], IMAGE),
        "transposed": Case([Node("ConvTranspose", ["x"], "y", [(2, 3, 2, 2)])], IMAGE),
        "padded_pool": Case([pool("MaxPool", "x", "y", (3, 3), strides=[2, 2], pads=[0, 0, 1, 1])], (2, 7, 7)),
        "ceiling": Case([pool("MaxPool", "x", "y", (4, 4), ceil_mode=1)], IMAGE),
        "clipped": Case([Node("Clip", ["x"], "y", [np.float32(1), np.float32(-1)])], (4,)),
        "almost_gelu": Case(
            [
                Node("Div", ["x"], "d", [np.float32(2)]),
                Node("Erf", ["d"], "e"),
                Node("Add", ["e"], "f", [np.float32(1)]),
                Node("Mul", ["x", "f"], "g"),
                Node("Mul", ["g"], "y", [np.float32(0.5)]),
            ],
            (4,),
        ),
        "two_scales": Case(
            [
                Node("QuantizeLinear", ["x"], "q", [np.float32(0.1), np.int8(0)]),
                Node("DequantizeLinear", ["q"], "y", [np.float32(0.2), np.int8(0)]),
            ],
            (4,),
        ),
        "odd_range": Case(
            [
                Node("QuantizeLinear", ["x"], "q", [np.float32(0.1), np.int8(0)]),
                Node("Clip", ["q"], "c", [np.int8(-5), np.int8(9)]),
                Node("DequantizeLinear", ["c"], "y", [np.float32(0.1), np.int8(0)]),
            ],
            (4,),
        ),
        "dynamic": Case(
            [
                Node("DynamicQuantizeLinear", ["x"], "q s z"),
                Node("DequantizeLinear", ["q", "s", "z"], "y"),
            ],
            (4,),
        ),
        "lstm_of_rows": Case([Node("LSTM", ["x"], "s y", [(1, 8, 4), (1, 8, 2)], {"hidden_size": 2})], (3, 4)),
        "bidirectional": _sequences(2, "bidirectional"),
        "bidirectional_of_5": _sequences(2, "bidirectional")._replace(batch=5),
        "forward_of_3": _sequences(1, "forward")._replace(batch=3),
        "bidirectional_stack": Case(
            [
                Node("Transpose", ["x"], "t", [], {"perm": [1, 0, 2]}),
                Node("LSTM", ["t"], "s", [(2, 8, 4), (2, 8, 2)], {"hidden_size": 2, "direction": "bidirectional"}),
                Node("Transpose", ["s"], "u", [], {"perm": [0, 2, 1, 3]}),
                Node("Reshape", ["u"], "v", [whole(0, 0, -1)]),
                Node("LSTM", ["v"], "w h", [(2, 8, 4), (2, 8, 2)], {"hidden_size": 2, "direction": "bidirectional"}),
                Node("Gather", ["h"], "first", [np.int64(0)], {"axis": 0}),
                Node("Gather", ["h"], "last", [np.int64(1)], {"axis": 0}),
                Node("Concat", ["first", "last"], "y", [], {"axis": -1}),
            ],
            (3, 4),
        ),
        "reversed": _sequences(1, "reverse"),
        "old_gru": Case(
            [
                Node("Transpose", ["x"], "t", [], {"perm": [1, 0, 2]}),
                Node("GRU", ["t"], "s", [(1, 6, 4), (1, 6, 2)], {"hidden_size": 2}),
                Node("Squeeze", ["s"], "u", [whole(1)]),
                Node("Transpose", ["u"], "y", [], {"perm": [1, 0, 2]}),
            ],
            (3, 4),
        ),
        "log_softmax": Case([Node("LogSoftmax", ["x"], "y")], (4,)),
        "erf": Case([Node("Erf", ["x"], "y")], (4,)),
        "softmax_of_steps": Case([Node("Softmax", ["x"], "y", [], {"axis": 1})], (3, 4)),
        "softmax_of_lines": Case([conv("x", "a", (3, 2, 1, 1)), Node("Softmax", ["a"], "y", [], {"axis": 2})], IMAGE),
        "softmax_of_heads": Case([Node("Softmax", ["x"], "y", [], {"axis": -2})], (2, 3, 4)),
        "class_token": Case(
            [Node("Neg", [], "c", [(1, 1, 4)]), Node("Concat", ["c", "x"], "y", [(1, 2, 4)], {"axis": 1})], (3, 4)
        ),
        "constant_channels": Case(
            [
                conv("x", "a", (3, 2, 1, 1)),
                Node("Neg", [], "c", [(1, 1, *IMAGE[1:])]),
                Node("Concat", ["a", "c", "x"], "y", [(1, 2, *IMAGE[1:])], {"axis": 1}),
            ],
            IMAGE,
        ),
        "weighted": Case([gemm("x", "w", 4, 1), Node("Mul", ["w", "x"], "y")], (4,)),
        "turned": Case([Node("Neg", [], "c", [(5, 3)]), Node("MatMul", ["c", "x"], "y")], (3, 4)),
        "turned_heads": Case([Node("Neg", [], "c", [(1, 1, 5, 3)]), Node("MatMul", ["c", "x"], "y")], (2, 3, 4)),
        "weighted_sets": Case([Node("MatMul", ["x"], "w", [(4, 1)]), Node("Mul", ["w", "x"], "y")], (3, 4)),
        "excited_difference": Case(
            [
                conv("x", "a", (3, 2, 1, 1)),
                Node("GlobalAveragePool", ["a"], "m"),
                Node("Sigmoid", ["m"], "s"),
                Node("Sub", ["s", "a"], "y"),
            ],
            IMAGE,
        ),
        "mixed_ranks": Case(
            [Node("ReduceSum", ["x"], "s", [whole(1)], {"keepdims": 0}), Node("Mul", ["x", "s"], "y")], (3, 4), batch=1
        ),
    }
    linear = listed["linear"]
    sides = {
        "open": ([None, 4], [None, 2]),
        "minus_one": ([-1, 4], [0, 2]),
        "batch_of_5": ([5, 4], [5, 2]),
        "no_result": ([1, 4], None),
        "named_result": (["batch_size", 4], ["batch_size", "n"]),
        "named_input": ([1, "n"], [1, 2]),
        "no_input": (None, [1, 2]),
    }
    listed |= {name: linear._replace(sides=of) for name, of in sides.items()}
    listed |= old_opsets()
    for opset in (11, 12, 13, 14, 16, 18, 20, 22, 24, 26):
        listed[f"opset_{opset}"] = Case(CNN, IMAGE, opset=opset)
    for version in (4, 6, 9, 10, 13, 14):
        listed[f"ir_{version}"] = Case(CNN, IMAGE, ir_version=version)
    return listed


def old_opsets() -> dict[str, Case]:
    """Graphs that opsets 11 and 12 write otherwise: axes as attributes, Softmax of the flattened input, outputs of training."""
    training = "a m v saved_m saved_v"
    return {
        "old_squeeze": Case(
            [
                conv("x", "a", (4, 3, 3)),
                relu("a", "b"),
                Node("GlobalAveragePool", ["b"], "c"),
                Node("Squeeze", ["c"], "d", [], {"axes": [2]}),
                gemm("d", "e", 4, 3),
                Node("Softmax", ["e"], "y"),
            ],
            LINE,
            opset=11,
        ),
        "old_unsqueeze": Case(
            [
                Node("Unsqueeze", ["x"], "a", [], {"axes": [1]}),
                conv("a", "b", (3, 1, 3)),
                Node("Clip", ["b"], "c", [np.float32(0), np.float32(6)]),
                Node("Dropout", ["c"], "d mask", [], {"ratio": 0.3}),
                Node("Flatten", ["d"], "e"),
                gemm("e", "y", 18, 2),
            ],
            (8,),
            opset=11,
        ),
        "old_mean": Case(
            [
                Node("Pad", ["x"], "p", [whole(0, 0, 1, 0, 0, 0, 0, 1), np.float32(0)], {"mode": "constant"}),
                conv("p", "a", (3, 2, 3, 3)),
                norm("a", "n", 3),
                relu("n", "b"),
                Node("ReduceMean", ["b"], "c", [], {"axes": [2, 3], "keepdims": 0}),
                gemm("c", "y", 3, 2),
            ],
            IMAGE,
            opset=11,
        ),
        "old_view": Case(
            [
                conv("x", "a", (3, 2, 3, 3)),
                Node("Shape", ["a"], "s"),
                Node("Gather", ["s"], "n", [np.int64(0)], {"axis": 0}),
                Node("Unsqueeze", ["n"], "m", [], {"axes": [0]}),
                Node("Concat", ["m"], "z", [whole(-1)], {"axis": 0}),
                Node("Reshape", ["a", "z"], "f"),
                gemm("f", "y", 24, 2),
            ],
            IMAGE,
            opset=11,
        ),
        "old_softmax_last": Case([Node("Softmax", ["x"], "y", [], {"axis": 2})], (3, 4), opset=12),
        "old_softmax_flat": Case([Node("Softmax", ["x"], "y", [], {"axis": 1})], (3, 4), opset=12),
        "training": Case([norm("x", training, 2), relu("a", "y")], IMAGE, opset=12),
        "training_dropout": Case([Node("Dropout", ["x"], "y", [np.float32(0.3), np.array(True)])], (4,), opset=12),
        "mask": Case(
            [Node("Dropout", ["x"], "a m"), Node("Cast", ["m"], "c", [], {"to": 1}), Node("Add", ["a", "c"], "y")],
            (4,),
            opset=12,
        ),
    }
