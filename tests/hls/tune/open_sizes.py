# SPDX-License-Identifier: Apache-2.0
"""Writes models whose inputs leave sizes open: python tests/hls/tune/open_sizes.py DIRECTORY

third.keras and third.h5 of Keras 3, second.h5 of Keras 2, sequential.keras, and named.onnx.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import numpy as np
import onnx
import tf_keras
from onnx import TensorProto, helper, numpy_helper


def functional(package: Any) -> Any:
    """A network of sequences of any length, and of four more numbers."""
    layers = package.layers
    steps, more = package.Input((None, 4), name="steps"), package.Input((3,), name="more")
    x = layers.GlobalAveragePooling1D()(layers.Conv1D(5, 3, activation="relu")(steps))
    return package.Model([steps, more], layers.Dense(2)(layers.Concatenate()([x, more])))


def sequential() -> Any:
    layers = keras.layers
    return keras.Sequential([keras.Input((None, 4)), layers.Conv1D(5, 3), layers.GlobalMaxPooling1D(), layers.Dense(2)])


def named() -> onnx.ModelProto:
    """A network whose batch and steps have names, and whose result has both."""
    weights = np.random.default_rng(0).normal(size=(4, 2)).astype(np.float32)
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", "steps", size]) for name, size in (("x", 4), ("y", 2))
    ]
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("Relu", ["a"], ["y"])]
    graph = helper.make_graph(nodes, "named", ends[:1], ends[1:], [numpy_helper.from_array(weights, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def main(directory: Path) -> None:
    functional(keras).save(directory / "third.keras")
    functional(keras).save(directory / "third.h5")
    functional(tf_keras).save(directory / "second.h5")
    sequential().save(directory / "sequential.keras")
    onnx.save(named(), str(directory / "named.onnx"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
