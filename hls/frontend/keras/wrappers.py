# SPDX-License-Identifier: Apache-2.0
"""Rewrites a TimeDistributed in a Keras 2 model as layers that hls4ml converts, each with its settings under its own name.

A Dense and an elementwise layer compute the same without the wrapper, and so does a normalisation, if all axes but the last
are made one. A convolution or a pooling along a line becomes one of images whose rows are the steps: its kernel has one row. A
Flatten or a Reshape becomes a Reshape of all steps. A wrapped model becomes a wrapper around each of its layers. hls4ml's loop
over the steps remains around convolutions and pooling of images, whose own activations become layers behind it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from hypersonic.hls.errors import UnsupportedLayerError
from hypersonic.hls.frontend.keras.parts import LayerPart, reshape
from hypersonic.hls.frontend.keras.simplify import replaced

#: layers that compute the same with TimeDistributed around them and without
_ELEMENTWISE = ("Activation", "QActivation", "ReLU", "LeakyReLU", "ELU", "ThresholdedReLU", "Dropout")
_ALONG_LAST_AXIS = ("Dense", "QDense", *_ELEMENTWISE)

#: layers along a line -> their options with a number for each axis
_LINES = {
    **dict.fromkeys(("Conv1D", "QConv1D"), ("kernel_size", "strides", "dilation_rate")),
    **dict.fromkeys(("MaxPooling1D", "AveragePooling1D"), ("pool_size", "strides")),
}

#: layers around which hls4ml's loop over the steps remains
_OF_IMAGES = ("Conv2D", "DepthwiseConv2D", "SeparableConv2D", "MaxPooling2D", "AveragePooling2D")

#: the suffix of a wrapper's name for the layer inside it, in hls4ml's graph
INSIDE = "_step"


def unwrapped(model: Any, custom_objects: Mapping[str, Any]) -> tuple[Any, tuple[str, ...]]:
    """Return an equivalent network, and a line for the report for each changed wrapper; the model itself if it has none.

    The last of the layers that replace a wrapper has its name.

    Args:
        model: a Keras 2 model whose layers are each called once.
    """
    parts = {layer.name: _parts(layer) for layer in model.layers if type(layer).__name__ == "TimeDistributed"}
    if not parts:
        return model, ()
    rebuilt, names = replaced(model, parts, custom_objects)
    changed = [name for name, chain in parts.items() if len(chain) > 1 or chain[0].kind != "TimeDistributed"]
    return rebuilt, tuple(_remark(name, names[name]) for name in changed)


def check_wrapped(model: Any) -> None:
    """Raise UnsupportedLayerError for a TimeDistributed that hls4ml does not convert.

    Args:
        model: as unwrapped returns it.
    """
    for layer in model.layers:
        if type(layer).__name__ == "TimeDistributed" and type(layer.layer).__name__.removeprefix("Q") not in _OF_IMAGES:
            inner = type(layer.layer).__name__
            if inner.startswith("Global"):
                raise UnsupportedLayerError(
                    f"layer {layer.name!r}: hls4ml loses the steps of a TimeDistributed({inner}); use one around a "
                    f"{inner.removeprefix('Global')} of a whole step, and a Reshape"
                )
            raise UnsupportedLayerError(
                f"layer {layer.name!r}: hls4ml does not convert a TimeDistributed({inner}), only one around convolutions and "
                "pooling, layers along the last axis, and models whose layers each read the one before"
            )


def _remark(name: str, parts: list[str]) -> str:
    if len(parts) == 1:
        return f"layer {name!r}: TimeDistributed is left out, the layer inside it has its name"
    return f"layer {name!r}: it is computed as the layers {', '.join(parts)}"


def _parts(wrapper: Any) -> list[LayerPart]:
    """The layers that compute a TimeDistributed, in order."""
    parts: list[LayerPart] = []
    for layer in _chain(wrapper.layer):
        shape = wrapper.input_shape[2:] if layer is wrapper.layer else layer.input_shape[1:]
        parts += _single(layer, (int(wrapper.output_shape[1] or 0), *shape))
    return [replace(parts[0], reads=(0,)), *parts[1:]]


def _chain(layer: Any) -> list[Any]:
    """The layers of a model whose layers each read the one before, at any depth; of any other layer, itself."""
    inside = [each for each in getattr(layer, "layers", ()) if type(each).__name__ != "InputLayer"]
    before = [node.inbound_layers for each in inside[1:] for node in each.inbound_nodes[:1]]
    in_order = all(one is other for one, other in zip(before, inside, strict=False))
    if not inside or not (in_order or type(layer).__name__ == "Sequential"):
        return [layer]
    return [one for each in inside for one in _chain(each)]


def _single(layer: Any, shape: tuple[int, ...]) -> Iterator[LayerPart]:
    """The same for one layer inside it.

    Args:
        shape: of its input, all steps of a row.
    """
    kind, whole = type(layer).__name__, layer.get_config()
    options, weights = {key: value for key, value in whole.items() if key != "name"}, layer.get_weights()
    if kind in _ALONG_LAST_AXIS:
        yield LayerPart(kind, options, weights=weights)
    elif kind in ("BatchNormalization", "QBatchNormalization") and list(layer.axis) == [len(shape) - 1]:
        yield reshape((-1, shape[-1]))
        yield LayerPart(kind, {**options, "axis": -1}, weights=weights)
        yield reshape(shape)
    elif kind in _LINES and options.get("padding") != "causal":
        across = {option: (1, *_numbers(options[option])) for option in _LINES[kind]}
        yield LayerPart(kind.replace("1D", "2D"), {**options, **across}, weights=weights)
    elif kind in ("Flatten", "Reshape"):
        yield reshape((shape[0], *options.get("target_shape", (-1,))))
    else:
        activation = options.get("activation") if kind.removeprefix("Q") in _OF_IMAGES else None
        own = {**whole, "activation": "linear"} if activation else whole
        yield LayerPart("TimeDistributed", {"layer": {"class_name": kind, "config": own}}, weights=weights)
        if activation not in ("linear", None):
            behind = "Activation" if activation in _PLAIN or not kind.startswith("Q") else "QActivation"
            yield LayerPart(behind, {"activation": activation})


#: activations that are the same as those of Keras
_PLAIN = ("relu", "sigmoid", "tanh", "softmax", "elu", "selu", "softplus", "softsign", "hard_sigmoid")


def _numbers(value: Any) -> tuple[int, ...]:
    return tuple(value) if isinstance(value, list | tuple) else (value,)
