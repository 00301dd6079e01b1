# SPDX-License-Identifier: Apache-2.0
"""The borders of a run in time, and of a request that needed several runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple


class RunTimes(NamedTuple):
    """One run's borders, monotonic ns."""

    taken_ns: int
    launched_ns: int
    done_ns: int
    answered_ns: int


def join_times(runs: Sequence[RunTimes]) -> RunTimes:
    """Of a request that needed several runs.

    Each moment counts once, as the furthest that any of its runs was: computing, else being answered, else being copied. What
    is left is queue time, before `taken`.
    """
    infer_ns = _covered((run.launched_ns, run.done_ns) for run in runs)
    output_ns = _covered((run.launched_ns, run.answered_ns) for run in runs) - infer_ns
    input_ns = _covered((run.taken_ns, run.answered_ns) for run in runs) - infer_ns - output_ns
    answered_ns = max(run.answered_ns for run in runs)
    done_ns = answered_ns - output_ns
    launched_ns = done_ns - infer_ns
    return RunTimes(launched_ns - input_ns, launched_ns, done_ns, answered_ns)


def _covered(spans: Iterable[tuple[int, int]]) -> int:
    """How long at least one of the spans from .. to lasts."""
    total = reached = 0
    for start, end in sorted(spans):
        total += max(0, end - max(start, reached))
        reached = max(reached, end)
    return total
