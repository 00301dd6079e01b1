# SPDX-License-Identifier: Apache-2.0
"""`hypersonic report`: runs the four engines of a model (float, quantised, csim, RTL) on the same rows, generated or a user's.

float is the network before quantisation. quantised is the model file in its own framework, if that holds the quantised network;
otherwise the file is the float network, and hls4ml quantises it. csim is hls4ml's C++. RTL is the Verilated core, which must
equal csim integer by integer.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from time import process_time

import numpy as np
from numpy.typing import NDArray

from hypersonic.events.outcome import ON_U250, OnCard
from hypersonic.firmware.estimate.rates import CardRate, card_rate, least_clocks
from hypersonic.firmware.platform import Platform, find_platform
from hypersonic.hls.build import convert_model
from hypersonic.hls.cache import cached
from hypersonic.hls.closeness.comparison import judged_of
from hypersonic.hls.closeness.difference import difference
from hypersonic.hls.core import Core
from hypersonic.hls.core_kind import CoreKind
from hypersonic.hls.csim.compiled import Csim, compile_csim
from hypersonic.hls.csim.trace import MOST_ROWS
from hypersonic.hls.errors import ConversionError
from hypersonic.hls.frontend.description import describe
from hypersonic.hls.frontend.predict import trained_predict
from hypersonic.hls.project import HlsProject
from hypersonic.hls.row import Row
from hypersonic.hls.rtl.simulate import RtlCore
from hypersonic.hls.tune.labels import table as figures_of
from hypersonic.hls.zoo.task import NoTaskError, Outputs, Sample, Task, task_of, tasks
from hypersonic.own.task import OwnData, own_task
from hypersonic.progress import Step
from hypersonic.reporting.layers import explain_difference, overflow_lines
from hypersonic.reporting.line import Answers, CoreReport, ModelReport, OwnAnswers

#: the seed of the generated rows
SEED = 1

_STAGES = ("float", "quantised", "csim", "RTL")


class ReportError(RuntimeError):
    """The RTL's integers differ from csim's. The message names the core, and the first row and element."""

    exit_code = 1


def report_models(
    models: Sequence[str],
    *,
    everything: bool,
    directory: Path,
    progress: Step,
    on: OnCard = ON_U250,
    data: OwnData | None = None,
) -> str:
    """Write the reports of `models` into `directory`, and return the tables.

    Raises NoTaskError, PlatformError, and what report() raises. The files are written after each model.

    Args:
        everything: report on every zoo model with a generator instead.
        on: the card whose rate is predicted.
        data: of a user's model, the only one of `models`; its figures follow the tables.
        progress: called with one line per step.
    """
    wanted = list(tasks()) if everything else list(models)
    if not wanted:
        raise NoTaskError(f"no model is named: give names ({', '.join(tasks())}) or --all")
    for model in wanted if data is None else ():
        task_of(model)  # so that a wrong name is refused before anything is built
    find_platform(on.platform)
    done: list[ModelReport] = []
    lines: list[str] = []
    for model in wanted:
        answers = report(model, progress, on, data)
        done.append(answers.report)
        lines += answers.lines
        _write(done, answers, directory)
    return "\n".join([table(done), *lines])


def report(model: str, progress: Step = lambda _: None, on: OnCard = ON_U250, data: OwnData | None = None) -> Answers:
    """Run all four engines of one model.

    Raises NoTaskError, ReportError, and what own_task, convert_model and compile_csim raise.

    If the core refuses the model, the RTL is left out.

    Args:
        data: of a user's model.
    """
    if data:
        return _report_own(model, data, progress, on)
    task = task_of(model)
    description = describe(model)
    project, core = convert_model(description, core="" if task.rtl_rows else CoreKind.CSIM, progress=progress)
    progress(f"{model}: {task.rows} generated rows")
    sample, y_raw, csim_us, verilated = _run(model, task, project, core, progress, on)
    progress(f"{model}: the trained model")
    trained, parameters = _predict_trained(description.file, project, project.inputs.to_raw(sample.inputs))
    numbers: dict[str, Outputs | None] = {
        "float": task.float_predict(sample.inputs) if task.float_predict else trained,
        "quantised": trained if task.float_predict else None,
        "csim": real(project.outputs, y_raw),
    }
    return _answers(model, task, sample, numbers, parameters, csim_us, verilated)


def _report_own(model: str, data: OwnData, progress: Step, on: OnCard) -> Answers:
    """Run float network, csim and RTL on a user's rows. The float network gets the rows as they are."""
    description = describe(model)
    lines: list[str] = []
    try:
        project, core = convert_model(description, progress=progress, keep_refused=True)
    except ConversionError as error:
        project, core = convert_model(description, core=CoreKind.CSIM, progress=progress, keep_refused=True)
        lines.append(f"no RTL: {error}")
    if project.refused:
        lines.append(f"WARNING: `hypersonic build` refuses it: {project.refused}")
    own = own_task(model, project, data)
    task, labels = own.task, own.labels
    sample, y_raw, csim_us, verilated = _run(project.name, task, project, core, progress, on)
    trained = task.float_predict(sample.inputs) if task.float_predict else ()
    csim = real(project.outputs, y_raw)
    for name, values, meaning in figures_of(labels, {"trained": trained, "csim": csim}):
        lines.append(f"{name}: csim {values['csim']:.4g}, trained model {values['trained']:.4g} ({meaning})")
    judged = judged_of(project.report, [tensor.name for tensor in project.outputs.tensors])
    off = [difference(got, wanted, each.classes) for got, wanted, each in zip(csim, trained, judged, strict=True)]
    outputs = list(zip(project.outputs.tensors, off, judged, strict=True))
    lines += [f"{output.name}: {found.text(each)}" for output, found, each in outputs]
    if any(found.far_because(each) for _, found, each in outputs):
        progress(f"{project.name}: the layers one by one, {min(MOST_ROWS, sample.rows)} rows")
        lines += explain_difference(description.file, project, own.rows)
    lines += overflow_lines(project.report)
    numbers: dict[str, Outputs | None] = {"float": trained, "quantised": None, "csim": csim}
    answers = _answers(project.name, task, sample, numbers, own.parameters(), csim_us, verilated)
    return replace(answers, lines=(*lines, *answers.lines), own=OwnAnswers(csim, trained, labels))


def _run(
    name: str, task: Task, project: HlsProject, core: Core | None, progress: Step, on: OnCard
) -> tuple[Sample, NDArray[np.int64], float, CoreReport | None]:
    """The task's rows, csim's integers for them, its CPU microseconds per row, and the Verilated core's figures."""
    platform = find_platform(on.platform)
    sample = task.sample(task.rows, SEED)
    x_raw = project.inputs.to_raw(sample.inputs)
    library = compile_csim(project)
    progress(f"{name}: csim, {len(x_raw)} rows")
    y_raw, csim_us = _csim(project, library, x_raw)
    verilated = None
    if core:
        progress(f"{name}: Verilated core, {min(task.rtl_rows, len(x_raw))} rows")
        verilated = _rtl(core, project, x_raw[: task.rtl_rows], y_raw, _rate(core, platform, on))
    return sample, y_raw, csim_us, verilated


def _answers(
    model: str, task: Task, sample: Sample, numbers: dict[str, Outputs | None], parameters: int, csim_us: float,
    core: CoreReport | None,
) -> Answers:  # fmt: skip
    merit = {name: None if each is None else task.measured(each, sample.truth) for name, each in numbers.items()}
    shown = {name: np.concatenate(each, axis=1) for name, each in numbers.items() if each is not None}
    of_file = shown.get("quantised", shown["float"])
    difference = float(np.abs(shown["csim"] - of_file).max())
    warning = task.warning(merit["csim"], merit["float"])
    said = (f"WARNING: {model}: {warning}",) if warning else ()
    return Answers(ModelReport(model, parameters, task.figure, sample.rows, merit, difference, csim_us, core), shown, said)


def _csim(project: HlsProject, library: Path, x_raw: NDArray[np.int64]) -> tuple[NDArray[np.int64], float]:
    """csim's integers, and the CPU microseconds per row when they were first computed; both cached by content."""

    def compute(directory: Path) -> None:
        csim, begin = Csim(library, project), process_time()
        np.save(directory / "raw.npy", csim.predict_raw(x_raw))
        (directory / "seconds").write_text(str(process_time() - begin))

    place = cached("golden", ["report", library, x_raw.tobytes()], compute)
    y_raw: NDArray[np.int64] = np.load(place / "raw.npy")
    return y_raw, float((place / "seconds").read_text()) * 1e6 / len(x_raw)


def _rate(core: Core, platform: Platform, on: OnCard) -> CardRate:
    """The predicted rate of one compute unit, in rows per second."""
    row_bytes = core.inputs.row_bytes, core.outputs.row_bytes
    return card_rate(
        platform, least_clocks(core.ii, row_bytes), row_bytes, network_gbps=on.network_gbps, kernel_mhz=on.kernel_mhz
    )


def _rtl(core: Core, project: HlsProject, x_raw: NDArray[np.int64], y_raw: NDArray[np.int64], rate: CardRate) -> CoreReport:
    """Run the Verilated core. Raises ReportError if an integer differs from csim's."""
    with RtlCore(core) as rtl:
        begin = process_time()
        got = rtl.predict_raw(x_raw)
        seconds = process_time() - begin
        wrong = np.argwhere(got != y_raw[: len(got)])
        if len(wrong):
            row, element = wrong[0]
            raise ReportError(
                f"core {core.name!r}: {len(wrong)} of {got.size} integers differ from csim, first in row {row}, element "
                f"{element}: got {got[row, element]}, csim says {y_raw[row, element]}"
            )
        predicted = core.latency_cycles + (len(got) - 1) * core.ii + 1
        multipliers = int(project.report["core"].get("multipliers", 0))
        return CoreReport(
            core.kind, core.ii, core.latency_cycles, multipliers, got.size, len(got), rtl.clocks, predicted,
            seconds * 1e6 / len(got), rate,
        )  # fmt: skip


def _predict_trained(file: Path, project: HlsProject, x_raw: NDArray[np.int64]) -> tuple[Outputs, int]:
    """The model file's answers to the same inputs, in the outputs' units on the wire, and its number of parameters."""
    parts = zip(project.inputs.tensors, project.inputs.split(x_raw), strict=True)
    inputs = [tensor.fixed.to_float(raw).astype(np.float32) for tensor, raw in parts]
    outputs, parameters = trained_predict(file, inputs)
    scaled = zip(project.outputs.tensors, outputs, strict=True)
    return tuple(np.ldexp(y, -tensor.exponents) for tensor, y in scaled), parameters


def real(row: Row, raw: NDArray[np.int64]) -> Outputs:
    """Convert raw integers (rows, size) to numbers in each output's units on the wire, not rounded to its datatype."""
    parts = zip(row.tensors, row.split(raw), strict=True)
    return tuple(np.ldexp(tensor.fixed.to_float(part), -tensor.exponents) for tensor, part in parts)


_ANSWERS = ("model", "parameters", "figure of merit", "float", "quantised", "csim", "RTL = csim", "max csim - model file")
_SPEED = (
    "model", "core", "multipliers", "clocks a row", "clocks, measured / predicted", "rows/s on a card, predicted", "limited by",
    "the kernel alone", "CPU us a row, csim / RTL",
)  # fmt: skip


def table(reports: Sequence[ModelReport]) -> str:
    """Return two Markdown tables with a line per model each: its answers, and the speed of its core."""
    return f"{_markdown(_ANSWERS, map(_answers_line, reports))}\n{_markdown(_SPEED, map(_speed_line, reports))}"


def _markdown(head: tuple[str, ...], lines: Iterable[tuple[str, ...]]) -> str:
    return "".join(f"| {' | '.join(line)} |\n" for line in (head, ("---",) * len(head), *lines))


def _answers_line(each: ModelReport) -> tuple[str, ...]:
    merits = [_number(each.merit[name]) for name in _STAGES[:3]]
    equal = f"{each.core.equal:,} integers of {each.core.rtl_rows:,} rows" if each.core else "no RTL"
    return each.model, f"{each.parameters:,}", f"{each.figure}, {each.rows:,} rows", *merits, equal, f"{each.difference:.3g}"


def _speed_line(each: ModelReport) -> tuple[str, ...]:
    if not (core := each.core):
        return each.model, *["-"] * 7, f"{each.csim_us:,.0f} / -"
    return (
        each.model, core.core, f"{core.multipliers:,}" if core.multipliers else "-", f"{core.ii:,}",
        f"{core.clocks:,} / {core.predicted:,}", f"{core.rate.events_per_s:,.0f}", core.rate.limited_by,
        f"{core.rate.of('kernel'):,.0f}", f"{each.csim_us:,.0f} / {core.rtl_us:,.0f}",
    )  # fmt: skip


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _write(done: Sequence[ModelReport], last: Answers, directory: Path) -> None:
    """Write table.md and figures.json of all models so far, and a picture of the last, so a long run can be interrupted."""
    from hypersonic.reporting.picture import draw

    directory.mkdir(parents=True, exist_ok=True)
    (directory / "table.md").write_text(table(done))
    (directory / "figures.json").write_text(json.dumps([line.figures() for line in done], indent=1) + "\n")
    draw(last, directory / f"{last.report.model}.png")
