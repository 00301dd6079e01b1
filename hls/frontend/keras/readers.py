# SPDX-License-Identifier: Apache-2.0
"""Readers of layers for hls4ml that its own front end does not have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def register_readers() -> None:
    """Let hls4ml read CappedReLU (classes.py), at the first call."""
    from hls4ml.converters.keras_v2_to_hls import get_layer_handlers, register_keras_v2_layer_handler

    if "CappedReLU" not in get_layer_handlers():
        register_keras_v2_layer_handler("CappedReLU", _capped_relu)


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
