# SPDX-License-Identifier: Apache-2.0
"""The cases that a program in another project's environment runs, read from a directory; it writes the answers to the same place.

`<program>.py <directory>`: `cases.json` has the cases, `<case>-<input>.npy` their arrays. Only numpy is needed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Arrays = Mapping[str, NDArray[np.generic]]


class Case(NamedTuple):
    """A model of a server. most: rows that one request takes; inputs: arrays by name, all with the same number of rows."""

    grpc: str
    http: str
    model: str
    most: int
    inputs: Arrays
    outputs: Sequence[str]


#: how the client was used, and its outputs for as many of the first rows as it was asked
Answers = Iterator[tuple[str, Arrays]]


def first(case: Case, count: int) -> Arrays:
    """The inputs' first rows."""
    return {name: x[:count] for name, x in case.inputs.items()}


def stacked(samples: Sequence[Arrays]) -> Arrays:
    """Stack the answers to single rows into the answers to a batch."""
    return {name: np.stack([sample[name] for sample in samples]) for name in samples[0]}


def joined(batches: Sequence[Arrays]) -> Arrays:
    """Join the answers to parts of a batch."""
    return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}


def write(directory: Path, cases: Mapping[str, Case]) -> None:
    """Write the cases for `main` to read."""
    (directory / "cases.json").write_text(
        json.dumps({name: case._replace(inputs={})._asdict() for name, case in cases.items()})
    )
    for name, case in cases.items():
        inputs: dict[str, Any] = dict(case.inputs)
        np.savez(directory / f"{name}.inputs.npz", **inputs)


def read(directory: Path, name: str) -> dict[str, Arrays]:
    """The answers to a case, by the way they were asked for."""
    by_way: dict[str, dict[str, NDArray[np.generic]]] = {}
    with np.load(directory / f"{name}.answers.npz") as answers:
        for key in answers.files:
            way, output = key.rsplit(":", 1)
            by_way.setdefault(way, {})[output] = answers[key]
    return dict(by_way)


@contextmanager
def refused(kind: type[Exception], words: str = "") -> Iterator[None]:
    """Check that the block raises this error with these words."""
    try:
        yield
    except kind as error:
        if words not in str(error):
            raise
    else:
        raise AssertionError(f"no {kind.__name__} with {words!r}")


def main(ask: Callable[[Case], Answers]) -> None:
    """Run each case and write its answers."""
    directory = Path(sys.argv[1])
    for name, fields in json.loads((directory / "cases.json").read_text()).items():
        with np.load(directory / f"{name}.inputs.npz") as inputs:
            case = Case(**{**fields, "inputs": dict(inputs)})
        answers: dict[str, Any] = {f"{way}:{output}": y for way, outputs in ask(case) for output, y in outputs.items()}
        np.savez(directory / f"{name}.answers.npz", **answers)
