# SPDX-License-Identifier: Apache-2.0
"""Rewrites merges of three or more tensors in an ONNX model as merges of two (see hls/frontend/merges.py)."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np

from hypersonic.hls.frontend.merges import in_tree, pair_names

#: operators with any number of inputs that can be applied to two at a time
_PAIRED = ("Concat", "Max", "Min", "Sum")


def in_pairs(model: Any) -> tuple[Any, frozenset[str]]:
    """Return an equivalent network whose merges all have two inputs, and the names of the nodes that this adds.

    It is returned itself if it has no wider merge.

    Args:
        model: qonnx's ModelWrapper, with every shape known and a name for every node.
    """
    if not any(_is_wide(node) for node in model.graph.node):
        return model, frozenset()
    paired = type(model)(deepcopy(model.model))
    before = {node.name for node in paired.graph.node}
    nodes = [written for node in paired.graph.node for written in (_tree(paired, node, before) if _is_wide(node) else [node])]
    kept = [deepcopy(node) for node in nodes]
    del paired.graph.node[:]
    paired.graph.node.extend(kept)
    return paired, frozenset(node.name for node in kept) - before


def _is_wide(node: Any) -> bool:
    return node.op_type in _PAIRED and len(node.input) > 2


def _tree(model: Any, node: Any, taken: set[str]) -> list[Any]:
    """The nodes that replace a wide merge, in order."""
    names, pairs = pair_names(node.name, taken), list[Any]()

    def join(a: str, b: str) -> str:
        pair = deepcopy(node)
        pair.name = next(names)
        del pair.input[:], pair.output[:]
        pair.input.extend([a, b])
        pair.output.append(f"{node.output[0]}_{pair.name}")
        model.set_tensor_shape(pair.output[0], _shape(node, [model.get_tensor_shape(tensor) for tensor in (a, b)]))
        pairs.append(pair)
        return str(pair.output[0])

    left = in_tree(list(node.input), 2, join)
    last = deepcopy(node)
    del last.input[:]
    last.input.extend(left)
    return [*pairs, last]


def _shape(node: Any, shapes: list[list[int]]) -> list[int]:
    if node.op_type != "Concat":
        return list(np.broadcast_shapes(*shapes))
    axis = next(attribute.i for attribute in node.attribute if attribute.name == "axis")
    shape = list(shapes[0])
    shape[axis] = sum(one[axis] for one in shapes)
    return shape
