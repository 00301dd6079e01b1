# SPDX-License-Identifier: Apache-2.0
"""The rows on which a conversion is compared with the trained model: the gate's, or random ones."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.frontend.description import DescriptionError
from hypersonic.hls.frontend.gate import Gate
from hypersonic.hls.frontend.rows import Wanted, is_rows_file, rows_and_layout
from hypersonic.hls.frontend.trained import TrainedModel
from hypersonic.hls.project import HlsProject
from hypersonic.hls.row import Row
from hypersonic.hls.spec import TensorSpec

#: how many random numbers a model without rows of its own is compared on: csim of a large model takes seconds per row
_RANDOM_NUMBERS = 100_000


@dataclass(frozen=True)
class GivenRows:
    """Rows of all inputs.

    Attributes:
        source: the gate's, or "random".
        given: the network's numbers as the user has them, float64 (rows, size) for each input, before any rounding.
        raw: what the core gets when a client sends these rows, int64 (rows, size of the side).
    """

    source: str
    given: tuple[NDArray[np.float64], ...]
    raw: NDArray[np.int64]

    @property
    def is_random(self) -> bool:
        """Return whether nobody gave these rows."""
        return self.source == "random"

    def quantised(self, inputs: Row) -> tuple[NDArray[np.float64], ...]:
        """Return the network's numbers as the core has them, float64 (rows, size) for each input."""
        return tuple(spec.fixed.to_float(part) for spec, part in zip(inputs.tensors, inputs.split(self.raw), strict=True))


@contextmanager
def modules_beside(model_file: Path) -> Iterator[None]:
    """Make the modules beside the model importable inside the context. Libraries of the same name take precedence."""
    directory = str(model_file.resolve().parent)
    sys.path.append(directory)
    try:
        yield
    finally:
        sys.path.remove(directory)


def rows_of(
    project: HlsProject, trained: TrainedModel, gate: Gate | None, vocabularies: Sequence[int], directory: Path = Path()
) -> GivenRows:
    """Return the gate's rows, or random ones without a gate.

    Args:
        vocabularies: for each input, the rows of the table that it indexes, or 0 (see model_graph.vocabulary_sizes).
        directory: of a gate's file of rows.

    Raises:
        DescriptionError: If the gate's rows are unusable.
    """
    inputs, source = project.inputs, gate.rows if gate else "random"
    if gate is None:
        rows = _random_rows(inputs, vocabularies)
    elif is_rows_file(gate.rows):
        rows, own = _rows_of_file(directory / gate.rows, inputs, trained)
        source += f", {' and '.join(own)} with channels first" if own else ""
    else:
        rows = _rows_of_function(gate.rows, inputs)
    x_raw = inputs.to_raw([wire for _, wire in rows])
    _check_vocabularies(inputs, gate, x_raw, vocabularies)
    return GivenRows(source, tuple(given for given, _ in rows), x_raw)


#: the network's numbers of one input, and the wire numbers that a client sends for them
_Pair = tuple[NDArray[np.float64], NDArray[Any]]


def _rows_of_function(place: str, inputs: Row) -> list[_Pair]:
    """The rows of the user's function, which gives wire numbers. A client rounds them to a floating-point datatype; numbers of
    any other datatype are sent as they are."""
    pairs = []
    for spec, wire in zip(inputs.tensors, _call(place, inputs), strict=True):
        rounds = not (spec.packing or spec.element.is_integer)
        pairs.append((spec.to_network(wire), spec.decode(spec.encode(wire)) if rounds else wire))
    return pairs


def _call(place: str, inputs: Row) -> list[NDArray[np.float32]]:
    """Call the user's function "module:function"; return one array (rows, wire_size) float32 per input.

    The function returns an array for one input, and a sequence of arrays for several.
    """
    module, function = place.split(":", 1)
    count = len(inputs.tensors)
    try:
        given = getattr(import_module(module), function)()
        rows = [np.asarray(part, dtype=np.float32) for part in (given if count > 1 else [given])]
    except Exception as error:  # the function is the user's
        raise DescriptionError(
            f"gate.rows is {place!r}, which gives no rows: {type(error).__name__}: {error}; expected a function without "
            "arguments, in a module beside the YAML that is not named like a library, or on PYTHONPATH"
        ) from error
    if len(rows) != count:
        raise DescriptionError(f"gate.rows {place!r} gives {len(rows)} arrays, expected {count}, one for each input")
    shapes, first = [part.shape for part in rows], rows[0].shape[:1]
    if 0 in (*first, rows[0].size) or shapes != [(*first, tensor.wire_size) for tensor in inputs.tensors]:
        wanted = " and ".join(f"(rows, {tensor.wire_size})" for tensor in inputs.tensors)
        raise DescriptionError(f"gate.rows {place!r} gives shape {' and '.join(map(str, shapes))}, expected {wanted}")
    return rows


def _rows_of_file(file: Path, inputs: Row, trained: TrainedModel) -> tuple[list[_Pair], list[str]]:
    """The file has numbers in the wire's units, whatever the datatype on the wire.

    Also returns the names of the inputs whose rows have channels first, as in the model's file.
    """
    wanted = [
        Wanted((tensor.name, spec.name), tensor.shape, tensor.channels_first)
        for tensor, spec in zip(trained.inputs, inputs.tensors, strict=True)
    ]
    try:
        rows, own = rows_and_layout(file, wanted)
    except OSError as error:
        raise DescriptionError(f"gate.rows is {str(file)!r}, which cannot be read: {error.strerror}") from error
    given = zip(inputs.tensors, rows, strict=True)
    return [_sent(spec, np.ldexp(x.astype(np.float64), spec.exponents)) for spec, x in given], own


def _random_rows(inputs: Row, vocabularies: Sequence[int]) -> list[_Pair]:
    """Random rows for a model without a gate: up to 1000, fewer if rows are long. They give figures, but refuse nothing.

    The network's numbers are normal with unit width. An input that indexes a table gets indices within the table and
    its type.
    """
    rng, rows = np.random.default_rng(1), max(4, min(1000, _RANDOM_NUMBERS // inputs.size))

    def numbers(tensor: TensorSpec, vocabulary: int) -> NDArray[np.float64]:
        if not vocabulary:
            return rng.normal(size=(rows, tensor.size))
        last = min(vocabulary - 1, int(tensor.fixed.max_raw * 2.0**-tensor.fixed.fraction))
        return rng.integers(0, last, endpoint=True, size=(rows, tensor.size)).astype(np.float64)

    return [_sent(spec, numbers(spec, vocabulary)) for spec, vocabulary in zip(inputs.tensors, vocabularies, strict=True)]


def _sent(spec: TensorSpec, network: NDArray[np.float64]) -> _Pair:
    """Numbers of the network, and what a client sends for them."""
    return network, spec.quantise(np.ldexp(network, -spec.exponents))


def _check_vocabularies(inputs: Row, gate: Gate | None, x_raw: NDArray[np.int64], vocabularies: Sequence[int]) -> None:
    """Raise DescriptionError for an index in the gate's rows that is outside its table: the framework has no answer for it."""
    for tensor, raw, vocabulary in zip(inputs.tensors, inputs.split(x_raw), vocabularies, strict=True):
        index = tensor.fixed.to_float(raw)
        wrong = np.argwhere((index < 0) | (index >= vocabulary))
        if gate and vocabulary and len(wrong):
            row, place = (int(number) for number in wrong[0])
            raise DescriptionError(
                f"gate.rows {gate.rows!r}: input {tensor.name!r} of row {row} holds the index {index[row, place]:g} in "
                f"{tensor.fixed}, expected 0 to {vocabulary - 1}, the rows of the embedding's table"
            )
