# SPDX-License-Identifier: Apache-2.0
"""Whole networks under the names that Keras gives their layers, converted in one process, because importing TensorFlow costs
seconds:

    python tests/hls/frontend/topologies.py DIRECTORY PART

writes DIRECTORY/<network>_<core>/ for each of CONVERTED[PART], as hypersonic.hls.convert does; with PART "few" also
DIRECTORY/refused.json with what is said of each of REFUSED.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from hypersonic.hls.errors import ConversionError

STREAM, PARALLEL = "io_stream", "io_parallel"


class Case(NamedTuple):
    """A network, the core, hls4ml's IOType."""

    network: str
    core: str
    io_type: str = PARALLEL

    @property
    def name(self) -> str:
        return f"{self.network}_{self.core}"


#: right for up to 7 classes of any input type (docs/hls4ml-traps.md)
SOFTMAX = {
    "inp_norm_t": "ap_ufixed<14,4,AP_RND,AP_SAT>",
    "inv_inp_t": "ap_ufixed<20,3>",
    "inv_table_t": "ap_ufixed<18,1,AP_RND,AP_SAT>",
    "Precision": {"accum": "ap_ufixed<20,3>", "result": "ap_ufixed<16,0,AP_RND,AP_SAT>"},
}
#: hls4ml's LayerName of a network
SETTINGS: dict[str, Any] = {"deep_sets": {"dense_3_softmax": SOFTMAX}}

CONVERTED = {
    "few": (
        Case("u_net", "rf", STREAM),
        Case("image_and_list", "rf"),
        Case("merges", "rf"),
        Case("merges", "da"),
        Case("merges_onnx", "da"),
    ),
    "all others": (
        Case("resnet", "rf", STREAM),
        Case("resnet_1d", "rf"),
        Case("deep_sets", "rf", STREAM),
        Case("inception", "rf", STREAM),
        Case("autoencoder", "rf", STREAM),
        Case("transposed", "rf", STREAM),
        Case("dense_net", "rf", STREAM),
        Case("dense_resnet", "da"),
        Case("dense_net", "da"),
        Case("squeeze", "rf", STREAM),
        Case("nested_relu", "rf"),
        Case("nested_merge", "da"),
    ),
}

#: case -> what is said of it
REFUSED = {
    Case("dense_resnet", "da", STREAM): r"io_type is io_stream, the da core takes io_parallel.*--core rf",
    Case(
        "image_and_list", "rf", STREAM
    ): r"layer 'add' \(Merge\): it reads 8 numbers from a Flatten, which arrive in words of 2",
    Case("flat_relu", "csim", STREAM): r"layer 'activation' \(Activation\): it reads 8 numbers .* put the Flatten after it",
    Case("flat_scaled", "rf", STREAM): r"layer 'batch_normalization' \(BatchNormalization\): it reads 8 numbers from a Flatten",
    Case(
        "other_words", "rf", STREAM
    ): r"layer 'reshape' \(Repack\): it repacks words of 2 numbers into words of 3 in io_stream",
}


def networks() -> dict[str, Callable[[], Any]]:
    """Makers of models by name; no layer is named."""
    import tf_keras as keras

    layers, model, tensor = keras.layers, keras.Model, keras.Input
    models: dict[str, Callable[[], Any]] = {}

    def network(make: Callable[[], Any]) -> None:
        models[make.__name__] = make

    @network
    def u_net() -> Any:
        x = tensor((8, 8, 1))
        skip = layers.Conv2D(2, 3, padding="same")(x)
        deep = layers.Conv2D(4, 3, padding="same", activation="relu")(layers.MaxPooling2D(2)(skip))
        joined = layers.Concatenate()([layers.UpSampling2D(2)(deep), skip])
        return model(x, layers.Conv2D(1, 3, padding="same")(joined))

    @network
    def resnet() -> Any:
        x = tensor((6, 6, 2))
        y = layers.Activation("relu")(layers.BatchNormalization()(layers.Conv2D(3, 3, padding="same")(x)))
        for channels, stride in ((3, 1), (4, 2)):
            z = layers.Conv2D(channels, 3, strides=stride, padding="same")(y)
            z = layers.Activation("relu")(layers.BatchNormalization()(z))
            z = layers.BatchNormalization()(layers.Conv2D(channels, 3, padding="same")(z))
            y = y if stride == 1 else layers.Conv2D(channels, 1, strides=stride, padding="same")(y)
            y = layers.Activation("relu")(layers.Add()([z, y]))
        return model(x, layers.Dense(3)(layers.GlobalAveragePooling2D()(y)))

    @network
    def resnet_1d() -> Any:
        x = tensor((9, 2))
        y = layers.Conv1D(3, 3, padding="same", activation="relu")(x)
        for stride in (1, 2):
            z = layers.Conv1D(3, 3, strides=stride, padding="same", activation="relu")(y)
            z = layers.Conv1D(3, 3, padding="same")(z)
            y = layers.ReLU()(layers.Add()([y if stride == 1 else layers.Conv1D(3, 1, strides=stride)(y), z]))
        return model(x, layers.Dense(2)(layers.GlobalMaxPooling1D()(y)))

    @network
    def deep_sets() -> Any:
        x = tensor((6, 3))
        each = layers.Dense(4, activation="relu")(layers.Dense(4, activation="relu")(x))
        event = layers.Dense(4, activation="relu")(layers.GlobalAveragePooling1D()(each))
        return model(x, layers.Dense(3, activation="softmax")(event))

    @network
    def inception() -> Any:
        x = tensor((5, 5, 2))
        branches = [layers.Conv2D(2, 1, activation="relu")(x), layers.Conv2D(1, 1)(x)]
        branches += [layers.Conv2D(2, size, padding="same")(layers.Conv2D(1, 1, activation="relu")(x)) for size in (3, 5)]
        return model(x, layers.Dense(2)(layers.GlobalMaxPooling2D()(layers.Concatenate()(branches))))

    @network
    def autoencoder() -> Any:
        x = y = tensor((7, 8, 1))
        y = layers.ZeroPadding2D(((0, 1), (0, 0)))(y)
        for channels in (2, 3):
            y = layers.Conv2D(channels, 3, strides=2, padding="same", activation="relu")(y)
        for channels in (2, 1):
            y = layers.Conv2D(channels, 3, padding="same")(layers.UpSampling2D((2, 2))(y))
        return model(x, y)

    @network
    def image_and_list() -> Any:
        """Two inputs, and two outputs, of which one is read on."""
        image, numbers = tensor((4, 4, 2)), tensor((3,))
        seen = layers.Flatten()(layers.Conv2D(2, 3, activation="relu")(image))
        total = layers.Add()([seen, layers.Dense(8, activation="relu")(numbers)])
        small = layers.Dense(2, activation="relu")(layers.Concatenate()([total, numbers]))
        return model([numbers, image], [small, layers.Dense(3)(small)])

    @network
    def dense_resnet() -> Any:
        x = tensor((5,))
        y = layers.Activation("relu")(layers.Dense(4)(x))
        for _ in range(2):
            z = layers.Dense(4)(layers.Activation("relu")(layers.Dense(4)(y)))
            y = layers.Activation("relu")(layers.Add()([y, z]))
        return model(x, layers.Dense(2)(layers.Add()([y, y])))

    @network
    def dense_net() -> Any:
        x = y = tensor((4,))
        for _ in range(3):
            y = layers.Concatenate()([y, layers.Dense(2, activation="relu")(y)])
        return model(x, layers.Dense(2)(y))

    @network
    def merges() -> Any:
        """Of three to five tensors, one of them twice."""
        x = tensor((5,))
        y = [layers.Dense(3)(x) for _ in range(4)]
        average, joined = layers.Average()(y[:3]), layers.Concatenate()([y[0], x, y[1], y[0]])
        extremes = [layers.Maximum()([*y, average]), layers.Minimum()(y)]
        return model(x, [average, layers.Average()(y), layers.Add()([*y, y[0]]), *extremes, joined])

    @network
    def event() -> Any:
        """A U-Net and a residual network on an image, and a DeepSets on a list: a mask, and classes from all of them."""
        image, particles = tensor((4, 4, 1)), tensor((3, 2))
        skip = layers.Conv2D(2, 3, padding="same")(image)
        up = layers.UpSampling2D(2)(layers.Conv2D(2, 3, padding="same", activation="relu")(layers.MaxPooling2D(2)(skip)))
        mask = layers.Conv2D(1, 3, padding="same")(layers.Concatenate()([up, skip]))
        y = layers.Activation("relu")(layers.Conv2D(2, 3, padding="same")(image))
        for _ in range(2):
            z = layers.Activation("relu")(layers.BatchNormalization()(layers.Conv2D(2, 3, padding="same")(y)))
            y = layers.Activation("relu")(layers.Add()([y, layers.Conv2D(2, 3, padding="same")(z)]))
        listed = layers.GlobalMaxPooling1D()(layers.Dense(3, activation="relu")(particles))
        pooled = [layers.GlobalAveragePooling2D()(seen) for seen in (y, mask)]
        return model([particles, image], [mask, layers.Dense(3)(layers.Concatenate()([*pooled, listed]))])

    @network
    def flat_relu() -> Any:
        x = tensor((4, 4, 2))
        return model(x, layers.Dense(2)(layers.Activation("relu")(layers.Flatten()(layers.Conv2D(2, 3)(x)))))

    @network
    def flat_scaled() -> Any:
        x = tensor((4, 4, 2))
        return model(x, layers.Dense(2)(layers.BatchNormalization()(layers.Flatten()(layers.Conv2D(2, 3)(x)))))

    @network
    def other_words() -> Any:
        x = tensor((6, 2))
        return model(x, layers.Conv1D(2, 2)(layers.Reshape((4, 3))(layers.Conv1D(2, 1)(x))))

    @network
    def squeeze() -> Any:
        x = tensor((4, 4, 2))
        weight = layers.Reshape((1, 1, 2))(layers.Dense(2, activation="sigmoid")(layers.GlobalAveragePooling2D()(x)))
        return model(x, layers.Conv2D(1, 3)(layers.Multiply()([x, weight])))

    @network
    def cropped() -> Any:
        x = tensor((4, 4, 2))
        return model(x, layers.Conv2D(1, 2)(layers.Cropping2D(1)(x)))

    @network
    def transposed() -> Any:
        x = tensor((4, 4, 2))
        return model(x, layers.Conv2DTranspose(1, 2, strides=2)(x))

    @network
    def nested_relu() -> Any:
        inner = tensor((3,))
        x = tensor((3,))
        return model(x, layers.Dense(2)(model(inner, layers.ReLU(4.0)(layers.Dense(3)(inner)))(x)))

    @network
    def nested_merge() -> Any:
        inner = tensor((3,))
        x = tensor((3,))
        return model(x, layers.Dense(2)(model(inner, layers.Add()([layers.Dense(3)(inner) for _ in range(3)]))(x)))

    return models


def onnx_merges(file: Path) -> None:
    """Sum, Max, Min and Concat of three and four tensors."""
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(3)
    names = [f"y{index}" for index in range(4)]
    weights = [numpy_helper.from_array(rng.normal(size=(5, 3)).astype(np.float32), f"{name}_w") for name in names]
    nodes = [helper.make_node("MatMul", ["x", f"{name}_w"], [name]) for name in names]
    nodes += [
        helper.make_node("Sum", names, ["sum"]),
        helper.make_node("Max", names[:3], ["most"]),
        helper.make_node("Min", names, ["least"]),
        helper.make_node("Concat", ["sum", "x", "most", "least"], ["all"], axis=1),
    ]
    sides = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, size])] for name, size in (("x", 5), ("all", 14))]
    graph = helper.make_graph(nodes, "merges", *sides, weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), file)


def description(case: Case, name: str, inputs: list[str]) -> dict[str, Any]:
    """The YAML beside a network. Its rows are numbers of unit width (hls/csim/gate.py)."""
    model: dict[str, Any] = {"Precision": {"default": "ap_fixed<20,10>"}}
    if case.core == "rf" or case in REFUSED:
        model["Precision"]["maximum"] = "ap_fixed<24,12>"
    if case.core == "rf":
        model["Strategy"] = "Resource"
    hls4ml = {"Model": model, "IOType": case.io_type, "LayerName": SETTINGS.get(case.network, {})}
    return {"name": name, "inputs": {x: {"precision": "ap_fixed<12,4>"} for x in inputs}, "outputs": {}, "hls4ml": hls4ml}


def write(case: Case, name: str, directory: Path) -> Path:
    """The model's file with its YAML beside it."""
    import tf_keras as keras

    file = directory / f"{name}.h5"
    if case.network == "merges_onnx":
        file, inputs = directory / f"{name}.onnx", ["x"]
        onnx_merges(file)
    else:
        keras.backend.clear_session()
        keras.utils.set_random_seed(1)
        model = networks()[case.network]()
        model.save(file)
        inputs = list(model.input_names)
    file.with_suffix(".yaml").write_text(yaml.safe_dump(description(case, name, inputs)))
    return file


def main(directory: Path, part: str) -> None:
    from functools import partial

    from hypersonic.hls import convert
    from hypersonic.hls.csim import judge
    from hypersonic.hls.csim.compiled import compile_csim
    from hypersonic.hls.frontend.keras.model import use_keras_2

    use_keras_2()
    # most of the time goes into the compiler, and rows are few
    vars(judge)["compile_csim"] = partial(compile_csim, optimisation="-O0")
    for case in CONVERTED[part]:
        convert.convert(write(case, case.name, directory), directory / case.name, core=case.core)
    messages = {}
    for index, case in enumerate(REFUSED if part == "few" else ()):
        file = write(case, f"refused_{index}", directory)
        try:
            convert.convert(file, directory / file.stem, core=case.core)
        except ConversionError as error:
            messages[str(index)] = str(error)
    (directory / "refused.json").write_text(json.dumps(messages))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
