# SPDX-License-Identifier: Apache-2.0
"""RunTimes: the times at which the phases of a run begin and end, and those of a request that needed several runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple


class RunTimes(NamedTuple):
    """The times of one run, of time.monotonic_ns(): taken from the queue, launched, done, answered."""

    taken_ns: int
    launched_ns: int
    done_ns: int
    answered_ns: int

    def answered_at(self, answered_ns: int) -> RunTimes:
        """Return the times with another end; faster than _replace()."""
        taken_ns, launched_ns, done_ns, _ = self
        return RunTimes(taken_ns, launched_ns, done_ns, answered_ns)


def join_times(runs: Sequence[RunTimes]) -> RunTimes:
    """Return the times of a request that needed several runs.

    Each moment counts once: as compute time if any run was computing, otherwise as output time if any run was being answered,
    otherwise as input time if any run was being copied. The remaining time is queue time, before `taken`.
    """
    infer_ns = _covered((run.launched_ns, run.done_ns) for run in runs)
    output_ns = _covered((run.launched_ns, run.answered_ns) for run in runs) - infer_ns
    input_ns = _covered((run.taken_ns, run.answered_ns) for run in runs) - infer_ns - output_ns
    answered_ns = max(run.answered_ns for run in runs)
    done_ns = answered_ns - output_ns
    launched_ns = done_ns - infer_ns
    return RunTimes(launched_ns - input_ns, launched_ns, done_ns, answered_ns)


def _covered(spans: Iterable[tuple[int, int]]) -> int:
    """Return the total time that is covered by at least one of the (start, end) spans."""
    total = reached = 0
    for start, end in sorted(spans):
        total += max(0, end - max(start, reached))
        reached = max(reached, end)
    return total
