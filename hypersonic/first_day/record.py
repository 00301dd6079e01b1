# SPDX-License-Identifier: Apache-2.0
"""The record of a day: what is printed, and the files that go into the archive."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Result:
    """The result of one step.

    Attributes:
        error: the deviation that ended the step; empty when there was none.
        notes: deviations after which the day goes on.
        seconds: the time that it took.
        skipped: True if there was nothing to run.
        lines: what it printed.
    """

    step: str
    error: str
    notes: tuple[str, ...]
    seconds: float
    lines: tuple[str, ...]
    skipped: bool = False

    @property
    def as_expected(self) -> bool:
        """True if the step has shown what it must show."""
        return not self.error and not self.notes and not self.skipped


@dataclass
class Record:
    """Collects what the steps say and keep.

    Attributes:
        show: called with each line when it is said.
        lines: of the present step.
        notes: of the present step.
        skipped: True if the present step has nothing to run.
        results: of the steps that have ended.
        files: name -> text, or a value for JSON, for the archive.
    """

    show: Callable[[str], None]
    lines: list[str] = field(default_factory=list)
    notes: list[Exception] = field(default_factory=list)
    skipped: bool = False
    results: list[Result] = field(default_factory=list)
    files: dict[str, Any] = field(default_factory=dict)

    def say(self, text: str) -> None:
        """Show and keep lines."""
        for line in text.splitlines() or [""]:
            self.lines.append(line)
            self.show(line)

    def end(self, step: str, seconds: float, error: str = "") -> None:
        """End the present step."""
        self.results.append(Result(step, error, tuple(map(str, self.notes)), seconds, tuple(self.lines), self.skipped))
        self.lines, self.notes, self.skipped = [], [], False
