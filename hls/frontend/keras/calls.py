# SPDX-License-Identifier: Apache-2.0
"""Reads and renames the tensors in the calls of layers, as a Keras 2 model's configuration has them; who reads a layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

#: a tensor in Keras' configuration: the layer, the number of its call, the place among its results
CallTensor = tuple[str, int, int]


def is_tensor(part: Any) -> bool:
    """Return whether a part of a call is a tensor, which the arguments of the call may follow."""
    return isinstance(part, list | tuple) and [type(one) for one in part[:3]] == [str, int, int] and len(part) in (3, 4)


def read_by(part: Any) -> list[CallTensor]:
    """Return the tensors in a call, those in its arguments too."""
    if isinstance(part, dict):
        return [tensor for value in part.values() for tensor in read_by(value)]
    if not isinstance(part, list | tuple):
        return []
    own = [tuple(part[:3])] if is_tensor(part) else []
    return [*own, *(tensor for one in part for tensor in read_by(one))]


def renamed(part: Any, new: Callable[[CallTensor], CallTensor]) -> Any:
    """Return a part of a call with each tensor replaced by the one that `new` gives for it."""
    if isinstance(part, dict):
        return {key: renamed(value, new) for key, value in part.items()}
    if not isinstance(part, list | tuple):
        return part
    if is_tensor(part):
        return [*new((part[0], part[1], part[2])), *(renamed(one, new) for one in part[3:])]
    return [renamed(one, new) for one in part]


def only_reader(model: Any, layer: Any) -> Any:
    """Return the only layer that reads this one's result, if this is not an output of the model; None otherwise."""
    nodes = (node.outbound_layer for node in layer.outbound_nodes)
    readers = [reader for reader in nodes if any(reader is each for each in model.layers)]
    return readers[0] if len(readers) == 1 and layer.name not in model.output_names else None
