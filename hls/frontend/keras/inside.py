# SPDX-License-Identifier: Apache-2.0
"""The inside of a Keras 2 model, by hls4ml's names of its layers: their weights, and their results for given rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.frontend.keras.calls import only_reader
from hypersonic.hls.frontend.trained import LayerFacts

Numbers = NDArray[np.float64]

#: classes of layers to which hls4ml can add the work of the layer before, if nothing else reads that one's result
_FOLLOW = ("BatchNormalization", "QBatchNormalization", "Activation", "QActivation", "ReLU", "Softmax")

#: the suffix of an LSTM's name for its cell states
STATE = ":state"

#: Keras' names of weights, as hls4ml calls them
_WEIGHTS = {"kernel": "weight", "bias": "bias"}


def layer_facts(model: Any, configured: Mapping[str, Any]) -> tuple[LayerFacts, ...]:
    """Return the facts of every layer but the inputs, in the model's order.

    Args:
        model: a Keras model whose layers have hls4ml's names.
        configured: LayerName of hls4ml's configuration.
    """
    layers = [layer for layer in model.layers if type(layer).__name__ != "InputLayer"]
    return tuple(_facts(model, layer, configured) for layer in layers)


def _facts(model: Any, layer: Any, configured: Mapping[str, Any]) -> LayerFacts:
    kind, result = type(layer).__name__, result_layer(layer, configured)
    last = 1 if isinstance(layer.output, list) else int(layer.output.shape[-1] or 1)
    return LayerFacts(layer.name, result, kind, _weights(model, layer), _followed_by(model, layer), activation_of(layer), last)


def results(model: Any, configured: Mapping[str, Any], x: Sequence[NDArray[np.float32]]) -> dict[str, Numbers]:
    """Return each layer's result by hls4ml's name of the layer that computes it, float64 (rows, ...).

    A layer with an activation of its own has two entries: hls4ml makes two layers of it. So has an LSTM: its cell states in all
    steps, under its name plus STATE, have the type of its result too.

    Args:
        x: `(rows, *shape)` for each input.
    """
    import tensorflow as tf
    import tf_keras

    kept = [layer for layer in model.layers if type(layer).__name__ != "InputLayer" and not isinstance(layer.output, list)]
    with_two = [layer for layer in kept if result_layer(layer, configured) != layer.name and hasattr(layer, "activation")]
    with_state = [layer for layer in kept if any("LSTM" in type(each).__name__ for each in _directions(layer).values())]
    wanted = [*(layer.output for layer in kept), *(layer.input for layer in (*with_two, *with_state))]
    numbers = tf.autograph.experimental.do_not_convert(tf_keras.Model(model.inputs, wanted))(list(x), training=False)
    numbers = numbers if isinstance(numbers, list | tuple) else [numbers]  # a list of one output
    found = {result_layer(layer, configured): number for layer, number in zip(kept, numbers, strict=False)}
    for layer, number in zip(with_two, numbers[len(kept) :], strict=False):
        found[layer.name] = _without_activation(layer, number)
    for layer, number in zip(with_state, numbers[len(kept) + len(with_two) :], strict=True):
        found[layer.name + STATE] = np.concatenate([_cell_states(each, number) for each in _directions(layer).values()])
    return {name: np.asarray(number, np.float64) for name, number in found.items()}


def _directions(layer: Any) -> dict[str, Any]:
    """The recurrent layers of a layer, by hls4ml's prefix for the names of their weights."""
    if hasattr(layer, "forward_layer"):
        return {"forward_": layer.forward_layer, "backward_": layer.backward_layer}
    return {"": layer} if hasattr(layer, "cell") else {}


def _cell_states(layer: Any, x: Any) -> Any:
    """The cell states of an LSTM in every step, (rows, steps, units)."""
    import tensorflow as tf

    states, found = [tf.zeros((len(x), layer.units)) for _ in range(2)], []
    for step in range(x.shape[1])[:: -1 if layer.go_backwards else 1]:
        _, states = layer.cell(x[:, step], states)
        found.append(states[1])
    return tf.stack(found, axis=1)


def _without_activation(layer: Any, x: Any) -> Any:
    activation = layer.activation
    layer.activation = lambda number: number
    try:
        return layer(x)
    finally:
        layer.activation = activation


def activation_of(layer: Any) -> str:
    """Return the name of a layer's activation, or QKeras' class of it; "" for none."""
    activation = layer.get_config().get("activation")
    return str(activation.get("class_name", "")) if isinstance(activation, dict) else str(activation or "")


def result_layer(layer: Any, configured: Collection[str]) -> str:
    """Return hls4ml's name of the layer with a Keras layer's result: its activation's, where hls4ml makes a layer of that."""
    activation = activation_of(layer)
    name = f"{layer.name}_{activation}"
    return name if name in configured and activation != "linear" else str(layer.name)


def _weights(model: Any, layer: Any) -> dict[str, Numbers]:
    """The weights by hls4ml's names, as hls4ml computes with them: a normalisation is a factor and a shift, or in the weights
    of the layer before it."""
    if sides := _directions(layer):
        return {side + name: values for side, each in sides.items() for name, values in _recurrent(each).items()}
    own = _named(layer)
    before = [node.inbound_layers for node in layer.inbound_nodes]
    if "moving_variance" in own and "kernel" not in own:
        alone = len(before) == 1 and not isinstance(before[0], list) and only_reader(model, before[0]) is layer
        return {} if alone and _takes_normalisation(before[0]) else _affine(layer, own)
    if "moving_variance" in own:  # QConv2DBatchnorm
        own = _folded(own, _affine(layer.batchnorm, own))
    after = only_reader(model, layer)
    if (
        _takes_normalisation(layer)
        and after is not None
        and "moving_variance" in (theirs := _named(after))
        and "kernel" not in theirs
    ):
        own = _folded(own, _affine(after, theirs))
    return {_WEIGHTS.get(name, name): values for name, values in own.items()}


def _takes_normalisation(layer: Any) -> bool:
    """Return whether hls4ml adds a normalisation behind the layer to its weights: with an activation it makes two layers."""
    return "kernel" in _named(layer) and activation_of(layer) in ("", "linear")


def _recurrent(layer: Any) -> dict[str, Numbers]:
    """The weights of one direction; a GRU's biases are two."""
    own = _named(layer)
    found = {"weight": own["kernel"], "recurrent_weight": own["recurrent_kernel"]}
    if "bias" in own and own["bias"].ndim > 1:
        return {**found, "bias": own["bias"][0], "recurrent_bias": own["bias"][1]}
    return {**found, **({"bias": own["bias"]} if "bias" in own else {})}


def _named(layer: Any) -> dict[str, Numbers]:
    return {weight.name.rsplit("/", 1)[-1].split(":")[0]: np.asarray(weight.numpy(), np.float64) for weight in layer.weights}


def _folded(own: Mapping[str, Numbers], affine: Mapping[str, Numbers]) -> dict[str, Numbers]:
    """The kernel and the bias of a layer, with a normalisation of its channels in them."""
    bias = np.asarray(own.get("bias", 0.0) * affine["scale"] + affine["bias"])
    return {"kernel": own["kernel"] * affine["scale"], "bias": bias}


def _affine(layer: Any, own: Mapping[str, Numbers]) -> dict[str, Numbers]:
    factor = own.get("gamma", 1.0) / np.sqrt(own["moving_variance"] + layer.epsilon)
    return {"scale": factor, "bias": own.get("beta", 0.0) - own["moving_mean"] * factor}


def _followed_by(model: Any, layer: Any) -> str:
    kind = type(only_reader(model, layer)).__name__
    return kind if kind in _FOLLOW else ""
