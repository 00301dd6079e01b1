# SPDX-License-Identifier: Apache-2.0
"""Keras 2 and QKeras models: loading, and the path into hls4ml. Runs in a process of its own (see hls/convert.py).

QKeras needs Keras 2: call use_keras_2() before anything imports keras, hls4ml included.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.network import UnsupportedLayerError
from hypersonic.hls.project import ConversionError
from hypersonic.hls.trained import TrainedModel

#: layers that do nothing at inference, which hls4ml leaves out
_SKIPPED = ("Dropout",)


def use_keras_2() -> None:
    """Make `import keras` mean tf_keras in this process; TensorFlow's start-up messages are switched off."""
    os.environ["TF_USE_LEGACY_KERAS"] = "1"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    import tf_keras

    sys.modules["keras"] = tf_keras


def load_keras(file: Path) -> TrainedModel:
    """A .h5 or .keras file. Raises ConversionError when no Keras 2 or QKeras model is in it."""
    return keras_model(_load(file))


def keras_model(model: Any) -> TrainedModel:
    """A Keras 2 model in memory. Raises UnsupportedLayerError for layers that hls4ml reads wrongly."""
    import hls4ml

    _check_layers(model, hls4ml.converters.get_supported_keras_layers())
    if len(model.inputs) != 1 or len(model.outputs) != 1:
        raise ConversionError(
            f"the model has {len(model.inputs)} inputs and {len(model.outputs)} outputs, expected one of each"
        )

    shape = tuple(model.input_shape[1:])
    if not shape or None in shape:
        raise ConversionError(f"the model's input shape is {list(shape)} per row, expected every dimension as a number")

    def predict(x: NDArray[np.float32]) -> NDArray[np.float64]:
        y = np.asarray(model.predict(x, verbose=0, batch_size=4096), dtype=np.float64)
        return y.reshape(len(x), -1)

    def convert(config: dict[str, Any], directory: Path, name: str, part: str) -> Any:
        return hls4ml.converters.convert_from_keras_model(model, hls_config=config, **conversion_options(directory, name, part))

    config = hls4ml.utils.config_from_keras_model(model, granularity="name", backend="Vitis")
    return TrainedModel(model.input_names[0], model.output_names[0], shape, config, predict, convert, _linear(model))


def _linear(model: Any) -> tuple[tuple[str, str], ...]:
    """Linear activations and QKeras quantisers with the one layer they follow."""
    found = []
    for layer in model.layers:
        activation = layer.get_config().get("activation")
        name = activation.get("class_name", "") if isinstance(activation, dict) else str(activation)
        if type(layer).__name__ in ("Activation", "QActivation") and name.startswith(
            ("linear", "quantized_bits", "quantized_linear")
        ):
            before = layer.inbound_nodes[0].inbound_layers
            if not isinstance(before, list) and len(before.outbound_nodes) == 1:
                found.append((layer.name, before.name))
    return tuple(found)


def conversion_options(directory: Path, name: str, part: str) -> dict[str, Any]:
    """What every front end asks of hls4ml. Weights go into the headers, so that a compiled library stands alone."""
    return {
        "output_dir": str(directory),
        "project_name": name,
        "part": part,
        "backend": "Vitis",
        "io_type": "io_parallel",
        "clock_period": 3.3,
        "write_weights_txt": False,
    }


def _load(file: Path) -> Any:
    import tf_keras
    from qkeras.utils import _add_supported_quantized_objects

    custom: dict[str, Any] = {}
    _add_supported_quantized_objects(custom)
    try:
        return tf_keras.models.load_model(file, custom_objects=custom, compile=False)
    except (ValueError, TypeError, AttributeError, OSError) as error:
        if file.suffix == ".h5" and (model := _rebuilt(file, custom)) is not None:
            return model
        raise ConversionError(
            f"{file} holds no Keras 2 or QKeras model that tf_keras {tf_keras.__version__} reads: {error}"
        ) from error


def _rebuilt(file: Path, custom: dict[str, Any]) -> Any:
    """The model from its configuration and its weights, where load_model stumbles over a wrapper class name."""
    import h5py
    import tf_keras

    try:
        with h5py.File(file) as content:
            config = json.loads(content.attrs["model_config"])
        kind = tf_keras.Sequential if config["class_name"] == "Sequential" else tf_keras.Model
        model = kind.from_config(config["config"], custom_objects=custom)
        model.load_weights(file)
    except (KeyError, ValueError, TypeError, AttributeError, OSError):
        return None
    return model


def _check_layers(model: Any, supported: Collection[str]) -> None:
    """Layers hls4ml does not know, and options that hls4ml 1.3.0 drops without a word."""
    for layer in model.layers:
        config, kind = layer.get_config(), type(layer).__name__
        if kind not in supported and kind not in _SKIPPED:
            raise UnsupportedLayerError(f"layer {layer.name!r}: hls4ml's Keras front end has no {kind}")
        if kind != "ReLU":
            continue
        for option in ("max_value", "negative_slope", "threshold"):
            if config.get(option):
                raise UnsupportedLayerError(f"layer {layer.name!r}: ReLU with {option}={config[option]}, which hls4ml ignores")
