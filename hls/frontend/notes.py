# SPDX-License-Identifier: Apache-2.0
"""The report's notes: where hls4ml or the core does something other than the YAML asked for, a line each."""

from __future__ import annotations

import io
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from typing import Any

from hypersonic.hls.core_kind import CoreKind
from hypersonic.hls.frontend.softmax.faults import check_softmax
from hypersonic.hls.model_graph import input_precision, is_streamed, number_of, strategy_of
from hypersonic.hls.network.base import WeightsIn

#: log2 of the range of x that each table of nnet_activation.h covers
_SPANS = {"sigmoid": 4, "tanh": 3, "softplus": 4, "softsign": 4, "elu": 3, "selu": 3, "silu": 4, "gelu": 3, "hard_silu": 3}

#: hls4ml's classes whose weights can be in UltraRAM or in the card's memory
_WITH_MEMORIES = (
    "Dense",
    "EinsumDense",
    "Conv1D",
    "Conv2D",
    "Conv2DBatchnorm",
    "PointwiseConv1D",
    "PointwiseConv2D",
    "LSTM",
    "GRU",
    "Bidirectional",
)

#: texts in hls4ml's warnings that are dropped: they have a note of their own here, or are about hls4ml's own proposals
_SAID = (
    "Invalid ReuseFactor",
    "Invalid ParallelizationFactor",
    "Overriding attribute",
    "Final layer is a Reshape",
    "Unrolled resource",
)


def notes(graph: Any, options: Mapping[str, Any], core: CoreKind) -> tuple[str, ...]:
    """Return the report's notes on a ModelGraph.

    Args:
        options: the YAML's `hls4ml`.
        core: the kind of core that is built.

    Raises:
        UnsupportedLayerError: For a softmax whose probabilities would be wrong.
    """
    layers = {layer.name: layer for layer in graph.get_layers()}
    named = options.get("LayerName") or {}
    lines = [note for layer in layers.values() for note in _layer_notes(layer, core)]
    # hls4ml gives the settings of a separable convolution to both of its halves
    whole = [name for name in named if f"{name}_depthwise" not in layers]
    lines += [note for name in whole for note in _type_notes(name, layers.get(name), named[name] or {})]
    lines += [
        note for name, settings in named.items() for note in _parallel_notes(name, layers.get(name), settings or {}, core)
    ]
    lines += [note for name, settings in named.items() for note in _memory_notes(name, layers.get(name), settings or {}, core)]
    return (*lines, *(_unrolled_notes(options) if core is CoreKind.DA else ()))


@contextmanager
def hls4ml_warnings() -> Iterator[list[str]]:
    """Collect hls4ml's printed and issued warnings inside the context, as notes, in the list that it yields.

    Everything printed inside is printed when the context ends.
    """
    heard: list[str] = []
    with warnings.catch_warnings(record=True) as caught, redirect_stdout(io.StringIO()) as printed:
        warnings.simplefilter("always", UserWarning)
        try:
            yield heard
        finally:
            lines = [line for line in printed.getvalue().splitlines() if "WARNING" in line or "cannot" in line]
            lines += [str(warning.message) for warning in caught if "hls4ml" in warning.filename]
            distinct = dict.fromkeys(" ".join(line.split()) for line in lines if not any(word in line for word in _SAID))
            heard.extend(f"hls4ml says: {line.removeprefix('WARNING: ')}" for line in distinct)
    sys.stdout.write(printed.getvalue())


def _layer_notes(layer: Any, core: CoreKind) -> Iterator[str]:
    if layer.class_name == "Softmax":
        yield from check_softmax(layer)
    if layer.class_name in ("Activation", "ParametrizedActivation"):
        yield from _table_notes(layer)
    if not layer.get_attr("strategy"):
        return
    asked, taken = layer.model.config.get_reuse_factor(layer), layer.get_attr("reuse_factor")
    cycles = layer.get_attr("target_cycles")
    if cycles is not None:
        yield f"layer {layer.name!r}: TargetCycles is {cycles}, from which hls4ml derives a ReuseFactor of {taken}"
    elif asked != taken and core is not CoreKind.RF:  # the rf core has a note of its own
        yield f"layer {layer.name!r}: ReuseFactor is {asked}, hls4ml takes {taken}, the nearest that it supports"
    wanted = str(layer.model.config.get_strategy(layer))
    if wanted != strategy_of(layer):
        yield f"layer {layer.name!r}: Strategy is {wanted}, hls4ml takes {strategy_of(layer)}"


def _table_notes(layer: Any) -> Iterator[str]:
    """A note if x * entries / span, which the C++ computes in an int, can overflow."""
    span = _SPANS.get(str(layer.get_attr("activation")).lower())
    x = input_precision(layer)
    entries = number_of(layer, "table_size", 1024).bit_length() - 1
    if span is not None and x.integer - x.signed + entries > 31 + span:
        yield (
            f"layer {layer.name!r}: its input is {x}, and hls4ml reads the wrong entry of its table beyond "
            f"2**{31 + span - entries}: pin the result of the layer before it to fewer integer bits"
        )


def _type_notes(name: str, layer: Any, settings: Mapping[str, Any]) -> Iterator[str]:
    """Notes on types under Precision that the C++ does not use: a QKeras quantiser's type overrides them, and a layer that was
    fused into another has none."""
    precision = settings.get("Precision")
    types = {key: text for key, text in precision.items() if key != "result"} if isinstance(precision, dict) else {}
    if layer is None:
        if types and not settings.get("Skip"):
            yield (
                f"layer {name!r}: hls4ml makes it part of another layer, which has types of its own; unused: "
                f"{', '.join(f'{key}: {text}' for key, text in types.items())}"
            )
        return
    for key, text in types.items():
        kind = layer.get_attr(f"{key}_t")
        wanted = layer.model.config.backend.convert_precision_string(text)
        if kind is not None and str(text) != "auto" and str(kind.precision) != str(wanted):
            yield f"layer {name!r}: Precision.{key} is {text}, hls4ml takes {kind.precision}, a quantiser's or its own"


def _parallel_notes(name: str, layer: Any, settings: Mapping[str, Any], core: CoreKind) -> Iterator[str]:
    asked = settings.get("ParallelizationFactor")
    if asked in (None, 1):
        return
    request = f"layer {name!r}: ParallelizationFactor is {asked}"
    partitions = layer.get_attr("n_partitions") if layer is not None else None
    if layer is not None and core is CoreKind.RF and "Conv" in layer.class_name:
        if asked > (reuse := int(layer.get_attr("reuse_factor") or 1)):
            yield f"{request} with a ReuseFactor of {reuse}: the rf core computes at most one window per clock"
    elif layer is not None and (not partitions or is_streamed(layer)):
        yield f"{request}, which hls4ml uses only for convolutions in io_parallel: it has no effect"
    elif partitions and (taken := _pixels(layer) // int(partitions)) != asked:
        yield f"{request}, hls4ml takes {taken}, the nearest that divides its {_pixels(layer)} pixels"


def _memory_notes(name: str, layer: Any, settings: Mapping[str, Any], core: CoreKind) -> Iterator[str]:
    asked = settings.get("WeightsIn", WeightsIn.BRAM)
    if asked == WeightsIn.BRAM or core is CoreKind.CSIM:
        return
    if core is not CoreKind.RF:
        yield f"layer {name!r}: WeightsIn is {asked}: the {core} core has no weight memories, so it has no effect"
    elif layer is not None and layer.class_name not in _WITH_MEMORIES:
        yield (
            f"layer {name!r}: WeightsIn is {asked}, which applies to dense layers, convolutions, LSTM and GRU, not to "
            f"{layer.class_name}"
        )


def _pixels(layer: Any) -> int:
    return number_of(layer, "out_height", 1) * number_of(layer, "out_width", 1)


def _unrolled_notes(options: Mapping[str, Any]) -> Iterator[str]:
    """Notes on settings for sharing multipliers, which the da core ignores: it has adders of its own for every product."""
    places = {"hls4ml.Model": options.get("Model") or {}}
    places |= {f"layer {name!r}": settings or {} for name, settings in (options.get("LayerName") or {}).items()}
    for where, settings in places.items():
        asked = [f"ReuseFactor is {reuse}"] if (reuse := settings.get("ReuseFactor", 1)) != 1 else []
        wanted = str(settings.get("Strategy", ""))
        asked += [f"Strategy is {wanted}"] if wanted.lower().startswith("resource") else []
        if asked:
            yield f"{where}: {', '.join(asked)}: the da core unrolls every layer and does not use it"
