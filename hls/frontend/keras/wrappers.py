# SPDX-License-Identifier: Apache-2.0
"""Rewrites TimeDistributed(Dense) in a Keras 2 model as the Dense inside it, which Keras applies to the last axis anyway.

hls4ml would write a loop over the steps around the layer, which no core reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: layers that compute the same with TimeDistributed around them and without
_ALONG_LAST_AXIS = ("Dense", "QDense")


def unwrapped(model: Any, custom_objects: Mapping[str, Any]) -> tuple[Any, tuple[str, ...]]:
    """Return an equivalent network without such wrappers, and a line for the report for each; the model itself if it has none.

    model: a Keras 2 model whose layers are each called once. The Dense has the wrapper's name.
    """
    config = model.get_config()
    names = [layer["config"]["name"] for layer in config.get("layers", ()) if _is_wrapped(layer)]
    if not names:
        return model, ()
    layers = [_inside(layer) if _is_wrapped(layer) else layer for layer in config["layers"]]
    rebuilt = type(model).from_config({**config, "layers": layers}, custom_objects=dict(custom_objects))
    for layer in model.layers:
        rebuilt.get_layer(layer.name).set_weights(layer.get_weights())
    return rebuilt, tuple(f"layer {name!r}: TimeDistributed is left out, the Dense inside it has its name" for name in names)


def _is_wrapped(layer: dict[str, Any]) -> bool:
    return layer["class_name"] == "TimeDistributed" and layer["config"]["layer"]["class_name"] in _ALONG_LAST_AXIS


def _inside(layer: dict[str, Any]) -> dict[str, Any]:
    """The configuration of the wrapped layer, with the wrapper's name and inputs."""
    inner, name = layer["config"]["layer"], layer["config"]["name"]
    kept = {key: value for key, value in inner.items() if key != "build_config"}
    outer = {key: layer[key] for key in ("name", "inbound_nodes") if key in layer}
    return {**kept, "config": {**inner["config"], "name": name}, **outer}
