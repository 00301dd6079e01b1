# SPDX-License-Identifier: Apache-2.0
"""The order in which `hypersonic tune` narrows types. It does not depend on times, so equal inputs give equal results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hypersonic.hls.tune.measures import Cost

#: bits that are added if the first types lose too much, and the most that are removed from all types together
_WIDER, _MOST_FEWER = (4, 8), 14


@dataclass(frozen=True)
class Trial:
    """A candidate.

    Attributes:
        fewer: the bits removed from the first types, by group.
        loss: on the rows of the search.
        judged: the loss on the other rows, which the search does not use.
        cost: None if it was refused.
        refused: why.
        factors: the reuse factors of an rf core that fills the card, 0 where hls4ml's C++ does not support it.
        far: why its answers are far from the trained model's (hls/closeness/difference.py), as a clause; "" if they are not.
    """

    fewer: Mapping[str, int]
    loss: float
    judged: float
    cost: Cost | None
    refused: str = ""
    factors: Mapping[str, int] = field(default_factory=dict)
    far: str = ""

    def is_within(self, limit: float) -> bool:
        """Return whether it was not refused and loses no more than the limit."""
        return self.cost is not None and self.loss <= limit


@dataclass(frozen=True)
class Tuned:
    """The result.

    Attributes:
        trials: all, in order.
        best: one of them, whose YAML is in `file`.
        bits: the first width of each group.
        rows, judged: the numbers of rows that the search used and that judged its result.
        ended: why the search ended.
    """

    file: Path
    trials: tuple[Trial, ...]
    best: Trial
    limit: float
    bits: Mapping[str, int]
    rows: int
    judged: int
    ended: str


#: tries candidates at the same time, each given as bits to remove by group; returns fewer, or none, when the budget is used up
Try = Callable[[Sequence[dict[str, int]]], list[Trial]]


def search(most: Mapping[str, int], limit: float, attempt: Try, on_best: Callable[[Trial], None]) -> None:
    """Narrow all types together, by bisection, then those of each group, as long as the loss stays within the limit.

    Ends when nothing is left to narrow, or the budget is used up.

    Args:
        most: the bits that can be removed from each group, by name, in the order in which groups are narrowed.
        attempt: see Try.
        on_best: called with each candidate that is within the limit and better than all before it.
    """
    start = _start(most, limit, attempt)
    if start is None:
        return
    on_best(start)
    best = _together(most, start, limit, attempt, on_best)
    if best is not None:
        _one_by_one(most, best, limit, attempt, on_best)


def _all(most: Mapping[str, int], fewer: int) -> dict[str, int]:
    return {name: min(fewer, bits) for name, bits in most.items()}


def _start(most: Mapping[str, int], limit: float, attempt: Try) -> Trial | None:
    """Try the first types, or wider ones if these lose too much."""
    for wider in (0, *_WIDER):
        trials = attempt([_all(most, -wider)])
        if not trials:
            return None
        if trials[0].is_within(limit):
            return trials[0]
    return None


def _together(
    most: Mapping[str, int], start: Trial, limit: float, attempt: Try, on_best: Callable[[Trial], None]
) -> Trial | None:
    """Bisect the number of bits removed from all types; return None when the budget is used up."""
    low, high, best = min(start.fewer.values(), default=0), _MOST_FEWER, start
    while high - low > 1:
        middle = (low + high) // 2
        trials = attempt([_all(most, middle)])
        if not trials:
            return None
        if trials[0].is_within(limit):
            low, best = middle, trials[0]
            on_best(best)
        else:
            high = middle
    return best


def _one_by_one(most: Mapping[str, int], best: Trial, limit: float, attempt: Try, on_best: Callable[[Trial], None]) -> None:
    """Remove a bit from one group after the other, and again from those where that worked.

    Two candidates are tried at a time: the next group alone, and together with the one after it. The result is the same as if
    they were tried one after the other.
    """
    left = list(most)
    while left:
        again: list[str] = []
        waiting = left
        while waiting := [name for name in waiting if best.fewer[name] < most[name]]:
            pair = waiting[:2]
            one = {**best.fewer, pair[0]: best.fewer[pair[0]] + 1}
            both = [one, *({**one, name: one[name] + 1} for name in pair[1:])]
            trials = attempt(both)
            taken = [trial for trial in trials if _is_better(trial, best, limit)]
            if trials and trials[0] in taken:
                best = taken[-1]
                again += pair[: len(taken)]
                on_best(best)
                waiting = waiting[len(trials) :]
            else:
                waiting = waiting[1:]
            if len(trials) < len(both):
                return
        left = again


def _is_better(trial: Trial, best: Trial, limit: float) -> bool:
    assert best.cost is not None
    return trial.is_within(limit) and trial.cost is not None and trial.cost.price <= best.cost.price
