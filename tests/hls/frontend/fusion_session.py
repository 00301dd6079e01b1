# SPDX-License-Identifier: Apache-2.0
"""Normalisations where hls4ml may fuse them, each an output of one model: python tests/hls/frontend/fusion_session.py DIRECTORY

Writes DIRECTORY/<model>.json: name of the output -> the largest |csim - Keras| and how far the outputs lie apart.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml

from hypersonic.hls.convert import convert
from hypersonic.hls.frontend.keras.model import use_keras_2
from hypersonic.hls.frontend.load import load_trained

Build = Callable[[Any], Any]
TYPE = "ap_fixed<24,9,AP_RND_CONV,AP_SAT>"


def chain(*makers: Callable[[], Any]) -> Build:
    def built(x: Any) -> Any:
        for make in makers:
            x = make()(x)
        return x

    return built


def image_cases(keras: Any) -> dict[str, Build]:
    from qkeras import QConv2D, QDepthwiseConv2D, quantized_bits, quantized_po2

    layers, bits, power = keras.layers, quantized_bits(6, 1, alpha=1), quantized_po2(6, 4)
    bn, linear = layers.BatchNormalization, lambda: layers.Activation("linear")
    depthwise = lambda: layers.DepthwiseConv2D(3, use_bias=False)  # noqa: E731
    biased = lambda: layers.DepthwiseConv2D((2, 3), padding="same", strides=2)  # noqa: E731
    convolution = lambda: layers.Conv2D(3, 3, padding="same")  # noqa: E731
    pointwise = lambda: layers.Conv2D(3, 1, use_bias=False)  # noqa: E731

    def shared(x: Any) -> Any:
        y = depthwise()(x)
        return layers.Add()([bn()(y), layers.ReLU()(y)])

    return {
        "convolution": chain(convolution, bn),
        "pointwise": chain(pointwise, bn),
        "depthwise": chain(depthwise, bn),
        "depthwise_bias": chain(biased, bn),
        "depthwise_without_scale": chain(depthwise, lambda: bn(scale=False)),
        "depthwise_without_shift": chain(biased, lambda: bn(center=False)),
        "depthwise_two": chain(depthwise, bn, bn),
        "depthwise_linear": chain(depthwise, linear, bn),
        "depthwise_dropout": chain(depthwise, lambda: layers.Dropout(0.5), bn),
        "depthwise_relu": chain(depthwise, bn, layers.ReLU, bn),
        "depthwise_shared": shared,
        "separable": chain(lambda: layers.SeparableConv2D(4, 3), bn),
        "quantised_depthwise": chain(lambda: QDepthwiseConv2D(3, depthwise_quantizer=bits, use_bias=False), bn),
        "quantised_depthwise_bias": chain(lambda: QDepthwiseConv2D(3, depthwise_quantizer=bits, bias_quantizer=bits), bn),
        "quantised_convolution": chain(lambda: QConv2D(2, 3, kernel_quantizer=bits, bias_quantizer=bits), bn),
        "powers_of_two": chain(lambda: QConv2D(2, 3, kernel_quantizer=power, bias_quantizer=power), bn),
        "powers_of_two_depthwise": chain(lambda: QDepthwiseConv2D(3, depthwise_quantizer=power, bias_quantizer=power)),
        "before": chain(bn, depthwise),
        "between": chain(convolution, bn, depthwise, bn, pointwise, bn),
        "pooled": chain(lambda: layers.MaxPooling2D(2), bn),
        "mean": chain(layers.GlobalAveragePooling2D, bn),
        "flat": chain(layers.Flatten, bn, lambda: layers.Dense(2), bn),
    }


def line_cases(keras: Any) -> dict[str, Build]:
    layers = keras.layers
    bn = layers.BatchNormalization
    return {
        "convolution1": chain(lambda: layers.Conv1D(2, 3), bn),
        "depthwise1": chain(lambda: layers.DepthwiseConv1D(3, use_bias=False), bn),
        "depthwise1_bias": chain(lambda: layers.DepthwiseConv1D(3, padding="same"), bn),
        "separable1": chain(lambda: layers.SeparableConv1D(4, 3), bn),
        "dense_of_rows": chain(lambda: layers.Dense(3), bn),
        "dense": chain(layers.Flatten, lambda: layers.Dense(3), bn, bn),
        "added": lambda x: bn()(layers.Add()([layers.ReLU()(x), x])),
    }


def block(keras: Any) -> Build:
    """The body of a MobileNet, with its head."""
    layers = keras.layers
    bn = layers.BatchNormalization
    return chain(
        lambda: layers.Conv2D(4, 3, padding="same", strides=2, use_bias=False), bn, layers.ReLU,
        lambda: layers.DepthwiseConv2D(3, padding="same", use_bias=False), bn, layers.ReLU,
        lambda: layers.Conv2D(6, 1, use_bias=False), bn, layers.ReLU,
        layers.GlobalAveragePooling2D, lambda: layers.Dense(3), lambda: layers.Activation("softmax"),
    )  # fmt: skip


class Model(NamedTuple):
    """cases: name -> an output. hls4ml: the YAML's."""

    shape: tuple[int, ...]
    cases: dict[str, Build]
    core: str = "csim"
    result: str = "ap_fixed<30,12,AP_RND_CONV,AP_SAT>"
    hls4ml: dict[str, Any] = {}


def models(keras: Any) -> dict[str, Model]:
    """hls4ml's C++ has no model with depthwise convolutions of one and of two dimensions."""
    softmax = {
        "inp_norm_t": "ap_ufixed<14,4,AP_RND,AP_SAT>",
        "inv_inp_t": "ap_ufixed<20,3>",
        "inv_table_t": "ap_ufixed<18,1,AP_RND,AP_SAT>",
        "Precision": {"accum": "ap_ufixed<20,3>"},
    }
    names = {
        "global_average_pooling2d": {"Precision": {"accum": "ap_fixed<28,13>"}},
        "dense": {"Precision": {"result": "ap_fixed<16,6,AP_RND,AP_SAT>"}},
        "activation": softmax,
    }
    streamed = {"IOType": "io_stream", "LayerName": names}
    return {
        "image": Model((4, 4, 3), image_cases(keras)),
        "line": Model((3, 3), line_cases(keras)),
        "mobile": Model((8, 6, 2), {"block": block(keras)}, "rf", "ap_ufixed<16,0,AP_RND,AP_SAT>", streamed),
    }


def model_file(file: Path, shape: tuple[int, ...], cases: dict[str, Build]) -> dict[str, str]:
    """Write the model, layers named by Keras; returns the layer that is the output of each case."""
    import tf_keras as keras

    keras.backend.clear_session()
    keras.utils.set_random_seed(2)
    x = keras.Input(shape, name="x")
    model = keras.Model(x, [build(x) for build in cases.values()])
    rng = np.random.default_rng(6)
    for layer in model.layers:
        if "BatchNormalization" in type(layer).__name__:
            drawn = {"gamma": (0.3, 2), "beta": (-1, 1), "moving_mean": (-1, 1), "moving_variance": (0.3, 2)}
            layer.set_weights([rng.uniform(*drawn[w.name.split("/")[-1].split(":")[0]], w.shape) for w in layer.weights])
    model.save(file)
    return dict(zip(cases, model.output_names, strict=True))


def main(directory: Path) -> None:
    use_keras_2()
    import tf_keras as keras

    for name, model in models(keras).items():
        file = directory / f"{name}.h5"
        outputs = model_file(file, model.shape, model.cases)
        description = {
            "name": name,
            "input": {"precision": TYPE},
            "outputs": {layer: {"precision": model.result} for layer in outputs.values()},
            "hls4ml": {"Model": {"Precision": {"default": TYPE}}, **model.hls4ml},
        }
        file.with_suffix(".yaml").write_text(yaml.safe_dump(description))
        project = convert(file, directory / name, core=model.core)
        figures = project.report["gate"]["outputs"]
        worst = [figures[layer]["max_abs_difference"] for layer in outputs.values()]
        rows = np.random.default_rng(1).normal(size=(50, *model.shape)).astype(np.float32)
        spread = [float(np.ptp(y)) for y in load_trained(file).predict([rows])]
        figures = {case: figures for case, *figures in zip(model.cases, worst, spread, strict=True)}
        (directory / f"{name}.json").write_text(json.dumps(figures))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
