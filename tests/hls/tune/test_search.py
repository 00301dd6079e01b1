# SPDX-License-Identifier: Apache-2.0
"""The search of `hypersonic tune` on losses that are known: a group may be narrowed by so many bits, and no further."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from hypersonic.hls.resources import Amounts
from hypersonic.hls.tune.measures import Cost
from hypersonic.hls.tune.search import Trial, search

MOST = {"input": 14, "weights of a": 13, "result of a": 14, "output": 4}


class Known:
    """Candidates whose loss is 0 while each group has at most `allowed` bits less, and 1 beyond."""

    def __init__(self, allowed: Mapping[str, int], budget: int = 1000) -> None:
        self.allowed, self.budget = allowed, budget
        self.tried: list[Mapping[str, int]] = []
        self.best: list[Trial] = []

    def attempt(self, wanted: Sequence[dict[str, int]]) -> list[Trial]:
        given = wanted[: max(0, self.budget - len(self.tried))]
        self.tried += given
        return [self.trial(fewer) for fewer in given]

    def trial(self, fewer: Mapping[str, int]) -> Trial:
        assert all(fewer[name] <= most for name, most in MOST.items())
        lossy = any(fewer[name] > bits for name, bits in self.allowed.items())
        luts = 1000 - sum(fewer.values())
        return Trial(fewer, float(lossy), float(lossy), Cost(Amounts(lut=luts), 1, 1, 1e6, luts / 1e6))

    def run(self) -> Mapping[str, int]:
        search(MOST, 0.01, self.attempt, self.best.append)
        return self.best[-1].fewer


@pytest.mark.parametrize(
    "allowed",
    [
        {"input": 3, "weights of a": 7, "result of a": 5, "output": 4},
        {"input": 0, "weights of a": 0, "result of a": 1, "output": 0},
        {"input": -3, "weights of a": -3, "result of a": -2, "output": 0},
        {"input": 14, "weights of a": 13, "result of a": 14, "output": 4},
    ],
)
def test_each_group_becomes_as_narrow_as_the_loss_permits(allowed: dict[str, int]) -> None:
    known = Known(allowed)
    assert known.run() == allowed
    assert len(known.tried) < 60
    prices = [trial.cost.price for trial in known.best if trial.cost]
    assert prices == sorted(prices, reverse=True)


@pytest.mark.parametrize("budget", [1, 2, 5, 6, 7, 12])
def test_a_budget_is_kept_and_leaves_the_best_so_far(budget: int) -> None:
    known = Known({"input": 3, "weights of a": 7, "result of a": 5, "output": 4}, budget)
    best = known.run()
    assert len(known.tried) == budget
    assert known.trial(best).loss == 0
    assert best in known.tried


def test_nothing_is_chosen_where_every_candidate_loses_too_much() -> None:
    known = Known({"input": -20})
    search(MOST, 0.01, known.attempt, known.best.append)
    assert not known.best
    assert [fewer["input"] for fewer in known.tried] == [0, -4, -8]


def test_equal_losses_give_an_equal_search() -> None:
    allowed = {"input": 2, "weights of a": 9, "result of a": 4, "output": 1}
    one, other = Known(allowed), Known(allowed)
    assert one.run() == other.run()
    assert one.tried == other.tried
