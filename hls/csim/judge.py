# SPDX-License-Identifier: Apache-2.0
"""Judges a conversion: compiles its C++, compares it with the trained model, counts what overflows, and says what is wrong.

One function judges what `hypersonic build` publishes and what `hypersonic new` writes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from hypersonic.hls.closeness.comparison import Comparison
from hypersonic.hls.csim.compiled import Csim, compile_csim
from hypersonic.hls.csim.explain import describe_begin
from hypersonic.hls.csim.gate import ACCEPTS, FarError, compare, figures, refuse_differences
from hypersonic.hls.csim.layer_trace import LayerTrace
from hypersonic.hls.csim.overflow.figures import Overflows
from hypersonic.hls.csim.rows import GivenRows, modules_beside, rows_of
from hypersonic.hls.csim.trace import MOST_ROWS, NoTraceError, trace_loaded
from hypersonic.hls.csim.wraps import compiling, count_wraps, refuse_wraps, wraps_json
from hypersonic.hls.errors import ConversionError
from hypersonic.hls.frontend.description import ModelDescription
from hypersonic.hls.frontend.hgq import uses_hgq
from hypersonic.hls.frontend.softmax.error import judged_outputs
from hypersonic.hls.frontend.trained import TrainedModel
from hypersonic.hls.model_graph import vocabulary_sizes
from hypersonic.hls.project import HlsProject


@dataclass(frozen=True)
class Conversion:
    """A model that hls4ml has converted.

    Attributes:
        project: not saved.
        graph: hls4ml's ModelGraph.
    """

    trained: TrainedModel
    description: ModelDescription
    project: HlsProject
    graph: Any

    @property
    def own_names(self) -> dict[str, str]:
        """hls4ml's layer name -> the model's, where they differ."""
        return {new: old for old, new in self.trained.names.items()}


@dataclass(frozen=True)
class Judgement:
    """A conversion that was compared with the trained model.

    Attributes:
        project: with the figures of the comparison, the counts and the refusal in its report.
        overflows: the counts, or why there are none; None if they were not wanted.
        progress: as for judge.
    """

    conversion: Conversion
    project: HlsProject
    rows: GivenRows
    found: Comparison
    overflows: Overflows | str | None
    progress: Callable[[str], None]

    @cached_property
    def layers(self) -> Sequence[LayerTrace]:
        """The layers compared with the trained model's, on the first rows and the worst one. Raises NoTraceError."""
        self.progress("looking for the layer in which the difference begins")
        picked = [self.found.worst.total.row, *range(MOST_ROWS - 1)]
        wire = [
            np.ldexp(given, -spec.exponents)[[row for row in picked if row < self.found.rows]].astype(np.float32)
            for given, spec in zip(self.rows.given, self.project.inputs.tensors, strict=True)
        ]
        return trace_loaded(self.conversion.trained, self.conversion.description, self.project, wire)


def judge(conversion: Conversion, progress: Callable[[str], None] = lambda _: None) -> Judgement:
    """Compare a conversion's C++ with the trained model on the gate's rows, or on random ones.

    Args:
        progress: called with one line per step.

    Raises:
        ToolError: For C++ that does not compile.
        DescriptionError: For rows that cannot be used.
    """
    project, description, trained = conversion.project, conversion.description, conversion.trained
    progress("compiling hls4ml's C++")
    with compiling(project, wanted=description.gate is not None) as compiled:
        csim = Csim(compile_csim(project), project)
        progress("comparing with the trained model")
        with modules_beside(description.file):
            rows = rows_of(project, trained, description.gate, vocabulary_sizes(conversion.graph), description.file.parent)
        found = compare(csim, trained, rows, judged_outputs(conversion.graph))
    # wraps on random rows refuse nothing; they are counted to say why the answers are far
    overflows = count_wraps(project, rows, compiled) if description.gate or found.far else None
    return _refused(Judgement(conversion, project, rows, found, overflows, progress))


def _refused(judgement: Judgement) -> Judgement:
    """Return the judgement with the figures, and the refusal if there is one, in the project's report."""
    project, overflows = judgement.project, judgement.overflows
    gate, refused = figures(judgement.found, project, judgement.conversion.description.gate), ""
    try:
        gate["warnings"] += _wraps(judgement)
        _refuse_differences(judgement)
    except ConversionError as error:
        refused = str(error)
    counts = wraps_json(overflows) if isinstance(overflows, Overflows) else None
    notes = [*project.report["notes"], *([overflows] if isinstance(overflows, str) else [])]
    report = {**project.report, "gate": gate, "overflows": counts, "notes": notes, "refused": refused}
    return replace(judgement, project=replace(project, report=report))


def _wraps(judgement: Judgement) -> list[str]:
    """Warnings of numbers that wrap. Raises ConversionError for those on the user's rows."""
    description, overflows = judgement.conversion.description, judgement.overflows
    if not isinstance(overflows, Overflows) or uses_hgq(description.file):  # HGQ2 has trained with types that wrap
        return []
    return refuse_wraps(overflows, judgement.rows, description.hls4ml, judgement.conversion.own_names)


def _refuse_differences(judgement: Judgement) -> None:
    """Do as refuse_differences, and name the layer in which the difference begins."""
    conversion = judgement.conversion
    try:
        refuse_differences(judgement.found, judgement.project, conversion.trained, conversion.description.gate)
    except FarError as error:
        try:
            begin = describe_begin(judgement.layers)
        except NoTraceError as without:
            begin = f"its layers cannot be compared: {without}"
        raise FarError(f"{error}; {begin}; {ACCEPTS}") from error
