# SPDX-License-Identifier: Apache-2.0
"""Rewrites merges of three or more tensors in a Keras 2 model as merges of two (see hls/frontend/merges.py)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hypersonic.hls.frontend.keras.parts import LayerPart, affine
from hypersonic.hls.frontend.keras.simplify import replaced
from hypersonic.hls.frontend.merges import in_tree, mean_note

#: merges that can be applied to two tensors at a time; a mean becomes a sum and a scaling
_PAIRED = ("Add", "Multiply", "Average", "Maximum", "Minimum", "Concatenate")


@dataclass(frozen=True, eq=False)
class Paired:
    """A rewritten model.

    Attributes:
        model: the Keras model for hls4ml.
        pairs: names of the merges that were added.
        means: names of means that became a scaling.
        notes: lines for the report.
    """

    model: Any
    pairs: frozenset[str] = frozenset()
    means: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()


def in_pairs(model: Any, custom_objects: Mapping[str, Any]) -> Paired:
    """Return an equivalent network whose merges all have two inputs; the model itself if it has no wider merge.

    The names of inputs, outputs and layers do not change.

    Args:
        model: a Keras 2 model whose layers are each called once and are not models themselves.
    """
    named = {layer.name: layer for layer in model.layers if type(layer).__name__ in _PAIRED}
    merges = {name: layer for name, layer in named.items() if isinstance(layer.input, list) and len(layer.input) > 2}
    if not merges:
        return Paired(model)
    trees = {name: _tree(layer) for name, layer in merges.items()}
    paired, names = replaced(model, trees, custom_objects)
    pairs = (
        added
        for name, parts in trees.items()
        for added, part in zip(names[name][:-1], parts, strict=False)
        if part.role.startswith("pair")
    )
    means = {name: len(layer.input) for name, layer in merges.items() if type(layer).__name__ == "Average"}
    notes = tuple(mean_note(name, count) for name, count in means.items())
    return Paired(paired, frozenset(pairs), frozenset(means), notes)


def _tree(layer: Any) -> list[LayerPart]:
    """The layers that replace a wide merge."""
    kind, count = type(layer).__name__, len(layer.input)
    mean = kind == "Average"
    parts: list[LayerPart] = []

    def join(*tensors: int) -> int:
        """Add a merge of two tensors, which are counted on from those of the layer; return its own."""
        here = count + len(parts)
        reads = [tensor if tensor < count else tensor - here for tensor in tensors]
        options = {"axis": layer.axis} if kind == "Concatenate" else {}
        parts.append(LayerPart("Add" if mean else kind, options, reads, role=f"pair{len(parts) + 1}"))
        return here

    join(*in_tree(range(count), 2, join))
    return [*parts, *affine(tuple(layer.output_shape[1:]), 1 / count, 0.0, read=-1)] if mean else parts
