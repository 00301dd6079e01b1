# SPDX-License-Identifier: Apache-2.0
"""Draws networks of Keras 2 with numbers of any range, describes each as `hypersonic new` does, and builds it:

    python -m tests.hls.tune.drawn_networks DIRECTORY COUNT [FIRST]

Each network is FIRST, FIRST + 1, ... of a sequence that is the same in every run. Writes DIRECTORY/verdicts.json: the seed ->
{"new": its refusal or "", "build": that of the conversion of the YAML that was written or "", "loss", "layers"}.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from hypersonic.hls import convert
from hypersonic.hls.csim import judge as judging
from hypersonic.hls.csim.compiled import compile_csim
from hypersonic.hls.csim.overflow import run
from hypersonic.hls.errors import ConversionError
from hypersonic.hls.frontend.description import read_description
from hypersonic.hls.frontend.keras.model import use_keras_2
from hypersonic.hls.frontend.load import load_trained
from hypersonic.hls.frontend.survey import survey_trained
from hypersonic.hls.tune.converting import answer_of
from hypersonic.hls.tune.describe import describe_model
from hypersonic.hls.tune.edited import edited
from hypersonic.hls.tune.new import LOSS
from hypersonic.hls.tune.settle import Described, changes, settle
from hypersonic.hls.tune.verdict import Verdict, verdict_from_json

ROWS = 40

#: answers with a standard deviation below this share of the largest one are all alike
ALIKE = 1e-3

Layer = Callable[[Any], Any]


def main(directory: Path, count: int, first: int = 0) -> None:
    """Draw, describe and build the networks."""
    use_keras_2()
    # most of the time goes into the compiler, and rows are few
    vars(judging)["compile_csim"] = partial(compile_csim, optimisation="-O0")
    vars(run)["compile_counting"] = partial(run.compile_counting, optimisation="-O0")
    verdicts = {str(seed): _verdict(directory / str(seed), seed) for seed in range(first, first + count)}
    (directory / "verdicts.json").write_text(json.dumps(verdicts, indent=1))


def _verdict(directory: Path, seed: int) -> dict[str, Any]:
    directory.mkdir()
    file, rows = directory / f"net{seed}.h5", directory / "rows.npy"
    model, numbers = drawn(seed)
    model.save(file)
    np.save(rows, numbers)
    trained = load_trained(file)
    text = describe_model(file, survey_trained(trained, rows), rows.name)
    count = iter(range(99))

    def judge(described: Described, core: str) -> Verdict:
        place = directory / f"try{next(count)}"
        place.mkdir()
        (place / file.name).symlink_to(file)
        gate = {"gate": {"rows": str(rows)}}
        (place / file.with_suffix(".yaml").name).write_text(yaml.safe_dump({**described, **gate}))
        request = {"described": str(place / file.name), "directory": str(place / "out"), "core": core, "limit": str(LOSS)}
        return verdict_from_json(answer_of("judge", trained, request))

    found: dict[str, Any] = {"layers": [type(layer).__name__ for layer in model.layers], "new": "", "build": ""}
    try:
        settled = settle(yaml.safe_load(text), judge, LOSS)
    except ConversionError as error:
        return {**found, "new": str(error)}
    if settled.verdict.refused:
        return {**found, "new": settled.verdict.refused}
    file.with_suffix(".yaml").write_text(edited(text, changes(yaml.safe_load(text), settled.described)))
    try:
        convert.convert(file, directory / "built", core=settled.core or read_description(file).core)
    except ConversionError as error:
        found["build"] = str(error)
    return {**found, "loss": settled.verdict.loss}


def drawn(seed: int) -> tuple[Any, np.ndarray[Any, np.dtype[np.float32]]]:
    """The first network of a seed whose answers differ: where an activation is at its end for every row, they are all alike."""
    for attempt in range(20):
        model, numbers = network(np.random.default_rng([seed, attempt]))
        answers = np.asarray(model(numbers))
        if np.std(answers) > ALIKE * np.abs(answers).max():
            return model, numbers
    raise AssertionError("a count ended")


def network(rng: np.random.Generator) -> tuple[Any, np.ndarray[Any, np.dtype[np.float32]]]:
    """A network and rows of it. Weights, biases and rows have scales from 1/30 to 30."""
    import tf_keras as keras

    layers = keras.layers
    kind = str(rng.choice(["dense", "image", "sequence", "merge"]))
    x = first = keras.Input({"dense": (6,), "image": (6, 6, 2), "sequence": (6, 3), "merge": (5,)}[kind])
    if kind == "image":
        for _ in range(rng.integers(1, 3)):
            padding = str(rng.choice(["same", "valid"]))
            x = layers.Conv2D(int(rng.integers(2, 4)), int(rng.integers(1, 3)), padding=padding)(x)
            x = _between(rng, x)
        x = _choice(rng, layers.MaxPooling2D(2), layers.AveragePooling2D(2), layers.ZeroPadding2D(1))(x)
        x = _choice(rng, layers.Flatten(), layers.GlobalAveragePooling2D(), layers.GlobalMaxPooling2D())(x)
    elif kind == "sequence":
        x = _choice(rng, layers.Conv1D(3, 2), layers.Dense(3))(x)
        x = _choice(
            rng,
            layers.LSTM(3),
            layers.GRU(3),
            layers.Bidirectional(layers.LSTM(2)),
            layers.GlobalAveragePooling1D(),
            layers.Flatten(),
        )(x)
    elif kind == "merge":
        one, other = (_between(rng, layers.Dense(4)(x)) for _ in range(2))
        x = _choice(rng, layers.Add(), layers.Multiply(), layers.Concatenate(), layers.Average(), layers.Maximum())(
            [one, other]
        )
    for _ in range(rng.integers(0, 2)):
        x = _between(rng, layers.Dense(int(rng.integers(2, 6)))(x))
    x = layers.Dense(int(rng.integers(1, 4)))(x)
    if rng.random() < 0.3 and x.shape[-1] > 1:
        x = layers.Activation("softmax")(x)
    model = keras.Model(first, x)
    for layer in model.layers:
        layer.set_weights([_weights(rng, weight.shape, word) for weight, word in _named(layer)])
    scale = np.float32(10.0 ** rng.uniform(-1, 1))
    return model, (scale * rng.normal(size=(ROWS, *first.shape[1:]))).astype(np.float32)


def _between(rng: np.random.Generator, x: Any) -> Any:
    import tf_keras as keras

    layers = keras.layers
    if rng.random() < 0.4:
        x = layers.BatchNormalization()(x)
    activations = [layers.Activation(name) for name in ("relu", "tanh", "sigmoid", "elu", "linear")]
    return _choice(rng, *activations, layers.ReLU(), layers.LeakyReLU())(x)


def _choice(rng: np.random.Generator, *layers: Any) -> Any:
    return layers[int(rng.integers(len(layers)))]


def _named(layer: Any) -> list[tuple[Any, str]]:
    return [(weight, weight.name) for weight in layer.weights]


def _weights(rng: np.random.Generator, shape: Any, name: str) -> Any:
    if "variance" in name:
        return rng.uniform(0.05, 20, shape)
    is_bias = any(word in name for word in ("bias", "beta", "mean"))
    size = 1.0 if is_bias else np.sqrt(2 / max(1, int(np.prod(tuple(shape)[:-1]))))
    return size * 10.0 ** rng.uniform(-1.5, 1) * rng.normal(size=tuple(shape))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), *map(int, sys.argv[3:]))
