# SPDX-License-Identifier: Apache-2.0
"""Runs the steps in order, up to the first that deviates, and prints what each must show beside what it shows."""

from __future__ import annotations

import os
import textwrap
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from hypersonic.first_day.day import Day
from hypersonic.first_day.steps import STEPS, Deviation, Step

#: the memory of the rehearsal: clocks from a read's address to its data. A card's DDR4 takes about as many
_VARIABLE, _MEMORY = "HYPERSONIC_EMU_MEMORY", "latency=200"


def chosen(first: str, only: str) -> Sequence[Step]:
    """The steps from `first` on, or `only` one; empty names for all."""
    return [step for step in STEPS if step.name == only] if only else STEPS[_number(first or STEPS[0].name) :]


def _number(name: str) -> int:
    return [step.name for step in STEPS].index(name)


def run_steps(day: Day, steps: Sequence[Step]) -> int:
    """Run the steps; return the exit code: 0, 1 after a deviation, 2 if the machine has to be corrected first.

    An error that is not of this package is recorded and raised, as Ctrl-C is.
    """
    code = 0
    with rehearsed_memory(day):
        for step in steps:
            ended = _run_step(day, step)
            code = max(code, ended if day.record.results[-1].error else int(bool(day.record.results[-1].notes)))
            if day.record.results[-1].error:
                break
    day.record.show(_last_line(day, steps))
    return code


def _run_step(day: Day, step: Step) -> int:
    """Run one step, print its end, and return the exit code of its error, or 0."""
    record, began = day.record, time.monotonic()
    error: BaseException | None = None
    record.say(f"\n{_number(step.name) + 1}/{len(STEPS)} {step.name}")
    record.say(f"  runs   {step.runs}\n  shows  {step.shows}")
    try:
        step.run(day)
    except BaseException as caught:
        error = caught
        if not type(caught).__module__.startswith("hypersonic."):
            record.end(step.name, time.monotonic() - began, f"{type(caught).__name__}: {caught}")
            raise
    for each in [*record.notes, *([error] if error else [])]:
        _say_deviation(day, step.deviation(each), each)
    if error is None and not record.notes and not record.skipped:
        record.say("as expected")
    record.end(step.name, time.monotonic() - began, str(error or ""))
    return int(getattr(error, "exit_code", 2)) if error else 0


def _say_deviation(day: Day, deviation: Deviation, error: BaseException) -> None:
    day.record.say(f"DEVIATION, {deviation.got}: {error}")
    for label, text in (("means", deviation.means), ("look", deviation.look)):
        day.record.say(textwrap.fill(text, 120, initial_indent=f"  {label:<6} ", subsequent_indent="         "))


def _last_line(day: Day, steps: Sequence[Step]) -> str:
    results = day.record.results
    kind = "in the rehearsal, on emulated cards" if day.rehearsal else f"on card {day.card}"
    if results[-1].error:
        again = f"hypersonic first-day {'--rehearse ' if day.rehearsal else ''}--from-step {results[-1].step}"
        return f"\n{results[-1].step} deviates {kind}; when it is corrected: {again}"
    lists = {
        "with notes": [result.step for result in results if result.notes],
        "not rehearsed": [result.step for result in results if result.skipped],
    }
    others = "".join(f"; {what}: {', '.join(names)}" for what, names in lists.items() if names)
    return f"\n{sum(result.as_expected for result in results)} of {len(steps)} steps as expected {kind}{others}"


@contextmanager
def rehearsed_memory(day: Day) -> Iterator[None]:
    """Give the emulated cards of this process and its children the rehearsal's memory, unless the environment names one."""
    if not day.rehearsal or os.environ.get(_VARIABLE):
        yield
        return
    os.environ[_VARIABLE] = _MEMORY
    try:
        yield
    finally:
        del os.environ[_VARIABLE]
