# SPDX-License-Identifier: Apache-2.0
"""Rewrites a Keras 2 model so that each layer is called once and none is a model: hls4ml reads a layer's first call only.

A layer that is called again gets a copy with the same weights for each further call. The layers of a model inside the model
take its place, under their own names where these are free.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hypersonic.hls.errors import ConversionError
from hypersonic.hls.frontend.keras.calls import CallTensor, read_by, renamed
from hypersonic.hls.frontend.keras.simplify import functional
from hypersonic.hls.names import Namespace


@dataclass(frozen=True, eq=False)
class Expanded:
    """A rewritten model.

    Attributes:
        outputs: the layer of each output, in the model's order.
        notes: lines for the report.
    """

    model: Any
    outputs: tuple[str, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class _Copies:
    """The layers that were made: their configurations, their weights by name, and the notes on them.

    Attributes:
        scope: names in use.
    """

    scope: Namespace
    taken: set[str]
    layers: list[dict[str, Any]] = field(default_factory=list)
    weights: dict[str, list[Any]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def expanded(model: Any, custom: Mapping[str, Any]) -> Expanded:
    """Return an equivalent network; the model itself if each of its layers is called once and none is a model."""
    nested = any(hasattr(layer, "layers") for layer in model.layers)
    again = any(len(entry.get("inbound_nodes", ())) > 1 for entry in model.get_config()["layers"])
    if not (nested or again):
        return Expanded(model, tuple(model.output_names))
    plain = functional(model)
    copies = _Copies(Namespace(tuple(layer.name for layer in plain.layers)), set())
    ends = [_listed(plain.get_config()[side]) for side in ("input_layers", "output_layers")]
    found = _copied(plain, None, copies)
    config = {**plain.get_config(), "layers": copies.layers}
    for side, tensors in zip(("input_layers", "output_layers"), ends, strict=True):
        config[side] = [list(found[tensor]) for tensor in tensors]
    made = type(plain).from_config(config, custom_objects=dict(custom))
    for layer in made.layers:
        layer.set_weights(copies.weights[layer.name])
    return Expanded(made, tuple(found[tensor][0] for tensor in ends[1]), tuple(copies.notes))


def _copied(model: Any, given: list[CallTensor] | None, copies: _Copies) -> dict[CallTensor, CallTensor]:
    """Add a copy of each call of a functional model's layers; return a mapping from the model's tensors to the new ones.

    Args:
        given: what the model reads, if it is inside another; None for the outer model, whose inputs are copied.
    """
    config = model.get_config()
    inputs = _listed(config["input_layers"])
    tensors: dict[CallTensor, CallTensor] = dict(zip(inputs, given, strict=True)) if given is not None else {}
    seen = [*read_by([entry["inbound_nodes"] for entry in config["layers"]]), *_listed(config["output_layers"])]
    first: dict[str, int] = {}  # the number of a layer's first call: that of a model inside can be 1
    for name, k, _ in seen:
        first[name] = min(k, first.get(name, k))
    calls = [
        (entry, k, node)
        for entry in config["layers"]
        for k, node in enumerate(entry["inbound_nodes"] or [None], first.get(entry["name"], 0))
    ]
    waiting = [(entry, k, node) for entry, k, node in calls if (entry["config"]["name"], 0, 0) not in tensors]
    while waiting:
        left = []
        for entry, k, node in waiting:
            if all(tensor in tensors for tensor in read_by(node)):
                tensors |= _call(model, entry, k, renamed(node, tensors.__getitem__), copies)
            else:
                left.append((entry, k, node))
        if len(left) == len(waiting):
            raise ConversionError(f"layer {left[0][0]['name']!r}: it reads a tensor that no layer of the model computes")
        waiting = left
    return tensors


def _call(model: Any, entry: dict[str, Any], k: int, node: Any, copies: _Copies) -> dict[CallTensor, CallTensor]:
    """Add what one call of a layer computes; return the model's tensors -> the new ones.

    Args:
        node: with the new tensors.
    """
    name = entry["name"]
    layer = model.get_layer(name)
    if hasattr(layer, "layers"):
        inner = functional(layer)
        inside = _copied(inner, list(read_by(node)), copies)
        return {(name, k, place): inside[tensor] for place, tensor in enumerate(_listed(inner.get_config()["output_layers"]))}
    called = name if name not in copies.taken else copies.scope.identifier(f"{name}_copy")
    if called != name:
        copies.notes.append(f"layer {name!r}: it is called more than once; {called!r} is a copy of it")
    copies.taken.add(called)
    nodes = [] if node is None else [node]
    copies.layers.append({**entry, "name": called, "config": {**entry["config"], "name": called}, "inbound_nodes": nodes})
    copies.weights[called] = layer.get_weights()
    return {(name, k, place): (called, 0, place) for place in range(_results(layer))}


def _results(layer: Any) -> int:
    """The number of tensors that a call of a layer gives."""
    (first, *_) = layer.inbound_nodes
    return len(first.outputs) if isinstance(first.outputs, list | tuple) else 1


def _listed(tensors: Any) -> list[CallTensor]:
    """The inputs or outputs of a functional model's configuration, which may be a single one or a dictionary."""
    if isinstance(tensors, dict):
        return [tuple(tensors[key]) for key in sorted(tensors)]
    return [tuple(tensors)] if tensors and isinstance(tensors[0], str) else [tuple(tensor) for tensor in tensors]
