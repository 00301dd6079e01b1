# SPDX-License-Identifier: Apache-2.0
"""Rewrites merges of three or more tensors in a Keras 2 model as merges of two (see hls/frontend/merges.py)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hypersonic.hls.frontend.merges import in_tree, mean_note, pair_names

#: merges that can be applied to two tensors at a time; a mean becomes a sum and a scaling
_PAIRED = ("Add", "Multiply", "Average", "Maximum", "Minimum", "Concatenate")

#: a layer in Keras' configuration of a model
_Layer = dict[str, Any]


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
    config = model.get_config()
    before = {layer["config"]["name"]: layer for layer in config.get("layers", ())}
    wide = {name: layer for name, layer in before.items() if layer["class_name"] in _PAIRED and len(_sources(layer)) > 2}
    if not wide:
        return Paired(model)
    layers: dict[str, _Layer] = {}
    for name, layer in before.items():
        layers |= _tree(layer, before) if name in wide else {name: layer}
    paired = type(model).from_config({**config, "layers": list(layers.values())}, custom_objects=dict(custom_objects))
    for name in before.keys() - wide.keys():
        paired.get_layer(name).set_weights(model.get_layer(name).get_weights())
    means = {name: len(_sources(layer)) for name, layer in wide.items() if layer["class_name"] == "Average"}
    notes = tuple(mean_note(name, count) for name, count in means.items())
    return Paired(paired, frozenset(layers.keys() - before.keys()), frozenset(means), notes)


def _sources(layer: _Layer) -> list[Any]:
    """The tensors that a layer reads, as Keras' configuration has them."""
    nodes = layer.get("inbound_nodes")
    return list(nodes[0]) if nodes else []


def _tree(layer: _Layer, taken: dict[str, _Layer]) -> dict[str, _Layer]:
    """The layers that replace a wide merge, by name."""
    name, kind, sources = layer["config"]["name"], layer["class_name"], _sources(layer)
    names, layers = pair_names(name, taken), dict[str, _Layer]()
    mean = kind == "Average"

    def join(a: Any, b: Any) -> Any:
        pair = next(names)
        layers[pair] = _like(layer, "Add" if mean else kind, [a, b], name=pair)
        return [pair, 0, 0, {}]

    left = in_tree(sources, 1 if mean else 2, join)
    if mean:  # a normalisation that only multiplies, by its gamma
        gamma = {"class_name": "Constant", "config": {"value": 1 / len(sources)}}
        return layers | {name: _like(layer, "BatchNormalization", left, gamma_initializer=gamma, epsilon=0.0)}
    return layers | {name: _like(layer, kind, left)}


def _like(layer: _Layer, kind: str, sources: list[Any], **options: Any) -> _Layer:
    kept = {key: value for key, value in layer.items() if key != "build_config"}
    config = {**layer["config"], **options}
    return {**kept, "class_name": kind, "config": config, "name": config["name"], "inbound_nodes": [sources]}
