# SPDX-License-Identifier: Apache-2.0
"""The sentence that names the layer in which a difference begins, from traces made by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hypersonic.hls.csim.explain import describe_layers
from hypersonic.hls.csim.layer_trace import LayerTrace
from hypersonic.hls.csim.trace import NoTraceError
from hypersonic.reporting import layers

GOOD = LayerTrace("dense", "Dense", "ap_fixed<16,6>", -3.0, 3.0, -32.0, 31.9, 0.0, 0.01, 1.0, 2.0**-10)
FIRST = replace(GOOD, name="x", kind="input")


@pytest.mark.parametrize(
    ("layer", "words"),
    [
        (
            replace(GOOD, greatest=500.0, outside=0.4, rms=9.0),
            "40 % of the numbers, which run from -3 to 500, are beyond its type ap_fixed<16,6>, from -32 to 31.9; write ap_f",
        ),
        (
            replace(GOOD, rms=0.2, step=0.5),
            "has steps of 0.5, the numbers spread by 1; write ap_fixed<13,6,AP_TRN,AP_WRAP> in hls4ml.L",
        ),
        (
            replace(GOOD, rms=0.2),
            "holds the numbers, so look at the types of its weights, of its sum (accum) and of its tables",
        ),
        (replace(GOOD, rms=0.2, kind="LayerNormalization"), "ends at a variance of 1, at one of 4 with TableRangePower2: -2"),
        (replace(FIRST, rms=0.2, outside=0.1), "write ap_fixed<16,6,AP_TRN,AP_WRAP> in input.precision"),
        (replace(GOOD, rms=1.0, spread=0.0, step=1.0), "which is off by > 9999 %"),
    ],
)
def test_the_first_layer_that_is_far_is_named_with_what_to_change(layer: LayerTrace, words: str) -> None:
    lines = describe_layers([FIRST, layer, replace(GOOD, name="after", rms=0.9, outside=0.9)])
    assert words in lines[0]
    assert lines[0].startswith("the difference begins in ")
    assert [line.split()[0] for line in lines[1:]] == ["layer", "x", layer.name, "after"]


def test_layers_that_cannot_be_compared_are_a_line_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object) -> None:
        raise NoTraceError("hls4ml's ONNX front end reads it")

    monkeypatch.setattr(layers, "trace_layers", refuse)
    nothing: Any = None
    assert layers.explain_difference(nothing, nothing, []) == [
        "the layers cannot be compared: hls4ml's ONNX front end reads it"
    ]


def test_layers_that_are_all_close_are_listed_without_blame() -> None:
    assert describe_layers([FIRST, GOOD])[0].startswith("no single layer is far")
