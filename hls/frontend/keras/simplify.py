# SPDX-License-Identifier: Apache-2.0
"""Rewrites layers of a Keras 2 model that hls4ml 1.3.0 does not read as layers that it reads, without a change of answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np

from hypersonic.hls.errors import UnsupportedLayerError
from hypersonic.hls.frontend.keras.calls import CallTensor, is_tensor, only_reader, renamed
from hypersonic.hls.frontend.keras.classes import TRAINING_ONLY
from hypersonic.hls.frontend.keras.convolutions import dilated, transposed
from hypersonic.hls.frontend.keras.operations import TENSORFLOW, operation
from hypersonic.hls.frontend.keras.parts import LayerPart, affine, merged, repeated, softmax
from hypersonic.hls.frontend.keras.products import attention, dot, einsum_dense, multi_head_attention
from hypersonic.hls.names import Namespace

#: a rule: the parts that compute a layer, or none if it stays
Rule = Callable[[Any], list[LayerPart]]


#: stands for a layer that is left out: its readers read what it reads
PASSED = LayerPart("")


def simplified(model: Any, custom: Mapping[str, Any]) -> tuple[Any, tuple[str, ...]]:
    """Return an equivalent network and lines for the report; the model itself if no layer changes.

    The last of the layers that replace one has its name.

    Args:
        model: a Keras 2 model whose layers are each called once.
    """
    parts = {layer.name: found for layer in model.layers if (found := _parts(model, layer))}
    if not parts:
        return model, ()
    again, _ = replaced(model, parts, custom)
    return simplified(again, custom)[0], tuple(_notes(model))


def replaced(model: Any, parts: Mapping[str, list[LayerPart]], custom: Mapping[str, Any]) -> tuple[Any, dict[str, list[str]]]:
    """Return the functional model with some layers, by name, replaced by parts; and the names of each one's parts.

    The weights of a part may have another shape than the part's own.
    """
    plain = functional(model)
    config = plain.get_config()
    scope = Namespace(tuple(layer.name for layer in plain.layers))
    layers: list[dict[str, Any]] = []
    names: dict[str, list[str]] = {}
    passed = {
        name: tuple(next(iter(_sources(entry)))[:3])
        for entry in config["layers"]
        if parts.get(name := entry["config"]["name"]) == [PASSED]
    }
    weights = {layer.name: layer.get_weights() for layer in plain.layers if layer.name not in parts}
    for entry in config["layers"]:
        name = entry["config"]["name"]
        if name in passed:
            continue
        own = _linked(entry, parts[name], scope) if name in parts else [entry]
        layers += own
        names[name] = [made["name"] for made in own]
        weights |= {made["name"]: part.weights for made, part in zip(own, parts.get(name, ()), strict=False)}
    layers = [_reading(layer, passed) for layer in layers]
    again = type(plain).from_config({**config, "layers": layers}, custom_objects=dict(custom))
    for layer in again.layers:
        pairs = zip(weights[layer.name], layer.get_weights(), strict=True)
        layer.set_weights([np.reshape(given, own.shape) for given, own in pairs])
    return again, names


def _reading(entry: Any, passed: Mapping[str, CallTensor]) -> Any:
    """A layer's configuration that reads what is before the layers that are left out."""
    if not passed:
        return entry
    nodes = [renamed(node, partial(_behind, passed)) for node in entry["inbound_nodes"]]
    return {**entry, "inbound_nodes": nodes}


def _behind(passed: Mapping[str, CallTensor], tensor: CallTensor) -> CallTensor:
    """The tensor that a layer which is left out reads, or one that such a layer before it reads."""
    while tensor[0] in passed:
        tensor = passed[tensor[0]]
    return tensor


def functional(model: Any) -> Any:
    """Return the functional model with the tensors of a Sequential, or of a model whose inputs or outputs are a dictionary."""
    import tf_keras

    plain = type(model).__name__ != "Sequential" and not isinstance(model.input, dict) and not isinstance(model.output, dict)
    return model if plain else tf_keras.Model(list(model.inputs), list(model.outputs), name=model.name)


def _notes(model: Any) -> Iterable[str]:
    for layer in model.layers:
        kind = getattr(layer, "of", type(layer).__name__)
        if type(layer).__name__ == "TrainingOnly" or kind in TRAINING_ONLY:
            yield f"layer {layer.name!r}: {kind} has no effect on a trained model's answers, and is left out"


def _linked(entry: dict[str, Any], parts: list[LayerPart], scope: Namespace) -> list[dict[str, Any]]:
    """The configurations of the parts of a layer.

    Args:
        entry: the layer's own.
    """
    name, given = entry["config"]["name"], list(_sources(entry))
    names = [*(scope.identifier(f"{name}_{part.role}") for part in parts[:-1]), name]
    made: list[dict[str, Any]] = []
    for index, (called, part) in enumerate(zip(names, parts, strict=True)):
        reads = [given[read] if read >= 0 else [names[index + read], 0, 0, {}] for read in part.reads]
        options = {"name": called, "dtype": "float32", **part.options}
        made.append({"class_name": part.kind, "config": options, "name": called, "inbound_nodes": [reads]})
    return made


def _sources(entry: dict[str, Any]) -> Iterable[list[Any]]:
    """The tensors that a layer reads, among the arguments of its call too."""
    (node,) = entry["inbound_nodes"]
    for source in [node] if isinstance(node[0], str) else node:
        if source[0] != "_CONSTANT_VALUE":
            yield [*source[:3], {}]
        for value in source[3].values():
            if is_tensor(value):
                yield [*value[:3], {}]


# ---------------------------------------------------------------- rules
def _parts(model: Any, layer: Any) -> list[LayerPart]:
    kind = type(layer).__name__
    if kind in TRAINING_ONLY or kind == "TrainingOnly":
        if _shapes(layer)[0] != tuple(layer.output_shape[1:]):
            return []
        return [LayerPart("Dropout", {"rate": 0.0}, (0,)) if layer.name in model.output_names else PASSED]
    if kind in _SCALINGS:
        return _scaled(model, layer)
    return _RULES[kind](layer) if kind in _RULES else []


def _shapes(layer: Any) -> list[tuple[int, ...]]:
    """The shapes of a row of each tensor that the layer reads."""
    tensors = layer.input if isinstance(layer.input, list) else [layer.input]
    return [tuple(tensor.shape[1:]) for tensor in tensors]


def _scaled(model: Any, layer: Any) -> list[LayerPart]:
    """A scaling merged with those before it that nothing else reads; a scaling that is merged into a later one is left out."""
    if type(only_reader(model, layer)).__name__ in _SCALINGS:
        return [PASSED]
    scale, offset = _line(layer)
    before = layer
    while (
        type(before := before.inbound_nodes[0].inbound_layers).__name__ in _SCALINGS and only_reader(model, before) is not None
    ):
        first = _line(before)
        scale, offset = first[0] * scale, first[1] * scale + offset
    return affine(_shapes(layer)[0], scale, offset)


#: layers that compute x * scale + offset
_SCALINGS = ("Rescaling", "Normalization")


def _line(layer: Any) -> tuple[Any, Any]:
    """The scale and the offset, of the shape of a row."""
    shape = _shapes(layer)[0]
    if type(layer).__name__ == "Rescaling":
        numbers = (layer.scale, layer.offset)
    else:
        deviation = np.maximum(np.sqrt(np.asarray(layer.variance, np.float64)), 1e-7)  # Keras' epsilon
        mean = np.asarray(layer.mean, np.float64)
        numbers = (deviation, mean) if layer.invert else (1 / deviation, -mean / deviation)
    return tuple(np.broadcast_to(np.asarray(each, np.float64), (1, *shape))[0] for each in numbers)


def _softmax(layer: Any) -> list[LayerPart]:
    if isinstance(layer.input_shape, list) or not isinstance(layer.axis, int):
        return []
    return softmax(_shapes(layer)[0], layer.axis)


def _relu(layer: Any) -> list[LayerPart]:
    most, slope, threshold = layer.max_value, float(layer.negative_slope), float(layer.threshold)
    if threshold or (most is not None and slope):
        return []
    if slope:
        return [LayerPart("LeakyReLU", {"alpha": slope}, (0,))]
    return [LayerPart("CappedReLU", {"max_value": float(most)}, (0,))] if most is not None else []


def _merge(layer: Any) -> list[LayerPart]:
    shapes = _shapes(layer)
    if len(set(shapes)) == 1 or any(None in shape for shape in shapes):
        return []
    return merged(type(layer).__name__, shapes)


def _repeat_vector(layer: Any) -> list[LayerPart]:
    shape = _shapes(layer)[0]
    return repeated(shape, (int(layer.n), *shape))


def _center_crop(layer: Any) -> list[LayerPart]:
    if len(shape := _shapes(layer)[0]) != 3:
        raise UnsupportedLayerError(
            f"layer {layer.name!r} (CenterCrop): its input has the shape {tuple(shape)}, expected (height, width, channels)"
        )
    height, width, _ = shape
    over = height - int(layer.height), width - int(layer.width)
    if min(over) < 0:
        return []
    cropping = tuple((size // 2, size - size // 2) for size in over)
    return [LayerPart("Cropping2D", {"cropping": cropping}, (0,))]


def _operation(layer: Any) -> list[LayerPart]:
    """An operation of TensorFlow; its call has the constants."""
    (node,) = layer.inbound_nodes
    kind = TENSORFLOW.get(str(layer.get_config()["function"]))
    given = {key: value for key, value in node.call_kwargs.items() if key not in _OPTIONS and value is not None}
    first = node.call_args[0] if node.call_args else ()
    several = list(first) if isinstance(first, list | tuple) else list(node.call_args)
    operands = [_operand(value) for value in (*several, *given.values())]
    if kind is None:
        kind, operands = str(layer.get_config()["function"]), operands or [()]
    return operation(
        layer.name, kind, operands, {key: node.call_kwargs.get(key) for key in _OPTIONS if key in node.call_kwargs}
    )


#: arguments of TensorFlow's functions that are not tensors
_OPTIONS = ("axis", "keepdims", "shape", "name", "perm", "slice_spec", "transpose_a", "transpose_b")


def _operand(value: Any) -> tuple[int, ...] | np.ndarray[Any, Any]:
    return tuple(value.shape[1:]) if hasattr(value, "shape") and value.shape[:1] == [None] else np.asarray(value, np.float64)


_RULES: dict[str, Rule] = {
    **dict.fromkeys(("TFOpLambda", "SlicingOpLambda"), _operation),
    "Softmax": _softmax,
    "ReLU": _relu,
    "RepeatVector": _repeat_vector,
    "CenterCrop": _center_crop,
    **dict.fromkeys(("Conv1D", "Conv2D", "DepthwiseConv1D", "DepthwiseConv2D"), dilated),
    **dict.fromkeys(("Conv1DTranspose", "Conv2DTranspose"), transposed),
    **dict.fromkeys(("Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum"), _merge),
    "MultiHeadAttention": multi_head_attention,
    "Attention": attention,
    "Dot": dot,
    "EinsumDense": einsum_dense,
}
