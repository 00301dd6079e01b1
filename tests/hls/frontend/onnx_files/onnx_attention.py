# SPDX-License-Identifier: Apache-2.0
"""Attention as exporters of PyTorch write it, with the steps in front of the rows, and graphs that mix the rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.hls.frontend.onnx_files.onnx_cases import Case, Node, gemm, relu, whole


def attention(x: str, y: str, steps: int, size: int, heads: int, batch: int = -1, shaped: bool = False) -> list[Node]:
    """torch.nn.MultiheadAttention(size, heads, batch_first=True) without its mask.

    batch: the rows that the file's reshapes are fixed to, or -1. shaped: sizes come from Shape, as the older exporter has them.
    """
    head = size // heads
    split = whole(steps, batch if batch == -1 else batch * heads, head)
    sizes = [
        Node("Shape", ["steps_first"], "sizes"),
        Node("Slice", ["sizes"], "first", [whole(0), whole(1)]),
        Node("Gather", ["sizes"], "number", [np.int64(1)], {"axis": 0}),
        Node("Mul", ["number"], "joined", [np.int64(heads)]),
        Node("Unsqueeze", ["joined"], "second", [whole(0)]),
        Node("Concat", ["first", "second"], "split", [whole(head)], {"axis": 0}),
    ]
    made = [
        Node("Transpose", [x], "steps_first", [], {"perm": [1, 0, 2]}),
        *(sizes if shaped else []),
        Node("MatMul", ["steps_first"], "projected", [(size, 3 * size)]),
        Node("Add", ["projected"], "biased", [(3 * size,)]),
        Node("Reshape", ["biased"], "view", [whole(steps, batch, 3, size)]),
        Node("Unsqueeze", ["view"], "more", [whole(0)]),
        Node("Transpose", ["more"], "turned", [], {"perm": [3, 1, 2, 0, 4]}),
        Node("Squeeze", ["turned"], "apart", [whole(-2)]),
    ]
    for index, kind in enumerate("qkv"):
        made += [
            Node("Gather", ["apart"], kind, [np.int64(index)], {"axis": 0}),
            Node("Reshape", [kind, "split"], f"{kind}_0") if shaped else Node("Reshape", [kind], f"{kind}_0", [split]),
            Node("Transpose", [f"{kind}_0"], f"{kind}_1", [], {"perm": [1, 0, 2]}),
            Node("Reshape", [f"{kind}_1"], f"{kind}_heads", [whole(batch, heads, steps, head)]),
        ]
    return [
        *made,
        Node("Mul", ["q_heads"], "q_scaled", [np.array([head**-0.5], np.float32)]),
        Node("Transpose", ["k_heads"], "k_turned", [], {"perm": [0, 1, 3, 2]}),
        Node("MatMul", ["q_scaled", "k_turned"], "scores"),
        Node("Softmax", ["scores"], "weights", [], {"axis": -1}),
        Node("MatMul", ["weights", "v_heads"], "attended"),
        Node("Transpose", ["attended"], "permuted", [], {"perm": [2, 0, 1, 3]}),
        Node("Reshape", ["permuted"], "flat", [whole(-1, size)]),
        gemm("flat", "linear", size, size),
        Node("Reshape", ["linear"], "by_steps", [whole(steps, batch, size)]),
        Node("Transpose", ["by_steps"], y, [], {"perm": [1, 0, 2]}),
    ]


def encoder(steps: int, size: int, heads: int, **options: Any) -> list[Node]:
    """torch.nn.TransformerEncoderLayer(batch_first=True), and the mean of its steps."""
    ones = np.linspace(0.5, 1.5, size, dtype=np.float32)
    return [
        *attention("x", "answer", steps, size, heads, **options),
        Node("Add", ["x", "answer"], "sum"),
        Node("LayerNormalization", ["sum"], "normal", [ones, (size,)], {"axis": -1, "epsilon": 1e-5}),
        Node("MatMul", ["normal"], "h", [(size, 6)]),
        Node("Add", ["h"], "h_1", [(6,)]),
        relu("h_1", "r"),
        Node("MatMul", ["r"], "back", [(6, size)]),
        Node("Add", ["normal", "back"], "sum_1"),
        Node("LayerNormalization", ["sum_1"], "normal_1", [ones, (size,)], {"axis": -1, "epsilon": 1e-5}),
        Node("ReduceMean", ["normal_1"], "mean", [whole(1)], {"keepdims": 0}),
        gemm("mean", "y", size, 3),
    ]


def by_steps(behind: Node) -> Case:
    """A node between two Transposes, with the steps in front."""
    turn = {"perm": [1, 0, 2]}
    return Case([Node("Transpose", ["x"], "a", [], turn), behind, Node("Transpose", ["b"], "y", [], turn)], (3, 4))


def attention_cases() -> dict[str, Case]:
    """Return the graphs that are converted."""
    place = np.arange(12, dtype=np.float32).reshape(3, 1, 4) / 8
    return {
        "encoder": Case(encoder(4, 6, 2), (4, 6), opset=18),
        "encoder_with_shapes": Case(encoder(4, 6, 3, shaped=True), (4, 6), opset=18),
        "encoder_of_one_head": Case(encoder(3, 4, 1), (3, 4), opset=20),
        "encoder_of_one_number": Case(encoder(3, 1, 1), (3, 1), opset=20),
        "encoder_of_one_row": Case(encoder(4, 6, 2, batch=1), (4, 6), opset=18, batch=1),
        "attention_of_one_step": Case(attention("x", "y", 1, 4, 2), (1, 4)),
        "steps_first": by_steps(Node("Add", ["a"], "b", [place])),
        "steps_concat": by_steps(Node("Concat", ["a", "a"], "b", [], {"axis": 0})),
        "steps_slice": by_steps(Node("Slice", ["a"], "b", [whole(1), whole(3), whole(-3)])),
        "steps_slope": by_steps(Node("PRelu", ["a"], "b", [(1, 4)])),
        "steps_split": by_steps(Node("Split", ["a"], "b c", [whole(1, 2)], {"axis": 0})),
        "steps_mean": Case(
            [
                Node("Transpose", ["x"], "a", [], {"perm": [1, 0, 2]}),
                Node("ReduceMean", ["a"], "y", [whole(0)], {"keepdims": 0}),
            ],
            (3, 4),
            opset=18,
        ),
    }


def mixing_cases() -> dict[str, Case]:
    """Return the graphs in which the answers for a row depend on other rows, or whose rows cannot be found."""
    turn = {"perm": [1, 0, 2]}
    return {
        "mixed_by_reshape": Case(
            [Node("Transpose", ["x"], "a", [], turn), Node("Reshape", ["a"], "y", [whole(-1, 3, 4)])], (3, 4)
        ),
        "mixed_by_softmax": by_steps(Node("Softmax", ["a"], "b", [], {"axis": 1})),
        "mixed_by_mean": by_steps(Node("ReduceMean", ["a"], "b", [whole(1)], {"keepdims": 1}))._replace(opset=18),
        "rows_second": Case([Node("Transpose", ["x"], "y", [], turn)], (3, 4)),
        "encoder_of_two_rows": Case(encoder(4, 6, 2, batch=2), (4, 6), opset=18, batch=2),
    }
