# SPDX-License-Identifier: Apache-2.0
"""Writes small networks of published architectures, as a user does who knows only Keras: all names are Keras' defaults.

    python -m bench.own.published DIRECTORY [NAME ...]

Each gets a folder that bench.own.networks takes: model.keras of Keras 3, rows.npy or rows.npz, and Keras' answers in
expected.npz. All are trained for a few steps on random rows, so that weights and statistics differ from those of a new model.
"""

from __future__ import annotations

import argparse
import inspect
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np

from bench.own.published import images, sequences, vectors

ROWS = 256

#: networks whose inputs are bytes -> the end of the range of their integers, which begins at 0
_SCALES = {"rescaled_images": 255.0}

#: the public functions of these modules
NETWORKS: dict[str, Callable[[], Any]] = {
    name: make
    for part in (images, sequences, vectors)
    for name, make in inspect.getmembers(part, inspect.isfunction)
    if not name.startswith("_")
}


def write(name: str, folder: Path) -> None:
    """Train a network for some steps and write its folder."""
    keras.utils.clear_session()
    keras.utils.set_random_seed(len(name))
    model = NETWORKS[name]()
    rng = np.random.default_rng(len(name))
    scale = _SCALES.get(name)
    shapes = [(ROWS, *tensor.shape[1:]) for tensor in model.inputs]
    rows = [rng.normal(size=shape) if scale is None else rng.integers(0, int(scale), shape) for shape in shapes]
    given = [each.astype(np.float32) for each in rows]
    answers = model(given if len(given) > 1 else given[0])
    flat = np.concatenate([each.reshape(ROWS, -1) / (scale or 1.0) for each in given], axis=1)
    wanted = [_targets(rng, flat, tuple(tensor.shape)) for tensor in keras.tree.flatten(answers)]
    model.compile("adam", ["mse"] * len(wanted) if len(wanted) > 1 else "mse")
    targets = keras.tree.pack_sequence_as(answers, wanted)
    model.fit(given if len(given) > 1 else given[0], targets, epochs=10, verbose=0)
    folder.mkdir(parents=True, exist_ok=True)
    model.save(folder / "model.keras")
    if len(given) == 1:
        np.save(folder / "rows.npy", given[0])
    else:
        np.savez(folder / "rows.npz", allow_pickle=False, **dict(zip(_names(model), given, strict=True)))
    answers = model(given if len(given) > 1 else given[0], training=False)
    stored = {str(place): np.asarray(each, np.float32) for place, each in enumerate(keras.tree.flatten(answers))}
    np.savez(folder / "expected.npz", allow_pickle=False, **stored)


def _targets(rng: np.random.Generator, flat: Any, shape: tuple[int, ...]) -> Any:
    """Numbers from 0 to 1 of this shape that depend on the rows."""
    size = int(np.prod(shape[1:]))
    sums = flat @ rng.normal(size=(flat.shape[1], size)) / np.sqrt(flat.shape[1])
    return (1 / (1 + np.exp(-3 * sums))).reshape(shape).astype(np.float32)


def _names(model: Any) -> list[str]:
    """The names of a model's inputs."""
    return [tensor._keras_history.operation.name for tensor in model.inputs]


def main(argv: Sequence[str] | None = None) -> int:
    """Write the folders. Return 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[[], *NETWORKS], default=[])
    asked = parser.parse_args(argv)
    for name in asked.names or NETWORKS:
        write(name, asked.directory / name)
        print(name, flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
