# SPDX-License-Identifier: Apache-2.0
"""Loads models of HGQ2 and converts them with hls4ml's reader for Keras 3, in a process that has HGQ2 (frontend/hgq.py).

The model determines every type: hls4ml derives those between the quantisers so that no bit is lost, and the YAML has no
precisions.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.errors import ConversionError
from hypersonic.hls.frontend.description import DescriptionError, ModelDescription
from hypersonic.hls.frontend.keras.layers import read_by_hls4ml
from hypersonic.hls.frontend.keras.model import conversion_options, predicted, with_fusions
from hypersonic.hls.frontend.trained import ModelTensor, TrainedModel


def load_hgq(file: Path) -> TrainedModel:
    """Load a .keras or .h5 file of Keras 3 with layers of HGQ2. Raises ConversionError for a model that cannot be read."""
    import hgq
    import hgq.layers  # an .h5 file has the names under which these are registered
    import hls4ml
    import keras

    try:
        model = keras.models.load_model(file, compile=False)
    except (ValueError, TypeError, AttributeError, KeyError, OSError, ImportError) as error:
        first = str(error).partition("\n")[0][:500]
        raise ConversionError(
            f"{file} does not hold a model that Keras {keras.__version__} can read with HGQ2 {hgq.__version__}: {first}; save "
            "it with the same version of HGQ2"
        ) from error
    model = _functional(model)
    register_moved()
    inputs, outputs = (_tensors(model, role) for role in ("input", "output"))
    config = read_by_hls4ml(lambda: hls4ml.utils.config_from_keras_model(model, granularity="name", backend="Vitis"))
    for settings in config["LayerName"].values():
        settings.pop("Precision", None)

    def predict(x: Sequence[NDArray[np.float32]]) -> tuple[NDArray[np.float64], ...]:
        return predicted(model, x)

    def convert(config: dict[str, Any], directory: Path, name: str, part: str, io_type: str) -> Any:
        options = conversion_options(directory, name, part, io_type)
        return hls4ml.converters.convert_from_keras_model(model, hls_config=with_fusions(config), **options)

    return TrainedModel(inputs, outputs, config, predict, convert, parameters=_count_parameters(model))


def _functional(model: Any) -> Any:
    """The model, or the functional one with a Sequential's layers: a Sequential from a file has no `input`."""
    if type(model).__name__ != "Sequential":
        return model
    import keras

    try:
        return keras.Model(model.inputs, model.outputs, name=model.name)
    except AttributeError as error:
        raise ConversionError(f"model {model.name!r} has no input shape; begin it with keras.Input(shape=...)") from error


def _count_parameters(model: Any) -> int:
    """The number of a model's parameters: weights, without the bit widths of its quantisers and the scalars of its cost."""
    from hgq.quantizer import Quantizer

    widths = {id(each) for layer in model._flatten_layers() if isinstance(layer, Quantizer) for each in layer.weights}
    return sum(prod(each.shape) for each in model.weights if len(each.shape) and id(each) not in widths)


def register_moved() -> None:
    """Register hls4ml's readers for layers that HGQ2 has moved to another module; hls4ml 1.3.0 finds them by module."""
    import hgq.layers
    from hls4ml.converters.keras_v3 import layer_handlers

    known = {name.rpartition(".")[2]: reader for name, reader in layer_handlers.items() if str(name).startswith("hgq.")}
    for name, kind in vars(hgq.layers).items():
        if isinstance(kind, type) and name in known:
            layer_handlers.setdefault(f"{kind.__module__}.{name}", known[name])


def check_description(description: ModelDescription) -> None:
    """Raise DescriptionError for a precision in the YAML: the model of HGQ2 has the types, and another one would change it."""
    options = description.hls4ml
    named = {f"hls4ml.LayerName.{layer}": settings for layer, settings in (options.get("LayerName") or {}).items()}
    places = {"hls4ml.Model": options.get("Model"), **named}
    given = [f"{place}.Precision" for place, settings in places.items() if "Precision" in (settings or {})]
    sides = [("input", side) for side in description.inputs] + [("output", side) for side in description.outputs]
    given += [f"{role}.precision" for role, side in sides if side.fixed]
    if given:
        file = description.file.with_suffix(".yaml")
        raise DescriptionError(f"{file}: {given[0]} is given, and HGQ2 has trained the model's types; leave it out")


def _tensors(model: Any, role: str) -> tuple[ModelTensor, ...]:
    """The inputs or outputs; the name of an output is that of its layer."""
    struct = model.input if role == "input" else model.output
    if isinstance(struct, dict):
        raise ConversionError("the model's inputs or outputs are a dictionary, expected lists: their order is the kernel's")
    tensors = model.inputs if role == "input" else model.outputs
    for tensor in tensors:
        if not tensor.shape[1:] or None in tensor.shape[1:]:
            raise ConversionError(
                f"{role} {tensor.name!r}: shape is {tuple(tensor.shape[1:])}, expected at least one dimension after the batch, "
                "each of them a number"
            )
    names = [tensor._keras_history.operation.name for tensor in tensors]
    if len(set(names)) < len(names):
        raise ConversionError(f"the model's {role}s are {', '.join(names)}, expected each of a layer of its own")
    return tuple(
        ModelTensor(name, name, tuple(int(size) for size in tensor.shape[1:]))
        for name, tensor in zip(names, tensors, strict=True)
    )
