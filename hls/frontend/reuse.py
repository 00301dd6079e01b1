# SPDX-License-Identifier: Apache-2.0
"""The reuse factors and strategies that hls4ml's C++ supports.

Settings for the whole model are changed to the nearest supported ones; unsupported settings of a single layer are refused.

hls4ml 1.3.0 takes the nearest reuse factor that a Dense supports, even for a convolution in io_parallel, whose C++ supports
fewer. It loses its choice when it turns a layer into a pointwise convolution, as it does with a Dense over several dimensions.
For recurrent layers, Bidirectional included, it takes factors with which the C++ aborts the process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hypersonic.hls.errors import UnsupportedLayerError
from hypersonic.hls.model_graph import is_streamed, number_of, strategy_of

_DENSE = ("Dense", "Conv1D", "Conv2D", "Conv2DBatchnorm", "PointwiseConv1D", "PointwiseConv2D")
_DEPTHWISE = ("DepthwiseConv1D", "DepthwiseConv2D")

#: hls4ml's classes with a state, and their number of gates: products that a state takes part in
_GATES = {"LSTM": 4, "GRU": 3}
_RECURRENT = (*_GATES, "Bidirectional")

#: how many reuse factors a refusal lists
_LISTED = 12


def inputs_of(layer: Any) -> int:
    """Return the number of inputs of one product with the weight matrix: n_in, or a convolution's window times its channels."""
    if layer.class_name == "Dense":
        return number_of(layer, "n_in", 1)
    return number_of(layer, "filt_height", 1) * number_of(layer, "filt_width", 1) * number_of(layer, "n_chan", 1)


def possible_reuse(layer: Any) -> tuple[int, ...]:
    """Return the reuse factors with which the layer's C++ is correct, ascending; empty if all are, as with Strategy Latency."""
    own = strategy_of(layer)
    if not own.startswith("resource"):
        return ()
    if layer.class_name in _RECURRENT:
        return _products(number_of(layer, "n_in", 1), *(gates * states for _, gates, states in _states(layer)))
    if layer.class_name not in _DENSE:
        return ()
    n_in, n_out = inputs_of(layer), number_of(layer, "n_out" if layer.class_name == "Dense" else "n_filt", 1)
    possible = _products(n_in, n_out)
    if layer.class_name != "Dense" and not is_streamed(layer):
        # with others nnet_conv2d_resource.h reads past its buffers, and nnet_conv1d_resource.h aborts the process
        possible = tuple(factor for factor in possible if factor <= n_in)
    return possible[:-1] if own == "resource_unrolled" and possible[-1] == n_in * n_out else possible


def possible_settings(layer: Any) -> dict[str, Any]:
    """Return the values of the attributes by which a layer shares its multipliers: the nearest that its C++ supports.

    Empty if the layer's settings need no change. The keys are attribute names of hls4ml's layers.
    """
    own = strategy_of(layer)
    if layer.class_name in _DEPTHWISE and own.startswith("resource") and not is_streamed(layer):
        return {"strategy": "latency"}  # with Resource, nnet_sepconv1d.h and nnet_sepconv2d.h abort the process
    if not (possible := possible_reuse(layer)):
        return {}
    taken = _nearest(possible, number_of(layer, "reuse_factor", 1))
    return {"reuse_factor": taken, **(_recurrent(layer, taken) if layer.class_name in _RECURRENT else {})}


def _recurrent(layer: Any, taken: int) -> dict[str, int]:
    """The reuse factors of the products with the state.

    hls4ml has one C++ function for factors up to the number of inputs and one for larger factors, and it chooses by the factor
    of the other product.
    """
    settings = {}
    for direction, gates, states in _states(layer):
        possible = [factor for factor in _products(states, gates * states) if (factor <= states) == (taken <= states)]
        asked = number_of(layer, f"{direction}recurrent_reuse_factor", taken)
        settings[f"{direction}recurrent_reuse_factor"] = _nearest(possible, asked)
        if direction:
            settings[f"{direction}reuse_factor"] = taken
    return settings


def _states(layer: Any) -> list[tuple[str, int, int]]:
    """The directions of a recurrent layer: for each, the prefix of its attributes, its number of gates, and of states."""
    if layer.class_name != "Bidirectional":
        return [("", _GATES[layer.class_name], number_of(layer, "n_out", 1))]
    both = ("forward_", "backward_")
    return [(d, _GATES[str(layer.get_attr(f"{d}class_name")).upper()], number_of(layer, f"{d}n_states", 1)) for d in both]


def _products(n_in: int, *n_outs: int) -> tuple[int, ...]:
    """The reuse factors of a product of n_in numbers with matrices of n_outs columns.

    nnet_dense_resource.h asserts that a factor up to n_in divides n_in and that a larger one is a multiple of it. A factor must
    also divide the matrix's size.
    """
    multiples = set.intersection(*(set(_divisors(n_out)) for n_out in n_outs))
    return tuple(sorted({*_divisors(n_in), *(n_in * outputs for outputs in multiples)}))


def _nearest(possible: Sequence[int], asked: int) -> int:
    """The nearest factor, and of two that are equally near the smaller, as hls4ml chooses."""
    return min(possible, key=lambda factor: (abs(factor - asked), factor))


def check_own_settings(graph: Any, options: Mapping[str, Any]) -> None:
    """Refuse settings under LayerName that the layer's C++ does not support. (Settings under Model are adjusted, with a note.)

    Raises UnsupportedLayerError.

    Args:
        options: the YAML's `hls4ml`.
    """
    layers = {layer.name: layer for layer in graph.get_layers()}
    for name, settings in (options.get("LayerName") or {}).items():
        if (layer := layers.get(name)) is not None and layer.get_attr("strategy"):
            _check_reuse(layer, settings or {})
            _check_strategy(layer, settings or {})


def _check_reuse(layer: Any, settings: Mapping[str, Any]) -> None:
    asked, possible = settings.get("ReuseFactor"), possible_reuse(layer)
    if asked is None or not possible or asked in possible or layer.get_attr("target_cycles") is not None:
        return
    listed = sorted(sorted(possible, key=lambda factor: abs(factor - asked))[:_LISTED])
    raise UnsupportedLayerError(
        f"layer {layer.name!r} ({layer.class_name}): ReuseFactor is {asked} with Strategy {strategy_of(layer).capitalize()}, "
        f"which hls4ml's C++ does not support; take {', '.join(map(str, listed))}{' ...' * (len(listed) < len(possible))}"
    )


def _check_strategy(layer: Any, settings: Mapping[str, Any]) -> None:
    if str(settings.get("Strategy", "")).lower() == "resource" and strategy_of(layer) == "latency":
        raise UnsupportedLayerError(
            f"layer {layer.name!r} ({layer.class_name}): Strategy is Resource, with which hls4ml's C++ for io_parallel aborts "
            f"the process; write Strategy: Latency under hls4ml.LayerName.{layer.name}, or use IOType io_stream"
        )


def _divisors(size: int) -> list[int]:
    small = [factor for factor in range(1, int(size**0.5) + 1) if size % factor == 0]
    return [*small, *(size // factor for factor in small)]
