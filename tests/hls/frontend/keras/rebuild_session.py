# SPDX-License-Identifier: Apache-2.0
"""Models of Keras 3 that are saved, loaded and rebuilt in Keras 2: python tests/hls/frontend/keras/rebuild_session.py DIRECTORY

Writes DIRECTORY/results.json: name of the model -> its layers in Keras 2, or the error. Leaves the files of the models there.
"""

from __future__ import annotations

import json
import os
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import numpy as np
from keras import layers, ops

from hypersonic.hls.errors import ConversionError
from hypersonic.hls.frontend.keras.rebuild import _loaded, check_alike, in_float32, rebuilt


def functional(shape: tuple[int, ...], *makers: Callable[[], Any]) -> Any:
    x = given = keras.Input(shape)
    for make in makers:
        x = make()(x)
    return keras.Model(given, x)


def by_default() -> Any:
    normal = layers.BatchNormalization
    return functional((10,), lambda: layers.Dense(6, "relu"), normal, lambda: layers.Dropout(0.2), lambda: layers.Dense(3))


def sequential() -> Any:
    dense = layers.Dense(4, activation="softmax", kernel_regularizer="l2", name="probabilities")
    return keras.Sequential([keras.Input((7,), name="x"), layers.Dense(5, use_bias=False), layers.LeakyReLU(0.1), dense])


def images() -> Any:
    return functional(
        (9, 8, 2),
        lambda: layers.Conv2D(3, 3, strides=2, padding="same", activation="relu"),
        lambda: layers.ZeroPadding2D(1),
        lambda: layers.SeparableConv2D(4, 2),
        lambda: layers.DepthwiseConv2D(2, padding="same"),
        lambda: layers.PReLU(shared_axes=None),
        lambda: layers.MaxPooling2D(2),
        lambda: layers.UpSampling2D(2),
        lambda: layers.Cropping2D(((0, 1), (0, 0))),
        layers.GlobalAveragePooling2D,
        lambda: layers.ELU(0.5),
    )


def series() -> Any:
    return functional(
        (8, 3),
        lambda: layers.Conv1D(4, 3, padding="causal", activation="elu"),
        lambda: layers.Bidirectional(layers.GRU(3, return_sequences=True)),
        lambda: layers.TimeDistributed(layers.Dense(5, "tanh")),
        lambda: layers.LSTM(4),
        lambda: layers.Reshape((2, 2)),
        lambda: layers.Permute((2, 1)),
        layers.Flatten,
    )


def hard() -> Any:
    """Functions that Keras 2 does not have, or has with another slope."""
    return functional(
        (6,),
        lambda: layers.Dense(5, activation="hard_sigmoid"),
        lambda: layers.Activation("hard_sigmoid"),
        lambda: layers.Dense(4, activation="hard_silu"),
        lambda: layers.Activation("hard_swish"),
    )


def branches() -> Any:
    a, b = keras.Input((6,), name="a"), keras.Input((6,), name="b")
    shared = layers.Dense(6, name="shared")
    inner = keras.Sequential([keras.Input((6,)), layers.Dense(6, "relu")], name="inner")
    x, y = shared(a), shared(b)
    merged = layers.Concatenate()([x + y, layers.Subtract()([x, y]), ops.maximum(x, inner(y)), x * ops.abs(y)])
    return keras.Model([b, a], [layers.Dense(2, name="energy")(merged), layers.Average(name="mean")([x, y])])


def indices() -> Any:
    return functional((4,), lambda: layers.Embedding(5, 3), layers.Flatten, lambda: layers.Dense(2))


def operation() -> Any:
    given = keras.Input((4,))
    return keras.Model(given, layers.Dense(2)(ops.expm1(given)))


def operations() -> Any:
    given = keras.Input((4, 3))
    x = ops.relu(2.0 - given * 0.5) / 3.0
    pooled = ops.mean(x, axis=1, keepdims=True)
    return keras.Model(
        given, layers.Dense(2)(ops.concatenate([x - pooled, x * np.asarray([0.5, 1.0, 2.0], np.float32)], axis=-1))
    )


def reciprocal() -> Any:
    given = keras.Input((4,))
    return keras.Model(given, 1.0 / given)


def batch_as_axis() -> Any:
    given, other = keras.Input((8, 5)), keras.Input((5,))
    return keras.Model([given, other], given + other)


def unbuilt() -> Any:
    return keras.Sequential([layers.Dense(3)])


def half_precision() -> Any:
    return functional((4,), lambda: layers.Dense(3, "tanh", dtype="mixed_float16"), lambda: layers.Dense(2, dtype="bfloat16"))


def eight_bits() -> Any:
    model = functional((4,), lambda: layers.Dense(3))
    model.quantize("int8")
    return model


def attention() -> Any:
    a, b, c = (keras.Input((steps, 3)) for steps in (4, 5, 5))
    x = layers.MultiHeadAttention(2, 3)(a, key=c, value=b)
    return keras.Model([a, b, c], layers.Attention(use_scale=True)([x, layers.MultiHeadAttention(1, 2)(b, b)]))


def masked() -> Any:
    given = keras.Input((4, 3))
    return keras.Model(given, layers.MultiHeadAttention(1, 2)(given, given, use_causal_mask=True))


def dictionaries() -> Any:
    given = {"b": keras.Input((4,), name="b"), "a": keras.Input((4,), name="a")}
    x = given["a"] - given["b"]
    return keras.Model(given, {"y": layers.Dense(3, name="second")(x), "x": layers.Dense(2, name="first")(x)})


def newer_layer() -> Any:
    return functional((4, 3), layers.RMSNormalization)


CASES = (
    by_default, sequential, images, series, hard, branches, indices, operation, operations, reciprocal, batch_as_axis, unbuilt,
    half_precision, eight_bits, dictionaries, attention, masked, newer_layer,
)  # fmt: skip


def disturbed(model: Any) -> Any:
    """Random weights and statistics: those of a new normalisation or bias would hide an exchange."""
    rng = np.random.default_rng(3)
    model.set_weights([_drawn(rng, weight) for weight in model.get_weights()])
    return model


def _drawn(rng: np.random.Generator, weight: Any) -> Any:
    """Numbers for a weight; those of 8 bits stay as they are."""
    return weight if weight.dtype == np.int8 else rng.uniform(0.1, 1.0, weight.shape).astype(weight.dtype)


def main(directory: Path) -> None:
    results: dict[str, Any] = {}
    for make in CASES:
        file = directory / f"{make.__name__}{'.h5' if make is sequential else '.keras'}"
        disturbed(make()).save(file)
        try:
            model = in_float32(_loaded(keras, file))
            twin = rebuilt(model)
            check_alike(model, twin)
            results[make.__name__] = [layer.name for layer in twin.layers]
        except ConversionError as error:
            results[make.__name__] = str(error)
    model = _loaded(keras, directory / "by_default.keras")
    twin = rebuilt(model)
    twin.set_weights([weight + 0.01 for weight in twin.get_weights()])
    try:
        check_alike(model, twin)
    except ConversionError as error:
        results["altered"] = str(error)
    damaged = directory / "damaged.keras"
    with zipfile.ZipFile(damaged, "w") as archive:
        archive.writestr("metadata.json", '{"keras_version": "3.9.0"}')
        archive.writestr("config.json", "{}")
    try:
        _loaded(keras, damaged)
    except ConversionError as error:
        results["damaged"] = str(error)
    (directory / "results.json").write_text(json.dumps(results))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
