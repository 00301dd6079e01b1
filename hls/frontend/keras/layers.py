# SPDX-License-Identifier: Apache-2.0
"""Refuses Keras layers and options that hls4ml 1.3.0's front end does not support or silently ignores."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from hypersonic.hls.errors import ELSEWHERE, ConversionError, UnsupportedLayerError
from hypersonic.hls.frontend.checks import local_of, said_by

#: layers without effect at inference, which hls4ml leaves out
_SKIPPED = ("Dropout",)

_MERGES = ("Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum", "Concatenate", "Dot")
_RECURRENT = ("SimpleRNN", "LSTM", "GRU")
_QUANTISED_CELLS = tuple(f"Q{kind}" for kind in _RECURRENT)

Options = Mapping[str, Any]


def check_keras_model(model: Any, supported: Collection[str]) -> None:
    """Raise UnsupportedLayerError for a layer of a Keras 2 model that hls4ml would read wrongly.

    Args:
        supported: the class names that hls4ml reads.
    """
    for layer in model.layers:
        for why, remedy in _faults(layer, supported):
            raise UnsupportedLayerError(f"layer {layer.name!r}: {why}; {remedy}")


def check_shapes(model: Any) -> None:
    """Raise ConversionError for an input or output of a Keras 2 model that has an axis of unknown size."""
    for role, names, tensors in (("input", model.input_names, model.inputs), ("output", model.output_names, model.outputs)):
        for name, tensor in zip(names, tensors, strict=True):
            check_shape(role, name, tuple(tensor.shape[1:]))


def read_by_hls4ml(read: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return the result of `read`, hls4ml's configuration of a model; any exception becomes a ConversionError with its text."""
    try:
        return read()
    except Exception as error:
        what = f"{said_by(error)}; {ELSEWHERE}"
        if layer := _layer_being_read(error):
            raise ConversionError(
                f"layer {layer['config']['name']!r} ({layer['class_name']}): hls4ml does not read it: {what}"
            ) from error
        raise ConversionError(f"hls4ml does not read the model: {what}") from error


def _layer_being_read(error: BaseException) -> dict[str, Any]:
    """The configuration of the layer at which hls4ml's reader ended, from its local variable; {} if there is none."""
    found = local_of(error, "keras_layer")
    return next((layer for layer in found if isinstance(layer, dict) and "name" in layer.get("config", {})), {})


def check_shape(role: str, name: str, shape: tuple[Any, ...]) -> None:
    """Raise ConversionError for the shape of a row without axes, or with one of unknown size.

    Args:
        role: "input" or "output".
    """
    if not shape or None in shape:
        listed = ", ".join(["batch", *(str(size) for size in shape)])
        raise ConversionError(
            f"{role} {name!r}: shape is ({listed}), expected at least one dimension after the batch, each of them a number: "
            "hls4ml builds hardware for fixed sizes; `hypersonic new MODEL --shape SIZE,...` writes a copy with them"
        )


def _faults(layer: Any, supported: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield (what is wrong, what to do) for each fault of a layer."""
    kind, options = type(layer).__name__, layer.get_config()
    if kind not in supported and kind not in _SKIPPED:
        yield (
            f"hls4ml's Keras front end has no {kind}",
            "build it from layers that it has, or serve the whole model with the server's onnxruntime backend",
        )
    if kind == "Softmax":
        axes = [layer.axis] if isinstance(layer.axis, int) else list(layer.axis)
        yield f"a Softmax over the axes {axes} together, and hls4ml takes one of a row", "reshape them to one axis"
    yield from _option_faults(kind, options)
    if quantiser := _power_of_two(options.get("activation")):
        yield (
            f"QKeras' {quantiser} rounds its numbers to powers of two, which hls4ml supports only for weights",
            "use quantized_relu or quantized_bits",
        )
    if kind == "PReLU" and options.get("shared_axes"):
        yield (
            f"PReLU with shared_axes={list(options['shared_axes'])}, which hls4ml does not read",
            "give every element its own alpha",
        )
    if kind in _MERGES:
        yield from _merge_faults(kind, layer.input)
    if "BatchNormalization" in kind:
        yield from _normalisation_faults(layer)
    yield from _gate_faults(layer)


def _option_faults(kind: str, options: Options) -> Iterator[tuple[str, str]]:
    if kind == "ReLU" and options.get("max_value") is not None:
        yield (
            f"ReLU with max_value={options['max_value']}, with another option beside it",
            "expected no negative_slope and no threshold",
        )
    for option, wanted in _WANTED.get(kind.removeprefix("Q"), {}).items():
        if not _is(options.get(option, wanted), wanted):
            yield f"{kind} with {option}={options[option]}, which hls4ml ignores", f"expected {wanted}"


def _gate_faults(layer: Any) -> Iterator[tuple[str, str]]:
    for option, quantiser, real in _gates(layer):
        if not real:
            yield (
                f"its {option} is QKeras' {quantiser}, for which hls4ml has no C++ in a recurrent layer",
                "use tanh or sigmoid, or a quantized_tanh with use_real_tanh or a quantized_sigmoid with use_real_sigmoid",
            )


def gate_notes(model: Any) -> Iterator[str]:
    """Yield a line for the report for each quantiser of a recurrent layer's numbers, whose type hls4ml leaves out."""
    for layer in model.layers:
        for option, quantiser, _ in _gates(layer):
            yield (
                f"layer {layer.name!r}: its {option} is QKeras' {quantiser}, and hls4ml does not round to its bits: what it "
                "gives has the type of accum"
            )
        if type(layer).__name__ in _QUANTISED_CELLS and layer.get_config().get("state_quantizer"):
            yield f"layer {layer.name!r}: QKeras' state_quantizer rounds its state, and hls4ml to the type of result instead"


def _gates(layer: Any) -> Iterator[tuple[str, str, bool]]:
    """Yield (option, QKeras' quantiser, whether it rounds a real tanh or sigmoid) for the activations of a QLSTM or QGRU."""
    options = layer.get_config() if type(layer).__name__ in _QUANTISED_CELLS else {}
    for option in ("activation", "recurrent_activation"):
        given = options.get(option)
        if isinstance(given, dict):
            name, settings = str(given.get("class_name")), given.get("config") or {}
            real = name.removeprefix("quantized_") in ("tanh", "sigmoid") and bool(
                settings.get(name.replace("quantized", "use_real"))
            )
            yield option, name, real


#: of a BatchNormalization's input, with the batch
_MOST_AXES = 4


def _normalisation_faults(layer: Any) -> Iterator[tuple[str, str]]:
    axes = len(layer.input.shape)
    if list(layer.axis) != [axes - 1]:
        yield f"BatchNormalization with axis={list(layer.axis)}, and hls4ml takes the last", "permute the axes"
    if axes > _MOST_AXES:
        yield (
            f"it normalises a tensor of {axes - 1} axes, and hls4ml's C++ reads past its factors for more than 3",
            "put a Reshape to fewer axes before it, and one back behind it",
        )


def _power_of_two(activation: Any) -> str:
    """The name of an activation that is a power-of-two quantiser; empty for any other activation."""
    name = activation.get("class_name") if isinstance(activation, dict) else activation
    name = name if isinstance(name, str) else type(name).__name__
    return name.partition("(")[0] if "_po2" in name else ""


def _merge_faults(kind: str, tensors: Any) -> Iterator[tuple[str, str]]:
    shapes = [tuple(tensor.shape[1:]) for tensor in tensors]
    if kind != "Concatenate" and len(set(shapes)) > 1:
        merged = " and ".join(map(str, dict.fromkeys(shapes)))
        yield (
            f"it merges the shapes {merged}, and hls4ml's C++ leaves elements out where they differ",
            "give all the same shape",
        )


def _is(value: Any, wanted: Any) -> bool:
    """Return whether an option has a value, or has it along each axis. Numbers of a loaded model are 0-dimensional arrays."""
    values = value if isinstance(value, list | tuple) else [value.item() if hasattr(value, "item") else value]
    return all(one == wanted for one in values)


_CONVOLUTION: Options = {"dilation_rate": 1, "groups": 1, "data_format": "channels_last"}
_RECURRENCE: Options = {"go_backwards": False, "stateful": False, "return_state": False, "time_major": False}

#: the values of options that hls4ml assumes, by class
_WANTED: dict[str, Options] = {
    "ReLU": {"negative_slope": 0, "threshold": 0},
    "Embedding": {"mask_zero": False},
    "GarNetStack": {"quantize_transforms": None},
    "Bidirectional": {"merge_mode": "concat"},
    "UpSampling2D": {"interpolation": "nearest", "data_format": "channels_last"},
    **{f"{kind}Conv{n}D": _CONVOLUTION for kind in ("", "Separable", "Depthwise") for n in (1, 2)},
    **dict.fromkeys(_RECURRENT, _RECURRENCE),
    **{f"{kind}Pooling{n}D": {"data_format": "channels_last"} for kind in ("Max", "Average") for n in (1, 2)},
}
