# SPDX-License-Identifier: Apache-2.0
"""Models that must be refused, each converted in this one process: python tests/hls/refusals.py DIRECTORY prints JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from hypersonic.hls.convert import convert
from hypersonic.hls.keras_model import use_keras_2
from hypersonic.hls.project import ConversionError


def cases() -> dict[str, tuple[Callable[[], Any], dict[str, Any]]]:
    """name -> (model, LayerName of its YAML)."""
    from tf_keras import Input, Model, Sequential, layers
    from tf_keras.initializers import Constant

    def dense(**options: Any) -> Any:
        return Sequential([Input((3,), name="x"), layers.Dense(2, name="d", kernel_initializer="ones", **options)])

    def with_layer(layer: Any, shape: tuple[int, ...] = (3,)) -> Any:
        return Sequential([Input(shape, name="x"), layer])

    def branched() -> Any:
        x = Input((3,), name="x")
        return Model(x, layers.Add(name="sum")([layers.Dense(2, name="a")(x), layers.Dense(2, name="b")(x)]))

    def softmax() -> Any:
        return Sequential([Input((3,), name="x"), layers.Dense(2, name="d"), layers.Softmax(name="soft")])

    def precision(**types: str) -> dict[str, Any]:
        return {"d": {"Precision": types}}

    def nan_weights() -> Any:
        return Sequential([Input((3,), name="x"), layers.Dense(2, name="d", kernel_initializer=Constant(float("nan")))])

    return {
        "nan_weights": (nan_weights, {}),
        "unknown_shape": (lambda: with_layer(layers.ReLU(name="r"), (None,)), {}),
        "accum_drops_bits": (dense, precision(accum="ap_fixed<16,12>")),
        "overflow_mode": (dense, precision(result="ap_fixed<16,8,AP_RND,AP_SAT_ZERO>")),
        "weight_out_of_range": (dense, precision(weight="ap_fixed<8,0>")),
        "sigmoid": (lambda: dense(activation="sigmoid"), {}),
        "clipped_relu": (lambda: with_layer(layers.ReLU(6.0, name="r6")), {}),
        "leaky_relu": (lambda: with_layer(layers.LeakyReLU(name="leaky")), {}),
        "unknown_layer": (lambda: with_layer(layers.UnitNormalization(name="unit")), {}),
        "convolution": (lambda: with_layer(layers.Conv1D(2, 2, name="conv"), (4, 3)), {}),
        "branch": (branched, {}),
        "resource": (dense, {"d": {"Strategy": "Resource", "ReuseFactor": 3}}),
        "softmax_table": (softmax, {"d": {"Precision": {"result": "ap_fixed<38,18>"}}}),
        "wide_output": (dense, precision(accum="ap_fixed<70,20>", result="ap_fixed<70,20>")),
        "unknown_layer_name": (dense, {"dens": {"Precision": {"result": "ap_fixed<16,8>"}}}),
    }


def message(file: Path) -> str:
    try:
        convert(file, file.with_suffix(""), core="da")
    except ConversionError as error:
        return f"{type(error).__name__}: {error}"
    return "converted"


def main(directory: Path) -> None:
    use_keras_2()
    messages = {}
    for name in ("broken.h5", "broken.onnx"):
        (directory / name).write_bytes(b"nothing of the kind")
        (directory / name).with_suffix(".yaml").write_text("{name: broken, input: {precision: 'ap_fixed<8,4>'}, output: {}}")
        messages[name] = message(directory / name)
    for name, (model, layer_name) in cases().items():
        file = directory / f"{name}.h5"
        model().save(file)
        description = {
            "name": name,
            "input": {"precision": "ap_fixed<12,6>"},
            "output": {},
            "hls4ml": {"LayerName": layer_name},
        }
        file.with_suffix(".yaml").write_text(yaml.safe_dump(description))
        messages[name] = message(file)
    (directory / "messages.json").write_text(json.dumps(messages))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
