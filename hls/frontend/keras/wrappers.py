# SPDX-License-Identifier: Apache-2.0
"""Rewrites a TimeDistributed in a Keras 2 model as one layer over all steps; hls4ml would write a loop, which no core reads.

A Dense and an elementwise layer compute the same without the wrapper. A convolution or a pooling along a line becomes one of
images whose rows are the steps: its kernel has one row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: layers that compute the same with TimeDistributed around them and without
_ALONG_LAST_AXIS = ("Dense", "QDense", "Activation", "QActivation", "ReLU", "LeakyReLU", "ELU", "ThresholdedReLU")

#: layers along a line -> their options with a number for each axis
_LINES = {
    **dict.fromkeys(("Conv1D", "QConv1D"), ("kernel_size", "strides", "dilation_rate")),
    **dict.fromkeys(("MaxPooling1D", "AveragePooling1D"), ("pool_size", "strides")),
}


def unwrapped(model: Any, custom_objects: Mapping[str, Any]) -> tuple[Any, tuple[str, ...]]:
    """Return an equivalent network without such wrappers, and a line for the report for each; the model itself if it has none.

    model: a Keras 2 model whose layers are each called once. The layer has the wrapper's name.
    """
    config = model.get_config()
    names = [layer["config"]["name"] for layer in config.get("layers", ()) if _is_wrapped(layer)]
    if not names:
        return model, ()
    layers = [_inside(layer) if _is_wrapped(layer) else layer for layer in config["layers"]]
    rebuilt = type(model).from_config({**config, "layers": layers}, custom_objects=dict(custom_objects))
    for layer in model.layers:
        shapes = [weight.shape for weight in rebuilt.get_layer(layer.name).get_weights()]
        given = [weight.reshape(shape) for weight, shape in zip(layer.get_weights(), shapes, strict=True)]
        rebuilt.get_layer(layer.name).set_weights(given)
    return rebuilt, tuple(f"layer {name!r}: TimeDistributed is left out, the layer inside it has its name" for name in names)


def _is_wrapped(layer: dict[str, Any]) -> bool:
    if layer["class_name"] != "TimeDistributed":
        return False
    inner = layer["config"]["layer"]
    return inner["config"].get("padding") != "causal" and inner["class_name"] in (*_ALONG_LAST_AXIS, *_LINES)


def _inside(layer: dict[str, Any]) -> dict[str, Any]:
    """The configuration of the wrapped layer, with the wrapper's name and inputs."""
    inner, name = layer["config"]["layer"], layer["config"]["name"]
    kept = {key: value for key, value in inner.items() if key != "build_config"}
    options = {**inner["config"], "name": name}
    for option in _LINES.get(inner["class_name"], ()):
        options[option] = (1, *_numbers(options[option]))
    if inner["class_name"] in _LINES:
        names = {key: kept[key] for key in ("class_name", "registered_name") if kept.get(key)}
        kept |= {key: called.replace("1D", "2D") for key, called in names.items()}
    outer = {key: layer[key] for key in ("name", "inbound_nodes") if key in layer}
    return {**kept, "config": options, **outer}


def _numbers(value: Any) -> tuple[int, ...]:
    return tuple(value) if isinstance(value, list | tuple) else (value,)
