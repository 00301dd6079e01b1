# SPDX-License-Identifier: Apache-2.0
"""The one definition of answers that are far from the trained model's."""

from __future__ import annotations

import numpy as np
import pytest

from hypersonic.hls.closeness.difference import NUMBERS, Judged, Kind, difference, merit_warning

PROBABILITIES, CLASSES = Judged(Kind.PROBABILITIES), Judged(Kind.CLASSES)
WANTED = np.linspace(0.0, 1.0, 2000)[:, None]


def test_numbers_are_far_by_their_rms_beyond_5_per_cent_of_the_spread() -> None:
    spread = float(np.std(WANTED))
    assert difference(WANTED + 0.049 * spread, WANTED).far_because() == ""
    assert difference(WANTED + 0.051 * spread, WANTED).far_because() == "the rms difference is 5.1 % of the answers' spread"


@pytest.mark.parametrize(("rows", "far"), [(2, False), (3, True)])
def test_numbers_are_far_if_more_than_a_thousandth_of_the_rows_is_off_by_5_per_cent_of_the_span(rows: int, far: bool) -> None:
    got = WANTED.copy()
    got[:rows] += 0.06
    found = difference(got, WANTED)
    assert found.share < 0.05
    assert bool(found.far_because()) == far


@pytest.mark.parametrize(
    ("judged", "off", "far"),
    [(PROBABILITIES, 0.049, False), (PROBABILITIES, 0.051, True), (Judged(Kind.PROBABILITIES, 0.1), 0.09, False),
     (Judged(Kind.PROBABILITIES, 0.1), 0.11, True), (Judged(Kind.PROBABILITIES, 0.67), 0.06, True)],
)  # fmt: skip
def test_probabilities_are_far_by_one_difference_unless_useful_tables_allow_it(judged: Judged, off: float, far: bool) -> None:
    got = WANTED.copy()
    got[7] += off
    assert bool(difference(got, WANTED).far_because(judged)) == far


@pytest.mark.parametrize(("rows", "far"), [(20, False), (21, True)])
def test_classes_are_far_if_more_than_a_hundredth_of_the_rows_has_another(rows: int, far: bool) -> None:
    wanted = np.tile([0.1, 0.9, 0.0], (2000, 1))
    got = np.tile([0.0, 1.0, 0.0], (2000, 1))
    got[:rows] = [1.0, 0.0, 0.0]
    assert bool(difference(got, wanted).far_because(CLASSES)) == far
    by_sets = difference(got.reshape(1000, 6), wanted.reshape(1000, 6), classes=3)
    assert by_sets.other_class == pytest.approx(-(-rows // 2) / 1000)


def test_not_a_number_is_far_from_everything() -> None:
    got = WANTED.copy()
    got[5] = np.nan
    for judged in (NUMBERS, PROBABILITIES):
        assert difference(got, WANTED).far_because(judged)
    assert difference(got, WANTED).row == 5


def test_answers_that_do_not_vary_are_judged_by_their_magnitude() -> None:
    same = np.full((100, 1), 4.0)
    assert difference(same, same).far_because() == ""
    assert difference(same + 0.1, same).far_because() == ""
    assert difference(same + 0.3, same).far_because()
    assert difference(np.zeros((9, 1)), np.zeros((9, 1))).far_because() == ""
    assert difference(np.ones((9, 1)), np.zeros((9, 1))).far_because()


@pytest.mark.parametrize(
    ("got", "trained", "larger_is_better", "warns"),
    [(0.91, 1.0, True, False), (0.89, 1.0, True, True), (2.0, 1.0, True, False), (1.09, 1.0, False, False),
     (1.11, 1.0, False, True), (0.5, 1.0, False, False), (None, 1.0, True, False), (1.0, None, True, False),
     (0.1, 0.0, False, True)],
)  # fmt: skip
def test_a_figure_of_merit_that_is_worse_by_more_than_a_tenth_is_a_warning(
    got: float | None, trained: float | None, larger_is_better: bool, warns: bool
) -> None:
    text = merit_warning("accuracy", got, trained, larger_is_better=larger_is_better)
    assert bool(text) == warns
    if warns and trained:
        assert text.startswith("the fixed-point network is worse than the trained one by 11 %: accuracy ")
