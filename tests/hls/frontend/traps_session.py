# SPDX-License-Identifier: Apache-2.0
"""Models that hls4ml converts wrongly without a message, in one process: python tests/hls/frontend/traps_session.py DIR

Writes DIR/said.json: what each case was refused with, or its notes, a line each.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hypersonic.hls.core_kind import CoreKind
from hypersonic.hls.da.lower import read_da_network
from hypersonic.hls.errors import ConversionError
from hypersonic.hls.frontend.keras.model import keras_model, use_keras_2
from hypersonic.hls.frontend.notes import hls4ml_warnings, notes
from hypersonic.hls.frontend.reuse import check_own_settings
from hypersonic.hls.frontend.settings import check_settings, spread_model_settings
from hypersonic.hls.frontend.softmax.faults import check_softmax
from hypersonic.hls.frontend.traps import check_graph
from hypersonic.hls.model_graph import tensor_types
from hypersonic.hls.rf.plan import plan
from hypersonic.hls.rf.read import read_rf_network
from hypersonic.hls.rf.stage import Pipeline

Layers = Any
Make = Callable[[Any], list[Any]]


class Case(NamedTuple):
    """layers: behind the input. names, model, types: the YAML's LayerName, Model and LayerType."""

    layers: Make
    names: dict[str, Any] = {}
    model: dict[str, Any] = {}
    shape: tuple[Any, ...] = (6,)
    io_type: str = "io_parallel"
    core: str = "csim"
    types: dict[str, Any] = {}


def result(text: str) -> dict[str, Any]:
    return {"Precision": {"result": text}}


def mlp(keras: Any) -> list[Any]:
    return [keras.layers.Dense(8, name="d"), keras.layers.Dense(5, name="e")]


def soft(keras: Any) -> list[Any]:
    return [keras.layers.Dense(5, name="d"), keras.layers.Activation("softmax", name="s")]


def many(keras: Any) -> list[Any]:
    return [keras.layers.Dense(300, name="d"), keras.layers.Activation("softmax", name="s")]


def logits(text: str) -> dict[str, Any]:
    """A type for the dense layer in front of a softmax, as hls/convert.py pins it."""
    return {"x": result("ap_fixed<8,4>"), "d": result(text), "d_linear": result(text)}


LOGITS = logits("ap_fixed<16,6,AP_RND,AP_SAT>")
NORM = "ap_ufixed<14,4,AP_RND,AP_SAT>"
#: types of 5 classes with small errors, as docs/hls4ml-traps.md has them
DOCUMENTED = {"accum": "ap_ufixed<20,3>", "result": "ap_ufixed<16,0,AP_RND,AP_SAT>"}
FINE = {"inp_norm_t": NORM, "inv_inp_t": "ap_ufixed<20,3>", "inv_table_t": "ap_ufixed<18,1,AP_RND,AP_SAT>"}


def softmax_cases() -> dict[str, Case]:
    def s(**settings: Any) -> dict[str, Any]:
        return {**LOGITS, "s": settings}

    return {
        "auto": Case(soft, {"x": result("ap_fixed<8,4>")}),
        "auto_with_norm": Case(soft, {"s": {**FINE, "Precision": DOCUMENTED}}),
        "wraps": Case(soft, LOGITS),
        "norm_wraps": Case(soft, s(inp_norm_t="ap_ufixed<14,4>")),
        "coarse": Case(soft, s(inp_norm_t=NORM, TableSize=16)),
        "rough": Case(soft, s(inp_norm_t=NORM)),
        "fine": Case(soft, s(**FINE, table_size=1024)),
        "exp_wraps": Case(soft, s(**FINE, exp_table_t="ap_ufixed<18,0>")),
        "inverse_wraps": Case(soft, s(inp_norm_t=NORM, inv_inp_t="ap_ufixed<20,3>", inv_table_t="ap_ufixed<18,0>")),
        "sum_wraps": Case(soft, s(**{**FINE, "inv_inp_t": "ap_ufixed<20,2>"})),
        "accum_saturates": Case(many, s(inp_norm_t=NORM)),
        "no_one": Case(soft, s(**FINE, Precision={"result": "ap_ufixed<16,0>"})),
        "table_size": Case(soft, s(**FINE, exp_table_size=1000)),
        "beside_precision": Case(soft, s(Precision={"exp_table": "ap_ufixed<18,1>"})),
        "latency_saturates": Case(soft, s(Implementation="latency")),
        "latency": Case(
            soft,
            {
                **logits("ap_fixed<10,2,AP_RND,AP_SAT>"),
                "s": {
                    "Implementation": "latency",
                    "Precision": {"accum": "ap_ufixed<22,6>"},
                    "inv_inp_t": "ap_ufixed<22,6>",
                    "inv_table_t": "ap_ufixed<18,1,AP_RND,AP_SAT>",
                },
            },
        ),
        "exact": Case(soft, {"x": result("ap_fixed<8,4>")}, {"softmax": "exact"}),
        "exact_many": Case(many, LOGITS, {"softmax": "exact"}),
        "exact_but_own": Case(soft, s(inp_norm_t="ap_ufixed<14,4>"), {"softmax": "exact"}),
        "exact_misspelt": Case(soft, LOGITS, {"softmax": "Exactly"}),
        "legacy": Case(soft, s(Implementation="legacy")),
        "layer": Case(lambda keras: [keras.layers.Softmax([1, 2], name="s")], shape=(4, 3)),
        "batch": Case(lambda keras: [keras.layers.Softmax(0, name="s")], shape=(4, 3)),
        "image_stream": Case(
            lambda keras: [keras.layers.Activation("softmax", name="s")], {"s": FINE}, shape=(4, 3), io_type="io_stream"
        ),
    }


def setting_cases() -> dict[str, Case]:
    return {
        "reuse_rounded": Case(mlp, {"d": {"Strategy": "Resource", "ReuseFactor": 7}}),
        "model_reuse": Case(mlp, {"e": {"ReuseFactor": 4}}, {"Strategy": "Resource", "ReuseFactor": 12}),
        "model_reuse_rounded": Case(mlp, {"e": {"ReuseFactor": 4}}, {"Strategy": "Resource", "ReuseFactor": 7}),
        "reuse_rf": Case(mlp, {"d": {"Strategy": "Resource", "ReuseFactor": 16}}, core="rf"),
        "model_precision": Case(
            mlp, {"e": {"Precision": {"weight": "ap_fixed<9,3>"}}}, {"Precision": {"weight": "ap_fixed<7,2>"}}
        ),
        "target_cycles": Case(mlp, {"d": {"Strategy": "Resource", "TargetCycles": 90}}),
        "unrolled": Case(mlp, {"d": {"Strategy": "ResourceUnrolled"}}),
        "unrolled_rf": Case(mlp, {"d": {"Strategy": "ResourceUnrolled", "ReuseFactor": 3}}, core="rf"),
        "da_reuse": Case(mlp, {"d": {"ReuseFactor": 4}}, core="da"),
        "key": Case(mlp, {"d": {"Reusefactor": 4}}),
        "small_attribute": Case(mlp, {"d": {"reuse_factor": 4}}),
        "small_key": Case(mlp, {"d": {"precision": {"result": "ap_fixed<8,4>"}}}),
        "variable": Case(mlp, {"d": {"Precision": {"weights": "ap_fixed<8,4>"}}}),
        "activation_weight": Case(soft, {"s": {"Precision": {"weight": "ap_fixed<8,4>"}}}),
        "type": Case(mlp, {"d": {"Precision": {"weight": "ap_fixed<8;4>"}}}),
        "mode": Case(mlp, {"d": result("ap_fixed<8,4,AP_ROUND>")}),
        "strategy": Case(mlp, {"d": {"Strategy": "Resorce"}}),
        "zero": Case(mlp, {"d": {"ReuseFactor": 0}}),
        "text": Case(mlp, model={"ReuseFactor": "4"}),
        "model_key": Case(mlp, model={"Reuse": 4}),
        "layer_type": Case(mlp, types={"Dense": {"ReuseFactor": 4}}),
        "bram": Case(mlp, model={"BramFactor": 10}),
        "table": Case(
            lambda keras: [keras.layers.Activation("tanh", name="t")], {"t": {"Precision": {"table": "ap_fixed<9,2>"}}}
        ),
        "slope": Case(
            lambda keras: [keras.layers.Activation("hard_sigmoid", name="t")], {"t": {"Precision": {"slope": "ap_fixed<9,2>"}}}
        ),
        "rf_wide_accum": Case(mlp, {"d": {"Precision": {"accum": "ap_fixed<140,20>"}}}, core="rf"),
        "rf_wide_table": Case(
            lambda keras: [keras.layers.ELU(name="t")], {"x": result("ap_fixed<63,32>"), "t": {"TableSize": 1024}}, core="rf"
        ),
        "da_wide_weight": Case(mlp, {"d": {"Precision": {"weight": "ap_fixed<70,4>"}}}, core="da"),
        "too_wide": Case(mlp, {"d": {"Precision": {"accum": "ap_fixed<1100,20>"}}}),
        "quantiser": Case(_quantised, {"d": {"Precision": {"weight": "ap_fixed<16,6>"}}}),
        "powers_of_two": Case(_powers, core="da"),
        "powers_of_two_rf": Case(_powers, model={"Strategy": "Resource"}, core="rf"),
        "activation_of_powers": Case(lambda keras: _rounding_to_powers("QActivation")),
        "powers_behind": Case(lambda keras: _rounding_to_powers("QDense")),
        "wide_output": Case(mlp, {"e": result("ap_fixed<70,30>"), "e_linear": result("ap_fixed<70,30>")}, core="edges"),
        "wide_input": Case(mlp, {"x": result("ap_fixed<70,30>")}, core="edges"),
        "fused": Case(_normalised, {"bn": {"Precision": {"scale": "ap_fixed<16,6>"}}}),
        "parallel_dense": Case(mlp, {"d": {"ParallelizationFactor": 2}}),
        "parallel_conv": Case(_convolution, {"c": {"ParallelizationFactor": 4}}, shape=(5, 5, 2)),
        "parallel_rf": Case(_convolution, {"c": {"ParallelizationFactor": 3}}, shape=(5, 5, 2), core="rf"),
        "parallel_stream": Case(_convolution, {"c": {"ParallelizationFactor": 3}}, shape=(5, 5, 2), io_type="io_stream"),
        "parallel_rf_taken": Case(
            _convolution,
            {"c": {"ParallelizationFactor": 3, "ReuseFactor": 18, "Strategy": "Resource"}},
            shape=(5, 5, 2),
            io_type="io_stream",
            core="rf",
        ),
        "weights_in": Case(mlp, {"d": {"WeightsIn": "DRAM"}}, {"WeightsIn": "URAM"}, core="rf"),
        "weights_in_da": Case(mlp, {"d": {"WeightsIn": "URAM"}}, core="da"),
        "weights_in_depthwise": Case(_depthwise, {"c": {"WeightsIn": "URAM"}}, shape=(5, 5, 2), core="rf"),
        "weights_in_hbm": Case(mlp, {"d": {"WeightsIn": "HBM"}}, core="rf"),
        "depthwise_reuse": Case(_separable, {"c": {"DepthwiseReuseFactor": 2}}, shape=(5, 5, 2)),
        "separable": Case(_separable, {"c": {"Precision": {"depthwise": "ap_fixed<8,2>"}, "ReuseFactor": 2}}, shape=(5, 5, 2)),
    }


def _quantised(keras: Any) -> list[Any]:
    from qkeras import QDense, quantized_bits

    return [QDense(3, kernel_quantizer=quantized_bits(6, 1, alpha=1), bias_quantizer=quantized_bits(6, 1, alpha=1), name="d")]


def _powers(keras: Any) -> list[Any]:
    """Weights and biases that QKeras rounds to powers of two."""
    from qkeras import QDense, quantized_po2

    def pair(shape: tuple[int, ...], *_: Any) -> Any:
        return np.resize([1.9, -1.9 * 2.0**-5], shape).astype(np.float32)

    options = {"kernel_initializer": pair, "bias_initializer": keras.initializers.Constant(0.5)}
    return [QDense(3, kernel_quantizer=quantized_po2(8), bias_quantizer=quantized_po2(4, 2), name="d", **options)]


def _rounding_to_powers(kind: str) -> list[Any]:
    """Numbers, not weights, that are rounded to powers of two."""
    import qkeras

    options = {"kernel_quantizer": qkeras.quantized_bits(6, 1, alpha=1), "units": 3} if kind == "QDense" else {}
    return [getattr(qkeras, kind)(activation=qkeras.quantized_relu_po2(4, 2), name="d", **options)]


def _quantised_gates(keras: Any) -> list[Any]:
    from qkeras import QLSTM, quantized_tanh

    return [QLSTM(2, activation=quantized_tanh(8), name="c")]


def _normalised(keras: Any) -> list[Any]:
    return [keras.layers.Dense(3, name="d"), keras.layers.BatchNormalization(name="bn")]


def _convolution(keras: Any) -> list[Any]:
    return [keras.layers.Conv2D(3, 3, name="c")]


def _depthwise(keras: Any) -> list[Any]:
    return [keras.layers.DepthwiseConv2D(3, name="c")]


def _separable(keras: Any) -> list[Any]:
    return [keras.layers.SeparableConv2D(3, 3, name="c")]


def layer_cases() -> dict[str, Case]:
    def one(kind: str, *arguments: Any, **options: Any) -> Make:
        return lambda keras: [getattr(keras.layers, kind)(*arguments, name="c", **options)]

    def resource(reuse: int) -> dict[str, Any]:
        return {"c": {"Strategy": "Resource", "ReuseFactor": reuse}}

    image = (6, 6, 2)
    return {
        "conv_reuse": Case(one("Conv2D", 4, 3), resource(36), shape=image),
        "pointwise_reuse": Case(one("Dense", 8), resource(4), shape=(12, 3)),
        "lstm_reuse": Case(one("LSTM", 4), resource(5), shape=(5, 3)),
        "depthwise_model": Case(one("DepthwiseConv2D", 3), model={"Strategy": "Resource"}, shape=image),
        "hard_gates": Case(one("LSTM", 4, recurrent_activation="hard_sigmoid"), shape=(5, 3)),
        "quantised_gates": Case(_quantised_gates, shape=(5, 3)),
        "reset_before": Case(one("GRU", 4, reset_after=False), shape=(5, 3)),
        "reset_before_both": Case(
            lambda keras: [keras.layers.Bidirectional(keras.layers.GRU(4, reset_after=False), name="c")], shape=(5, 3)
        ),
        "conv_reuse_divides": Case(one("Conv2D", 4, 3), resource(9), shape=image),
        "conv_reuse_stream": Case(one("Conv2D", 4, 3), resource(36), shape=image, io_type="io_stream"),
        "stride_stream": Case(one("Conv2D", 4, (1, 3), strides=(2, 1)), shape=image, io_type="io_stream"),
        "depthwise_resource": Case(one("DepthwiseConv2D", 3), resource(1), shape=image),
        "depth_multiplier": Case(one("DepthwiseConv2D", 3, depth_multiplier=2), shape=image),
        "depthwise_both": Case(
            lambda keras: [
                keras.layers.DepthwiseConv1D(3, name="c"),
                keras.layers.Reshape((1, 4, 3)),
                keras.layers.DepthwiseConv2D((1, 3)),
            ],
            shape=(6, 3),
        ),
        "pool_stream": Case(one("MaxPooling2D", 3, 2), shape=image, io_type="io_stream"),
        "pool_padded_stream": Case(one("MaxPooling2D", 4, padding="same"), shape=image, io_type="io_stream"),
        "pool_parallel": Case(one("MaxPooling2D", 3, 2, padding="same"), shape=image),
        "dilation": Case(one("SeparableConv2D", 4, 3, dilation_rate=2, padding="same"), shape=image),
        "groups": Case(one("Conv2D", 4, 3, groups=2), shape=image),
        "bilinear": Case(one("UpSampling2D", 2, interpolation="bilinear"), shape=image),
        "mish": Case(one("Activation", "mish")),
        "axis": Case(one("BatchNormalization", axis=1), shape=image),
        "mask": Case(one("Embedding", 4, 2, mask_zero=True)),
        "backwards": Case(one("LSTM", 4, go_backwards=True), shape=(5, 3)),
        "unknown": Case(one("UnitNormalization")),
        "norm_of_numbers": Case(one("LayerNormalization"), shape=(5,)),
        "norm_table": Case(one("LayerNormalization"), {"c": {"TableRangePower2": -4, "TableSize": 1000}}, shape=(5, 3)),
        "norm_power": Case(one("LayerNormalization"), {"c": {"TableRangePower2": "two"}}, shape=(5, 3)),
        "slopes": Case(one("PReLU", shared_axes=[1]), shape=(5, 3)),
        "cropping": Case(one("Cropping3D"), shape=(6, 6, 6, 2)),
        "scalar": Case(one("Flatten"), shape=()),
        "dynamic": Case(one("Conv1D", 2, 3), shape=(None, 3)),
        "bidirectional": Case(lambda k: [k.layers.Bidirectional(k.layers.LSTM(4), merge_mode="sum", name="c")], shape=(5, 3)),
        "wide_curve": Case(one("Activation", "sigmoid"), {"x": result("ap_fixed<40,32>")}),
        "lstm": Case(one("LSTM", 4), shape=(5, 3)),
        "curves": Case(
            lambda keras: [keras.layers.Activation(name) for name in ("elu", "selu", "softplus", "relu", "tanh", "sigmoid")]
        ),
    }


def model_of(keras: Any, case: Case) -> Any:
    x = y = keras.Input(case.shape, name="x")
    for layer in case.layers(keras):
        y = layer(y)
    return keras.Model(x, y)


def outcome(case: Case, directory: Path) -> list[str]:
    """As hls/convert.py does it, without the C++."""
    import hls4ml  # noqa: F401 - first: it loads the next as its plugin
    import tf_keras as keras

    from hypersonic.hls.frontend.passes.flow import last_passes

    options = {"LayerName": case.names, "Model": case.model, "LayerType": case.types}
    try:
        trained = keras_model(model_of(keras, case))
        check_settings(options, trained.config)
        layers = {name: _merged(settings, case.names.get(name, {})) for name, settings in trained.config["LayerName"].items()}
        config = {"Model": {**trained.config["Model"], **case.model}, "LayerName": spread_model_settings(options, layers)}
        config["Model"]["Precision"] = {"default": "fixed<16,6>", **case.model.get("Precision", {})}
        with hls4ml_warnings() as heard, last_passes():
            graph = trained.convert(config, directory, "trap", "xcu250-figd2104-2L-e", case.io_type)
        check_graph(graph)
        if case.core == "csim":
            check_own_settings(graph, options)
        lines = [*notes(graph, options, CoreKind.CSIM if case.core == "edges" else CoreKind(case.core)), *heard]
        if case.core == "rf":
            return [*lines, *_planned(plan(read_rf_network(graph)))]
        if case.core == "da":
            read_da_network(graph)
        if case.core == "edges":
            tensor_types(graph)
    except ConversionError as error:
        return [f"{type(error).__name__}: {error}"]
    return [*lines, *(_types(graph))]


def _merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    nested = {key: {**base[key], **over[key]} for key in base.keys() & over.keys() if isinstance(base[key], dict)}
    return {**base, **over, **nested}


def _types(graph: Any) -> list[str]:
    """The reuse factors and weight types that hls4ml chose, for the cases that ask for them."""
    return [
        f"took {layer.name}: reuse {layer.get_attr('reuse_factor')}, weight {layer.get_attr('weight_t').precision}"
        for layer in graph.get_layers()
        if layer.get_attr("weight_t") is not None
    ]


def _planned(pipeline: Pipeline) -> list[str]:
    """The multipliers and weight memories of the rf core's stages."""
    places = {True: "DRAM", False: "URAM", None: "BRAM"}
    return [
        f"took {stage.name}: {stage.multipliers} multipliers, weights in {places[stage.feed.repeats if stage.feed else None]}"
        for stage in pipeline.stages
        if stage.multipliers
    ]


def two_softmaxes(directory: Path) -> list[str]:
    """One input, a softmax of hls4ml's own types and one of FINE: the C++ written, and what is said of each."""
    import tf_keras as keras

    x = keras.Input((5,), name="x")
    trained = keras_model(keras.Model(x, [keras.layers.Activation("softmax", name=name)(x) for name in ("own", "fine")]))
    layers = trained.config["LayerName"]
    layers["x"]["Precision"]["result"] = "ap_fixed<12,6>"
    layers["fine"].update(FINE)
    for name in ("own", "fine"):
        layers[name]["Precision"]["result"] = "ap_ufixed<16,0,AP_RND,AP_SAT>"
    graph = trained.convert(trained.config, directory / "hls", "trap", "xcu250-figd2104-2L-e", "io_parallel")
    graph.write()
    return [_softmax_said(graph.graph[name]) for name in ("own", "fine")]


def plugin_reuse(directory: Path) -> list[str]:
    """The reuse factors that backend="Hypersonic" takes of one for the model, with hls4ml's own configuration."""
    import hls4ml
    import tf_keras as keras

    model = model_of(keras, Case(mlp, shape=(12, 3)))
    config = hls4ml.utils.config_from_keras_model(model, granularity="model", backend="Hypersonic")
    config["Model"].update(Strategy="Resource", ReuseFactor=4)
    options = {"output_dir": str(directory), "backend": "Hypersonic", "part": "xcu250-figd2104-2L-e"}
    graph = hls4ml.converters.convert_from_keras_model(model, hls_config=config, **options)
    return [str(graph.graph[name].get_attr("reuse_factor")) for name in ("d", "e")]


def _softmax_said(layer: Any) -> str:
    try:
        return " ".join(check_softmax(layer))
    except ConversionError as error:
        return str(error)


def main(directory: Path) -> None:
    use_keras_2()
    cases = {**softmax_cases(), **setting_cases(), **layer_cases()}
    lines = {name: outcome(case, directory / name) for name, case in cases.items()}
    own = {"plugin_reuse": plugin_reuse, "two_softmaxes": two_softmaxes}
    lines |= {name: case(directory / name) for name, case in own.items()}
    (directory / "said.json").write_text(json.dumps(lines, indent=1))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
