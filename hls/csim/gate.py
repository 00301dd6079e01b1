# SPDX-License-Identifier: Apache-2.0
"""The gate: compares hls4ml's C++ with the framework that trained the model, and refuses a conversion that is too far from it.

No other comparison has a tolerance.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.closeness.comparison import Answers, Comparison, Named, OutputDifference, compared
from hypersonic.hls.closeness.difference import Difference, Judged
from hypersonic.hls.csim.compiled import Csim
from hypersonic.hls.csim.rows import GivenRows
from hypersonic.hls.errors import ConversionError
from hypersonic.hls.frontend.gate import Gate
from hypersonic.hls.frontend.trained import TrainedModel
from hypersonic.hls.project import HlsProject
from hypersonic.hls.row import Row

#: what accepts a network that is far
ACCEPTS = "gate.tolerance with a number that allows the difference, or with none, accepts it as it is"


class FarError(ConversionError):
    """The network is far from the trained model on the user's rows, and no tolerance was given."""


def compare(csim: Csim, trained: TrainedModel, rows: GivenRows, judged: Sequence[Judged]) -> Comparison:
    """Compare csim with the trained model on what the user sends and gets.

    Args:
        judged: how the answers of each output are judged.
    """
    project = csim.project
    y_raw = csim.predict_raw(rows.raw)
    computed = [
        spec.fixed.to_float(raw) for spec, raw in zip(project.outputs.tensors, project.outputs.split(y_raw), strict=True)
    ]
    served = [
        np.ldexp(spec.real(wire), spec.exponents)
        for spec, wire in zip(project.outputs.tensors, project.outputs.from_raw(y_raw), strict=True)
    ]

    def predict(numbers: Sequence[NDArray[np.float64]]) -> Sequence[NDArray[np.float64]]:
        shaped = [
            part.astype(np.float32).reshape(-1, *tensor.shape) for part, tensor in zip(numbers, trained.inputs, strict=True)
        ]
        return trained.predict(shaped)

    answers = Answers(rows.quantised(project.inputs), computed, served)
    return compared(
        rows.source, _named(project.inputs), _named(project.outputs, judged), rows.given, answers, predict
    )  # fmt: skip


def _named(row: Row, judged: Sequence[Judged] = ()) -> list[Named]:
    whole = judged or (Judged(),) * len(row.tensors)
    return [Named(spec.name, spec.fixed, spec.exponents, each) for spec, each in zip(row.tensors, whole, strict=True)]


def figures(found: Comparison, project: HlsProject, gate: Gate | None) -> dict[str, Any]:
    """Return the figures of a comparison for the report, with "warnings": sentences about outputs that are far."""
    warnings = _warnings(project.name, found) if gate is None else []
    accepted = [_far_text(output) for output in found.far] if gate and gate.accepts_far else []
    return {
        **found.to_json(),
        "tolerance": gate.tolerance if gate else None,
        "quantised_tolerance": gate.quantised_tolerance if gate else None,
        "warnings": warnings,
        **({"accepted": accepted} if accepted else {}),
    }


def refuse_differences(found: Comparison, project: HlsProject, trained: TrainedModel, gate: Gate | None) -> None:
    """Refuse a conversion that is not what the trained model answers.

    Raises ConversionError if a difference exceeds the gate's tolerance, and FarError if the answers are far from the trained
    model's, on rows of the user's without a tolerance.
    """
    if gate is None:
        return
    for output, tensor in zip(found.outputs, trained.outputs, strict=True):
        where = f"model {project.name!r}, output {tensor.name!r}"
        if not output.total.worst <= (most := gate.tolerance_of(tensor.name)):
            raise ConversionError(f"{where}: {_beyond(found, output, most)}; widen the precisions in the YAML")
        if not output.quantised.worst <= (most := gate.quantised_tolerance_of(tensor.name)):
            raise ConversionError(
                f"{where}: {_row(found, output.quantised)}, for the row as the inputs' types keep it, quantised_tolerance "
                f"{most:g}; widen the precisions in the YAML"
            )
    if gate.tolerance is None and not gate.accepts_far and found.far:
        raise FarError(
            f"model {project.name!r} is far from the trained model on the {found.rows:,} rows of {gate.rows}: "
            f"{'; '.join(map(_far_text, found.far))}"
        )


def _beyond(found: Comparison, output: OutputDifference, most: float) -> str:
    part = f", {output.rounding_text}" if output.rounding_text else ""
    lost = "".join(f"; {loss.text}" for loss in found.inputs if loss.text)
    return f"{_row(found, output.total)}, a difference of {output.total.worst:.4g}{part}, tolerance {most:g}{lost}"


def _row(found: Comparison, of: Difference) -> str:
    return f"row {of.row} of {found.source} gives {of.got:.6g} in fixed point and {of.wanted:.6g} in the trained model"


def _far_text(output: OutputDifference) -> str:
    return (
        f"output {output.name!r}: {output.far_because}; the worst difference is {output.total.worst:.4g}, the trained model's "
        f"answers run from {output.least:.4g} to {output.greatest:.4g}"
    )


def _warnings(model: str, found: Comparison) -> list[str]:
    advice = "with gate.rows in the YAML it is compared on rows of your own, and refused if it is far"
    return [
        f"model {model!r} is far from the trained model on {found.rows:,} random rows: {_far_text(output)}; {advice}"
        for output in found.far
    ]
