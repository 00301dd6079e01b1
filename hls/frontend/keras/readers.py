# SPDX-License-Identifier: Apache-2.0
"""hls4ml's own Keras layers, and readers of layers that its front end does not have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def garnet_layers() -> dict[str, Any]:
    """Return GarNet and GarNetStack by name. hls4ml 1.3.0's GarNetStack cannot be made from its own configuration."""
    from hls4ml.contrib.garnet import GarNet, GarNetStack

    def from_config(cls: Any, config: dict[str, Any]) -> Any:
        return cls(**{key: value for key, value in config.items() if key != "n_sublayers"})

    stack = type("GarNetStack", (GarNetStack,), {"from_config": classmethod(from_config)})
    return {"GarNet": GarNet, "GarNetStack": stack}


def register_readers() -> None:
    """Let hls4ml read CappedReLU and Einsum (classes.py), at the first call."""
    from hls4ml.converters.keras_v2_to_hls import get_layer_handlers, register_keras_v2_layer_handler

    if "CappedReLU" not in get_layer_handlers():
        register_keras_v2_layer_handler("CappedReLU", _capped_relu)
        register_keras_v2_layer_handler("Einsum", _einsum)


def _capped_relu(layer: Mapping[str, Any], names: list[str] | None, shapes: list[Any], _weights: Any) -> tuple[Any, Any]:
    """hls4ml's description of the layer, as one of its activations with a parameter, and the shape of its result."""
    options = layer["config"]
    read = {"inputs": names} if names is not None else {}
    made = {
        "name": options["name"],
        "class_name": "LeakyReLU",
        "activation": "capped_relu",
        "activ_param": options["max_value"],
    }
    return made | read, list(shapes[0])


def _einsum(layer: Mapping[str, Any], names: list[str], shapes: list[Any], _weights: Any) -> tuple[Any, Any]:
    """hls4ml's description of the layer, and the shape of its result."""
    options = layer["config"]
    read, result = options["equation"].split("->")
    rows = [tuple(shape[1:]) for shape in shapes]
    sizes = {axis: size for axes, row in zip(read.split(","), rows, strict=True) for axis, size in zip(axes, row, strict=True)}
    out = tuple(sizes[axis] for axis in result)
    made = {"name": options["name"], "class_name": "Einsum", "inputs": names, "equation": options["equation"]}
    return made | {"inp0_shape": rows[0], "inp1_shape": rows[1], "out_shape": out}, [None, *out]
