# SPDX-License-Identifier: Apache-2.0
"""A session of an hls4ml user, without the rest of the stack: python tests/hls/plugin/plugin_session.py DIRECTORY MODEL..."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hypersonic.hls.plugin.compare import compare
from tests.support.own_warnings import texts_of_own

#: kinds of numbers that hls4ml's own predict refuses
OTHER_KINDS = ("int64", "uint8", "bool", "float16", "longdouble", "complex64")

STRATEGIES = ("Latency", "distributed_arithmetic")

#: with a ReuseFactor of 1, hls4ml takes Resource instead
REUSE = {"ResourceUnrolled": 3}


def chain(layers: Any, keras: Any) -> Any:
    return keras.Sequential(
        [
            keras.Input((5,), name="x"),
            layers.Dense(7, "relu", name="a"),
            layers.BatchNormalization(name="b"),
            layers.Dense(3, name="c"),
        ]
    )


def graph(layers: Any, keras: Any) -> Any:
    """Two inputs, of two dimensions and of one, and two outputs."""
    x, z = keras.Input((2, 2), name="x"), keras.Input((3,), name="z")
    hidden = layers.Dense(3, "relu", name="a")(layers.Flatten(name="f")(x))
    total = layers.Add(name="s")([hidden, z])
    return keras.Model([z, x], [layers.Dense(2, name="c")(layers.Concatenate(name="d")([total, z])), total])


def image(layers: Any, keras: Any) -> Any:
    return keras.Sequential(
        [
            keras.Input((6, 6, 2), name="x"),
            layers.Conv2D(3, 3, padding="same", activation="relu", name="a"),
            layers.MaxPooling2D(2, name="b"),
            layers.Flatten(name="f"),
            layers.Dense(4, name="c"),
        ]
    )


def main(directory: Path, names: list[str]) -> None:
    os.environ["TF_USE_LEGACY_KERAS"] = "1"  # `keras` remains Keras 3
    import keras as keras_3
    import tf_keras as keras

    keras.utils.set_random_seed(7)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 5)).astype(np.float32)
    z = [rng.normal(size=shape) for shape in ((300, 3), (300, 2, 2))]
    pictures = [rng.normal(size=(40, 6, 6, 2))]
    models: dict[str, Callable[[], dict[str, Any]]] = {
        "chain": lambda: compared(
            directory / "chain", chain(keras.layers, keras), [x, x[:1], x.astype(np.float64)], traced=True
        ),
        "graph": lambda: compared(
            directory / "graph", graph(keras.layers, keras), [z, [part[:1] for part in z]], ("Latency", ""), granularity="model"
        ),
        "image": lambda: compared(
            directory / "image", image(keras.layers, keras), pictures, ("ResourceUnrolled",), "io_stream"
        ),
        "both keras": lambda: {
            "read": [layers_read(chain(of.layers, of), directory / "read") for of in (keras, keras_3)],
            "import keras": sys.modules["keras"].__name__,
        },
    }
    (directory / "session.json").write_text(json.dumps({name: models[name]() for name in names}))


def compared(
    directory: Path,
    model: Any,
    inputs: list[Any],
    strategies: tuple[str, ...] = STRATEGIES,
    io_type: str = "io_parallel",
    *,
    granularity: str = "name",
    traced: bool = False,
) -> dict[str, Any]:
    """Every backend's answers to the inputs against the Vitis backend's: values, shapes, dtypes, and lists for lists.

    strategies: "" for a configuration without any. traced: the numbers of all layers too, of a model with 48 bits after its
    first layer.
    """
    import hls4ml

    answers, reports, told, refused, misshapen, said, layers = {}, {}, {}, [], [], [], []
    for backend, strategy in [("Vitis", "Latency"), *(("Hypersonic", strategy) for strategy in strategies)]:
        config = hls4ml.utils.config_from_keras_model(model, granularity=granularity, backend=backend)
        config["Model"]["Strategy"] = strategy
        if not strategy:
            del config["Model"]["Strategy"]
        for layer in config.get("LayerName", {}).values():  # what the model-wide word does not reach
            layer.update(Strategy=strategy, ReuseFactor=REUSE.get(strategy, 1), Trace=traced)
        if traced:
            config["LayerName"]["a_relu"]["Precision"]["result"] = "fixed<48,8>"
        where = str(directory / f"{backend}_{strategy}")
        converted = hls4ml.converters.convert_from_keras_model(
            model, hls_config=config, output_dir=where, backend=backend, io_type=io_type
        )
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            traces = [] if not traced or strategy != "Latency" else [converted.trace(inputs[0])]
            if not traces:  # trace() compiles too
                converted.compile()
        said += [f"{strategy}: {text}" for text in texts_of_own(caught)]
        answers[f"{backend} {strategy}"] = [converted.predict(x) for x in inputs]
        for answer, numbers in traces:
            layers.append({"answers": answer, **numbers})
        beside = compare(converted, partial(model.predict, verbose=0), inputs[0])
        told[f"{backend} {strategy}"] = {"lines": beside.lines(), "far": [each.far_because for each in beside.outputs]}
        if backend == "Hypersonic":
            reports[strategy] = converted.build()
            refused = [refusal(converted, inputs[0], kind) for kind in OTHER_KINDS]
            misshapen = said_to_shapes(converted, inputs[0])
    wanted = answers.pop("Vitis Latency")
    equal = {name: all(map(same, got, wanted)) for name, got in answers.items()}
    first = wanted[0][0] if isinstance(wanted[0], list) else wanted[0]
    figures = {"told": told, "reports": reports, "distinct": len(np.unique(first)), "refused": refused, "misshapen": misshapen}
    bits = max(variable.type.precision.width for variable in converted.get_output_variables())
    alike = [name for name in layers[0] if same(layers[0][name], layers[1][name])] if traced else []
    return {"equal": equal, "warnings": said, "bits": bits, "traced alike": alike, **figures}


def layers_read(model: Any, directory: Path) -> list[Any]:
    """The class and the width of each layer that hls4ml reads, its input apart, whose name is not the same in both Keras."""
    import hls4ml

    config = hls4ml.utils.config_from_keras_model(model)
    graph = hls4ml.converters.convert_from_keras_model(
        model, hls_config=config, output_dir=str(directory), backend="Hypersonic"
    )
    return [(layer.name, layer.class_name, layer.get_output_variable().shape) for layer in graph.get_layers()][1:]


def refusal(converted: Any, x: Any, kind: str) -> str:
    """The answer of `predict` to numbers of another dtype, or the message of its TypeError."""
    try:
        answer = converted.predict([part.astype(kind) for part in x] if isinstance(x, list) else x.astype(kind))
    except TypeError as error:
        return str(error)
    return f"answered {answer}"


def said_to_shapes(converted: Any, x: Any) -> list[str]:
    """The messages with which `predict` refuses arrays that hold whole rows in the wrong shape."""
    first, *others = x if isinstance(x, list) else [x]
    size = first[0].size
    answers = []
    for shape in ((size, size + 1), (size * 2,)):
        part = np.zeros(shape, first.dtype)
        try:
            answers.append(f"answered {converted.predict([part, *others] if others else part)}")
        except ValueError as error:
            answers.append(str(error))
    return answers


def same(a: Any, b: Any) -> bool:
    if isinstance(a, list) or isinstance(b, list):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return bool(np.array_equal(a, b) and a.dtype == b.dtype)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
