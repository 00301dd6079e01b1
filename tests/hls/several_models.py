# SPDX-License-Identifier: Apache-2.0
"""Models of two inputs and two outputs, converted in one process: python tests/hls/several_models.py DIRECTORY

The same network twice, drawn in Keras and in ONNX: outputs in another order than the layers that make them.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from hypersonic.hls.convert import convert
from hypersonic.hls.frontend.keras.model import use_keras_2

INPUTS = {
    "track": {"precision": "ap_ufixed<7,3,AP_RND,AP_SAT>", "datatype": "UINT8", "name": "tracks"},
    "calo": {"precision": "ap_fixed<10,4,AP_RND_CONV,AP_SAT>", "scale_exponents": -2},
}
OUTPUTS = {"energy": {"datatype": "INT32", "precision": "ap_fixed<24,12>", "scale_exponents": [0, 1]}}
SHAPES = {"calo": (2, 3), "track": (4,)}


def weights() -> dict[str, NDArray[np.float32]]:
    """In steps of 1/8, which every type and float32 hold."""
    rng = np.random.default_rng(0)
    shapes = {"hidden": (6, 4), "energy": (8, 2), "side": (4, 3)}
    return {name: (rng.integers(-16, 16, shape) / 8).astype(np.float32) for name, shape in shapes.items()}


def network(calo: NDArray[np.float64], track: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(rows, 6) and (rows, 4) -> flag (rows, 3) and energy (rows, 2), in exact doubles."""
    w = weights()
    hidden = np.maximum(calo @ w["hidden"], 0)
    both = np.concatenate([hidden + track, track], axis=1)
    return np.maximum(track @ w["side"] - calo[:, 3:], calo[:, :3]), both @ w["energy"]


def keras_file(file: Path) -> None:
    import tf_keras as keras

    layers = keras.layers
    calo, track = keras.Input(SHAPES["calo"], name="calo"), keras.Input(SHAPES["track"], name="track")
    flat = layers.Flatten(name="flat")(calo)
    hidden = layers.Dense(4, "relu", use_bias=False, name="hidden")(flat)
    total = layers.Add(name="total")([hidden, track])
    both = layers.Concatenate(name="both")([total, track])
    energy = layers.Dense(2, use_bias=False, name="energy")(both)
    low, high = (layers.Dense(3, use_bias=False, trainable=False, name=name)(flat) for name in ("low", "high"))
    side = layers.Subtract(name="margin")([layers.Dense(3, use_bias=False, name="side")(track), high])
    model = keras.Model([track, calo], [layers.Maximum(name="flag")([side, low]), energy])
    picked = np.eye(6, dtype=np.float32)
    for name, values in {**weights(), "low": picked[:, :3], "high": picked[:, 3:]}.items():
        model.get_layer(name).set_weights([values])
    model.save(file)


def onnx_file(file: Path) -> None:
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    picked = np.eye(6, dtype=np.float32)
    values = {**weights(), "low": picked[:, :3], "high": picked[:, 3:]}
    constants = [numpy_helper.from_array(value, f"{name}_w") for name, value in values.items()]
    shape = numpy_helper.from_array(np.array([1, 6], dtype=np.int64), "shape")
    nodes = [
        helper.make_node("Reshape", ["calo", "shape"], ["flat"]),
        helper.make_node("MatMul", ["flat", "hidden_w"], ["h"]),
        helper.make_node("Relu", ["h"], ["hidden"]),
        helper.make_node("Add", ["hidden", "track"], ["total"]),
        helper.make_node("Concat", ["total", "track"], ["both"], axis=1),
        helper.make_node("MatMul", ["both", "energy_w"], ["energy"]),
        helper.make_node("MatMul", ["flat", "low_w"], ["low"]),
        helper.make_node("MatMul", ["flat", "high_w"], ["high"]),
        helper.make_node("MatMul", ["track", "side_w"], ["side"]),
        helper.make_node("Sub", ["side", "high"], ["margin"]),
        helper.make_node("Max", ["margin", "low"], ["flag"]),
    ]

    def side(names: dict[str, tuple[int, ...]]) -> list[Any]:
        return [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, *sizes]) for name, sizes in names.items()]

    inputs = {name: SHAPES[name] for name in ("track", "calo")}
    graph = helper.make_graph(nodes, "two", side(inputs), side({"flag": (3,), "energy": (2,)}), [*constants, shape])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), file)


def shapes_file(file: Path) -> None:
    """Every axis of two and of three dimensions, and a scale for each channel; outputs are named by what they do."""
    import tf_keras as keras

    layers = keras.layers
    shapes = {"flat": (3,), "plane": (2, 3), "cube": (2, 3, 2)}
    x = {name: keras.Input(shape, name=name) for name, shape in shapes.items()}

    def joined(of: str, axis: int) -> Any:
        """With a tensor that is one longer along the axis."""
        longer = [size + (k == axis - 1) for k, size in enumerate(shapes[of])]
        turned = layers.Dense(int(np.prod(longer)), use_bias=False, name=f"longer_{of}{axis}")(x["flat"])
        other = layers.Reshape(longer, name=f"turned_{of}{axis}")(turned)
        return layers.Concatenate(axis - 4 if of == "cube" and axis == 2 else axis, name=f"{of}{axis}")([x[of], other])

    outputs = [joined("plane", 1), joined("plane", 2), *(joined("cube", axis) for axis in (1, 2, 3))]
    outputs += [layers.Average(name="mean")([x["plane"], x["plane"]]), layers.BatchNormalization(name="scaled")(x["plane"])]
    model = keras.Model(list(x.values()), outputs)
    rng = np.random.default_rng(1)
    for layer in model.layers:
        drawn = [(rng.integers(1, 16, value.shape) / 8).astype(np.float32) for value in layer.get_weights()]
        layer.set_weights(drawn)
    model.get_layer("scaled").epsilon = 0.0
    model.get_layer("scaled").set_weights(
        [np.array(value, np.float32) for value in ([1, 2, 4], [0, 1, 2], [1, 0, 1], [4, 1, 4])]
    )
    model.save(file)


def describe(file: Path, **sides: Any) -> Path:
    """Write the YAML beside a model file."""
    description = {"name": file.stem, "hls4ml": {"Model": {"Precision": {"default": "ap_fixed<16,6>"}}}, **sides}
    file.with_suffix(".yaml").write_text(yaml.safe_dump(description))
    return file


def main(directory: Path) -> None:
    use_keras_2()
    gate: dict[str, Any] = {
        "rows": "tests.hls.several_models:gate_rows",
        "tolerance": "none",
        "quantised_tolerance": {"flag": 0, "energy": 0.0},
    }
    for name, write in (("two_keras.h5", keras_file), ("two_onnx.onnx", onnx_file)):
        write(directory / name)
        file = describe(directory / name, inputs=INPUTS, outputs=OUTPUTS, gate=gate)
        convert(file, directory / file.stem, core="da")
    shapes_file(directory / "shapes.h5")
    inputs = {
        "flat": {"precision": "ap_fixed<6,3>"},
        "plane": {"precision": "ap_fixed<8,4>"},
        "cube": {"precision": "ap_ufixed<5,2>"},
    }
    gate = {"rows": "tests.hls.several_models:shapes_rows", "tolerance": "none", "quantised_tolerance": 0}
    convert(describe(directory / "shapes.h5", inputs=inputs, outputs={}, gate=gate), directory / "shapes", core="da")


def shapes_rows() -> list[NDArray[np.float32]]:
    rng = np.random.default_rng(4)
    return [rng.normal(scale=2, size=(100, size)).astype(np.float32) for size in (3, 6, 12)]


def gate_rows() -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Track, whose wire is the raw integers, and calo."""
    rng = np.random.default_rng(3)
    track = rng.integers(0, 128, (300, 4)).astype(np.float32)
    return track, rng.normal(scale=8, size=(300, 6)).astype(np.float32)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
