# SPDX-License-Identifier: Apache-2.0
"""Searches for types and reuse factors with which a model costs least on a card, within a loss; `hypersonic tune` calls it."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from hypersonic.hls.bounded.processes import end_children
from hypersonic.hls.build import compiler
from hypersonic.hls.cache import cached
from hypersonic.hls.closeness.comparison import judged_from_json
from hypersonic.hls.closeness.difference import Judged, difference
from hypersonic.hls.csim.compiled import Csim, compile_csim
from hypersonic.hls.errors import ConversionError
from hypersonic.hls.frontend.load import data_beside
from hypersonic.hls.frontend.rows import Wanted, read_rows
from hypersonic.hls.project import HlsProject
from hypersonic.hls.resources import Amounts
from hypersonic.hls.rf.fit.design import CardResources
from hypersonic.hls.rf.fit.exchange import card_to_json
from hypersonic.hls.sources import program_hash
from hypersonic.hls.tune.candidates import Candidates
from hypersonic.hls.tune.describe import describe_model
from hypersonic.hls.tune.labels import Labels, read_labels
from hypersonic.hls.tune.measures import LEAST_BITS, Cost, Group, Outputs, bits_of, cost_of, groups_of, loss_of, narrowed
from hypersonic.hls.tune.search import Trial, Tuned, search

#: the most rows that the search computes, and the most that judge its result; files with fewer than _LEAST_ROWS are refused
_SEARCHED, _JUDGED, _LEAST_ROWS = 5000, 5000, 20

#: candidates whose C++ is compiled at the same time; the result of the search does not depend on it
_AT_ONCE = 2


class TuneError(ConversionError):
    """Nothing can be tuned, or no candidate is within the loss. The message says why and what to do."""


@dataclass(frozen=True)
class TuneOptions:
    """The limits of a search.

    Attributes:
        loss: the largest loss, as a fraction.
        trials: the most candidates.
        minutes: 0 for no limit.
    """

    rows: Path
    labels: Path | None = None
    loss: float = 0.01
    trials: int = 40
    minutes: float = 0


def search_types(model: Path, place: Path, card: CardResources, options: TuneOptions, progress: Callable[[str], None]) -> Tuned:
    """Search, and write the YAML of the best candidate, at once and whenever a better one is found; return the trials.

    Ctrl-C ends the search with the best so far, or the command if there is none.

    Raises TuneError, DescriptionError, RowsError, ConversionError.

    Args:
        place: the YAML to write.
    """
    with Candidates(model) as candidates, tempfile.TemporaryDirectory() as scratch:
        progress(f"loading {model.name}, and computing the rows of {options.rows.name}")
        job = _prepare(model, options, candidates, card, Path(scratch), place)
        run = _Run(job, options, progress)
        ended = "nothing is left to narrow"
        try:
            search(job.most, options.loss, run.attempt, run.on_best)
            ended = run.ended or ended
        except KeyboardInterrupt:
            ended = "it was interrupted"
            if run.best is None:
                raise
    if run.best is None:
        raise TuneError(_hopeless(model, run.trials, options.loss))
    bits = bits_of(job.described, job.groups)
    return Tuned(place, tuple(run.trials), run.best, options.loss, bits, job.searched, len(job.x[0]) - job.searched, ended)


def _hopeless(model: Path, trials: Sequence[Trial], limit: float) -> str:
    refused = next((trial.refused for trial in trials if trial.refused), "")
    losses = [trial.loss for trial in trials if trial.cost]
    if not losses:
        return refused or f"{model}: no candidate was tried; give more --trials or --minutes"
    return (
        f"{model}: no candidate loses at most {limit:.3g} of the trained model's answers on the rows, the best loses "
        f"{min(losses):.3g}; give a larger --loss, or see with `hypersonic report` in which layer the difference begins"
    )


@dataclass(frozen=True)
class _Job:
    """The model, rows and types that all candidates share.

    Attributes:
        x: rows that are computed, the first `searched` for the search.
        picked: their indices in the file, which has `count` rows.
        most: the bits by which each group can be narrowed, at most.
    """

    model: Path
    candidates: Candidates
    described: dict[str, Any]
    groups: tuple[Group, ...]
    most: dict[str, int]
    x: tuple[NDArray[np.float32], ...]
    trained: Outputs
    searched: int
    picked: NDArray[np.int64]
    count: int
    labels: Path | None
    card: CardResources
    card_json: str
    scratch: Path
    place: Path


def _prepare(
    model: Path, options: TuneOptions, candidates: Candidates, card: CardResources, scratch: Path, place: Path
) -> _Job:  # fmt: skip
    inputs = candidates.inputs()
    rows = read_rows(options.rows, [Wanted((name,), shape, channels_first) for name, shape, channels_first in inputs])
    count = len(rows[0])
    if count < _LEAST_ROWS:
        raise TuneError(
            f"{options.rows} holds {count} rows, expected {_LEAST_ROWS} or more: a quarter of them judges the result"
        )
    order = np.random.default_rng(0).permutation(count)
    judged = np.sort(order[: count // 4][:_JUDGED])
    searched = np.sort(order[count // 4 :][:_SEARCHED])
    picked = np.concatenate([searched, judged])
    x = tuple(part[picked] for part in rows)
    np.savez(
        scratch / "searched.npz",
        allow_pickle=False,
        **{name: part[: len(searched)] for (name, *_), part in zip(inputs, x, strict=True)},
    )
    np.savez(scratch / "x.npz", allow_pickle=False, **{str(number): part for number, part in enumerate(x)})
    found = candidates.survey(scratch / "searched.npz")
    described = yaml.safe_load(describe_model(model, found, os.path.relpath(options.rows, place.parent)))
    groups = groups_of(described)
    most = {name: bits - LEAST_BITS for name, bits in bits_of(described, groups).items()}
    return _Job(
        model, candidates, described, groups, most, x, candidates.answers(scratch / "x.npz"), len(searched), picked, count,
        options.labels, card, json.dumps(card_to_json(card)), scratch, place,
    )  # fmt: skip


@dataclass
class _Run:
    """A search under way."""

    job: _Job
    options: TuneOptions
    progress: Callable[[str], None]
    trials: list[Trial] = field(default_factory=list)
    best: Trial | None = None
    ended: str = ""
    begin: float = field(default_factory=monotonic)

    def attempt(self, wanted: Sequence[dict[str, int]]) -> list[Trial]:
        """Try candidates, as many as the budget leaves, and return them in the same order."""
        left = self.options.trials - len(self.trials)
        if self.options.minutes and monotonic() - self.begin > 60 * self.options.minutes:
            self.ended, left = f"{self.options.minutes:g} minutes are over", 0
        elif left < len(wanted):
            self.ended = f"{self.options.trials} candidates were tried"
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            trials = [pool.submit(_trial, self.job, fewer) for fewer in wanted[: max(0, left)]]
            try:
                tried = [trial.result() for trial in trials]
            except KeyboardInterrupt:  # the threads wait for tools, to which Ctrl-C does not go
                while wait([trial for trial in trials if not trial.cancel()], 0.1).not_done:
                    end_children()
                raise
        for trial in tried:
            self.trials.append(trial)
            self.progress(f"candidate {len(self.trials)} of {self.options.trials}: {self._told(trial)}")
        return tried

    def on_best(self, trial: Trial) -> None:
        """Keep a candidate, and write its YAML."""
        self.best = trial
        self.job.place.write_text(_text(self.job, trial, self.options))

    def _told(self, trial: Trial) -> str:
        bits = bits_of(narrowed(self.job.described, self.job.groups, trial.fewer), self.job.groups)
        summed = f"{sum(bits.values())} bits summed over {len(bits)} types"
        if trial.cost is None:
            return f"{summed}: {trial.refused}"
        core, within = trial.cost.core, "within" if trial.is_within(self.options.loss) else "beyond"
        return (
            f"{summed}, loss {trial.loss:.2%} ({within} {self.options.loss:.2%}), {core.lut:,.0f} LUT, "
            f"{core.dsp:,.0f} DSP48E2, {trial.cost.clocks:,} clocks a row"
        )


def _trial(job: _Job, fewer: Mapping[str, int]) -> Trial:
    """Convert, compile and run a candidate, or take its figures from the cache."""
    described = narrowed(job.described, job.groups, fewer)
    parts: list[str | bytes | Path] = [
        job.model, *data_beside(job.model), json.dumps(described), job.card_json, program_hash(compiler(roots=(__name__,))),
        job.picked.tobytes(),
        *(part.tobytes() for part in job.x), *([job.labels] if job.labels else []),
    ]  # fmt: skip
    try:
        place = cached("tuning", parts, lambda directory: _measure(job, described, directory))
    except ConversionError as error:
        return Trial(fewer, float("inf"), float("inf"), None, str(error))
    figures = json.loads((place / "figures.json").read_text())
    cost = Cost(**{**figures["cost"], "core": Amounts.from_json(figures["cost"]["core"])})
    return Trial(fewer, figures["loss"], figures["judged"], cost, factors=figures["factors"], far=figures["far"])


def _measure(job: _Job, described: dict[str, Any], directory: Path) -> None:
    """Write the figures of a candidate. Its csim computes all rows, as integers."""
    with tempfile.TemporaryDirectory(dir=job.scratch) as scratch:
        file = Path(scratch) / job.model.name
        file.symlink_to(job.model.resolve())
        file.with_suffix(".yaml").write_text(
            yaml.safe_dump({key: value for key, value in described.items() if key != "gate"}, sort_keys=False)
        )
        project = job.candidates.convert(file, Path(scratch) / "project", job.card_json)
        library = compile_csim(project)
        answers = _answers(project, library, job.x)
    cost, factors = cost_of(project, job.card)
    labels = _labels(job, project)
    rows = np.arange(len(job.x[0]))
    losses = [loss_of(answers, job.trained, labels, part) for part in (rows[: job.searched], rows[job.searched :])]
    far = _far(answers, job.trained, [judged_from_json(each) for each in project.report["judged"]])
    figures = {"loss": losses[0], "judged": losses[1], "cost": asdict(cost), "factors": factors, "far": far}
    (directory / "figures.json").write_text(json.dumps(figures))


def _answers(project: HlsProject, library: Path, x: Sequence[NDArray[np.float32]]) -> Outputs:
    raw = project.inputs.to_raw([tensor.quantise(part) for tensor, part in zip(project.inputs.tensors, x, strict=True)])
    parts = project.outputs.split(Csim(library, project).predict_raw(raw))
    return tuple(tensor.fixed.to_float(part) for tensor, part in zip(project.outputs.tensors, parts, strict=True))


def _far(answers: Outputs, trained: Outputs, judged: Sequence[Judged]) -> str:
    """Say why the answers are far from the trained model's, for the first output that is far; "" if none is."""
    outputs = zip(answers, trained, judged, strict=True)
    clauses = [difference(got, wanted, each.classes).far_because(each) for got, wanted, each in outputs]
    return next(filter(None, clauses), "")


def _labels(job: _Job, project: HlsProject) -> tuple[Labels, ...]:
    """The labels of the rows that are computed."""
    if job.labels is None:
        return ()
    found = read_labels(job.labels, project.outputs, job.count, job.trained)
    return tuple(
        replace(each, values=each.values[job.picked], classes=None if each.classes is None else each.classes[job.picked])
        for each in found
    )


def _text(job: _Job, trial: Trial, options: TuneOptions) -> str:
    """The YAML of a candidate."""
    described = narrowed(job.described, job.groups, trial.fewer)
    layers = described["hls4ml"].setdefault("LayerName", {})
    for name, factor in trial.factors.items():
        if factor:
            layers.setdefault(name, {})["ReuseFactor"] = factor
    if trial.far:
        described["gate"]["tolerance"] = "none"
    left_out = [name for name, factor in trial.factors.items() if not factor]
    of = "the labels" if options.labels else "the trained model's answers"
    others = len(job.x[0]) - job.searched
    units = f"; --compute-units {trial.cost.units} fills it" if trial.cost and trial.cost.units > 1 else ""
    return (
        f"# How {job.model.name} becomes a kernel. Written by `hypersonic tune`; every line may be changed.\n"
        f"# Types and reuse factors for {job.card.name}{units}, with a loss of at most {options.loss:.3%} by {of}:\n"
        f"# {trial.loss:.3%} on {job.searched:,} rows of {options.rows.name}, {trial.judged:.3%} on {others:,} others, "
        "which the search did not use.\n"
        + f"# hls4ml's C++ does not support the reuse factors of {', '.join(left_out)}: set them with --fit {job.card.name}.\n"
        * bool(left_out)
        + f"# Far from the trained model all the same: {trial.far}. The loss was asked for, so tolerance: none accepts it.\n"
        * bool(trial.far)
        + yaml.safe_dump(described, sort_keys=False, width=120)
    )
