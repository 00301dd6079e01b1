# SPDX-License-Identifier: Apache-2.0
"""Models that must be refused, converted in this one process: python tests/hls/frontend/refusals.py DIRECTORY prints JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from hypersonic.hls.convert import convert
from hypersonic.hls.errors import ConversionError
from hypersonic.hls.frontend.keras.model import use_keras_2


def cases() -> dict[str, tuple[Callable[[], Any], dict[str, Any]]]:
    """name -> (model, LayerName of its YAML)."""
    from tf_keras import Input, Model, Sequential, layers
    from tf_keras.initializers import Constant

    def dense(kernel: Any = "ones", **options: Any) -> Any:
        return Sequential([Input((3,), name="x"), layers.Dense(2, name="d", kernel_initializer=kernel, **options)])

    def with_layer(layer: Any, shape: tuple[int | None, ...] = (3,)) -> Any:
        return Sequential([Input(shape, name="x"), layer])

    def model(build: Callable[[Any], Any], shape: tuple[int, ...] = (3,)) -> Callable[[], Any]:
        def drawn() -> Any:
            x = Input(shape, name="x")
            return Model(x, build(x))

        return drawn

    def normalised() -> Any:
        return Sequential([Input((3,), name="x"), layers.Dense(2, name="d"), layers.BatchNormalization(name="bn")])

    def falling() -> Any:
        from qkeras import QActivation

        norm = layers.BatchNormalization(name="bn", gamma_initializer=Constant(-0.5))
        return Sequential([Input((3,), name="x"), norm, QActivation("binary(alpha=1)", name="step")])

    def shared(x: Any) -> Any:
        layer = layers.Dense(3, name="d")
        return layer(layer(x))

    def quantised_branch(x: Any) -> Any:
        y = layers.Dense(2, name="d")(x)
        return [layers.Activation("linear", name="q")(y), layers.Dense(2, name="e")(y)]

    def broadcast(x: Any) -> Any:
        return layers.Add(name="sum")([layers.Reshape((2, 1), name="r")(layers.Dense(2, name="d")(layers.Flatten()(x))), x])

    def twice(x: Any) -> Any:
        y = layers.Dense(2, name="d")(x)
        return [y, y]

    def two() -> Any:
        a, b = Input((3,), name="a"), Input((2,), name="b")
        return Model([a, b], layers.Concatenate(name="c")([a, b]))

    def softmax() -> Any:
        return Sequential([Input((3,), name="x"), layers.Dense(2, name="d"), layers.Activation("softmax", name="soft")])

    def precision(**types: str) -> dict[str, Any]:
        return {"d": {"Precision": types}}

    def nan_weights() -> Any:
        return Sequential([Input((3,), name="x"), layers.Dense(2, name="d", kernel_initializer=Constant(float("nan")))])

    return {
        "nan_weights": (nan_weights, {}),
        "unknown_shape": (lambda: with_layer(layers.ReLU(name="r"), (None,)), {}),
        "weight_out_of_range": (dense, precision(weight="ap_fixed<8,0>")),
        "clipped_relu": (lambda: with_layer(layers.ReLU(4.0, threshold=1, name="r4")), {}),
        "unknown_layer": (lambda: with_layer(layers.UnitNormalization(name="unit")), {}),
        "unread_wrapper": (
            model(
                lambda x: layers.Dense(2)(
                    layers.Flatten()(layers.TimeDistributed(layers.Conv1D(2, 2, padding="causal"), name="td")(x))
                ),
                (2, 4, 3),
            ),
            {},
        ),
        "many_products": (lambda: with_layer(layers.Conv2D(8, 1, name="conv", padding="same"), (64, 64, 16)), {}),
        "dropout_output": (model(lambda x: layers.Dropout(0.5, name="drop")(layers.Dense(2, name="d")(x))), {}),
        "input_as_output": (
            model(lambda x: [layers.Activation("linear", name="same")(x), layers.Dense(2, name="d")(x)]),
            {"same": {"Precision": {"result": "ap_fixed<12,6>"}}},
        ),
        "output_twice": (model(twice), {}),
        "shared_layer": (model(shared), {}),
        "broadcast": (model(broadcast, (2, 3)), {}),
        "quantised_branch": (model(quantised_branch), {"q": {"Precision": {"result": "ap_fixed<4,2>"}}}),
        "fused_output": (normalised, {"bn": {"Precision": {"result": "ap_fixed<7,4,AP_RND,AP_SAT>"}}}),
        "falling": (falling, {}),
        "relu_output": (lambda: dense(activation="relu"), {"d": None}),
        "least_weight": (lambda: dense(Constant(-1.0)), precision(weight="ap_fixed<4,1,AP_TRN,AP_SAT_SYM>")),
        "no_such_input": (dense, {}),
        "undescribed_input": (two, {}),
        "only_input": (two, {}),
        "same_name": (two, {}),
        "softmax_type": (softmax, {"d": {"Precision": {"result": "ap_fixed<38,18>"}}}),
        "setting": (dense, {"d": {"Reusefactor": 4}}),
        "wide_output": (dense, precision(accum="ap_fixed<70,20>", result="ap_fixed<70,20>")),
        "unknown_layer_name": (dense, {"dens": {"Precision": {"result": "ap_fixed<16,8>"}}}),
    }


#: cases whose YAML says more than a precision of the one input
SIDES: dict[str, dict[str, Any]] = {
    "input_as_output": {"input": {"precision": "ap_fixed<12,6>"}, "outputs": {}},
    "output_twice": {"input": {"precision": "ap_fixed<12,6>"}, "outputs": {}},
    "quantised_branch": {"input": {"precision": "ap_fixed<12,6>"}, "outputs": {}},
    "relu_output": {"input": {"precision": "ap_fixed<12,6>"}, "output": {"precision": "ap_ufixed<8,4,AP_RND,AP_SAT>"}},
    "no_such_input": {"inputs": {"y": {"precision": "ap_fixed<12,6>"}}, "output": {}},
    "undescribed_input": {"inputs": {"a": {"precision": "ap_fixed<12,6>"}}, "output": {}},
    "same_name": {"inputs": {name: {"precision": "ap_fixed<12,6>", "name": "z"} for name in "ab"}, "output": {}},
}


def message(file: Path) -> str:
    try:
        project = convert(file, file.with_suffix(""), core="da")
    except ConversionError as error:
        return f"{type(error).__name__}: {error}"
    return f"converted to {project.outputs.tensors[0].fixed}"


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
            "hls4ml": {"LayerName": layer_name},
            **SIDES.get(name, {"input": {"precision": "ap_fixed<12,6>"}, "output": {}}),
        }
        file.with_suffix(".yaml").write_text(yaml.safe_dump(description))
        messages[name] = message(file)
    (directory / "messages.json").write_text(json.dumps(messages))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
