# SPDX-License-Identifier: Apache-2.0
"""Random small Keras models, a family a layer type, with the precisions and strategies that hls4ml is to give their layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.hls.rf.drawing import ROUNDINGS, Config, Types, einsum_layers, reuse, uniform

Family = Callable[[np.random.Generator], tuple[Any, Config]]


def dense(rng: np.random.Generator) -> tuple[Any, Config]:
    """One Dense, or two in a row."""
    import tf_keras as keras

    types, names = Types(rng), {}
    layers = [keras.Input((int(rng.integers(1, 17)),), name="x")]
    for index in range(int(rng.integers(1, 3))):
        kernel = uniform(keras, rng)
        layers.append(
            keras.layers.Dense(int(rng.integers(1, 13)), kernel_initializer=kernel, bias_initializer=kernel, name=f"d{index}")
        )
        names[f"d{index}"] = {"Precision": types.product(), **reuse(rng)}
        names[f"d{index}_linear"] = {"Precision": {"result": names[f"d{index}"]["Precision"]["result"]}}
    names["x"] = {"Precision": {"result": types.result(3, 14)}}
    return keras.Sequential(layers), names


def chain(rng: np.random.Generator) -> tuple[Any, Config]:
    """Dense, batch normalisation, activations: multilayer perceptrons."""
    import tf_keras as keras

    types, names = Types(rng), {"x": {"Precision": {"result": Types(rng).result(3, 14)}}}
    layers = [keras.Input((int(rng.integers(1, 17)),), name="x")]
    for index in range(int(rng.integers(2, 6))):
        kind = str(rng.choice(["dense", "dense", "bn", "relu", "linear"]))
        name = f"{kind}_{index}"
        if kind == "dense":
            kernel, activation = uniform(keras, rng), rng.choice(np.array([None, "relu"]))
            units = int(rng.integers(1, 13))
            layers.append(keras.layers.Dense(units, activation, kernel_initializer=kernel, bias_initializer=kernel, name=name))
            names[name] = {"Precision": types.product(), **reuse(rng)}
            names[f"{name}_{activation or 'linear'}"] = {"Precision": {"result": types.result()}}
        elif kind == "bn":
            layers.append(keras.layers.BatchNormalization(name=name))
            precision = {"scale": types.weight(8, 14), "bias": "ap_fixed<14,4>", "result": types.result()}
            names[name] = {"Precision": precision}
        else:
            layers.append(keras.layers.Activation(kind, name=name))
            names[name] = {"Precision": {"result": types.result()}}
    return normalised(keras.Sequential(layers), rng), names


def normalised(model: Any, rng: np.random.Generator) -> Any:
    """The model with batch normalisations that do something."""
    for layer in model.layers:
        if type(layer).__name__ == "BatchNormalization":
            n = layer.get_weights()[0].shape[0]
            layer.set_weights([rng.uniform(-2, 2, n), rng.uniform(-2, 2, n), rng.uniform(-1, 1, n), rng.uniform(0.9, 2, n)])
    return model


CURVES = ("sigmoid", "tanh", "softplus", "softsign", "elu", "selu", "hard_sigmoid", "leaky", "prelu", "threshold")


def curve(rng: np.random.Generator) -> tuple[Any, Config]:
    """One activation behind the input."""
    import tf_keras as keras

    types, kind = Types(rng), str(rng.choice(CURVES))
    layer = {
        "leaky": lambda: keras.layers.LeakyReLU(float(rng.uniform(0.05, 0.9)), name="a"),
        "prelu": lambda: keras.layers.PReLU(alpha_initializer=uniform(keras, rng, 0.9), name="a"),
        "threshold": lambda: keras.layers.ThresholdedReLU(float(rng.uniform(0.1, 2)), name="a"),
        "elu": lambda: keras.layers.ELU(float(rng.uniform(0.3, 1.5)), name="a"),
    }.get(kind, lambda: keras.layers.Activation(kind, name="a"))()
    x_type = types.result(4, 12) if kind in ("elu", "selu") else types.result(4, 18)
    table = {"table": "ap_fixed<18,8>", "param": "ap_fixed<16,6>"} if rng.random() < 0.5 else {}
    names: Config = {"x": {"Precision": {"result": x_type}}, "a": {"Precision": {"result": types.result(), **table}}}
    if rng.random() < 0.5:
        names["a"]["TableSize"] = int(rng.choice([64, 256, 4096]))
    return keras.Sequential([keras.Input((int(rng.choice([1, 3, 6])),), name="x"), layer]), names


def convolution(rng: np.random.Generator) -> tuple[Any, Config]:
    """A 1D or 2D convolution: kernel, stride, padding; pointwise ones too."""
    import tf_keras as keras

    types, flat = Types(rng), rng.random() < 0.35
    channels, filters = int(rng.choice([1, 2, 3, 4, 6])), int(rng.choice([1, 2, 3, 4, 8]))
    kernel = uniform(keras, rng)
    options = {
        "padding": str(rng.choice(["same", "valid"])),
        "kernel_initializer": kernel,
        "bias_initializer": kernel,
        "name": "c",
    }
    sizes = rng.integers(1, 4, 2)
    if flat:
        shape: tuple[int, ...] = (int(rng.integers(4, 9)), channels)
        layer = keras.layers.Conv1D(filters, int(sizes[0]), strides=int(rng.integers(1, 3)), **options)
    else:
        shape = (int(rng.integers(3, 8)), int(rng.integers(3, 8)), channels)
        layer = keras.layers.Conv2D(filters, tuple(map(int, sizes)), strides=tuple(map(int, rng.integers(1, 3, 2))), **options)
    names = {
        "x": {"Precision": {"result": types.result(3, 12)}},
        "c": {"Precision": types.product(), **reuse(rng), "ParallelizationFactor": int(rng.choice([1, 1, 2, 3, 4]))},
    }
    names["c_linear"] = {"Precision": {"result": names["c"]["Precision"]["result"]}}
    return keras.Sequential([keras.Input(shape, name="x"), layer]), names


def depthwise(rng: np.random.Generator) -> tuple[Any, Config]:
    """A depthwise or a separable convolution."""
    import tf_keras as keras

    types, channels = Types(rng), int(rng.choice([1, 2, 3, 4, 6]))
    kernel, size = uniform(keras, rng), tuple(map(int, rng.integers(1, 4, 2)))
    stride = int(rng.integers(1, 3))
    shape = (int(rng.integers(3, 8)), int(rng.integers(3, 8)), channels)
    options = {"padding": str(rng.choice(["same", "valid"])), "strides": stride, "depthwise_initializer": kernel, "name": "c"}
    if rng.random() < 0.5:
        layer = keras.layers.DepthwiseConv2D(size, bias_initializer=kernel, **options)
        names: Config = {"c": {"Precision": types.product()}}
    else:
        layer = keras.layers.SeparableConv2D(3, size, pointwise_initializer=kernel, bias_initializer=kernel, **options)
        precision = {"depthwise": types.weight(), "pointwise": types.weight(), "bias": "ap_fixed<8,3>"}
        precision |= {"result": types.result(), "depthwise_result": types.result()}
        names = {"c": {"Precision": precision}}
    names["c"]["ReuseFactor"] = int(rng.choice([1, 2, 4, 9]))
    names["x"] = {"Precision": {"result": types.result(3, 12)}}
    return keras.Sequential([keras.Input(shape, name="x"), layer]), names


def pool(rng: np.random.Generator) -> tuple[Any, Config]:
    """Max, average, global."""
    import tf_keras as keras

    layers, types = keras.layers, Types(rng)
    channels, flat, kind = int(rng.choice([1, 2, 3, 4])), rng.random() < 0.35, str(rng.choice(["Max", "Average"]))
    shape = (int(rng.integers(3, 9)), channels) if flat else (int(rng.integers(3, 8)), int(rng.integers(3, 8)), channels)
    dimensions = "1D" if flat else "2D"
    if rng.random() < 0.3:
        layer = getattr(layers, f"Global{kind}Pooling{dimensions}")(name="p")
    else:
        size = int(rng.integers(1, 4)) if flat else tuple(map(int, rng.integers(1, 4, 2)))
        stride = int(rng.integers(1, 4)) if flat else tuple(map(int, rng.integers(1, 4, 2)))
        layer = getattr(layers, f"{kind}Pooling{dimensions}")(
            size, stride, padding=str(rng.choice(["same", "valid"])), name="p"
        )
    precision = {"result": types.result(4, 18)}
    if rng.random() < 0.4:
        precision["accum"] = str(rng.choice(["ap_fixed<24,12>", "ap_fixed<10,6>", "ap_fixed<28,16,AP_RND>"]))
    names = {"x": {"Precision": {"result": types.result(4, 14)}}, "p": {"Precision": precision}}
    return keras.Sequential([keras.Input(shape, name="x"), layer]), names


def softmax(rng: np.random.Generator) -> tuple[Any, Config]:
    """Each implementation over a few classes."""
    import tf_keras as keras

    types = Types(rng)
    names = {
        "x": {"Precision": {"result": f"ap_fixed<{int(rng.integers(8, 17))},{int(rng.integers(3, 7))},AP_RND,AP_SAT>"}},
        "a": {
            "Precision": {"result": types.result(8, 18, (1, 3))},
            "Implementation": str(rng.choice(["stable", "stable", "latency", "argmax"])),
            "TableSize": int(rng.choice([64, 256, 1024])),
        },
    }
    return keras.Sequential(
        [keras.Input((int(rng.integers(2, 9)),), name="x"), keras.layers.Activation("softmax", name="a")]
    ), names


def residual(rng: np.random.Generator) -> tuple[Any, Config]:
    """A branch around a layer or two, joined again."""
    import tf_keras as keras

    layers, types, channels = keras.layers, Types(rng), int(rng.choice([2, 3, 4]))
    kernel, image = uniform(keras, rng), rng.random() < 0.6
    x = layers.Input((int(rng.integers(3, 7)), int(rng.integers(3, 7)), channels) if image else (channels,), name="x")
    first = layers.Activation("relu", name="first")(x)

    def work(name: str, source: Any) -> Any:
        if image:
            return layers.Conv2D(channels, 3, padding="same", kernel_initializer=kernel, name=name)(source)
        return layers.Dense(channels, kernel_initializer=kernel, name=name)(source)

    y = work("w0", first)
    y = work("w1", layers.Activation("relu", name="second")(y)) if rng.random() < 0.5 else y
    join = str(rng.choice(["Add", "Concatenate", "Subtract", "Maximum", "Minimum", "Average", "Multiply"]))
    y = getattr(layers, join)(name="join")([first, y] if rng.random() < 0.5 else [y, first])
    names: Config = {name: {"Precision": types.product(), **reuse(rng)} for name in ("w0", "w1")}
    for name in ("x", "first", "second", "join"):
        names[name] = {"Precision": {"result": types.result()}}
    return keras.Model(x, y), names


def wiring(rng: np.random.Generator) -> tuple[Any, Config]:
    """Layers that only move numbers."""
    import tf_keras as keras

    layers, types, channels = keras.layers, Types(rng), int(rng.choice([1, 2, 3, 4]))
    height, width = int(rng.integers(2, 6)), int(rng.integers(2, 6))
    kind = str(rng.choice(["pad2", "pad1", "up2", "up1", "flat", "embedding"]))
    x_type = types.result(4, 12)
    if kind == "embedding":
        x = layers.Input((int(rng.integers(1, 5)),), name="x")
        y, x_type = (
            layers.Embedding(6, channels, embeddings_initializer=uniform(keras, rng), name="m")(x),
            "ap_ufixed<3,3>",
        )
    elif kind in ("pad1", "up1"):
        x = layers.Input((width, channels), name="x")
        layer = (
            layers.ZeroPadding1D((1, 2), name="m") if kind == "pad1" else layers.UpSampling1D(int(rng.integers(2, 4)), name="m")
        )
        y = layer(x)
    else:
        x = layers.Input((height, width, channels), name="x")
        layer = {
            "pad2": lambda: layers.ZeroPadding2D(((1, 0), (2, 1)), name="m"),
            "up2": lambda: layers.UpSampling2D((int(rng.integers(1, 4)), int(rng.integers(1, 4))), name="m"),
            "flat": lambda: layers.Flatten(name="m"),
        }[kind]()
        y = layer(x)
    y = layers.Activation("relu", name="end")(y)
    names = {"x": {"Precision": {"result": x_type}}, "end": {"Precision": {"result": types.result()}}}
    if kind == "embedding":
        names["m"] = {"Precision": {"embeddings": "ap_fixed<10,3>", "result": types.result()}}
    return keras.Model(x, y), names


def several(rng: np.random.Generator) -> tuple[Any, Config]:
    """Two inputs, two outputs."""
    import tf_keras as keras

    layers, types, kernel = keras.layers, Types(rng), uniform(keras, rng)
    a, b = layers.Input((int(rng.integers(2, 6)), 3), name="a"), layers.Input((int(rng.integers(1, 5)),), name="b")
    image = layers.Conv1D(2, 2, kernel_initializer=kernel, name="c")(a)
    pooled = layers.GlobalMaxPooling1D(name="g")(layers.Activation("relu", name="r")(image))
    joined = layers.Concatenate(name="j")([layers.Dense(3, kernel_initializer=kernel, name="d")(b), pooled])
    y = layers.Dense(2, kernel_initializer=kernel, name="y")(joined)
    z = layers.Dense(3, kernel_initializer=kernel, name="z")(layers.Activation("relu", name="s")(joined))
    names: Config = {name: {"Precision": types.product(), **reuse(rng)} for name in "cdyz"}
    names["c"]["Strategy"] = "Latency"
    names |= {name: {"Precision": {"result": types.result()}} for name in "rgjs"}
    names |= {name: {"Precision": {"result": types.result(4, 12)}} for name in "ab"}
    names |= {f"{name}_linear": {"Precision": {"result": types.result()}} for name in "yz"}
    return keras.Model([a, b], [y, z]), names


def beats(rng: np.random.Generator) -> tuple[Any, Config]:
    """A convolution whose rows come and go in beats."""
    return convolution(rng)


def bidirectional(rng: np.random.Generator) -> tuple[Any, Config]:
    """Both directions of an LSTM or a GRU, and perhaps another layer behind them."""
    return recurrent(rng, both=True)


def recurrent(rng: np.random.Generator, *, both: bool = False) -> tuple[Any, Config]:
    """An LSTM or a GRU, or one behind the other; all steps or the last one. both: the first one is a Bidirectional."""
    import tf_keras as keras

    types = Types(rng)
    names: Config = {"x": {"Precision": {"result": types.result(3, 12)}}}
    layers = [keras.Input((int(rng.integers(1, 6)), int(rng.integers(1, 7))), name="x")]
    for index in range(int(rng.integers(1, 3))):
        name, kind = f"r{index}", str(rng.choice(["LSTM", "GRU"]))
        sequences = bool(rng.random() < 0.5) or not index
        kernel = uniform(keras, rng, 1.6)
        layer = getattr(keras.layers, kind)(
            int(rng.choice([1, 2, 3, 4, 6, 8])), return_sequences=sequences, kernel_initializer=kernel,
            recurrent_initializer=kernel, bias_initializer=kernel, name=name,
            activation=str(rng.choice(["tanh", "tanh", "tanh", "relu", "sigmoid"])),
            recurrent_activation=str(rng.choice(["sigmoid", "sigmoid", "sigmoid", "relu"])),
        )  # fmt: skip
        directions = ("forward_", "backward_") if both and not index else ("",)
        layers.append(keras.layers.Bidirectional(layer, name=name) if len(directions) == 2 else layer)
        resource = bool(rng.random() < 0.3)  # with it the C++ is right for few reuse factors
        modes = f"AP_{rng.choice(['TRN', 'RND'])},AP_{rng.choice(['WRAP', 'WRAP', 'SAT'])}"
        accum = str(rng.choice([f"ap_fixed<24,14,{modes}>", f"ap_fixed<20,10,{modes}>", "ap_fixed<16,6>", "ap_fixed<34,20>"]))
        keys = ("weight", "recurrent_weight", "bias", "recurrent_bias")
        precision = {f"{direction}{key}": types.weight() for direction in directions for key in keys}
        precision |= {
            "accum": accum,
            "result": types.result(8, 18, (1, 3)),
            "table": str(rng.choice(["ap_fixed<18,8>", "ap_fixed<12,2,AP_RND,AP_SAT>"])),
        }
        names[name] = {
            "Precision": precision,
            "Strategy": "Resource" if resource else "Latency",
            "ReuseFactor": 1 if resource else int(rng.choice([1, 2, 3, 4, 8, 16, 64])),
        }
        if rng.random() < 0.5:
            names[name]["TableSize"] = int(rng.choice([64, 256, 4096]))
        if rng.random() < 0.5:
            names[name]["static"] = False
    return keras.Sequential(layers), names


def layernorm(rng: np.random.Generator) -> tuple[Any, Config]:
    """A LayerNormalization, whose sums saturate or wrap."""
    import tf_keras as keras

    types, kernel = Types(rng), uniform(keras, rng)
    layer = keras.layers.LayerNormalization(gamma_initializer=kernel, beta_initializer=kernel, name="l")
    modes = f"AP_{rng.choice(ROUNDINGS)},AP_{rng.choice(['WRAP', 'SAT', 'SAT_SYM'])}"
    precision = {"scale": types.weight(), "bias": types.weight(), "accum": f"ap_fixed<14,6,{modes}>"}
    names: Config = {"x": {"Precision": {"result": types.result(4, 12)}}}
    names["l"] = {"Precision": precision | {"result": types.result(8, 18)}, "TableSize": int(rng.choice([64, 1024]))}
    return keras.Sequential([keras.Input((int(rng.integers(1, 5)), int(rng.choice([2, 3, 4, 6, 8]))), name="x"), layer]), names


def binary(rng: np.random.Generator) -> tuple[Any, Config]:
    """Binary or ternary activations behind normalisations, before binary weights and before others."""
    import qkeras
    import tf_keras as keras

    n, kernel, step = int(rng.choice([2, 3, 4, 6])), uniform(keras, rng), str(rng.choice(["binary", "ternary"]))
    bits: Config = dict.fromkeys(("kernel_quantizer", "bias_quantizer"), "quantized_bits(5,2,alpha=1)")
    ones: Config = {"kernel_quantizer": "binary(alpha=1)", "use_bias": False}
    layers = [keras.Input((n,), name="x")]
    for k, options in enumerate((ones, bits) if rng.random() < 0.5 else (bits, ones)):
        layers.append(keras.layers.BatchNormalization(scale=False, beta_initializer=kernel, name=f"b{k}"))
        layers.append(qkeras.QActivation(f"{step if k else 'binary'}(alpha=1)", name=f"a{k}"))
        layers.append(qkeras.QDense(n, kernel_initializer=kernel, name=f"d{k}", **options))
    wide = {"result": f"ap_fixed<{int(rng.integers(9, 13))},6,AP_{rng.choice(ROUNDINGS)},AP_SAT>"}  # holds every threshold
    last = {"Precision": {"result": Types(rng).result(9, 12, (4, 6))}, **reuse(rng)}
    return keras.Sequential(layers), {"x": {"Precision": wide}, "d0": {"Precision": wide, **reuse(rng)}, "d1": last}


def einsum(rng: np.random.Generator) -> tuple[Any, Config]:
    """Products of two tensors, one of them from vectors with weights of their own."""
    return einsum_layers(rng, Types(rng))


def steps(rng: np.random.Generator) -> tuple[Any, Config]:
    """A convolution and a pooling inside TimeDistributed, whose own types hls4ml takes from the configuration."""
    import tf_keras as keras

    layers, types, kernel = keras.layers, Types(rng), uniform(keras, rng)
    size, padding = tuple(map(int, rng.integers(1, 4, 2))), str(rng.choice(["same", "valid"]))
    options = {"strides": int(rng.integers(1, 3)), "padding": padding, "bias_initializer": kernel, "name": "c"}
    inside = layers.Conv2D(int(rng.choice([1, 2, 4])), size, kernel_initializer=kernel, **options)
    pool = getattr(layers, f"{rng.choice(['Max', 'Average'])}Pooling2D")(2, int(rng.integers(1, 3)), padding="same", name="p")
    x = keras.Input((*map(int, rng.integers(2, 4, 1)), *map(int, rng.integers(3, 7, 2)), int(rng.choice([1, 2, 3]))), name="x")
    y = layers.TimeDistributed(pool, name="u")(layers.TimeDistributed(inside, name="t")(x))
    of_x, of_c, of_p = ({"Precision": {"result": types.result(4, 12)}} for _ in range(3))
    names: Config = {"x": of_x, "t": of_x, "t_end": of_c, "u": of_c, "p": of_p, "u_end": of_p}
    names["c"] = {"Precision": types.product() | of_c["Precision"], **reuse(rng)}
    names["a"] = {"Precision": {"result": types.result()}}
    return keras.Model(x, layers.Activation("relu", name="a")(y)), names


_ALL = (
    einsum, steps, binary, layernorm, recurrent, bidirectional, beats, several, residual, wiring, dense, chain, curve,
    convolution, depthwise, pool, softmax,
)  # fmt: skip
FAMILIES: dict[str, Family] = {family.__name__: family for family in _ALL}
