# SPDX-License-Identifier: Apache-2.0
"""Layers that hls4ml 1.3.0 gets wrong and hypersonic computes: python tests/hls/frontend/mended/mended_session.py DIRECTORY

Each layer is an output of one model in io_parallel, and most of them of one in io_stream. Writes DIRECTORY/<model>.json: name
of the output -> the largest |csim - Keras|, how far Keras' answers lie apart, and the numbers of csim, if they are few.
Writes DIRECTORY/transposed.json: options of a transposed convolution -> the largest difference of what is in its place.
Writes DIRECTORY/facts.json: kind of layer -> what its survey says of a model of it alone.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from hypersonic.hls import convert
from hypersonic.hls.csim import judge
from hypersonic.hls.csim.compiled import Csim, compile_csim
from hypersonic.hls.frontend.keras.model import keras_model, use_keras_2
from hypersonic.hls.frontend.keras.simplify import simplified
from hypersonic.hls.frontend.load import load_trained
from hypersonic.hls.frontend.survey import survey_trained

#: of the inputs; hls4ml's default, of everything that has no type
TYPE, DEFAULT = "ap_fixed<10,4,AP_RND,AP_SAT>", "ap_fixed<16,6>"
#: numbers of an output that are few
FEW = 3
ROWS = 60

Build = Callable[[Any], Any]


def cases(keras: Any) -> dict[str, tuple[str, Build]]:
    """name -> the input that it reads, and the layers."""
    import qkeras

    layers, seen = keras.layers, lambda: qkeras.QActivation("quantized_relu(6,2)")
    normal = lambda: layers.BatchNormalization(scale=False)  # noqa: E731
    sign = lambda: qkeras.QActivation("binary(alpha=1)")  # noqa: E731
    bits = {f"{part}_quantizer": "quantized_bits(6,1,alpha=1)" for part in ("kernel", "bias")}
    coarse = "quantized_bits(8,2,alpha=1)"
    bits_to_1 = {f"{part}_quantizer": "quantized_bits(6,0,alpha=1)" for part in ("kernel", "bias")}
    wide, of_7 = keras.initializers.RandomUniform(-4, 4, seed=3), keras.initializers.Constant(7)

    def capped(*makers: Callable[[], Any]) -> Build:
        return chain(lambda: layers.Dense(3, kernel_initializer=wide), *makers)

    def shared(x: Any) -> Any:
        y = normal()(x)
        return layers.Concatenate()([sign()(y), layers.ReLU()(y)])

    def copied(x: Any) -> Any:
        """The layer that is padded reads the second copy of its stream, and so does one behind it."""
        for apart in (1, 2):
            padded = layers.Conv1D(3, 3, padding="causal", dilation_rate=apart, activation="relu")(x)
            x = layers.Add()([layers.Conv1D(3, 1)(x), padded])
        return layers.GlobalMaxPooling1D()(x)

    def copied_image(x: Any) -> Any:
        padded = layers.Conv2D(2, 3, padding="same")(x)
        return layers.GlobalMaxPooling2D()(layers.Add()([layers.Conv2D(2, 1)(x), padded]))

    inside = keras.Sequential([keras.Input((3,)), layers.ReLU(6.0)])
    return {
        "padded_copy": ("line", copied),
        "padded_copy_of_an_image": ("image", copied_image),
        "padded_maximum": ("image", chain(seen, lambda: layers.MaxPooling2D(3, 2, padding="same"))),
        "padded_maximum_1d": ("line", chain(seen, lambda: layers.MaxPooling1D(3, 2, padding="same"))),
        "padded_bits": (
            "image",
            chain(normal, sign, lambda: layers.MaxPooling2D(2, padding="same"), lambda: qkeras.QConv2D(2, 2, **bits)),
        ),
        "padded_product_of_bits": ("image", chain(normal, sign, lambda: qkeras.QConv2D(2, 2, padding="same", **bits))),
        "moved_bits": ("line", chain(normal, sign, lambda: layers.Permute((2, 1)), lambda: qkeras.QDense(2, **bits))),
        "curve_of_bits": ("more", chain(normal, sign, lambda: layers.Activation("relu"))),
        "biased_bits": (
            "more",
            chain(
                normal, sign, lambda: qkeras.QDense(2, **{**bits, "kernel_quantizer": "binary(alpha=1)"}, bias_initializer=wide)
            ),
        ),
        "relu6": ("numbers", capped(lambda: layers.Activation("relu6"))),
        "relu_to_6": ("numbers", capped(lambda: layers.ReLU(max_value=6))),
        "relu_to_6_inside": ("numbers", capped(lambda: inside)),
        "relu_to_6_of_steps": ("line", capped(lambda: layers.TimeDistributed(layers.ReLU(6.0)))),
        "switches": ("more", chain(lambda: layers.BatchNormalization(scale=1, center=0))),
        "mean": ("image", chain(seen, layers.GlobalAveragePooling2D)),
        "mean_1d": ("line", chain(lambda: layers.Dense(2, kernel_initializer=wide), layers.GlobalAveragePooling1D)),
        "long_sums": ("line", capped(lambda: layers.Dense(3, kernel_initializer=wide), lambda: layers.LSTM(2))),
        "normal_sums": (
            "line",
            chain(
                lambda: layers.Dense(
                    6, kernel_initializer=keras.initializers.RandomUniform(-0.3, 0.3, seed=4), bias_initializer=of_7
                ),
                layers.LayerNormalization,
            ),
        ),
        "quantised_cell": (
            "line",
            chain(lambda: qkeras.QLSTM(3, "tanh", "sigmoid", recurrent_quantizer=coarse, state_quantizer=coarse, **bits_to_1)),
        ),
        "greatest": ("image", chain(lambda: layers.Conv2D(2, 1, kernel_initializer=wide), layers.GlobalMaxPooling2D)),
        "signs": ("more", chain(sign)),
        "signs_behind": ("more", chain(normal, sign)),
        "signs_read": ("more", chain(normal, sign, lambda: qkeras.QDense(2, **bits))),
        "shared_normal": ("more", shared),
        "greatest_sign": ("image", chain(normal, sign, lambda: layers.MaxPooling2D((3, 2)))),
    }


#: cases without C++ in io_stream
PARALLEL = ("padded_maximum", "padded_maximum_1d", "padded_bits", "normal_sums")


def chain(*makers: Callable[[], Any]) -> Build:
    def built(x: Any) -> Any:
        for make in makers:
            x = make()(x)
        return x

    return built


def model_of(keras: Any, chosen: dict[str, tuple[str, Build]]) -> Any:
    """A model with an output for each case, and one for the bits that "signs_read" also reads."""
    shapes = {"image": (9, 8, 2), "line": (11, 2), "numbers": (4,), "more": (4,)}
    inputs = {name: keras.Input(shape, name=name) for name, shape in shapes.items()}
    outputs = [build(inputs[name]) for name, build in chosen.values()]
    model = keras.Model(list(inputs.values()), outputs)
    read = model.get_layer(model.output_names[list(chosen).index("signs_read")]).input
    return keras.Model(model.inputs, [*outputs, read])


def compared(keras: Any, io_type: str, directory: Path) -> dict[str, Any]:
    """Convert the model, and compare its C++ with it."""
    keras.backend.clear_session()
    keras.utils.set_random_seed(2)
    chosen = {name: case for name, case in cases(keras).items() if io_type == "io_parallel" or name not in PARALLEL}
    model = model_of(keras, chosen)
    rng = np.random.default_rng(5)
    for layer in model.layers:
        if "BatchNormalization" in type(layer).__name__:
            layer.set_weights([rng.uniform(0.3, 2, weight.shape) for weight in layer.get_weights()])
    file = directory / f"{io_type}.h5"
    model.save(file)
    options = {"IOType": io_type, "Model": {"Precision": {"default": DEFAULT}}}
    inputs = {name: {"precision": TYPE} for name in model.input_names}
    file.with_suffix(".yaml").write_text(yaml.safe_dump({"name": io_type, "inputs": inputs, "outputs": {}, "hls4ml": options}))
    project = convert.convert(file, directory / io_type, core="rf")
    shapes = [tensor.shape[1:] for tensor in model.inputs]
    x = [(np.rint(rng.normal(size=(ROWS, *shape)) * 64) / 64).astype(np.float32) for shape in shapes]
    answers = load_trained(file).predict(x)
    sides = zip(project.inputs.tensors, x, strict=True)
    raw = np.concatenate([side.fixed.from_float(part.reshape(ROWS, -1)) for side, part in sides], axis=1)
    y = project.outputs.split(Csim(compile_csim(project, optimisation="-O0"), project).predict_raw(raw))
    found: dict[str, Any] = {}
    for name, tensor, given, wanted in zip([*chosen, "signs_too"], project.outputs.tensors, y, answers, strict=True):
        numbers = np.ldexp(given.astype(float), -tensor.fixed.fraction)
        few = np.unique(numbers)
        found[name] = [float(np.abs(numbers - wanted).max()), float(np.ptp(wanted)), few.tolist() if few.size <= FEW else []]
    return found


def facts(keras: Any, directory: Path) -> dict[str, Any]:
    """What the survey says of models of one layer."""
    import qkeras

    folded = qkeras.QConv2DBatchnorm(
        2, 2, kernel_quantizer="quantized_bits(6,1,alpha=1)", bias_quantizer="quantized_bits(6,1,alpha=1)",
        moving_variance_initializer=keras.initializers.Constant(4.0), beta_initializer=keras.initializers.Constant(0.25),
        kernel_initializer=keras.initializers.Constant(1.5),
    )  # fmt: skip
    x = directory / "rows.npy"
    np.save(x, np.random.default_rng(1).normal(size=(8, 4, 4, 2)))
    found = {}
    counting = keras.layers.LSTM(
        1, kernel_initializer="zeros", recurrent_initializer="zeros", bias_initializer="ones", unit_forget_bias=False
    )
    lone = {"pooling": [keras.layers.GlobalAveragePooling2D()], "folded": [folded]}
    for name, layers in {**lone, "counting": [keras.layers.Reshape((8, 4)), counting]}.items():
        model = keras.Sequential([keras.Input((4, 4, 2)), *layers])
        found[name] = [asdict(one) for one in survey_trained(keras_model(model), x).layers]
    return found


def transposed(keras: Any) -> dict[str, float]:
    """Transposed convolutions, by their options -> the largest difference of the convolutions in their place."""
    import tensorflow as tf

    layers, sizes = keras.layers, ((5, 2), (5, 4, 2))
    inputs = [keras.Input(shape) for shape in sizes]
    x = [np.random.default_rng(3).normal(size=(2, *shape)).astype(np.float32) for shape in sizes]
    outputs, names = [], []
    for places, kernel, stride, padding in product((1, 2), (1, 2, 3, 5), (1, 2, 3), ("valid", "same")):
        for more in (None, *range(stride)):
            options = {"strides": (stride, 2)[:places] if more is None else stride, "padding": padding, "output_padding": more}
            layer = getattr(layers, f"Conv{places}DTranspose")(3, (kernel, 4)[:places], bias_initializer="normal", **options)
            try:
                layer(x[places - 1])
            except tf.errors.OpError:  # TensorFlow does not compute all sizes that Keras gives to the result
                continue
            outputs.append(layer(inputs[places - 1]))
            names.append(f"{kernel} of {places}: {options}")
    model = keras.Model(inputs, outputs)
    again, _ = simplified(model, {})
    assert not any("Transpose" in type(layer).__name__ for layer in again.layers)
    pairs = zip(names, model.predict(x, verbose=0), again.predict(x, verbose=0), strict=True)
    return {name: float(np.abs(before - after).max()) for name, before, after in pairs}


def main(directory: Path) -> None:
    use_keras_2()
    import tf_keras as keras

    vars(judge)["compile_csim"] = partial(compile_csim, optimisation="-O0")
    (directory / "transposed.json").write_text(json.dumps(transposed(keras)))
    (directory / "facts.json").write_text(json.dumps(facts(keras, directory)))
    for io_type in ("io_parallel", "io_stream"):
        (directory / f"{io_type}.json").write_text(json.dumps(compared(keras, io_type, directory)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
