# SPDX-License-Identifier: Apache-2.0
"""Says in which layer a fixed-point network begins to differ from the trained one, and what may be done about it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from numpy import float32
from numpy.typing import NDArray

from hypersonic.hls.csim.trace import LayerTrace, NoTraceError, trace_layers
from hypersonic.hls.project import HlsProject
from hypersonic.reporting.closeness import FAR


def explain_difference(model_file: Path, project: HlsProject, rows: Sequence[NDArray[float32]]) -> list[str]:
    """Return lines about the layers, for a model that is far from the trained one; one line if the layers cannot be compared.

    rows: (rows, size) for each input, in the wire's units.
    """
    try:
        return describe_layers(trace_layers(model_file, project, rows))
    except NoTraceError as error:
        return [f"the layers cannot be compared: {error}"]


def describe_layers(layers: Sequence[LayerTrace]) -> list[str]:
    """Return a sentence that names the first layer beyond FAR, and a line for each layer in the order of computation."""
    width = max(len(layer.name) for layer in layers)
    kinds = max(len(layer.type) for layer in layers)
    lines = [
        f"  {layer.name:<{width}}  {layer.type:<{kinds}}  {_percent(layer.share):>8}  {layer.least:.4g} to {layer.greatest:.4g}"
        for layer in layers
    ]
    head = f"  {'layer':<{width}}  {'type of its result':<{kinds}}  {'off':>8}  trained model's results"
    first = next((layer for layer in layers if not layer.share <= FAR), None)
    if first is None:
        return ["no single layer is far from the trained model's: look at the output's own type", head, *lines]
    off = f"which is off by {_percent(first.share)} of its results' spread"
    return [f"the difference begins in {first.name!r} ({first.kind}), {off}: {_reason(first)}", head, *lines]


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %" if share < 100 else "> 9999 %"


def _reason(layer: LayerTrace) -> str:
    where = "input.precision" if layer.kind == "input" else f"hls4ml.LayerName.{layer.name}.Precision.result"
    if layer.outside:
        return (
            f"{_percent(layer.outside)} of the numbers, which run from {layer.least:.4g} to {layer.greatest:.4g}, are beyond "
            f"its type {layer.type}, from {layer.low:.4g} to {layer.high:.4g}; give it more integer bits in {where}"
        )
    step = layer.step
    if step > FAR * layer.spread:
        steps = f"its type {layer.type} has steps of {step:.3g}, the numbers spread by {layer.spread:.3g}"
        return f"{steps}; give it more bits in {where}"
    return (
        f"its type {layer.type} holds the numbers, so look at the types of its weights, of its sum (accum) and of its tables "
        f"under hls4ml.LayerName.{layer.name}"
    )
