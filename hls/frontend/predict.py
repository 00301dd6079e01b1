# SPDX-License-Identifier: Apache-2.0
"""Runs a trained model in the framework that trained it. Like hls/convert.py, it works in a process of its own::

    python -m hypersonic.hls.frontend.predict MODEL_FILE X.npz Y.npz

X.npz has the network's inputs as arrays "0", "1", ... (rows, size) float32. Y.npz gets its outputs in the same way, as float64
(rows, size), and the number of parameters as "parameters" (-1 if the format does not contain it).
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.cache import cached
from hypersonic.hls.child import python_argv, run_child
from hypersonic.hls.errors import ConversionError
from hypersonic.hls.frontend.description import description_file
from hypersonic.hls.frontend.hgq import environment_of
from hypersonic.hls.frontend.load import data_beside, load_trained


def trained_predict(model_file: Path, inputs: Sequence[NDArray[np.float32]]) -> tuple[tuple[NDArray[np.float64], ...], int]:
    """Return the trained model's outputs, float64 (rows, size) each, and its number of parameters (-1 if unknown).

    Results are cached by content.

    Args:
        inputs: float32 (rows, size) each.

    Raises:
        ConversionError: If the framework fails.
    """

    def ask(directory: Path) -> None:
        with tempfile.TemporaryDirectory() as scratch:
            x = Path(scratch) / "x.npz"
            _save(x, inputs)
            argv = python_argv("-m", __name__, str(model_file), str(x), str(directory / "y.npz"))
            done = run_child(argv, environment_of(model_file), f"the trained model {model_file}")
        if done.code:
            raise ConversionError(f"{model_file} gives no predictions: its process ended with {done.code}: {done.last}")

    parts: list[str | bytes | Path] = [model_file, *data_beside(model_file), description_file(model_file), Path(__file__)]
    answers = cached("predictions", [*parts, *(np.ascontiguousarray(x).tobytes() for x in inputs)], ask) / "y.npz"
    with np.load(answers) as stored:
        count = len(stored.files) - 1
        return tuple(stored[str(i)] for i in range(count)), int(stored["parameters"])


def _save(file: Path, arrays: Sequence[NDArray[np.floating]], parameters: int | None = None) -> None:
    named: dict[str, NDArray[np.generic]] = {str(i): array for i, array in enumerate(arrays)}
    if parameters is not None:
        named["parameters"] = np.array(parameters)
    np.savez(file, allow_pickle=False, **named)


def main(model_file: Path, x: Path, y: Path) -> None:
    """Load the model, predict the rows of `x`, and write the outputs to `y` (see the module's description)."""
    trained = load_trained(model_file)
    with np.load(x) as stored:
        inputs = [stored[str(i)].reshape(-1, *tensor.shape) for i, tensor in enumerate(trained.inputs)]
    _save(y, trained.predict(inputs), trained.parameters)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
