# SPDX-License-Identifier: Apache-2.0
"""Random inputs for a model of which only its description is known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.client.load.errors import LoadError
from hypersonic.client.settings import Arrays
from hypersonic.client.specs import ModelSpec, TensorSpec

#: the length of a random string, and its characters
_LETTERS, _ALPHABET = 16, np.frombuffer(b"abcdefghijklmnopqrstuvwxyz0123456789", np.uint8)

#: the most different requests, and the most bytes of all of them
_REQUESTS, _REQUESTS_BYTES = 16, 256 << 20


def random_requests(
    spec: ModelSpec, rows: int, seed: int = 1, *, count: int = 0, shapes: Mapping[str, tuple[int, ...]] | None = None
) -> list[Arrays]:
    """Return the inputs of `count` different requests, each with arrays `(rows, *shape)` by input name, of the inputs' dtypes.

    Floats are normal with mean 0 and variance 1, integers uniform from 0 to 99, BOOL is either with equal probability, BYTES is
    16 ASCII letters and digits. Optional inputs are left out.

    Args:
        shapes: of a row, by input name, for inputs with axes of any length.
        count: 0 for 16, or fewer if these would take more than 256 MiB.

    Raises:
        LoadError: If a shape is missing, or if the model does not take so many rows.
    """
    check_rows(spec, rows)
    rng = np.random.default_rng(seed)
    tensors = [tensor for tensor in spec.inputs if not tensor.optional] or list(spec.inputs)
    if unknown := set(shapes or {}) - {tensor.name for tensor in spec.inputs}:
        names = ", ".join(tensor.name for tensor in spec.inputs)
        raise LoadError(f"model {spec.name!r} has no input {min(unknown)!r}, only {names}")
    full = {tensor.name: _shape(spec, tensor, rows, (shapes or {}).get(tensor.name)) for tensor in tensors}
    return [
        {tensor.name: _random(tensor, full[tensor.name], rng) for tensor in tensors}
        for _ in range(count or default_count(spec, rows))
    ]


def default_count(spec: ModelSpec, rows: int) -> int:
    """Return the number of different requests of so many rows that are sent in turn: 1 to 16."""
    row_bytes = sum(tensor.row_bytes for tensor in spec.inputs)
    return max(1, min(_REQUESTS, _REQUESTS_BYTES // max(1, rows * row_bytes)))


def check_rows(spec: ModelSpec, rows: int) -> None:
    """Raise LoadError if a request of so many rows would be refused or split."""
    most = spec.max_batch_size or 1
    if not 1 <= rows <= most:
        raise LoadError(f"a request has {rows} rows; model {spec.name!r} takes 1 to {most} rows in a request")


def _shape(spec: ModelSpec, tensor: TensorSpec, rows: int, given: tuple[int, ...] | None) -> tuple[int, ...]:
    shape = tensor.shape if given is None else given
    fits = len(shape) == len(tensor.shape) and all(e in {-1, n} for e, n in zip(tensor.shape, shape, strict=True))
    if not fits:
        raise LoadError(f"the shape of input {tensor.name!r} is {shape}, expected {tensor.shape}, where -1 is any length")
    if any(n < 0 for n in shape):
        raise LoadError(f"input {tensor.name!r} has the shape {shape}, where -1 is any length: a shape has to be given")
    return (rows, *shape) if spec.max_batch_size else shape


def _random(tensor: TensorSpec, shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[Any]:
    if tensor.datatype == "BYTES":
        letters = rng.choice(_ALPHABET, (*shape, _LETTERS))
        strings = np.empty(shape, object)
        for place in np.ndindex(*shape):
            strings[place] = letters[place].tobytes()
        return strings
    if tensor.datatype == "BOOL":
        return rng.random(shape) < 0.5
    if tensor.dtype.kind == "f":
        return rng.standard_normal(shape).astype(tensor.dtype)
    return rng.integers(0, 100, shape).astype(tensor.dtype)
