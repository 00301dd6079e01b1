# SPDX-License-Identifier: Apache-2.0
"""Says in which layer a fixed-point network begins to differ from the trained one, and which type to write there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil, floor, log2

from hypersonic.hls.closeness.difference import FAR, percent
from hypersonic.hls.csim.layer_trace import LayerTrace
from hypersonic.hls.fixed import FixedPoint

#: safety factor: numbers that did not occur may be larger than those that did
_ROOM = 1.25

#: a type with enough fraction bits has at least this many steps in the spread of the numbers
_STEPS = 100


def first_far(layers: Sequence[LayerTrace]) -> LayerTrace | None:
    """Return the first layer whose results are far from the trained model's; None if no single one is."""
    return next((layer for layer in layers if not layer.share <= FAR), None)


def describe_begin(layers: Sequence[LayerTrace]) -> str:
    """Return a sentence that names the first layer beyond FAR, why it is, and what to write."""
    first = first_far(layers)
    if first is None:
        return "no single layer is far from the trained model's: look at the output's own type"
    off = f"which is off by {percent(first.share)} of its results' spread"
    return f"the difference begins in {first.name!r} ({first.kind}), {off}: {_reason(first)}"


def describe_layers(layers: Sequence[LayerTrace]) -> list[str]:
    """Return the sentence of describe_begin, and a line for each layer in the order of computation."""
    width = max(len(layer.name) for layer in layers)
    kinds = max(len(layer.type) for layer in layers)
    lines = [
        f"  {layer.name:<{width}}  {layer.type:<{kinds}}  {percent(layer.share):>8}  {layer.least:.4g} to {layer.greatest:.4g}"
        for layer in layers
    ]
    head = f"  {'layer':<{width}}  {'type of its result':<{kinds}}  {'off':>8}  trained model's results"
    return [describe_begin(layers), head, *lines]


def _reason(layer: LayerTrace) -> str:
    where = "input.precision" if layer.kind == "input" else f"hls4ml.LayerName.{layer.name}.Precision.result"
    if layer.outside:
        return (
            f"{percent(layer.outside)} of the numbers, which run from {layer.least:.4g} to {layer.greatest:.4g}, are beyond "
            f"its type {layer.type}, from {layer.low:.4g} to {layer.high:.4g}; write {wide_type(layer)} in {where}"
        )
    if layer.step > FAR * layer.spread:
        steps = f"its type {layer.type} has steps of {layer.step:.3g}, the numbers spread by {layer.spread:.3g}"
        return f"{steps}; write {wide_type(layer)} in {where}"
    if layer.kind == "LayerNormalization":
        return (
            "its table of 1 / sqrt(variance) ends at a variance of 1, at one of 4 with TableRangePower2: -2, and its steps are "
            f"the same for all variances; write that, and a larger TableSize, under hls4ml.LayerName.{layer.name}"
        )
    return (
        f"its type {layer.type} holds the numbers, so look at the types of its weights, of its sum (accum) and of its tables "
        f"under hls4ml.LayerName.{layer.name}"
    )


def wide_type(layer: LayerTrace) -> str:
    """Return a type that holds a layer's results, with at least as many bits on either side of the point as its own has."""
    largest = max(abs(layer.least), abs(layer.greatest))
    is_signed = layer.low < 0 or layer.least < 0
    integer = max(ceil(log2(largest * _ROOM)) if largest else 0, ceil(log2(layer.high)) if layer.high > 0 else 0) + is_signed
    finest = layer.spread / _STEPS
    fraction = max(round(-log2(layer.step)), -floor(log2(finest)) if finest else 0)
    own = FixedPoint.parse(layer.type)
    return str(replace(own, width=integer + fraction, integer=integer, signed=is_signed))
