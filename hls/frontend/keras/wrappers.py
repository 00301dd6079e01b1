# SPDX-License-Identifier: Apache-2.0
"""Rewrites a TimeDistributed in a Keras 2 model as layers that hls4ml converts, each with its settings under its own name.

A Dense and an elementwise layer compute the same without the wrapper, and so does a normalisation, if all axes but the last
are made one. A convolution or a pooling along a line becomes one of images whose rows are the steps: its kernel has one row. A
Flatten or a Reshape becomes a Reshape of all steps. A wrapped model becomes a wrapper around each of its layers. hls4ml's loop
over the steps remains around convolutions and pooling of images, whose own activations become layers behind it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hypersonic.hls.errors import UnsupportedLayerError
from hypersonic.hls.names import Namespace

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


@dataclass(frozen=True)
class _Part:
    """A layer that computes a part of a TimeDistributed. config: its class and options. source: the layer with its weights."""

    config: dict[str, Any]
    source: Any


def unwrapped(model: Any, custom_objects: Mapping[str, Any]) -> tuple[Any, tuple[str, ...]]:
    """Return an equivalent network, and a line for the report for each changed wrapper; the model itself if it has none.

    model: a Keras 2 model whose layers are each called once. The last of the layers that replace a wrapper has its name.
    """
    config = model.get_config()
    parts = {layer.name: list(_parts(layer)) for layer in model.layers if type(layer).__name__ == "TimeDistributed"}
    if not parts:
        return model, ()
    layers: list[dict[str, Any]] = []
    remarks: list[str] = []
    scope = Namespace(tuple(layer.name for layer in model.layers))
    sources = {layer.name: layer for layer in model.layers}
    for layer in config["layers"]:
        name = layer["config"]["name"]
        chain = _linked(layer, parts[name], scope) if name in parts else [layer]
        sources |= {part["config"]["name"]: each.source for part, each in zip(chain, parts.get(name, ()), strict=False)}
        layers += chain
        if name in parts and _changed(chain):
            remarks.append(_remark(name, [part["config"]["name"] for part in chain]))
    rebuilt = type(model).from_config({**config, "layers": layers}, custom_objects=dict(custom_objects))
    for layer in rebuilt.layers:
        shapes = [weight.shape for weight in layer.get_weights()]
        given = sources[layer.name].get_weights()
        layer.set_weights([weight.reshape(shape) for weight, shape in zip(given, shapes, strict=True)])
    return rebuilt, tuple(remarks)


def check_wrapped(model: Any) -> None:
    """Raise UnsupportedLayerError for a TimeDistributed that hls4ml does not convert. model: as unwrapped returns it."""
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


def _changed(chain: list[dict[str, Any]]) -> bool:
    return len(chain) > 1 or chain[0]["class_name"] != "TimeDistributed"


def _remark(name: str, parts: list[str]) -> str:
    if len(parts) == 1:
        return f"layer {name!r}: TimeDistributed is left out, the layer inside it has its name"
    return f"layer {name!r}: it is computed as the layers {', '.join(parts)}"


def _parts(wrapper: Any) -> Iterator[_Part]:
    """The layers that compute a TimeDistributed, in order."""
    for layer in _chain(wrapper.layer):
        shape = wrapper.input_shape[2:] if layer is wrapper.layer else layer.input_shape[1:]
        yield from _single(wrapper, layer, (int(wrapper.output_shape[1] or 0), *shape))


def _chain(layer: Any) -> list[Any]:
    """The layers of a model whose layers each read the one before, at any depth; of any other layer, itself."""
    inside = [each for each in getattr(layer, "layers", ()) if type(each).__name__ != "InputLayer"]
    before = [node.inbound_layers for each in inside[1:] for node in each.inbound_nodes[:1]]
    in_order = all(one is other for one, other in zip(before, inside, strict=False))
    if not inside or not (in_order or type(layer).__name__ == "Sequential"):
        return [layer]
    return [one for each in inside for one in _chain(each)]


def _single(wrapper: Any, layer: Any, shape: tuple[int, ...]) -> Iterator[_Part]:
    """The same for one layer inside it. shape: of its input, all steps of a row."""
    kind, options = type(layer).__name__, layer.get_config()
    plain = {"class_name": kind, "config": options}
    if kind in _ALONG_LAST_AXIS:
        yield _Part(plain, layer)
    elif kind in ("BatchNormalization", "QBatchNormalization") and list(layer.axis) == [len(shape) - 1]:
        yield _reshape((-1, shape[-1]))
        yield _Part({**plain, "config": {**options, "axis": -1}}, layer)
        yield _reshape(shape)
    elif kind in _LINES and options.get("padding") != "causal":
        across = {option: (1, *_numbers(options[option])) for option in _LINES[kind]}
        yield _Part({"class_name": kind.replace("1D", "2D"), "config": {**options, **across}}, layer)
    elif kind in ("Flatten", "Reshape"):
        yield _reshape((shape[0], *options.get("target_shape", (-1,))))
    else:
        activation = options.get("activation") if kind.removeprefix("Q") in _OF_IMAGES else None
        own = {**options, "activation": "linear"} if activation else options
        around = {"class_name": "TimeDistributed", "config": {"name": wrapper.name, "layer": {**plain, "config": own}}}
        yield _Part(around, layer)
        if activation not in ("linear", None):
            behind = "Activation" if activation in _PLAIN or not kind.startswith("Q") else "QActivation"
            yield _Part({"class_name": behind, "config": {"name": layer.name, "activation": activation}}, _NO_WEIGHTS)


#: activations that are the same as those of Keras
_PLAIN = ("relu", "sigmoid", "tanh", "softmax", "elu", "selu", "softplus", "softsign", "hard_sigmoid")


class _NoWeights:
    """Stands in for a layer without weights."""

    def get_weights(self) -> list[Any]:
        return []


_NO_WEIGHTS = _NoWeights()


def _reshape(shape: tuple[int, ...]) -> _Part:
    return _Part({"class_name": "Reshape", "config": {"target_shape": shape}}, _NO_WEIGHTS)


def _linked(layer: dict[str, Any], parts: list[_Part], scope: Namespace) -> list[dict[str, Any]]:
    """The configurations of the parts, one behind the other. layer: that of the wrapper. scope: names of layers."""
    name = layer["config"]["name"]
    names = [*(scope.identifier(f"{name}_part") for _ in parts[1:]), name]
    chain, nodes = [], layer.get("inbound_nodes")
    for called, part in zip(names, parts, strict=True):
        linked = {**part.config, "config": {**part.config["config"], "name": called}}
        if nodes is not None:
            linked |= {"name": called, "inbound_nodes": nodes}
            nodes = [[[called, 0, 0, {}]]]
        chain.append(linked)
    return chain


def _numbers(value: Any) -> tuple[int, ...]:
    return tuple(value) if isinstance(value, list | tuple) else (value,)
