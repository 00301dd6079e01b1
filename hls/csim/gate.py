# SPDX-License-Identifier: Apache-2.0
"""The gate: compares hls4ml's C++ with the framework that trained the model. It is the only comparison with a tolerance."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.csim.compiled import Csim
from hypersonic.hls.errors import ConversionError
from hypersonic.hls.frontend.description import DescriptionError, Gate
from hypersonic.hls.frontend.rows import Wanted, is_rows_file, read_rows
from hypersonic.hls.frontend.trained import TrainedModel
from hypersonic.hls.project import HlsProject
from hypersonic.hls.row import Row
from hypersonic.hls.spec import TensorSpec

#: how many random numbers a model without rows of its own is compared on: csim of a large model takes seconds per row
_RANDOM_NUMBERS = 100_000


@contextmanager
def modules_beside(model_file: Path) -> Iterator[None]:
    """Make the modules beside the model importable inside the context. Libraries of the same name take precedence."""
    directory = str(model_file.resolve().parent)
    sys.path.append(directory)
    try:
        yield
    finally:
        sys.path.remove(directory)


def compare(
    csim: Csim, trained: TrainedModel, gate: Gate | None, vocabularies: Sequence[int], directory: Path = Path()
) -> dict[str, Any]:
    """Compare csim with the trained model, in each output's units on the wire; return the figures for the report.

    The rows are the gate's, or random ones without a gate. vocabularies: for each input, the rows of the table that it
    indexes, or 0 (see model_graph.vocabulary_sizes). directory: of a gate's file of rows.
    The figures are the worst over all outputs, and under "outputs" those of each output by name, with the smallest and largest
    answer of the trained model. Without a tolerance, "warnings" has a sentence for each output that is far from that model's.
    Raises ConversionError if a difference exceeds the gate's tolerance, and DescriptionError if the gate's rows are unusable.
    """
    project = csim.project
    rows = _given_rows(gate.rows, project.inputs, trained, directory) if gate else _random_rows(project.inputs, vocabularies)
    x_raw = project.inputs.to_raw(rows)
    _check_vocabularies(project, gate, x_raw, vocabularies)
    numbers = zip(project.inputs.tensors, trained.inputs, project.inputs.split(x_raw), strict=True)
    x = [spec.fixed.to_float(raw).astype(np.float32).reshape(-1, *tensor.shape) for spec, tensor, raw in numbers]
    answers = zip(project.outputs.split(csim.predict_raw(x_raw)), trained.predict(x), strict=True)
    outputs = {
        spec.name: _figures(project.name, spec, tensor.name, *answer, gate)
        for spec, tensor, answer in zip(project.outputs.tensors, trained.outputs, answers, strict=True)
    }
    return {
        "rows": len(x_raw),
        "source": gate.rows if gate else "random",
        "max_abs_difference": max(figures["max_abs_difference"] for figures in outputs.values()),
        "mean_abs_difference": max(figures["mean_abs_difference"] for figures in outputs.values()),
        "fraction_exact": min(figures["fraction_exact"] for figures in outputs.values()),
        "tolerance": gate.tolerance if gate else None,
        "outputs": outputs,
        "warnings": [] if gate and gate.tolerance is not None else _warnings(project, outputs, len(x_raw), gate),
    }


def _warnings(project: HlsProject, outputs: Mapping[str, Mapping[str, float]], rows: int, gate: Gate | None) -> list[str]:
    where = f"{rows:,} rows of {gate.rows}" if gate else f"{rows:,} random rows"
    given = "with gate.tolerance in the YAML the model is refused if a difference exceeds it"
    both = (
        "with gate.rows and gate.tolerance in the YAML the model is compared on your rows, and refused if a difference exceeds"
    )
    advice = given if gate else f"{both} the tolerance"
    return [
        f"output {spec.name!r} of model {project.name!r} is not what the trained model answers: on {where} the "
        f"worst difference is {figures['max_abs_difference']:g}, and the trained model's answers run from "
        f"{figures['least']:g} to {figures['greatest']:g}. Give the layers wider types; {advice}"
        for spec, figures in ((spec, outputs[spec.name]) for spec in project.outputs.tensors)
        if _is_far(spec, figures)
    ]


def _is_far(spec: TensorSpec, figures: Mapping[str, float]) -> bool:
    """Return whether the worst difference is at least half of the answers' range and more than one step of the output's type.

    If all answers are the same number, its magnitude takes the place of the range. A difference of NaN is far, too.
    """
    least, greatest, worst = (figures[name] for name in ("least", "greatest", "max_abs_difference"))
    size = greatest - least or abs(greatest)
    return not (worst < size / 2 or worst <= 2.0 ** (-spec.fixed.fraction - min(spec.exponents)))


def _figures(
    model: str,
    spec: TensorSpec,
    output: str,
    y_raw: NDArray[np.int64],
    expected: NDArray[np.float64],
    gate: Gate | None,
) -> dict[str, float]:
    fixed, exponents = spec.fixed, spec.exponents
    got, wanted = np.ldexp(fixed.to_float(y_raw), -exponents), np.ldexp(expected, -exponents)
    difference = np.abs(got - wanted)
    worst = int(difference.max(axis=1).argmax())
    if gate and not difference.max() <= gate.tolerance_of(output):
        raise ConversionError(
            f"model {model!r}, output {output!r}: row {worst} of {gate.rows} gives {got[worst].tolist()} in fixed point and "
            f"{wanted[worst].tolist()} in the trained model, tolerance {gate.tolerance_of(output):g}; widen the precisions in "
            "the YAML"
        )
    return {
        "max_abs_difference": float(difference.max()),
        "mean_abs_difference": float(difference.mean()),
        "fraction_exact": float(np.mean(np.rint(np.ldexp(expected, fixed.fraction)) == y_raw)),
        "least": float(wanted.min()),
        "greatest": float(wanted.max()),
    }


def _given_rows(place: str, inputs: Row, trained: TrainedModel, directory: Path) -> Sequence[NDArray[Any]]:
    """The gate's rows as wire numbers: those of the file, or of the user's function."""
    return _rows_of_file(directory / place, inputs, trained) if is_rows_file(place) else _rows(place, inputs)


def _rows(place: str, inputs: Row) -> list[NDArray[np.float32]]:
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


def _rows_of_file(file: Path, inputs: Row, trained: TrainedModel) -> Sequence[NDArray[Any]]:
    """Wire numbers for each input. The file has numbers in the wire's units, whatever the datatype on the wire."""
    wanted = [
        Wanted((tensor.name, spec.name), tensor.shape) for tensor, spec in zip(trained.inputs, inputs.tensors, strict=True)
    ]
    try:
        return [spec.quantise(x) for spec, x in zip(inputs.tensors, read_rows(file, wanted), strict=True)]
    except OSError as error:
        raise DescriptionError(f"gate.rows is {str(file)!r}, which cannot be read: {error.strerror}") from error


def _random_rows(inputs: Row, vocabularies: Sequence[int]) -> list[NDArray[Any]]:
    """Random rows for a model without a gate: up to 1000, fewer if rows are long. They give figures, but refuse nothing.

    The network's numbers are normal with unit width. An input that indexes a table gets indices that the table and its type
    have.
    """
    rng, rows = np.random.default_rng(1), max(4, min(1000, _RANDOM_NUMBERS // inputs.size))

    def numbers(tensor: TensorSpec, vocabulary: int) -> NDArray[np.float64]:
        if not vocabulary:
            return rng.normal(size=(rows, tensor.size))
        last = min(vocabulary - 1, int(tensor.fixed.max_raw * 2.0**-tensor.fixed.fraction))
        return rng.integers(0, last, endpoint=True, size=(rows, tensor.size)).astype(np.float64)

    drawn = [numbers(*described) for described in zip(inputs.tensors, vocabularies, strict=True)]
    return [tensor.quantise(np.ldexp(x, -tensor.exponents)) for tensor, x in zip(inputs.tensors, drawn, strict=True)]


def _check_vocabularies(project: HlsProject, gate: Gate | None, x_raw: NDArray[np.int64], vocabularies: Sequence[int]) -> None:
    """Raise DescriptionError for an index in the gate's rows that is outside its table: the framework has no answer for it."""
    for tensor, raw, vocabulary in zip(project.inputs.tensors, project.inputs.split(x_raw), vocabularies, strict=True):
        index = tensor.fixed.to_float(raw)
        wrong = np.argwhere((index < 0) | (index >= vocabulary))
        if gate and vocabulary and len(wrong):
            row, place = (int(number) for number in wrong[0])
            raise DescriptionError(
                f"gate.rows {gate.rows!r}: input {tensor.name!r} of row {row} holds the index {index[row, place]:g} in "
                f"{tensor.fixed}, expected 0 to {vocabulary - 1}, the rows of the embedding's table"
            )
