# SPDX-License-Identifier: Apache-2.0
"""Loads Keras 2 and QKeras models and converts them with hls4ml, in a process of its own (see hls/convert.py).

QKeras needs Keras 2: call use_keras_2() before anything imports keras, hls4ml included.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.errors import ConversionError
from hypersonic.hls.frontend.checks import said_by
from hypersonic.hls.frontend.keras.classes import check_classes, own_classes
from hypersonic.hls.frontend.keras.expand import expanded
from hypersonic.hls.frontend.keras.inside import activation_of, layer_facts, result_layer, results
from hypersonic.hls.frontend.keras.layers import check_keras_model, check_shapes, gate_notes, read_by_hls4ml
from hypersonic.hls.frontend.keras.merges import in_pairs
from hypersonic.hls.frontend.keras.names import named_for_hls4ml
from hypersonic.hls.frontend.keras.options import with_plain_options
from hypersonic.hls.frontend.keras.readers import garnet_layers, register_readers
from hypersonic.hls.frontend.keras.rebuild import in_keras_2
from hypersonic.hls.frontend.keras.simplify import functional, simplified
from hypersonic.hls.frontend.keras.wrappers import INSIDE, check_wrapped, unwrapped
from hypersonic.hls.frontend.merges import MEAN_TYPES, keep_all_bits
from hypersonic.hls.frontend.saved import FLOATING, dtype_policy, is_keras_3, model_config
from hypersonic.hls.frontend.trained import ModelTensor, TrainedModel

#: rows of a batch
_BATCH = 4096

#: parts of the class names of layers to which hls4ml gives the type of a quantiser after them
_TAKES_TYPES = ("Dense", "Conv", "BatchNormalization", "Activation", "ReLU")


def use_keras_2() -> None:
    """Make `import keras` mean tf_keras in this process, and switch TensorFlow's start-up messages and GPUs off."""
    os.environ["TF_USE_LEGACY_KERAS"] = "1"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    import tf_keras

    sys.modules["keras"] = tf_keras


def load_keras(file: Path) -> TrainedModel:
    """Load a .h5 or .keras file of Keras 2, Keras 3 or QKeras. Raises ConversionError if hls4ml cannot read its model."""
    import tensorflow as tf

    policy = dtype_policy(model_config(file))
    plain = in_keras_2(file) if is_keras_3(file) else file
    # AutoGraph would rewrite the Python of each layer, for seconds; the layers that hls4ml reads do not need it
    trained: TrainedModel = tf.autograph.experimental.do_not_convert(lambda: keras_model(_in_float32(_load(plain))))()
    if not policy:
        return trained
    note = f"layers compute with the dtype policy {policy}; the trained model's answers are those of float32"
    return replace(trained, notes=(*trained.notes, note))


def keras_model(model: Any) -> TrainedModel:
    """Prepare a Keras 2 model in memory. Raises ConversionError for one that hls4ml cannot read or would read wrongly."""
    import hls4ml

    model = functional(model) if isinstance(model.input, dict) or isinstance(model.output, dict) else model
    _check_outputs(model)
    check_shapes(model)
    custom = _custom_objects()
    register_readers()
    whole = expanded(model, custom)
    known, dropped = simplified(with_plain_options(whole.model, custom), custom)
    check_keras_model(known, hls4ml.converters.get_supported_keras_layers())
    plain, remarks = unwrapped(known, custom)
    check_keras_model(plain, hls4ml.converters.get_supported_keras_layers())
    check_wrapped(plain)
    paired = in_pairs(plain, custom)
    named, names = named_for_hls4ml(paired.model, custom)
    config = read_by_hls4ml(lambda: hls4ml.utils.config_from_keras_model(named, granularity="name", backend="Vitis"))
    wrappers = [layer for layer in named.layers if type(layer).__name__ == "TimeDistributed"]
    config["LayerName"] |= {layer.name: _inside(layer) for layer in wrappers}
    for layer in named.layers:
        if type(layer).__name__ in ("QLSTM", "QGRU"):  # hls4ml proposes the type of QKeras' state for the sums
            config["LayerName"][layer.name]["Precision"]["accum"] = "auto"
    for name in paired.means:
        config["LayerName"][names.get(name, name)]["Precision"].update(MEAN_TYPES)
    inputs = tuple(
        ModelTensor(name, names.get(name, name), _shape(tensor))
        for name, tensor in zip(model.input_names, model.inputs, strict=True)
    )
    outputs = tuple(
        ModelTensor(name, result_layer(named.get_layer(names.get(layer, layer)), config["LayerName"]), _shape(tensor))
        for name, layer, tensor in zip(model.output_names, whole.outputs, model.outputs, strict=True)
    )

    def predict(x: Sequence[NDArray[np.float32]]) -> tuple[NDArray[np.float64], ...]:
        return predicted(model, x)

    def convert(config: dict[str, Any], directory: Path, name: str, part: str, io_type: str) -> Any:
        options = conversion_options(directory, name, part, io_type)
        layers = config["LayerName"]
        inside = {f"{layer.name}{INSIDE}": layers[layer.name] for layer in wrappers}
        configured = with_fusions({**config, "LayerName": {**layers, **inside}})
        graph = hls4ml.converters.convert_from_keras_model(named, hls_config=configured, **options)
        return keep_all_bits(graph, {names.get(name, name) for name in paired.pairs})

    layers = _linear(named), _branching(named), _fused(named)
    notes = (*whole.notes, *dropped, *remarks, *paired.notes, *gate_notes(named))
    parameters = int(model.count_params())
    return TrainedModel(
        inputs, outputs, config, predict, convert, *layers, parameters=parameters, names=names, notes=notes,
        layers=lambda: layer_facts(named, config["LayerName"]), results=lambda x: results(named, config["LayerName"], x),
    )  # fmt: skip


def _inside(wrapper: Any) -> dict[str, Any]:
    """Give the layer inside a TimeDistributed its name in hls4ml's graph; return hls4ml's proposal of its settings."""
    import hls4ml
    import tf_keras

    wrapper.layer._name = f"{wrapper.name}{INSIDE}"
    alone = tf_keras.Sequential(
        [tf_keras.Input(wrapper.input_shape[2:]), type(wrapper.layer).from_config(wrapper.layer.get_config())]
    )
    config = read_by_hls4ml(lambda: hls4ml.utils.config_from_keras_model(alone, granularity="name", backend="Vitis"))
    return dict(config["LayerName"].get(wrapper.layer.name, {}))


def predicted(model: Any, x: Sequence[NDArray[np.float32]]) -> tuple[NDArray[np.float64], ...]:
    """Return a Keras model's outputs, float64 (rows, size) each.

    Args:
        x: float32 `(rows, *shape)` for each input.
    """
    batches = [_answer(model, [part[at : at + _BATCH] for part in x]) for at in range(0, len(x[0]), _BATCH)]
    return tuple(np.concatenate(parts).reshape(len(x[0]), -1) for parts in zip(*batches, strict=True))


def _answer(model: Any, x: list[NDArray[np.float32]]) -> list[NDArray[np.float64]]:
    """The outputs of one batch. Model.predict() would first trace the model, which takes longer than a batch of most models."""
    import tensorflow as tf

    y = tf.autograph.experimental.do_not_convert(model)(x[0] if len(x) == 1 else x, training=False)
    return [np.asarray(part, dtype=np.float64) for part in (y if isinstance(y, list | tuple) else [y])]


def _shape(tensor: Any) -> tuple[int, ...]:
    return tuple(int(size) for size in tensor.shape[1:])


def _check_outputs(model: Any) -> None:
    """Refuse outputs that hls4ml would merge or lose. Raises ConversionError."""
    tensors = [id(tensor) for tensor in model.outputs]
    inputs = {id(tensor) for tensor in model.inputs}
    for name, tensor in zip(model.output_names, tensors, strict=True):
        if tensor in inputs or tensors.count(tensor) > 1:
            raise ConversionError(
                f"output {name!r} is an input, or a layer that is an output twice; give it a layer of its own"
            )


def _linear(model: Any) -> tuple[tuple[str, str], ...]:
    """Linear activations and QKeras quantisers, each with the layer before it, which nothing else reads."""
    return tuple((layer.name, before.name) for layer, before in _quantisers(model) if not _branches(model, before))


def _branching(model: Any) -> tuple[tuple[str, str], ...]:
    """The same pairs where other layers also read the layer before, if hls4ml gives that layer the quantiser's type and
    removes the quantiser."""
    return tuple(
        (layer.name, before.name)
        for layer, before in _quantisers(model)
        if _branches(model, before) and any(kind in type(before).__name__ for kind in _TAKES_TYPES)
    )


def _quantisers(model: Any) -> Iterator[tuple[Any, Any]]:
    for layer in model.layers:
        kinds = ("linear", "quantized_bits", "quantized_linear")
        if type(layer).__name__ in ("Activation", "QActivation") and activation_of(layer).startswith(kinds):
            before = _before(layer)
            if before is not None:
                yield layer, before


def _fused(model: Any) -> tuple[tuple[str, str], ...]:
    """Normalisations with the dense layer or convolution directly before them, which nothing else reads.

    For a separable convolution, that is its second half.
    """
    pairs = ((layer, _before(layer)) for layer in model.layers if type(layer).__name__.endswith("BatchNormalization"))
    return tuple(
        (layer.name, f"{before.name}_pointwise" if "Separable" in type(before).__name__ else before.name)
        for layer, before in pairs
        if before is not None
        and not _branches(model, before)
        and any(kind in type(before).__name__ for kind in ("Dense", "Conv"))
    )


def _before(layer: Any) -> Any:
    """The layer that `layer` reads, or None if it reads several."""
    before = layer.inbound_nodes[0].inbound_layers
    return None if isinstance(before, list) else before


def _branches(model: Any, layer: Any) -> bool:
    return len(layer.outbound_nodes) > 1 or layer.name in model.output_names


def conversion_options(directory: Path, name: str, part: str, io_type: str = "io_parallel") -> dict[str, Any]:
    """Return the options that every front end passes to hls4ml's converter.

    Weights are written into the headers, so that a compiled library needs no other files. clock_period is in ns.
    """
    return {
        "output_dir": str(directory),
        "project_name": name,
        "part": part,
        "backend": "Vitis",
        "io_type": io_type,
        "clock_period": 3.3,
        "write_weights_txt": False,
    }


def with_fusions(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return hls4ml's configuration with the flow of hls/frontend/passes/ before the backend's own."""
    from hypersonic.hls.frontend.passes.flow import register

    return {**config, "Flows": [register(), "vitis:ip"]}


def _load(file: Path) -> Any:
    import tf_keras

    custom = _custom_objects()
    try:
        return tf_keras.models.load_model(file, custom_objects=custom, compile=False)
    except (ValueError, TypeError, AttributeError, OSError) as error:
        if file.suffix == ".h5" and (model := _rebuilt(file, custom)) is not None:
            return model
        check_classes(model_config(file), custom)
        raise ConversionError(
            f"{file} does not hold a Keras 2 or QKeras model that tf_keras {tf_keras.__version__} can read: "
            f"{said_by(error)}; save it with layers of Keras and QKeras, or export it to ONNX"
        ) from error


def _in_float32(model: Any) -> Any:
    """The model with layers that compute in float32 where they did in float16, bfloat16 or float64."""
    policies = {layer: layer.dtype_policy.name for layer in model._flatten_layers()}
    if not set(policies.values()) & set(FLOATING):
        return model
    for layer, policy in policies.items():
        if policy in FLOATING:
            layer._set_dtype_policy("float32")
    again = type(model).from_config(model.get_config(), custom_objects=_custom_objects())
    again.set_weights(model.get_weights())
    return again


def _custom_objects() -> dict[str, Any]:
    """QKeras' classes by name, hls4ml's own, and those of classes.py."""
    from qkeras.utils import _add_supported_quantized_objects

    custom = garnet_layers() | own_classes()
    _add_supported_quantized_objects(custom)
    return custom


def _rebuilt(file: Path, custom: dict[str, Any]) -> Any:
    """The model rebuilt from its configuration and weights, for files in which load_model fails on a wrapper's class name."""
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
