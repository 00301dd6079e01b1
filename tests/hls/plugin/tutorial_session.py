# SPDX-License-Identifier: Apache-2.0
"""Small programs with the steps of hls4ml's tutorial and backend="Hypersonic", one for each notebook about Keras models.

Run as: python tests/hls/plugin/tutorial_session.py DIRECTORY PROGRAM...

Every model is of Keras 2, beside Keras 3. `trace()` gives the answers of hls4ml's C++, `predict()` those of the RTL. The
profiling of part 2 is in profiling_session.py.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import warnings
from collections.abc import Callable
from logging.handlers import BufferingHandler
from pathlib import Path
from typing import Any

import numpy as np

from hypersonic.hls.errors import ConversionError, UnsupportedLayerError
from tests.support.own_warnings import texts_of_own

Programs = dict[str, Callable[[Path], dict[str, Any]]]


def main(directory: Path, names: list[str]) -> None:
    os.environ["TF_USE_LEGACY_KERAS"] = "1"
    programs: Programs = {
        "dense": dense, "pruned": pruned, "images": images, "two shapes": two_shapes, "split": split,
        "settings": settings, "quantised": quantised,
    }  # fmt: skip
    import tf_keras

    done = {}
    for name in names:
        tf_keras.utils.set_random_seed(11)  # so that a program's weights do not depend on those before it
        done[name] = programs[name](directory / name)
    (directory / "session.json").write_text(json.dumps(done))


def dense(directory: Path) -> dict[str, Any]:
    """Part 1: dense layers with a softmax, and the configuration as hls4ml proposes it: one type for all."""
    return compared(directory, classifier(), lambda _: None, granularity="model")


def settings(directory: Path) -> dict[str, Any]:
    """Part 2: types of single layers and traces, then a reuse factor for all layers."""
    x, model = jets(), classifier()

    def single(config: dict[str, Any]) -> None:
        config["LayerName"]["hidden"]["Precision"]["weight"] = "ap_fixed<8,2>"
        config["LayerName"]["logits"]["Precision"]["result"] = "fixed<16,6,RND,SAT>"
        for layer in config["LayerName"]:
            config["LayerName"][layer]["Trace"] = True

    def reused(config: dict[str, Any]) -> None:
        config["Model"]["ReuseFactor"] = 2

    one = traced(converted(directory / "single", model, "Hypersonic", single, granularity="name"), model, x)
    return {"single": one, "reused": compared(directory / "reused", model, reused, granularity="Model")}


def pruned(directory: Path) -> dict[str, Any]:
    """Part 3: three weights of four are zero; settings for each layer, a softmax of correct types, all layers traced."""
    x, model = jets(), classifier()
    rng = np.random.default_rng(3)
    for layer in model.layers:
        layer.set_weights([w * (rng.random(w.shape) < 0.25) if w.ndim > 1 else w for w in layer.get_weights()])

    def exact(config: dict[str, Any]) -> None:
        config["Model"]["softmax"] = "exact"
        for name in config["LayerName"]:
            config["LayerName"][name]["Trace"] = True
        config["LayerName"]["logits"]["Precision"]["result"] = "ap_fixed<16,6,AP_RND,AP_SAT>"

    made = converted(directory, model, "Hypersonic", exact, granularity="name")
    return {**traced(made, model, x), "report": sorted(made.build(csim=False)["CoreReport"])}


def quantised(directory: Path) -> dict[str, Any]:
    """Part 4: QKeras layers of 6 bits, and the softmax's tables as the tutorial sets them."""
    import qkeras
    from tf_keras import Input, Sequential, layers

    def bits() -> dict[str, Any]:
        return {kind: qkeras.quantized_bits(6, 0, alpha=1) for kind in ("kernel_quantizer", "bias_quantizer")}

    model = Sequential(
        [
            Input((8,), name="x"),
            qkeras.QDense(12, **bits(), name="hidden"),
            qkeras.QActivation(activation=qkeras.quantized_relu(6), name="relu"),
            qkeras.QDense(5, **bits(), name="logits"),
            layers.Activation("softmax", name="softmax"),
        ]
    )

    def tables(config: dict[str, Any]) -> None:
        config["LayerName"]["softmax"] |= {"exp_table_t": "ap_fixed<18,8>", "inv_table_t": "ap_fixed<18,4>"}

    return compared(directory, model, tables, granularity="name")


def images(directory: Path) -> dict[str, Any]:
    """Part 6: the CNN, smaller: a convolution that holds its normalisation, and one behind a dense layer; a stream."""
    import hls4ml
    import qkeras
    from tf_keras import Input, Sequential, layers

    bits = {"kernel_quantizer": "quantized_bits(6,0,alpha=1)", "bias_quantizer": "quantized_bits(6,0,alpha=1)"}
    model = Sequential(
        [
            Input((6, 6, 1), name="x"),
            qkeras.QConv2DBatchnorm(4, (3, 3), **bits, use_bias=True, name="conv"),
            qkeras.QActivation("quantized_relu(6)", name="relu"),
            layers.MaxPooling2D((2, 2), name="pool"),
            layers.Flatten(name="flat"),
            qkeras.QDense(5, **bits, use_bias=False, name="dense"),
            layers.BatchNormalization(name="normal"),
            qkeras.QActivation("quantized_relu(6)", name="relu_2"),
            layers.Dense(3, name="logits"),
            layers.Activation("softmax", name="softmax"),
        ]
    )
    rng = np.random.default_rng(5)
    for layer in model.layers:  # as after a training: means and variances that are not 0 and 1
        layer.set_weights([w if w.ndim != 1 else rng.uniform(0.5, 1, w.shape) for w in layer.get_weights()])
    config = hls4ml.utils.config_from_keras_model(model, granularity="name", backend="Hypersonic")
    config["Model"]["softmax"] = "exact"
    for settings in config["LayerName"].values():
        settings["Trace"] = True
    config["LayerName"]["logits"]["Precision"]["result"] = "ap_fixed<16,6,AP_RND,AP_SAT>"
    converted = hls4ml.converters.convert_from_keras_model(
        model, hls_config=config, backend="Hypersonic", output_dir=str(directory), io_type="io_stream"
    )
    return traced(converted, model, rng.uniform(0, 1, (30, 6, 6, 1)).astype(np.float32))


def two_shapes(directory: Path) -> dict[str, Any]:
    """A sum of an image and a vector, as a stream."""
    import hls4ml
    from tf_keras import Input, Model, layers

    image, vector = Input((3, 4, 2)), Input((1, 1, 2))
    model = Model([image, vector], layers.Add(name="sum")([image, vector]))
    config = hls4ml.utils.config_from_keras_model(model, granularity="model", backend="Hypersonic")
    try:
        hls4ml.converters.convert_from_keras_model(
            model, hls_config=config, backend="Hypersonic", output_dir=str(directory), io_type="io_stream"
        ).write()
    except UnsupportedLayerError as error:
        return {"error": str(error)}
    return {}


def split(directory: Path) -> dict[str, Any]:
    """A model that is split into two graphs."""
    import hls4ml
    from tf_keras import Input, Sequential, layers

    model = Sequential([Input((3,)), layers.Dense(2, name="first"), layers.Dense(2, name="second")])
    config = hls4ml.utils.config_from_keras_model(model, granularity="name", backend="Hypersonic")
    converted = hls4ml.converters.convert_from_keras_model(
        model, hls_config=config, backend="Hypersonic", output_dir=str(directory)
    )
    try:
        hls4ml.model.to_multi_model_graph(converted, ["second"]).compile()
    except ConversionError as error:
        return {"error": str(error)}
    return {}


def converted(directory: Path, model: Any, backend: str, configure: Callable[[dict[str, Any]], None], granularity: str) -> Any:
    """A model of hls4ml, with the configuration that it proposes and then this change."""
    import hls4ml

    config = hls4ml.utils.config_from_keras_model(model, granularity=granularity, backend=backend)
    configure(config)
    return hls4ml.converters.convert_from_keras_model(
        model, hls_config=config, backend=backend, output_dir=str(directory), part="xcu250-figd2104-2L-e"
    )


def compared(directory: Path, model: Any, configure: Callable[[dict[str, Any]], None], granularity: str) -> dict[str, Any]:
    """The answers of both backends."""
    x, answers, said = jets(), {}, []
    for backend in ("Vitis", "Hypersonic"):
        made = converted(directory / backend, model, backend, configure, granularity)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            made.compile()
        said = texts_of_own(caught)
        answers[backend] = made.predict(x)
    return {
        "equal": np.array_equal(answers["Vitis"], answers["Hypersonic"]),
        "distinct": len(np.unique(answers["Vitis"])),
        "warnings": said,
        "error": float(np.abs(answers["Hypersonic"] - model(x).numpy()).max()),
    }


def traced(converted: Any, model: Any, x: Any) -> dict[str, Any]:
    """The answers of the C++ and the RTL, the layers with numbers, and the largest difference to Keras."""
    lines = BufferingHandler(100)
    logging.getLogger("hypersonic").addHandler(lines)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        answers, layers = converted.trace(x)
    y = converted.predict(x)
    return {
        "equal": np.array_equal(answers, y),
        "distinct": len(np.unique(y)),
        "layers": {name: list(numbers.shape) for name, numbers in layers.items()},
        "last": np.array_equal(list(layers.values())[-1].reshape(y.shape), y),
        "warnings": texts_of_own(caught),
        "logged": [record.getMessage() for record in lines.buffer],
        "error": float(np.abs(y - model(x).numpy()).max()),
    }


def classifier() -> Any:
    from tf_keras import Input, Sequential, layers

    return Sequential(
        [
            Input((8,), name="x"),
            layers.Dense(12, "relu", name="hidden"),
            layers.Dense(5, name="logits"),
            layers.Activation("softmax", name="softmax"),
        ]
    )


def jets() -> Any:
    return np.random.default_rng(1).normal(size=(100, 8)).astype(np.float32)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
