# SPDX-License-Identifier: Apache-2.0
"""Splits rows into requests and joins outputs: batches above the model's maximum, and entries of different numbers of rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.client.errors import AnswerError, InputError
from hypersonic.client.messages.elements import as_elements
from hypersonic.client.settings import Arrays, Limits
from hypersonic.client.specs import ModelSpec, TensorSpec

#: bytes of a message that are reserved for names and shapes
_HEAD_BYTES = 1 << 16


@dataclass(frozen=True)
class Rectangular:
    """Several entries in one request: their rows are concatenated, and the outputs are split at the same rows.

    Attributes:
        entries: each is what infer() takes for one request. CMSSW's TritonBatchMode::Rectangular. An iterable that can be read
            only once is read when this is made, and its entries are copied.
    """

    entries: Sequence[Any]

    def __post_init__(self) -> None:
        object.__setattr__(self, "entries", _all_entries(self.entries))


@dataclass(frozen=True)
class Ragged:
    """Several entries, one request each, so that their shapes may differ. CMSSW's TritonBatchMode::Ragged.

    Attributes:
        entries: as of Rectangular.
    """

    entries: Sequence[Any]

    def __post_init__(self) -> None:
        object.__setattr__(self, "entries", _all_entries(self.entries))


#: what numpy would copy, or nobody can write into
_CONSTANTS = bool | int | float | str | bytes | np.generic | Rectangular | Ragged | None


def snapshot(inputs: Any) -> Any:
    """Return inputs that later writes into the caller's arrays do not change.

    What no array can be made of is returned as it is.
    """
    if isinstance(inputs, Mapping):
        return {name: snapshot(values) for name, values in inputs.items()}
    if isinstance(inputs, np.ndarray):
        return inputs.copy()
    if isinstance(inputs, list | tuple):
        return [value if isinstance(value, _CONSTANTS) else snapshot(value) for value in inputs]
    if not isinstance(inputs, _CONSTANTS):
        with suppress(Exception):  # the caller's class: as_inputs() says what is wrong with it
            return np.array(inputs)
    return inputs


def _all_entries(entries: Any) -> Any:
    """Return the entries of an iterable that can be read only once, such as a generator, as a list of copies."""
    return [snapshot(entry) for entry in entries] if isinstance(entries, Iterator) else entries


def as_inputs(spec: ModelSpec, inputs: Any) -> dict[str, NDArray[Any]]:
    """Return the arrays of a request by name, in the model's order, in the model's shapes.

    Rows may be flat: (rows, elements) for a shape (a, b, c).

    Args:
        inputs: a dict by name; or an array, for a model with one input.

    Raises:
        InputError: For a missing or unknown name, a shape that does not fit, and inputs with different numbers of rows.
    """
    if isinstance(inputs, Rectangular | Ragged):
        raise InputError(f"{type(inputs).__name__} is for infer() only; give the other methods an array or a dict of arrays")
    if not isinstance(inputs, Mapping):
        needed = [tensor for tensor in spec.inputs if not tensor.optional] or list(spec.inputs)
        if len(needed) != 1:
            names = ", ".join(tensor.name for tensor in spec.inputs)
            raise InputError(f"model {spec.name!r} has the inputs {names}; give a dict of arrays by these names")
        inputs = {needed[0].name: inputs}
    if unknown := set(inputs) - {tensor.name for tensor in spec.inputs}:
        names = ", ".join(tensor.name for tensor in spec.inputs)
        raise InputError(f"model {spec.name!r} has no input {min(unknown)!r}, only {names}")
    made = {}
    for tensor in spec.inputs:
        if tensor.name in inputs:
            made[tensor.name] = _shaped(spec, tensor, as_elements(tensor.name, tensor.datatype, inputs[tensor.name]))
        elif not tensor.optional:
            raise InputError(f"model {spec.name!r} needs the input {tensor.name!r}, got {', '.join(inputs) or 'none'}")
    if spec.max_batch_size and not made:
        raise InputError(f"model {spec.name!r} has got no input, expected one or more, which tell the number of rows")
    counts = {name: len(array) for name, array in made.items()} if spec.max_batch_size else {}
    if len(set(counts.values())) > 1:
        raise InputError(f"the inputs of model {spec.name!r} have different numbers of rows: {counts}")
    return made


def parts_of(spec: ModelSpec, inputs: Arrays, limits: Limits) -> Iterator[dict[str, NDArray[Any]]]:
    """Yield the inputs of each request: as few requests as the model's maximum and the limits allow, of about equal size.

    Raises InputError if one row is larger than a message may be.
    """
    size = sum(array.nbytes for array in inputs.values())
    room = limits.message_bytes - _HEAD_BYTES
    if not spec.max_batch_size:
        if size > room:
            raise InputError(f"a request of {size} bytes to model {spec.name!r} cannot be split: the model takes no batches")
        yield dict(inputs)
        return
    rows = len(next(iter(inputs.values())))
    row_bytes = -(-size // max(rows, 1))
    if row_bytes > room:
        raise InputError(
            f"one row for model {spec.name!r} has {row_bytes} bytes, and a message has at most {limits.message_bytes}"
        )
    most = max(1, min(spec.max_batch_size, room // max(row_bytes, 1)))
    parts = -(-rows // most)
    edges = [rows * part // parts for part in range(parts + 1)] if parts else []
    for begin, end in pairwise(edges):
        yield {name: array[begin:end] for name, array in inputs.items()}


def join(parts: Sequence[Arrays]) -> dict[str, NDArray[Any]]:
    """Return the concatenated outputs of the parts. A single part is returned without a copy."""
    if len(parts) == 1:
        return dict(parts[0])
    joined = {}
    for name in parts[0]:
        try:
            joined[name] = np.concatenate([part[name] for part in parts])
        except (ValueError, KeyError) as error:
            raise AnswerError(
                f"the parts of a split request have outputs {name!r} that do not fit together: {error}"
            ) from error
        joined[name].flags.writeable = False
    return joined


def no_rows(spec: ModelSpec, names: Collection[str] = ()) -> dict[str, NDArray[Any]]:
    """Return the outputs for zero rows. An axis of variable length has length 0.

    Args:
        names: of the outputs that are asked for; () is all.
    """
    known = {tensor.name: tensor for tensor in spec.outputs}
    wanted = [known[name] for name in names or known]
    return {tensor.name: np.empty((0, *(max(n, 0) for n in tensor.shape)), tensor.dtype) for tensor in wanted}


def together(spec: ModelSpec, entries: Iterable[Any]) -> tuple[dict[str, NDArray[Any]], list[int]]:
    """Return the rows of all entries as one request's inputs, and the number of rows of each. Raises InputError."""
    if not spec.max_batch_size:
        raise InputError(f"model {spec.name!r} takes no batches, so Rectangular cannot put entries together; use Ragged")
    made = [as_inputs(spec, entry) for entry in entries]
    if not made:
        return {}, []
    if len(names := {tuple(inputs) for inputs in made}) > 1:
        differ = " and ".join(sorted(", ".join(each) for each in names))
        raise InputError(f"the entries have different inputs: {differ}; use Ragged, or give all entries the same inputs")
    counts = [len(next(iter(inputs.values()))) for inputs in made]
    try:
        rows = {name: np.concatenate([inputs[name] for inputs in made]) for name in made[0]}
    except (ValueError, KeyError) as error:
        raise InputError(f"the entries do not fit together: {error}; use Ragged for entries of different shapes") from error
    return rows, counts


def apart(outputs: Arrays, counts: Sequence[int]) -> list[dict[str, NDArray[Any]]]:
    """Return the outputs of each entry, as views.

    Args:
        counts: the rows of each.
    """
    edges = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
    for name, array in outputs.items():
        if len(array) != edges[-1]:
            raise AnswerError(f"output {name!r} has {len(array)} rows, expected {edges[-1]}")
    return [{name: array[a:b] for name, array in outputs.items()} for a, b in pairwise(edges)]


def _shaped(spec: ModelSpec, tensor: TensorSpec, array: NDArray[Any]) -> NDArray[Any]:
    """Return the array in the model's shape. Raises InputError."""
    expected = ((-1,) if spec.max_batch_size else ()) + tensor.shape
    if len(array.shape) == len(expected) and all(e in {-1, n} for e, n in zip(expected, array.shape, strict=True)):
        return array
    flat = spec.max_batch_size and array.ndim == 2 and -1 not in tensor.shape
    if flat and array.shape[1] == int(np.prod(tensor.shape)):
        return array.reshape(len(array), *tensor.shape)
    words = "(" + ", ".join(["rows"] * bool(spec.max_batch_size) + [str(n) if n >= 0 else "any" for n in tensor.shape]) + ")"
    raise InputError(f"input {tensor.name!r} of model {spec.name!r} has shape {array.shape}, expected {words}")
