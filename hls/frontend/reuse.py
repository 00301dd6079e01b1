# SPDX-License-Identifier: Apache-2.0
"""Reuse factors and strategies that hls4ml's C++ can do: what it makes of the model's, and refusals of a layer's own.

hls4ml 1.3.0 takes the nearest reuse factor that a Dense can do, also for a convolution in io_parallel, whose C++ can do fewer.
It forgets what it took where it makes a pointwise convolution of a layer, and so of a Dense over several dimensions. Of a
recurrent layer, Bidirectional among them, it takes factors with which the C++ stops the process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hypersonic.hls.errors import UnsupportedLayerError
from hypersonic.hls.model_graph import is_streamed, number_of, strategy_of

_DENSE = ("Dense", "Conv1D", "Conv2D", "PointwiseConv1D", "PointwiseConv2D")
_DEPTHWISE = ("DepthwiseConv1D", "DepthwiseConv2D")

#: hls4ml's classes with a state, how many products a state takes part in
_GATES = {"LSTM": 4, "GRU": 3}
_RECURRENT = (*_GATES, "Bidirectional")

#: reuse factors that a refusal lists
_LISTED = 12


def inputs_of(layer: Any) -> int:
    """Numbers that one multiplication with the weights takes in."""
    if layer.class_name == "Dense":
        return number_of(layer, "n_in", 1)
    return number_of(layer, "filt_height", 1) * number_of(layer, "filt_width", 1) * number_of(layer, "n_chan", 1)


def possible_reuse(layer: Any) -> tuple[int, ...]:
    """Reuse factors with which the layer's C++ is right, in order; none where any is, as with Strategy Latency."""
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
        # with others nnet_conv2d_resource.h walks past its buffers, and nnet_conv1d_resource.h stops the process
        possible = tuple(factor for factor in possible if factor <= n_in)
    return possible[:-1] if own == "resource_unrolled" and possible[-1] == n_in * n_out else possible


def possible_settings(layer: Any) -> dict[str, Any]:
    """The attributes that say how a layer shares its multipliers: as they are, or the nearest that its C++ can do."""
    own = strategy_of(layer)
    if layer.class_name in _DEPTHWISE and own.startswith("resource") and not is_streamed(layer):
        return {"strategy": "latency"}  # nnet_sepconv1d.h, nnet_sepconv2d.h stop the process
    if not (possible := possible_reuse(layer)):
        return {}
    taken = _nearest(possible, number_of(layer, "reuse_factor", 1))
    return {"reuse_factor": taken, **(_recurrent(layer, taken) if layer.class_name in _RECURRENT else {})}


def _recurrent(layer: Any, taken: int) -> dict[str, int]:
    """Of the products with the state. hls4ml chooses their C++, for factors up to the inputs or above, by the factor of the
    other product."""
    settings = {}
    for direction, gates, states in _states(layer):
        possible = [factor for factor in _products(states, gates * states) if (factor <= states) == (taken <= states)]
        asked = number_of(layer, f"{direction}recurrent_reuse_factor", taken)
        settings[f"{direction}recurrent_reuse_factor"] = _nearest(possible, asked)
        if direction:
            settings[f"{direction}reuse_factor"] = taken
    return settings


def _states(layer: Any) -> list[tuple[str, int, int]]:
    """Each direction of a recurrent layer: what its attributes begin with, how many gates, how many states."""
    if layer.class_name != "Bidirectional":
        return [("", _GATES[layer.class_name], number_of(layer, "n_out", 1))]
    both = ("forward_", "backward_")
    return [(d, _GATES[str(layer.get_attr(f"{d}class_name")).upper()], number_of(layer, f"{d}n_states", 1)) for d in both]


def _products(n_in: int, *n_outs: int) -> tuple[int, ...]:
    """Factors of a product of n_in numbers with matrices of so many columns: nnet_dense_resource.h asserts that one up to n_in
    divides it, and that another is a multiple of it; and it has to divide the matrix."""
    multiples = set.intersection(*(set(_divisors(n_out)) for n_out in n_outs))
    return tuple(sorted({*_divisors(n_in), *(n_in * outputs for outputs in multiples)}))


def _nearest(possible: Sequence[int], asked: int) -> int:
    """As hls4ml chooses: the smaller of two that are equally near."""
    return min(possible, key=lambda factor: (abs(factor - asked), factor))


def check_own_settings(graph: Any, options: Mapping[str, Any]) -> None:
    """Refuse what the YAML says of one layer by name and the C++ cannot do; the model's words are adjusted with a note.

    options: the YAML's hls4ml. Raises UnsupportedLayerError.
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
        f"which hls4ml's C++ cannot do; take {', '.join(map(str, listed))}{' ...' * (len(listed) < len(possible))}"
    )


def _check_strategy(layer: Any, settings: Mapping[str, Any]) -> None:
    if str(settings.get("Strategy", "")).lower() == "resource" and strategy_of(layer) == "latency":
        raise UnsupportedLayerError(
            f"layer {layer.name!r} ({layer.class_name}): Strategy is Resource, at which hls4ml's C++ for io_parallel stops the "
            f"process; write Strategy: Latency under hls4ml.LayerName.{layer.name}, or use IOType io_stream"
        )


def _divisors(size: int) -> list[int]:
    small = [factor for factor in range(1, int(size**0.5) + 1) if size % factor == 0]
    return [*small, *(size // factor for factor in small)]
