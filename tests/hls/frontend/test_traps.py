# SPDX-License-Identifier: Apache-2.0
"""Models that hls4ml silently changes or computes wrongly are refused by name, or are noted in the report."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hypersonic.hls.csim.compiled import Csim, compile_csim
from hypersonic.hls.errors import UnsupportedLayerError
from hypersonic.hls.fixed import FixedPoint
from hypersonic.hls.frontend.onnx import model as onnx_model
from hypersonic.hls.frontend.traps import check_graph
from hypersonic.hls.project import HlsProject
from hypersonic.hls.row import Row
from hypersonic.hls.spec import TensorSpec
from tests.support.session import run_keras_2

HERE = Path(__file__).resolve().parent

Said = dict[str, list[str]]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    written = tmp_path_factory.mktemp("traps")
    run_keras_2(HERE / "traps_session.py", written)
    return written


@pytest.fixture(scope="module")
def lines(directory: Path) -> Said:
    return dict(json.loads((directory / "said.json").read_text()))


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("auto", r"hls4ml's automatic precision of layer 'd.*', .* write inp_norm_t: 'ap_ufixed<14,4,AP_RND,AP_SAT>'"),
        ("wraps", r"layer 's': its input is ap_fixed<16,6,.*>, whose numbers can be 63.999 apart: .* wraps beyond 31.999"),
        ("norm_wraps", r"from the greatest in ap_ufixed<14,4,AP_TRN,AP_WRAP>, which wraps beyond 15.999"),
        ("exact_but_own", r"from the greatest in ap_ufixed<14,4,AP_TRN,AP_WRAP>, which wraps beyond 15.999"),
        ("exact_misspelt", r"hls4ml.Model.softmax is 'Exactly', expected 'exact', or leave it out"),
        ("coarse", r"its table has 16 entries, one every 1: all classes would come out equal"),
        ("exp_wraps", r"exp_table_t is ap_ufixed<18,0,AP_TRN,AP_WRAP>, in which exp\(0\) becomes 0"),
        ("inverse_wraps", r"its probabilities can be 100 % off"),
        ("sum_wraps", r"inv_inp_t is ap_ufixed<20,2,.*>, up to 4, .* 5 exponentials goes up to 5: .* 'ap_ufixed<20,3>'"),
        ("accum_saturates", r"accum is .*, up to 127.999, .* 300 exponentials goes up to 300: .* accum: 'ap_ufixed<26,9>'"),
        ("no_one", r"its result is ap_ufixed<16,0,.*>, in which a probability of 1 becomes 0; give it AP_SAT"),
        ("table_size", r"its exp table has 1000 entries, .* the C\+\+ reads outside it; set TableSize to a power of two"),
        (
            "beside_precision",
            r"LayerName.s.Precision.exp_table: hls4ml does not read exp_table there; write exp_table_t: '.*' beside",
        ),
        ("latency_saturates", r"Implementation is latency and exp_table_t .*: numbers above 4.85 come out equal"),
        ("legacy", r"Implementation is legacy, whose table wraps .*; expected stable, latency, argmax"),
        ("batch", r"layer 's': a Softmax over the axes \[0\] together, and hls4ml takes one of a row"),
        (
            "layer",
            r"layer 's': a Softmax over the axes \[1, 2\] together, and hls4ml takes one of a row; reshape them to one axis",
        ),
        (
            "key",
            r"LayerName.d: hls4ml does not read 'Reusefactor' there and would ignore it, did you mean ReuseFactor; it reads",
        ),
        ("small_attribute", r"LayerName.d: hls4ml does not read 'reuse_factor' there .* did you mean ReuseFactor"),
        ("small_key", r"hls4ml does not read 'precision' there and would ignore it, did you mean Precision"),
        (
            "variable",
            r"LayerName.d.Precision: hls4ml does not read 'weights' .* did you mean weight; it reads accum, bias, default, res",
        ),
        (
            "activation_weight",
            r"LayerName.s.Precision: hls4ml does not read 'weight' there .*; it reads accum, default, result$",
        ),
        ("type", r"LayerName.d.Precision.weight is 'ap_fixed<8;4>', expected a type of hls4ml's"),
        ("mode", r"LayerName.d.Precision.result is 'ap_fixed<8,4,AP_ROUND>', expected a type"),
        ("weights_in_hbm", r"LayerName.d.WeightsIn is 'HBM', expected BRAM, URAM, DRAM, LOADED"),
        ("strategy", r"LayerName.d.Strategy is 'Resorce', which hls4ml treats as Latency; expected Latency"),
        ("zero", r"LayerName.d.ReuseFactor is 0, expected an integer, 1 or more"),
        ("text", r"Model.ReuseFactor is '4', expected an integer"),
        ("model_key", r"hls4ml.Model: hls4ml does not read 'Reuse' there .* did you mean ReuseFactor"),
        ("bram", r"Model.BramFactor is 10, with which hls4ml makes weights an input of the kernel; leave it out"),
        ("layer_type", r"hls4ml.LayerType names Dense: .* it has no effect; set Model for all layers, or LayerName for each"),
        (
            "table",
            r"LayerName.t.Precision.table: hls4ml does not read table there; write table_t: 'ap_fixed<9,2>' beside Precision",
        ),
        ("slope", r"LayerName.t.Precision.slope: hls4ml 1.3.0 sets this type itself"),
        (
            "rf_wide_accum",
            r"layer 'd': an accumulator of 140 bits in its rf_mac, expected up to 128; give the layer, or the one",
        ),
        (
            "rf_wide_table",
            r"layer 't' .*: its input is ap_fixed<63,32,.*>, whose index of 1024 entries does not fit the C\+\+'s int",
        ),
        ("da_wide_weight", r"layer 'd': weight: .* width is 70, expected 1 to 62; give it fewer bits"),
        (
            "too_wide",
            r"layer 'd' \(Dense\): accum is fixed<1100,20,.*, 1100 bits, and ap_fixed has at most 1024; give it a narrower",
        ),
        ("activation_of_powers", r"layer 'd': QKeras' quantized_relu_po2 rounds its numbers to powers of two, .*; use qua"),
        ("powers_behind", r"layer 'd': QKeras' quantized_relu_po2 rounds its numbers to powers of two"),
        (
            "wide_output",
            r"the output 'e' is ap_fixed<70,30,.*>, 70 bits, expected up to 62, .*: output\.precision in the model's YAML, or",
        ),
        ("wide_input", r"the input 'x' is ap_fixed<70,30,.*>, 70 bits, expected up to 62, .*: input\.precision in the model's"),
        ("depthwise_reuse", r"hls4ml does not read 'DepthwiseReuseFactor' there .* did you mean ReuseFactor"),
        ("conv_reuse", r"layer 'c' \(Conv2D\): ReuseFactor is 36 with Strategy Resource, which .*; take 1, 2, 3, 6, 9, 18$"),
        ("reuse_rounded", r"layer 'd' \(Dense\): ReuseFactor is 7 with .*; take 1, 2, 3, 6, 12, 24, 48$"),
        ("pointwise_reuse", r"layer 'c' \(PointwiseConv1D\): ReuseFactor is 4 with Strategy Resource, .*; take 1, 3$"),
        ("lstm_reuse", r"layer 'c' \(LSTM\): ReuseFactor is 5 with Strategy Resource, .*; take 1, 3, 6, 12, 24, 48$"),
        (
            "hard_gates",
            r"layer 'c' \(LSTM\): its recurrent_activation is hard_sigmoid, for which hls4ml has no C\+\+ there; it has",
        ),
        (
            "quantised_gates",
            r"layer 'c': its activation is QKeras' quantized_tanh, for which hls4ml has no C\+\+ in a recurrent layer; use",
        ),
        ("reset_before", r"layer 'c' \(GRU\): reset_after is False, which hls4ml's C\+\+ ignores; expected True"),
        (
            "reset_before_both",
            r"layer 'c' \(Bidirectional\): reset_after is False, which hls4ml's C\+\+ ignores; expected True",
        ),
        (
            "stride_stream",
            r"its kernel has height 1 and a vertical stride of 2, which hls4ml's io_stream ignores; use",
        ),
        (
            "depthwise_resource",
            r"Strategy is Resource, with which hls4ml's C\+\+ for io_parallel aborts the process; write Strategy: La",
        ),
        (
            "depthwise_both",
            r"layer 'c' \(DepthwiseConv1D\): layer 'depthwise_conv2d' is a DepthwiseConv2D, .* does not compile",
        ),
        ("depth_multiplier", r"its depth multiplier is 2, with which hls4ml's C\+\+ aborts the process; expected 1"),
        ("pool_stream", r"pool \(3, 3\), stride \(2, 2\), padding \[0, 0, 0, 0\] .* in io_stream, .* use IOType io_parallel"),
        ("pool_padded_stream", r"pool \(4, 4\), stride \(4, 4\), padding \[1, 1, 1, 1\]"),
        ("dilation", r"layer 'c': SeparableConv2D with dilation_rate=\(2, 2\), which hls4ml ignores; expected 1"),
        ("groups", r"layer 'c': Conv2D with groups=2, which hls4ml ignores"),
        ("bilinear", r"layer 'c': UpSampling2D with interpolation=bilinear, which hls4ml ignores; expected nearest"),
        ("mish", r"layer 'c' \(Activation\): hls4ml has no C\+\+ for the activation mish; it has binary_tanh, elu"),
        ("axis", r"layer 'c': BatchNormalization with axis=\[1\], and hls4ml takes the last; permute the axes"),
        ("mask", r"layer 'c': Embedding with mask_zero=True, which hls4ml ignores"),
        ("backwards", r"layer 'c': LSTM with go_backwards=True, which hls4ml ignores"),
        ("bidirectional", r"layer 'c': Bidirectional with merge_mode=sum, which hls4ml ignores; expected concat"),
        (
            "unknown",
            r"layer 'c': hls4ml's Keras front end has no UnitNormalization; build it from layers .* onnxruntime backend",
        ),
        ("norm_of_numbers", r"layer 'c' \(LayerNormalization\): hls4ml does not read it: .* only three-dimensional input"),
        ("norm_table", r"its TableRangePower2 is -4, a range of 16, with a table of 1000; expected a power of two, 16 or more"),
        ("norm_power", r"hls4ml.LayerName.c.TableRangePower2 is 'two', expected an integer from -14 to 20"),
        ("slopes", r"layer 'c': PReLU with shared_axes=\[1\], which hls4ml does not read"),
        (
            "dynamic",
            r"input 'x': shape is \(batch, None, 3\), expected at least one dimension after the batch, each of them a number",
        ),
        ("scalar", r"input 'x': shape is \(batch\), expected at least one dimension after the batch, each of them a number"),
        ("cropping", r"layer 'c': hls4ml's Keras front end has no Cropping3D"),
    ],
)
def test_what_hls4ml_does_wrongly_without_a_word_is_refused_by_name(lines: Said, case: str, message: str) -> None:
    assert re.search(message, lines[case][0]), lines[case]
    assert "Error: " in lines[case][0]


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("fine", ""),
        ("exact", ""),
        ("exact_many", ""),
        ("auto_with_norm", ""),
        ("image_stream", ""),
        (
            "rough",
            r"layer 's': its probabilities can be 25 % off: .* an entry every 0.25, for sums from 1 to 5; write inv_inp_t",
        ),
        (
            "latency",
            r"layer 's': Implementation is latency, correct only if the exponentials of its 5 numbers sum to 1 or more",
        ),
        ("model_reuse_rounded", r"layer 'd': ReuseFactor is 7, hls4ml takes 6, the nearest that it supports"),
        ("reuse_rf", ""),
        ("depthwise_model", r"layer 'c': Strategy is resource, hls4ml takes latency"),
        ("target_cycles", r"layer 'd': TargetCycles is 90, from which hls4ml derives a ReuseFactor of 6"),
        ("unrolled", r"layer 'd': Strategy is resource_unrolled, hls4ml takes resource"),
        ("unrolled_rf", r"hls4ml says: .ResourceUnrolled. strategy in .d. \(Dense\) may have unexpected II"),
        ("da_reuse", r"layer 'd': ReuseFactor is 4: the da core unrolls every layer and does not use it"),
        ("quantiser", r"layer 'd': Precision.weight is ap_fixed<16,6>, hls4ml takes fixed<6,2,TRN,WRAP,0>, a quantiser's"),
        ("fused", r"layer 'bn': hls4ml makes it part of another layer, .* unused: scale: ap_fixed<16,6>"),
        (
            "parallel_dense",
            r"layer 'd': ParallelizationFactor is 2, which hls4ml uses only for convolutions .*: it has no effect",
        ),
        ("parallel_conv", r"layer 'c': ParallelizationFactor is 4, hls4ml takes 3, the nearest that divides its 9 pixels"),
        (
            "parallel_rf",
            r"layer 'c': ParallelizationFactor is 3 with a ReuseFactor of 1: the rf core computes at most one window per clock",
        ),
        ("parallel_rf_taken", ""),
        ("weights_in", ""),
        ("weights_in_da", r"layer 'd': WeightsIn is URAM: the da core has no weight memories, so it has no effect"),
        (
            "weights_in_depthwise",
            r"layer 'c': WeightsIn is URAM, which applies to dense layers, convolutions, LSTM and GRU, .* DepthwiseConv2D",
        ),
        ("parallel_stream", r"layer 'c': ParallelizationFactor is 3, .*: it has no effect"),
        (
            "wide_curve",
            r"layer 'c': its input is ap_fixed<40,32,.*>, and hls4ml reads the wrong entry of its table beyond 2\*\*25",
        ),
        ("separable", ""),
        ("conv_reuse_divides", ""),
        ("conv_reuse_stream", ""),
        ("pool_parallel", ""),
        ("lstm", ""),
        ("curves", ""),
        ("powers_of_two", ""),
        ("powers_of_two_rf", ""),
    ],
)
def test_what_was_asked_and_not_taken_is_in_the_notes(lines: Said, case: str, expected: str) -> None:
    notes = [line for line in lines[case] if not line.startswith("took ")]
    assert len(notes) == bool(expected), notes
    assert not expected or re.search(expected, notes[0]), notes


def test_the_models_settings_reach_every_layer_that_the_yaml_says_nothing_else_of(lines: Said) -> None:
    took = {case: [line.split(": ", 1)[1] for line in lines[case]] for case in ("model_reuse", "model_precision")}
    assert [line.split(",")[0] for line in took["model_reuse"]] == ["reuse 12", "reuse 4"]
    assert [line.split("weight ")[1][:9] for line in took["model_precision"]] == ["fixed<7,2", "fixed<9,3"]


def test_a_factor_of_the_model_is_adjusted_in_the_plugin_too(lines: Said) -> None:
    assert lines["plugin_reuse"] == ["3", "4"]


def test_windows_side_by_side_and_places_of_weights_are_what_the_plan_has(lines: Said) -> None:
    assert lines["parallel_rf_taken"] == ["took c: 9 multipliers, weights in BRAM"]  # 18 x 3 of a window, 18 / 3 clocks
    assert [line.rsplit(" ", 1)[1] for line in lines["weights_in"]] == ["DRAM", "URAM"]


def test_the_cpp_is_as_wrong_as_said_and_right_with_the_types_of_the_advice(directory: Path, lines: Said) -> None:
    own, fine = lines["two_softmaxes"]
    assert re.search(r"wraps beyond 31.9844: an unlikely class comes out likely", own)
    assert fine == ""
    x_type, y_type = FixedPoint.parse("ap_fixed<12,6>"), FixedPoint.parse("ap_ufixed<16,0,AP_RND,AP_SAT>")
    rows = Row((TensorSpec("x", (5,), x_type),)), Row(tuple(TensorSpec(name, (5,), y_type) for name in ("own", "fine")))
    project = HlsProject(directory / "two_softmaxes", "trap", *rows, "xcu250-figd2104-2L-e", {})
    x = np.random.default_rng(0).integers(-2048, 2048, (4000, 5))
    x[2000:] >>= 3
    csim = Csim(compile_csim(project, optimisation="-O0"), project)
    y = csim.predict_raw(x).reshape(-1, 2, 5) / 2.0**16
    exact = np.exp(x / 64 - (x / 64).max(axis=1, keepdims=True))
    exact /= exact.sum(axis=1, keepdims=True)
    off = np.abs(y - exact[:, None]).max(axis=2)
    far = (x.max(axis=1) - x.min(axis=1)) >= 2048
    assert off[far, 0].max() > 0.5  # an unlikely class comes out likely
    assert 0.05 < off[~far, 0].max() < 0.25  # of the reciprocal's steps, as the note says
    assert off[:, 1].max() < 0.02


@pytest.mark.parametrize(
    ("kind", "attribute", "message"),
    [
        (
            "Resize",
            {"name": "mode", "s": b"linear"},
            r"layer 'n': Resize with mode linear, which hls4ml ignores; expected nearest",
        ),
        ("Conv", {"name": "auto_pad", "s": b"SAME_UPPER"}, r"Conv with auto_pad SAME_UPPER, which hls4ml ignores"),
        ("Conv", {"name": "dilations", "ints": [2, 2]}, r"Conv with dilations \(2, 2\), which hls4ml ignores"),
        ("MaxPool", {"name": "ceil_mode", "i": 1}, r"MaxPool with ceil_mode 1, which hls4ml ignores; expected 0"),
    ],
)
def test_an_onnx_attribute_that_hls4ml_ignores_is_refused(kind: str, attribute: dict[str, Any], message: str) -> None:
    empty = {"s": b"", "ints": (), "i": 0}
    harmless = [
        SimpleNamespace(**{**empty, "name": "dilations", "ints": [1, 1]}),
        SimpleNamespace(**{**empty, "name": "ceil_mode"}),
    ]
    onnx_model._check_attributes(SimpleNamespace(name="n", op_type=kind, attribute=harmless))
    node = SimpleNamespace(name="n", op_type=kind, attribute=[*harmless, SimpleNamespace(**{**empty, **attribute})])
    with pytest.raises(UnsupportedLayerError, match=message):
        onnx_model._check_attributes(node)


@pytest.mark.parametrize(
    ("kind", "attributes", "message"),
    [
        (
            "Dense",
            {"n_in": 3, "reuse_factor": 4, "strategy": "Resource"},
            r"ReuseFactor is 4 .* n_in 3, .* up to 3 or a multiple",
        ),
        ("Conv", {}, r"layer 'l' \(Conv\): hls4ml has no C\+\+ for it; build it from other layers"),
        ("Conv2D", {"dilation_height": 2}, r"dilation is 2, which hls4ml's C\+\+ ignores"),
        ("Conv2D", {"data_format": "channels_first"}, r"data_format is channels_first, for which hls4ml has no C\+\+"),
        ("Resize", {"algorithm": "bilinear"}, r"it resizes by bilinear, for which hls4ml has no C\+\+; expected nearest"),
    ],
)
def test_a_layer_that_hls4ml_has_no_cpp_for_is_refused(kind: str, attributes: dict[str, Any], message: str) -> None:
    held = {**attributes, "function_cpp": None if kind == "Conv" else "nnet::f();"}
    config = SimpleNamespace(get_config_value=lambda _: "io_parallel")
    layer = SimpleNamespace(name="l", class_name=kind, get_attr=held.get, types={}, model=SimpleNamespace(config=config))
    with pytest.raises(UnsupportedLayerError, match=message):
        check_graph(SimpleNamespace(get_layers=lambda: [layer]))


def test_weights_that_are_powers_of_two_have_the_fixed_point_type_that_holds_them(lines: Said) -> None:
    """2 and -2**-4: 6 bits and a sign."""
    assert "took d: reuse 1, weight fixed<7,3,TRN,WRAP,0>" in lines["powers_of_two"]
