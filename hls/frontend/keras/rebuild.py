# SPDX-License-Identifier: Apache-2.0
"""Rebuilds models that Keras 3 has saved in Keras 2, which hls4ml's front end and QKeras need.

It works in a process of its own, because only one package can be called `keras` in a process::

    python -m hypersonic.hls.frontend.keras.rebuild MODEL OUTPUT.h5

Every layer is made again from its options and weights, and both models then have to give the same answers on random rows.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from hypersonic.hls.cache import cached
from hypersonic.hls.child import python_argv, python_environment, refuse, run_child
from hypersonic.hls.errors import ConversionError, UnsupportedLayerError
from hypersonic.hls.frontend.keras import classes, operations, parts
from hypersonic.hls.frontend.keras.classes import TRAINING_ONLY, check_classes, own_classes, with_hard_sigmoid
from hypersonic.hls.frontend.keras.layers import check_shape
from hypersonic.hls.frontend.keras.operations import operation
from hypersonic.hls.frontend.saved import FLOATING, model_config, saved_by

#: rows of random numbers that both models have to answer alike
_ROWS = 8
#: the largest difference that is allowed between the two, relative to the largest answer: both compute in float32
_TOLERANCE = 1e-4

#: options that have no effect on a trained model's answers
_WITHOUT_EFFECT = ("_initializer", "_regularizer", "_constraint")
_IGNORED = frozenset(
    [
        "name", "trainable", "dtype", "quantization_config", "lora_rank", "lora_alpha", "seed", "use_cudnn", "optional",
        "momentum", "synchronized", "renorm", "renorm_clipping", "renorm_momentum", "activity_regularizer", "ragged",
        "batch_shape", "gptq_unpacked_column_size", "zero_output_for_mask",
    ]
)  # fmt: skip
#: what Keras 3 writes for options that Keras 2 does not have in every layer and that nobody has set
_DEFAULTS = {"data_format": "channels_last"}
#: options that have another name in Keras 2, by class
_RENAMED = {"LeakyReLU": {"negative_slope": "alpha"}}


def in_keras_2(file: Path) -> Path:
    """Return a cached .h5 file with the same model in Keras 2. Raises ConversionError if Keras 2 cannot compute it."""

    def rebuild(directory: Path) -> None:
        argv = python_argv("-m", __name__, str(file), str(directory / "model.h5"))
        environment = python_environment(KERAS_BACKEND="tensorflow", CUDA_VISIBLE_DEVICES="", TF_CPP_MIN_LOG_LEVEL="3")
        done = run_child(argv, environment, f"the rebuilding of {file} in Keras 2")
        if done.refusal:
            raise ConversionError(done.refusal)
        if done.code:
            raise ConversionError(
                f"{file}, saved by Keras {saved_by(file)}, could not be rebuilt in Keras 2: the process ended with "
                f"{done.code}: {done.last}; export the model to ONNX instead"
            )

    sources = [__file__, classes.__file__, operations.__file__, parts.__file__]
    tools = [f"{name} {version(name)}" for name in ("keras", "tf-keras", "tensorflow-cpu")]
    return cached("keras_2", [file, *map(Path, sources), *tools], rebuild) / "model.h5"


def rebuilt(model: Any) -> Any:
    """Return a Keras 2 model with the layers, names and weights of a Keras 3 model, functional or Sequential.

    Raises UnsupportedLayerError, with the layer's name, for a layer or an option that Keras 2 does not have.
    """
    import tf_keras

    if type(model).__name__ == "Sequential":
        return _sequential(tf_keras, model)
    if type(model).__name__ not in ("Functional", "Model") or not hasattr(model, "operations"):
        raise ConversionError(
            f"model {model.name!r} is a {type(model).__name__}, expected a functional model or a Sequential: hls4ml cannot "
            "follow a call() method; build it with keras.Input and layers, or export it to ONNX"
        )
    return _functional(tf_keras, model)


def _sequential(keras_2: Any, model: Any) -> Any:
    if not model.built or not model.inputs:
        raise ConversionError(f"model {model.name!r} has no input shape; begin it with keras.Input(shape=...)")
    (given,) = model.inputs
    twin = keras_2.Sequential(name=model.name)
    twin.add(keras_2.layers.InputLayer(given.shape[1:], dtype=_read_as(given.dtype), name=str(given.name).partition(":")[0]))
    layers = [layer for layer in model.layers if type(layer).__name__ != "InputLayer"]
    for layer in layers:
        twin.add(_layer(keras_2, layer))
    for ours, theirs in zip(twin.layers, layers, strict=True):
        _copy_weights(ours, theirs)
    return twin


def _functional(keras_2: Any, model: Any) -> Any:
    """Call the new layers as the model's configuration says, each as soon as the tensors that it reads are there."""
    config = model.get_config()
    tensors: dict[tuple[str, int, int], Any] = {}
    made: dict[str, Any] = {}
    theirs = {operation.name: operation for operation in model.operations}
    waiting = [(entry, index, node) for entry in config["layers"] for index, node in enumerate(_calls(entry))]
    while waiting:
        ready = [call for call in waiting if all(key in tensors for key in _read_by(call[2]))]
        if not ready:
            raise ConversionError(f"model {model.name!r}: its layers read each other in a circle")
        for entry, index, node in ready:
            name = entry["name"]
            if entry["class_name"] == "InputLayer":
                shape = entry["config"]["batch_shape"][1:]
                tensors[name, index, 0] = keras_2.Input(shape, name=name, dtype=_read_as(entry["config"]["dtype"]))
                continue
            if ".ops." in type(theirs[name]).__module__:
                answers = _operation(keras_2, theirs[name], f"{name}_{index}" if index else name, node, tensors)
            else:
                if name not in made:
                    made[name] = _layer(keras_2, theirs[name])
                answers = _called(made[name], theirs[name], node, tensors)
            for place, tensor in enumerate(answers if isinstance(answers, list | tuple) else [answers]):
                tensors[name, index, place] = tensor
        waiting = [call for call in waiting if call not in ready]
    for name, layer in made.items():
        _copy_weights(layer, theirs[name])
    sides = [_tensors_of(config[side], tensors) for side in ("input_layers", "output_layers")]
    return keras_2.Model(*sides, name=model.name)


def _read_as(dtype: str) -> str:
    """The dtype of an input of the model in Keras 2."""
    return "float32" if dtype in FLOATING else dtype


def _calls(entry: Mapping[str, Any]) -> list[Any]:
    """The calls of a layer; an input has one, which reads nothing."""
    return list(entry["inbound_nodes"]) or [{"args": [], "kwargs": {}}]


def _tensors_of(listed: Any, tensors: Mapping[tuple[str, int, int], Any]) -> Any:
    """The inputs or outputs: [name, call, place], or a list or a dictionary of these; those in the order of its keys."""
    if isinstance(listed, dict):
        listed = [listed[key] for key in sorted(listed)]  # as Keras 3 orders model.inputs
    if listed and isinstance(listed[0], str):
        return tensors[tuple(listed)]
    return [tensors[tuple(one)] for one in listed]


def _read_by(part: Any) -> Iterator[tuple[str, int, int]]:
    """Yield the tensors in a call's arguments, at any depth, as (layer, call, place)."""
    if isinstance(part, dict):
        if part.get("class_name") == "__keras_tensor__":
            yield tuple(part["config"]["keras_history"])
        else:
            yield from _read_by(list(part.values()))
    elif isinstance(part, list | tuple):
        for one in part:
            yield from _read_by(one)


def _called(layer: Any, theirs: Any, node: Mapping[str, Any], tensors: Mapping[tuple[str, int, int], Any]) -> Any:
    """The answers of a layer of Keras 2. Raises UnsupportedLayerError if it does not take the tensors as Keras 3's does."""
    named = type(theirs).__name__ == "MultiHeadAttention"
    given = _named_arguments(theirs, node, tensors) if named else _argument(theirs, node, tensors)
    try:
        return layer(**given) if named else layer(given)
    except (TypeError, ValueError, AttributeError, IndexError) as error:
        raise UnsupportedLayerError(
            f"layer {theirs.name!r} ({type(theirs).__name__}): Keras 2's, which hls4ml reads, does not take its tensors; "
            "build it from standard layers, or export the model to ONNX"
        ) from error


def _named_arguments(layer: Any, node: Mapping[str, Any], tensors: Mapping[tuple[str, int, int], Any]) -> dict[str, Any]:
    """The tensors that a layer with several is called with, by the names of the arguments of its call."""
    given = dict(zip(inspect.signature(layer.call).parameters, node["args"], strict=False)) | node["kwargs"]
    given = {name: value for name, value in given.items() if value not in (None, False)}
    if others := [name for name in given if name not in ("query", "value", "key")]:
        raise UnsupportedLayerError(
            f"layer {layer.name!r} ({type(layer).__name__}): it is called with {', '.join(others)}, expected query, value and "
            "key only: hls4ml computes no masks and no second result"
        )
    return {name: tensors[next(_read_by(value))] for name, value in given.items()}


def _argument(layer: Any, node: Mapping[str, Any], tensors: Mapping[tuple[str, int, int], Any]) -> Any:
    """The tensor, or the list of tensors, that a layer is called with."""
    keys = list(_read_by(node["args"]))
    others = {name: value for name, value in node["kwargs"].items() if value not in (None, False)}
    if others or not keys or len(keys) != _count(node["args"]):
        given = ", ".join(map(str, others)) or "a constant"
        raise UnsupportedLayerError(
            f"layer {layer.name!r}: it is called with {given}, expected tensors of the model only; hls4ml does not read the "
            "rest"
        )
    return tensors[keys[0]] if len(keys) == 1 else [tensors[key] for key in keys]


def _operation(keras_2: Any, layer: Any, name: str, node: Mapping[str, Any], tensors: Mapping[Any, Any]) -> Any:
    """The result of an operation, computed by layers of Keras 2, of which the last has its name."""
    keys = list(_read_by([node["args"], node["kwargs"]]))
    given = [tensors[key] for key in keys]
    operands = [_operand(value, tensors) for value in _flat([node["args"], node["kwargs"]])]
    options = {key: vars(layer)[key] for key in ("axis", "keepdims", "axes") if key in vars(layer)}
    options |= {"shape": vars(layer)["newshape"]} if "newshape" in vars(layer) else {}
    parts = operation(layer.name, type(layer).__name__, operands, options)
    made: list[Any] = []
    for index, part in enumerate(parts):
        called = name if index == len(parts) - 1 else f"{name}_part{index or ''}"
        read = [given[one] if one >= 0 else made[one] for one in part.reads]
        made.append(getattr(keras_2.layers, part.kind)(**part.options, name=called)(read if len(read) > 1 else read[0]))
    return made[-1]


def _flat(part: Any) -> Iterator[Any]:
    """Yield the tensors and constants of a call's arguments, in order."""
    if isinstance(part, dict) and "class_name" not in part:
        yield from _flat(list(part.values()))
    elif isinstance(part, list | tuple):
        for one in part:
            yield from _flat(one)
    elif part is not None and not isinstance(part, bool | str):
        yield part


def _operand(value: Any, tensors: Mapping[Any, Any]) -> Any:
    """The shape of a row of a tensor, or a constant."""
    if not isinstance(value, dict):
        return np.asarray(value, np.float64)
    if value["class_name"] == "__keras_tensor__":
        return tuple(tensors[tuple(value["config"]["keras_history"])].shape[1:])
    return np.asarray(value["config"]["value"], np.float64)


def _count(arguments: Any) -> int:
    """The number of values in a call's arguments."""
    return sum(_count(one) if isinstance(one, list | tuple) else 1 for one in arguments)


def _layer(keras_2: Any, layer: Any) -> Any:
    """A layer of Keras 2 with the options of one of Keras 3, without its weights."""
    kind = type(layer).__name__
    if hasattr(layer, "layers"):
        return rebuilt(layer)
    if kind in TRAINING_ONLY:
        return own_classes()["TrainingOnly"](kind, name=layer.name)
    made = getattr(keras_2.layers, kind, None)
    if made is None:
        raise UnsupportedLayerError(
            f"layer {layer.name!r}: Keras 3's layer {kind} has no layer in Keras 2, which hls4ml reads; build it from standard "
            "layers, or export the model to ONNX"
        )
    if (policy := layer.dtype_policy.name) != "float32":
        raise UnsupportedLayerError(
            f"layer {layer.name!r}: its dtype policy is {policy}, expected one of numbers, such as float32 or mixed_float16; "
            "save the model before it is quantised"
        )
    options = _options(keras_2, layer.name, kind, layer.get_config(), made)
    if kind == "Normalization":
        options |= _statistics(layer)
    with keras_2.utils.custom_object_scope(own_classes()):
        if options.get("activation") == "hard_sigmoid" and "recurrent_activation" not in options:
            return with_hard_sigmoid(made, layer.name, options)
        return made(name=layer.name, **options)


def _statistics(layer: Any) -> dict[str, Any]:
    """The mean and the variance of a Normalization, which Keras 2 takes as options."""
    numbers = {"mean": np.asarray(layer.mean), "variance": np.asarray(layer.variance)}
    axes = [axis % numbers["mean"].ndim for axis in layer.axis] if layer.axis else []
    shape = [numbers["mean"].shape[axis] for axis in sorted(axes)]
    return {name: values.reshape(shape).tolist() for name, values in numbers.items()}


def _options(keras_2: Any, layer: str, kind: str, config: Mapping[str, Any], made: Any) -> dict[str, Any]:
    """The options of a layer under Keras 2's names."""
    accepted = _parameters(made)
    options: dict[str, Any] = {}
    for key, value in config.items():
        if key in _IGNORED or key.endswith(_WITHOUT_EFFECT):
            continue
        name = _RENAMED.get(kind, {}).get(key, key)
        if name in accepted:
            nested = isinstance(value, dict) and "class_name" in value
            options[name] = _nested(keras_2, layer, key, value) if nested else value
        elif value not in (None, False, _DEFAULTS.get(key)):
            raise UnsupportedLayerError(
                f"layer {layer!r}: {kind} with {key}={value}, which Keras 2 does not have; leave the option out, or export the "
                "model to ONNX"
            )
    return options


def _parameters(made: type) -> set[str]:
    """The keyword arguments of a class and its bases."""
    own = (vars(base).get("__init__") for base in inspect.getmro(made) if base is not object)
    return {name for method in own if method is not None for name in inspect.signature(method).parameters}


def _nested(keras_2: Any, layer: str, key: str, value: Mapping[str, Any]) -> Any:
    """A layer inside a layer, as in Bidirectional and TimeDistributed."""
    made = getattr(keras_2.layers, str(value["class_name"]), None)
    if made is None or key not in ("layer", "backward_layer"):
        raise UnsupportedLayerError(
            f"layer {layer!r}: its {key} is {value['class_name']}, which Keras 2 does not have; use a standard one, or export "
            "the model to ONNX"
        )
    config = value["config"]
    return made(name=config["name"], **_options(keras_2, config["name"], value["class_name"], config, made))


def _copy_weights(ours: Any, theirs: Any) -> None:
    if not hasattr(theirs, "get_weights") or hasattr(theirs, "layers"):  # an operation; a model, which has copied its own
        return
    weights = theirs.get_weights() if ours.weights else []
    try:
        ours.set_weights(weights)
    except ValueError as error:
        raise UnsupportedLayerError(
            f"layer {theirs.name!r}: its weights have the shapes {[weight.shape for weight in weights]}, Keras 2's "
            f"{type(ours).__name__} has {[weight.shape for weight in ours.get_weights()]}; export the model to ONNX"
        ) from error


def in_float32(model: Any) -> Any:
    """Return a Keras 3 model whose layers compute in float32 where they did in float16, bfloat16 or float64."""
    for layer in model._flatten_layers():
        if layer.dtype_policy.name in FLOATING:
            layer.dtype_policy = "float32"
    return model


def check_alike(model: Any, twin: Any) -> None:
    """Raise ConversionError unless both models give the same answers on random rows, within float32's accuracy."""
    rng = np.random.default_rng(1)
    rows = [_random(rng, tensor) for tensor in model.inputs]
    given = rows[0] if len(rows) == 1 else rows
    named = model.get_config().get("input_layers")
    keys = sorted(named) if isinstance(named, dict) else None
    answers = (
        _listed(model(dict(zip(keys, rows, strict=True)) if keys else given, training=False)),
        _listed(twin(given, training=False)),
    )
    for theirs, ours in zip(*answers, strict=True):
        worst, most = float(np.abs(theirs - ours).max(initial=0.0)), float(np.abs(theirs).max(initial=0.0))
        if not worst <= _TOLERANCE * max(most, 1.0):
            raise ConversionError(
                f"model {model.name!r}: rebuilt in Keras 2 it differs from Keras 3 by {worst:g}, the largest answer is "
                f"{most:g}; export the model to ONNX"
            )


def _random(rng: np.random.Generator, tensor: Any) -> Any:
    """Rows for an input: ones where it holds integers, which may be indices of a short table."""
    shape = (_ROWS, *(int(size or 1) for size in tensor.shape[1:]))
    dtype = np.dtype(str(tensor.dtype))
    return np.ones(shape, dtype) if dtype.kind in "iub" else rng.uniform(0, 1, shape).astype(dtype)


def _listed(answers: Any) -> list[Any]:
    answers = [answers[key] for key in sorted(answers)] if isinstance(answers, dict) else answers
    return [np.asarray(part, np.float64) for part in (answers if isinstance(answers, list | tuple) else [answers])]


def main(file: Path, output: Path) -> int:
    """Rebuild the model in `file` and write it to `output`; return the exit code: 2 for a refusal, which is on stderr."""
    import keras

    try:
        model = in_float32(_loaded(keras, file))
        for tensor in model.inputs or ():
            check_shape("input", tensor.name, tuple(tensor.shape[1:]))
        twin = rebuilt(model)
        check_alike(model, twin)
    except ConversionError as error:
        return refuse(error)
    twin.save(output)
    return 0


def _loaded(keras: Any, file: Path) -> Any:
    try:
        return keras.models.load_model(file, compile=False)
    except (ValueError, TypeError, AttributeError, KeyError, OSError, ImportError) as error:
        check_classes(model_config(file), {})
        first = str(error).partition("\n")[0][:500]
        raise ConversionError(
            f"{file} does not hold a model that Keras {keras.__version__} can read: {first}; expected standard layers: classes "
            "and functions of your own are not in the file"
        ) from error


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:])))
