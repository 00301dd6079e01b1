# SPDX-License-Identifier: Apache-2.0
"""A small Keras model for each row of the table in docs/layers.md."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.hls.layers.layer_case import TYPE, Case, layer, one, two

INDEX = "ap_ufixed<3,3>"


def _softmax(layers: Any, name: str, x: Any) -> Any:
    return layers.Activation("softmax", name=name)(x)


def _quantised(kind: str, *arguments: Any, **options: Any) -> Callable[..., Any]:
    def build(layers: Any, name: str, x: Any) -> Any:
        import qkeras

        del layers
        return getattr(qkeras, kind)(*arguments, **options, name=name)(x)

    return build


def _bits(*names: str) -> dict[str, str]:
    return dict.fromkeys(names, "quantized_bits(6,1,alpha=1)")


_KERNEL = _bits("kernel_quantizer", "bias_quantizer")
_DEPTHWISE = _bits("depthwise_quantizer", "bias_quantizer")


def _time_distributed_model(layers: Any, name: str, x: Any) -> Any:
    """A convolution with an activation, a normalisation and a pooling of each step, and a Dense of its numbers."""
    import tf_keras as keras

    inside = [layers.Conv2D(2, 2, activation="relu"), layers.BatchNormalization(), layers.AveragePooling2D(2), layers.Flatten()]
    return layers.TimeDistributed(keras.Sequential([*inside, layers.Dense(2)]), name=name)(x)


def _time_distributed(kind: str, *arguments: Any) -> Callable[..., Any]:
    def build(layers: Any, name: str, x: Any) -> Any:
        return layers.TimeDistributed(getattr(layers, kind)(*arguments, name=f"{name}_d"), name=name)(x)

    return build


def _garnet(kind: str, *sizes: Any) -> Callable[..., Any]:
    def build(layers: Any, name: str, x: Any, n: Any) -> Any:
        from hls4ml.contrib import garnet

        del layers
        options: Any = {"collapse": "mean", "output_activation": None, "quantize_transforms": None}
        return getattr(garnet, kind)(*sizes, simplified=True, **options, name=name)([x, n])

    return build


def _bidirectional(kind: str, **options: Any) -> Callable[..., Any]:
    def build(layers: Any, name: str, x: Any) -> Any:
        return layers.Bidirectional(getattr(layers, kind)(2, name=f"{name}_d", **options), name=name)(x)

    return build


def _binary(layers: Any, name: str, x: Any) -> Any:
    """Two binary activations: one before binary weights, one before others."""
    import qkeras

    for k in range(2):
        x = layers.BatchNormalization(name=f"{name}_b{k}")(x)
        x = qkeras.QActivation("binary(alpha=1)", name=f"{name}_a{k}")(x)
        options: Any = {"kernel_quantizer": "binary(alpha=1)", "use_bias": False} if k == 0 else _KERNEL
        x = qkeras.QDense(3, name=f"{name}_d{k}", **options)(x)
    return x


def _binary_images(layers: Any, name: str, x: Any) -> Any:
    """Binary activations before a convolution of binary weights, and, behind a pooling, before one of others."""
    import qkeras

    ones: Any = {"kernel_quantizer": "binary(alpha=1)", "use_bias": False}
    for k, options in enumerate((ones, _KERNEL)):
        x = layers.BatchNormalization(scale=False, name=f"{name}_b{k}")(x)
        x = qkeras.QActivation("binary(alpha=1)", name=f"{name}_a{k}")(x)
        x = layers.MaxPooling2D((1, 2), name=f"{name}_p")(x) if k else x
        x = qkeras.QConv2D(2, 2, name=f"{name}_c{k}", **options)(x)
    return x


def _behind_bits(build: Callable[..., Any]) -> Callable[..., Any]:
    def built(layers: Any, name: str, x: Any) -> Any:
        import qkeras

        bits = qkeras.QActivation("binary(alpha=1)", name=f"{name}_a")(layers.BatchNormalization(name=f"{name}_b")(x))
        return build(layers, name, bits)

    return built


def _unsigned(kind: str, *sizes: int) -> Callable[..., Any]:
    """A maximum with padding of numbers that are never negative, most of them below half of their type's range."""

    def build(layers: Any, name: str, x: Any) -> Any:
        import qkeras

        seen = qkeras.QActivation("quantized_relu(6,3)", name=f"{name}_q")(x)
        return getattr(layers, kind)(*sizes, padding="same", name=name)(seen)

    return build


def _flatten(layers: Any, name: str, x: Any) -> Any:
    y = layers.Flatten(name=name)(x)
    return layers.Dense(2, name=f"{name}_d")(y)


def _reshape(layers: Any, name: str, x: Any) -> Any:
    y = layers.Reshape((2, 6), name=name)(x)
    return layers.Activation("relu", name=f"{name}_r")(y)


def _dropout(layers: Any, name: str, x: Any) -> Any:
    return layers.Dense(2, name=f"{name}_d")(layers.Dropout(0.2, name=name)(x))


def _of_training(layers: Any, name: str, x: Any) -> Any:
    parts = (
        layers.GaussianNoise(0.1),
        layers.SpatialDropout1D(0.1),
        layers.AlphaDropout(0.1),
        layers.ActivityRegularization(0.1),
    )
    for k, part in enumerate(parts):
        part._name = f"{name}_{k}"
        x = part(x)
    return layers.Dense(2, name=f"{name}_d")(x)


def _augmented(layers: Any, name: str, x: Any) -> Any:
    parts = layers.RandomFlip(), layers.RandomRotation(0.1), layers.RandomZoom(0.1)
    for k, part in enumerate(parts):
        part._name = f"{name}_{k}"
        x = part(x)
    return layers.Conv2D(2, 2, name=f"{name}_c")(x)


def _arithmetic(layers: Any, name: str, x: Any, y: Any) -> Any:
    """Operators, which Keras 2 makes TFOpLambda of. Their layers' names are TensorFlow's own."""
    del layers
    for k, each in enumerate((lambda z: z * 0.5, lambda z: 1.5 - z, lambda z: z + y, lambda z: z / 4.0)):
        x = each(x)
        x.node.layer._name = f"{name}_{k}"
    return x


def _product(_layers: Any, name: str, x: Any, y: Any) -> Any:
    made = x @ y
    made.node.layer._name = name
    return made


def _permute(order: tuple[int, ...]) -> Callable[..., Any]:
    def build(layers: Any, name: str, x: Any) -> Any:
        return layers.Activation("relu", name=f"{name}_r")(layers.Permute(order, name=name)(x))

    return build


_IMAGE, _LINE = (4, 3, 2), (4, 3)
#: types with which hls4ml's softmax is correct (docs/hls4ml-traps.md)
_SOFTMAX = {
    "inp_norm_t": "ap_ufixed<10,5,AP_RND,AP_SAT>",
    "inv_inp_t": "ap_ufixed<20,3>",
    "inv_table_t": "ap_ufixed<18,1,AP_RND,AP_SAT>",
    "Precision": {"accum": "ap_ufixed<20,3>", "result": "ap_ufixed<16,0,AP_RND,AP_SAT>"},
}

#: the label of a row -> its model
#: settings of an attention's softmax, whose input has the many bits of exact sums, and of the layers around it
_SCORES: dict[str, Any] = {"y_softmax": {"inp_norm_t": "ap_ufixed<14,4,AP_RND,AP_SAT>"}}
_HEADS = _SCORES | {f"y_{part}": {"Precision": {"result": "ap_fixed<12,6>"}} for part in ("query", "key", "value", "mean")}

CASES: dict[str, Case] = {
    "Dense": one((3,), "Dense", 2),
    "Dense on the last of several axes": one(_LINE, "Dense", 2),
    "QDense": Case(((3,),), _quantised("QDense", 2, **_KERNEL)),
    "BatchNormalization": one((3,), "BatchNormalization"),
    "QBatchNormalization": Case(((3,),), _quantised("QBatchNormalization")),
    "Dropout": Case(((3,),), _dropout),
    "Rescaling": one((3,), "Rescaling", 0.5, 0.25),
    "Rescaling of 4 axes": one((2, *_IMAGE), "Rescaling", 0.5, 0.25),
    "Normalization": one((3,), "Normalization", mean=[0.5, 1.0, -1.0], variance=[1.0, 4.0, 0.5]),
    "Normalization(invert=True) of each element": one(
        _LINE, "Normalization", (1, 2), mean=[[0.5, 1.0, -1.0]] * 4, variance=[[1.0, 4.0, 0.5]] * 4, invert=True
    ),
    "GaussianNoise, SpatialDropout1D, AlphaDropout, ActivityRegularization": Case((_LINE,), _of_training),
    "RandomFlip, RandomRotation, RandomZoom": Case(((4, 4, 2),), _augmented),
    "Conv1D": one(_LINE, "Conv1D", 2, 2),
    "Conv2D": one(_IMAGE, "Conv2D", 2, 2, padding="same"),
    "QConv1D": Case((_LINE,), _quantised("QConv1D", 2, 2, **_KERNEL)),
    "QConv2D": Case((_IMAGE,), _quantised("QConv2D", 2, 2, **_KERNEL)),
    "QConv2DBatchnorm": Case((_IMAGE,), _quantised("QConv2DBatchnorm", 2, 2, **_KERNEL)),
    "QConv1D + QBatchNormalization": Case(
        (_LINE,),
        lambda layers, name, x: _quantised("QBatchNormalization")(
            layers, f"{name}_b", _quantised("QConv1D", 2, 2, **_KERNEL)(layers, name, x)
        ),
    ),
    "Conv1D, channels_first": one(_LINE, "Conv1D", 2, 2, data_format="channels_first"),
    "SeparableConv2D, channels_first": one(_IMAGE, "SeparableConv2D", 2, 2, data_format="channels_first"),
    "Conv2D, channels_first": one(_IMAGE, "Conv2D", 2, 2, data_format="channels_first"),
    "Conv1D, causal, dilation_rate": one(_LINE, "Conv1D", 2, 2, padding="causal", dilation_rate=2),
    "Conv2D, dilation_rate": one(_IMAGE, "Conv2D", 2, 2, dilation_rate=2),
    "Conv2D, dilation_rate and padding": one(_IMAGE, "Conv2D", 2, 2, dilation_rate=(1, 2), padding="same"),
    "DepthwiseConv2D, dilation_rate": one(_IMAGE, "DepthwiseConv2D", 2, dilation_rate=2),
    "SeparableConv2D, dilation_rate": one(_IMAGE, "SeparableConv2D", 2, 2, dilation_rate=2),
    "Conv1DTranspose": one(_LINE, "Conv1DTranspose", 2, 3, strides=2),
    "Conv2DTranspose": one(_IMAGE, "Conv2DTranspose", 2, 3, strides=2, padding="same", activation="relu"),
    "DepthwiseConv1D": one(_LINE, "DepthwiseConv1D", 2),
    "DepthwiseConv2D": one(_IMAGE, "DepthwiseConv2D", 2),
    "DepthwiseConv2D, depth_multiplier > 1": one(_IMAGE, "DepthwiseConv2D", 2, depth_multiplier=2),
    "QDepthwiseConv2D": Case((_IMAGE,), _quantised("QDepthwiseConv2D", 2, **_DEPTHWISE)),
    "SeparableConv1D": one(_LINE, "SeparableConv1D", 2, 2),
    "SeparableConv2D": one(_IMAGE, "SeparableConv2D", 2, 2),
    "MaxPooling1D": one(_LINE, "MaxPooling1D"),
    "MaxPooling2D": one((4, 4, 2), "MaxPooling2D"),
    "MaxPooling1D with padding, of a quantized_relu": Case(((5, 2),), _unsigned("MaxPooling1D", 3, 2)),
    "MaxPooling2D with padding, of a quantized_relu": Case(((5, 4, 2),), _unsigned("MaxPooling2D", 3, 2)),
    "AveragePooling1D": one(_LINE, "AveragePooling1D"),
    "AveragePooling2D": one((4, 4, 2), "AveragePooling2D"),
    "GlobalMaxPooling1D": one(_LINE, "GlobalMaxPooling1D"),
    "GlobalMaxPooling2D": one(_IMAGE, "GlobalMaxPooling2D"),
    "GlobalAveragePooling1D": one(_LINE, "GlobalAveragePooling1D"),
    "GlobalAveragePooling2D": one(_IMAGE, "GlobalAveragePooling2D"),
    "Activation('linear')": one((3,), "Activation", "linear"),
    "Activation('relu')": one((3,), "Activation", "relu"),
    "ReLU": one((3,), "ReLU"),
    "ReLU(max_value=6)": one((3,), "ReLU", 6.0),
    "ReLU(max_value=2.5)": one((3,), "ReLU", 2.5),
    "ReLU(negative_slope=0.25)": one((3,), "ReLU", None, 0.25),
    "ReLU(threshold=1)": one((3,), "ReLU", threshold=1.0),
    "Activation('relu6')": one((3,), "Activation", "relu6"),
    "LeakyReLU": one((3,), "LeakyReLU", 0.3),
    "Activation('leaky_relu')": one((3,), "Activation", "leaky_relu"),
    "PReLU": one((3,), "PReLU", alpha_initializer="random_uniform"),
    "ThresholdedReLU": one((3,), "ThresholdedReLU", 0.5),
    "ELU": one((3,), "ELU"),
    "Activation('elu')": one((3,), "Activation", "elu"),
    "Activation('selu')": one((3,), "Activation", "selu"),
    "Activation('sigmoid')": one((3,), "Activation", "sigmoid"),
    "Activation('tanh')": one((3,), "Activation", "tanh"),
    "Activation('softplus')": one((3,), "Activation", "softplus"),
    "Activation('softsign')": one((3,), "Activation", "softsign"),
    "Activation('hard_sigmoid')": one((3,), "Activation", "hard_sigmoid"),
    "Activation('silu')": one((3,), "Activation", "swish"),
    "Activation('gelu')": one((3,), "Activation", "gelu"),
    "Activation('hard_silu')": one((3,), "Activation", "hard_silu"),
    "Activation('mish')": one((3,), "Activation", "mish"),
    "Activation('softmax')": Case(((3,),), _softmax, {"y": _SOFTMAX}),
    "Softmax": Case(((3,),), layer("Softmax"), {"y": _SOFTMAX}),
    "Activation('softmax') of each step": Case((_LINE,), _softmax, {"y": _SOFTMAX}),
    "Softmax, another axis": Case((_LINE,), layer("Softmax", 1), {"y_softmax": _SOFTMAX}),
    "Softmax, two axes": one(_LINE, "Softmax", [1, 2]),
    "QActivation('quantized_relu')": Case(((3,),), _quantised("QActivation", "quantized_relu(6,2)")),
    "QActivation('quantized_bits')": Case(((3,),), _quantised("QActivation", "quantized_bits(6,2,alpha=1)")),
    "QActivation('quantized_tanh')": Case(((3,),), _quantised("QActivation", "quantized_tanh(6)")),
    "QActivation('quantized_sigmoid')": Case(((3,),), _quantised("QActivation", "quantized_sigmoid(6)")),
    "QActivation('binary')": Case(((3,),), _quantised("QActivation", "binary(alpha=1)")),
    "QActivation('ternary')": Case(((3,),), _quantised("QActivation", "ternary(alpha=1)")),
    "QDense, binary weights": Case(((3,),), _quantised("QDense", 2, kernel_quantizer="binary(alpha=1)", bias_quantizer=None)),
    "BatchNormalization + binary QActivation + binary QDense": Case(((3,),), _binary),
    "BatchNormalization + binary QActivation + binary QConv2D": Case(((4, 6, 2),), _binary_images),
    "QConv2D with padding, behind a binary QActivation": Case(
        (_IMAGE,), _behind_bits(_quantised("QConv2D", 2, 2, padding="same", **_KERNEL))
    ),
    "Binary QDense with offsets, behind a binary QActivation": Case(
        ((3,),), _behind_bits(_quantised("QDense", 2, kernel_quantizer="binary(alpha=1)", bias_quantizer=None))
    ),
    "MaxPooling2D with padding, behind a binary QActivation": Case(
        ((3, 3, 2),), _behind_bits(layer("MaxPooling2D", 2, padding="same"))
    ),
    "Activation('tanh') behind a binary QActivation": Case(((3,),), _behind_bits(layer("Activation", "tanh"))),
    "BatchNormalization + binary QActivation, an output": Case(((3,),), _behind_bits(lambda _layers, _name, x: x)),
    "QDense, ternary weights": Case(((3,),), _quantised("QDense", 2, kernel_quantizer="ternary(alpha=1)")),
    "Add": two(_LINE, _LINE, "Add"),
    "Subtract": two(_LINE, _LINE, "Subtract"),
    "Multiply": two(_LINE, _LINE, "Multiply"),
    "Average": two(_LINE, _LINE, "Average"),
    "Maximum": two(_LINE, _LINE, "Maximum"),
    "Minimum": two(_LINE, _LINE, "Minimum"),
    "Concatenate": two((3,), (2,), "Concatenate"),
    "Concatenate, first axis": two(_LINE, (2, 3), "Concatenate", axis=1),
    "Dot": two((3,), (3,), "Dot", axes=1),
    "Dot of matrices": two(_LINE, _LINE, "Dot", axes=2),
    "Multiply of (4, 3) and (1, 3)": two(_LINE, (1, 3), "Multiply"),
    "Multiply of (4, 3) and (4, 1)": two(_LINE, (4, 1), "Multiply"),
    "Add of (4, 3) and (3,)": two(_LINE, (3,), "Add"),
    "Add of (4, 3, 2) and (1, 3, 1)": two(_IMAGE, (1, 3, 1), "Add"),
    "Operations on tensors: x * 0.5, 1.5 - x, x + y, x / 4": Case((_LINE, (1, 3)), _arithmetic),
    "RepeatVector": one((3,), "RepeatVector", 4),
    "Flatten": Case((_LINE,), _flatten),
    "Reshape": Case(((4, 3),), _reshape),
    "Permute": Case((_LINE,), _permute((2, 1))),
    "ZeroPadding1D": one(_LINE, "ZeroPadding1D", (1, 2)),
    "ZeroPadding2D": one(_IMAGE, "ZeroPadding2D", ((1, 0), (2, 1))),
    "Cropping1D": one(_LINE, "Cropping1D", (1, 2)),
    "Cropping2D": one(_IMAGE, "Cropping2D", ((1, 0), (0, 1))),
    "UpSampling1D": one(_LINE, "UpSampling1D", 2),
    "UpSampling2D": one(_IMAGE, "UpSampling2D", (2, 3)),
    "UpSampling2D, bilinear": one(_IMAGE, "UpSampling2D", 2, interpolation="bilinear"),
    "Embedding": Case(((3,),), layer("Embedding", 6, 2), {}, (INDEX,)),
    "TimeDistributed(Dense)": Case((_LINE,), _time_distributed("Dense", 2)),
    "TimeDistributed(Activation)": Case((_LINE,), _time_distributed("Activation", "tanh")),
    "TimeDistributed(Conv1D)": Case((_IMAGE,), _time_distributed("Conv1D", 2, 2)),
    "TimeDistributed(MaxPooling1D)": Case(((4, 4, 2),), _time_distributed("MaxPooling1D", 2)),
    "TimeDistributed(Conv2D)": Case(((2, *_IMAGE),), _time_distributed("Conv2D", 2, 2)),
    "TimeDistributed(MaxPooling2D)": Case(((2, *_IMAGE),), _time_distributed("MaxPooling2D", 2)),
    "TimeDistributed of a model": Case(((2, *_IMAGE),), _time_distributed_model),
    "TimeDistributed(LSTM)": Case(((2, *_LINE),), _time_distributed("LSTM", 2)),
    "BatchNormalization of 4 axes": Case(((2, *_IMAGE),), layer("BatchNormalization")),
    "TimeDistributed(GlobalMaxPooling1D)": Case(((4, 4, 2),), _time_distributed("GlobalMaxPooling1D")),
    "SimpleRNN": one(_LINE, "SimpleRNN", 2),
    "LSTM": one(_LINE, "LSTM", 2),
    "LSTM, static: False": Case((_LINE,), layer("LSTM", 2), {"y": {"static": False}}),
    "LSTM(return_sequences=True)": one(_LINE, "LSTM", 3, return_sequences=True),
    "LSTM(return_sequences=True), static: False": Case(
        (_LINE,), layer("LSTM", 3, return_sequences=True), {"y": {"static": False}}
    ),
    "GRU": one(_LINE, "GRU", 2),
    "GRU, static: False": Case((_LINE,), layer("GRU", 2), {"y": {"static": False}}),
    "GRU(return_sequences=True)": one(_LINE, "GRU", 3, return_sequences=True),
    "GRU(return_sequences=True), static: False": Case(
        (_LINE,), layer("GRU", 3, return_sequences=True), {"y": {"static": False}}
    ),
    "GRU(reset_after=False)": one(_LINE, "GRU", 2, reset_after=False),
    "Bidirectional(LSTM)": Case((_LINE,), _bidirectional("LSTM")),
    "Bidirectional(GRU(return_sequences=True))": Case((_LINE,), _bidirectional("GRU", return_sequences=True)),
    "EinsumDense": one(_LINE, "EinsumDense", "abc,cd->abd", (None, 2), activation="relu"),
    "EinsumDense, of each column": one(_LINE, "EinsumDense", "abc,bd->adc", (2, None), bias_axes="d"),
    "EinsumDense, of all steps, by head": one(_LINE, "EinsumDense", "abc,bcde->ade", (2, 3), bias_axes="de"),
    "EinsumDense, with weights for each position": one(_LINE, "EinsumDense", "abc,bcd->abd", (4, 2)),
    "LayerNormalization": one(_LINE, "LayerNormalization"),
    "LayerNormalization, variances up to 16": Case(
        (_LINE,), layer("LayerNormalization"), {"y": {"TableRangePower2": -4, "TableSize": 4096}}
    ),
    "GarNet": Case(((4, 3), (1,)), _garnet("GarNet", 2, 3, 2), {}, (TYPE, INDEX)),
    "GarNetStack": Case(((4, 2), (1,)), _garnet("GarNetStack", [2, 1], [2, 2], [1, 2]), {}, (TYPE, INDEX)),
    "MultiHeadAttention": Case(
        (_LINE, (2, 3)), lambda layers, name, a, b: layers.MultiHeadAttention(2, 2, value_dim=3, name=name)(a, b), _HEADS
    ),
    "MultiHeadAttention of an image, with a key": Case(
        ((2, 2, 3), (1, 3, 2)),
        lambda layers, name, a, b: layers.MultiHeadAttention(1, 2, use_bias=False, output_shape=(2,), name=name)(
            a, key=b, value=b
        ),
        _HEADS,
    ),
    "MultiHeadAttention with a mask": Case(
        (_LINE,), lambda layers, name, x: layers.MultiHeadAttention(1, 2, name=name)(x, x, use_causal_mask=True)
    ),
    "Attention": Case((_LINE, (2, 3)), layer("Attention"), _SCORES),
    "Attention(use_scale=True)": Case(
        (_LINE, (2, 3), (2, 3)),
        lambda layers, name, a, b, c: layers.Attention(use_scale=True, name=name)([a, b, c]),
        _SCORES,
        (TYPE,) * 3,
    ),
    "Attention(score_mode='concat')": two(_LINE, (2, 3), "Attention", score_mode="concat"),
    "Operations on tensors: x @ y": Case((_LINE, (3, 2)), _product),
    "Conv3D": one((3, 3, 3, 2), "Conv3D", 2, 2),
}

#: rows for a network of their own: hls4ml's C++ of a one- and a two-dimensional depthwise convolution does not compile in one
#: file (docs/hls4ml-traps.md)
_SECOND = tuple(label for label in CASES if any(word in label for word in ("1D", "Activation", "LSTM", "GRU")))

#: the models that hold the rows: each has at most as many inputs as a model may have
GROUPS = 3


def group_of(label: str) -> int:
    """Return the model that holds a row, below GROUPS."""
    others = [each for each in CASES if each not in _SECOND]
    return GROUPS - 1 if label in _SECOND else others.index(label) % (GROUPS - 1)
