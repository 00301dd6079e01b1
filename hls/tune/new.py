# SPDX-License-Identifier: Apache-2.0
"""`hypersonic new`: writes the YAML beside a user's model, such that a build accepts it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from hypersonic.hls.closeness.difference import percent
from hypersonic.hls.errors import ConversionError, Edit
from hypersonic.hls.frontend.description import SUFFIXES
from hypersonic.hls.frontend.hgq import uses_hgq
from hypersonic.hls.tune.candidates import Candidates
from hypersonic.hls.tune.describe import check_place, describe_model
from hypersonic.hls.tune.edited import edited
from hypersonic.hls.tune.settle import Described, Settled, changes, settle
from hypersonic.hls.tune.sized import named_with, write_sized
from hypersonic.hls.tune.verdict import Verdict

#: the loss up to which types are widened
LOSS = 0.01


@dataclass(frozen=True)
class Written:
    """A YAML that was written.

    Attributes:
        warnings: sentences about what a build of it does not do, or does badly.
    """

    file: Path
    settled: Settled
    warnings: tuple[str, ...]


def write_description(
    model: Path, *, rows: Path | None, output: Path | None, force: bool, progress: Callable[[str], None], loss: float = LOSS
) -> Written:
    """Write a YAML that a build accepts for the model file, and return what was found.

    Args:
        rows: .npy or .npz with rows of the model's inputs. Their numbers decide the types; hls4ml's C++ is compared with the
            trained model on them, as a build does, and types are widened until the loss is within `loss`: the rms difference
            over the answers' spread. Without rows the description is only converted.
        output: default beside the model, where the commands look for it.

    Raises:
        DescriptionError: For a wrong suffix, a missing model, or a YAML that exists if not `force`.
        ConversionError: For a model or rows that cannot be read, a model that does not convert, and if no types were found that
            a build accepts.
    """
    place = check_place(model, output, force=force)
    with Candidates(model) as candidates, tempfile.TemporaryDirectory() as scratch:
        progress(f"loading {model.name}" + (f", and computing the rows of {rows.name}" if rows else ""))
        found = candidates.survey(rows)
        text = describe_model(model, found, os.path.relpath(rows, place.parent) if rows else None, typed=uses_hgq(model))
        described = yaml.safe_load(text)
        judging = _Judging(model, rows, candidates, Path(scratch), loss)
        progress("converting with hls4ml" + (", and comparing with the trained model" if rows else ""))
        settled = settle(described, judging.judge, loss, progress)
    text = edited(text, [*changes(described, settled.described), *_accepted(settled, loss)])
    place.write_text(text)
    return Written(place, settled, tuple(_warnings(settled, rows, loss)))


def write_copy(model: Path, shapes: dict[str, tuple[int, ...]], *, force: bool) -> Path:
    """Copy a model file with sizes for the inputs that leave theirs open; return the copy's path, beside the model.

    Args:
        shapes: as write_sized takes them.

    Raises:
        DescriptionError: For a wrong suffix, a missing model, or a copy that exists if not `force`.
        ConversionError: As write_sized does.
    """
    copy = named_with(model, shapes)
    check_place(model, copy, force=force)
    write_sized(model, shapes, copy)
    return copy


def describe_if_missing(model: str, rows: Path | None, progress: Callable[[str], None]) -> None:
    """Write the YAML of a model file that has none, if rows are given; progress says so. Raises as write_description does."""
    file = Path(model)
    if rows and file.suffix in SUFFIXES and file.is_file() and not file.with_suffix(".yaml").exists():
        written = write_description(file, rows=rows, output=None, force=False, progress=progress)
        for warning in written.warnings:
            progress(warning)
        progress(f"{written.file} was missing and is written, as `hypersonic new` does")


@dataclass(frozen=True)
class _Judging:
    """Judges descriptions of one model.

    Attributes:
        scratch: a directory for the conversions.
    """

    model: Path
    rows: Path | None
    candidates: Candidates
    scratch: Path
    limit: float

    def judge(self, described: Described, core: str) -> Verdict:
        """Judge a description, as settle does."""
        directory = Path(tempfile.mkdtemp(dir=self.scratch))
        file = directory / self.model.name
        file.symlink_to(self.model.resolve())
        gate = {"gate": {**described["gate"], "rows": str(self.rows.resolve())}} if self.rows else {}
        file.with_suffix(".yaml").write_text(yaml.safe_dump({**described, **gate}, sort_keys=False))
        return self.candidates.judge(file, directory / "project", core, self.limit)


def _accepted(settled: Settled, loss: float) -> list[Edit]:
    """Return a tolerance for a network that is far, but within the requested loss. Raises ConversionError for any other."""
    verdict = settled.verdict
    if not verdict.refused:
        return []
    if verdict.is_far and loss > LOSS and verdict.loss <= loss:
        return [Edit(("gate", "tolerance"), "none")]
    larger = "; a larger --loss accepts it" if verdict.is_far else ""
    raise ConversionError(f"no types were found with which a build takes it: {verdict.refused}{larger}")


def _warnings(settled: Settled, rows: Path | None, loss: float) -> Iterator[str]:
    verdict = settled.verdict
    if settled.core:
        yield f"no core computes it: {settled.no_core}; `hypersonic build --target sw_emu` runs its C++"
    if rows is None:
        yield "no rows were given, so its answers are not compared with the trained model's; give --rows"
    elif verdict.loss > loss:
        share = f"{percent(verdict.loss)} of the answers' spread, more than {percent(loss)}"
        yield f"the rms difference from the trained model is {share}: {verdict.begin}"
