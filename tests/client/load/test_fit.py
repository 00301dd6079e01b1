# SPDX-License-Identifier: Apache-2.0
"""The fit of latency against concurrency: T = max(T0, N / l_max)."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypersonic.client.load import Closed, LoadError, Open, Point, fit_saturation
from hypersonic.client.load.fit import fit_law
from hypersonic.client.load.point import Latency
from hypersonic.reporting.loads import describe_fit

N = (1, 2, 4, 8, 16, 32, 64, 128)


def turns(unloaded_s: float, rate: float, concurrencies=N) -> list[float]:
    return [max(unloaded_s, n / rate) for n in concurrencies]


@given(unloaded_s=st.floats(1e-4, 10), n_star=st.floats(1.5, 100))
def test_exact_points_give_back_their_law(unloaded_s: float, n_star: float) -> None:
    law = fit_law(N, turns(unloaded_s, n_star / unloaded_s))
    assert law.n_star == pytest.approx(n_star, rel=1e-6)
    assert law.unloaded_s == pytest.approx(unloaded_s, rel=1e-6)
    assert law.residual < 1e-6


@given(n_star=st.floats(3, 50), seed=st.integers(0, 2**32 - 1))
def test_noise_moves_n_star_by_about_as_much_as_the_points(n_star: float, seed: int) -> None:
    """Noise of 2 %: T0 and l_max are means of two or more points each, so four sigma of N* are below 12 %."""
    noise = np.exp(np.clip(np.random.default_rng(seed).normal(0, 0.02, len(N)), -0.06, 0.06))
    law = fit_law(N, list(np.array(turns(0.01, n_star / 0.01)) * noise))
    assert law.n_star == pytest.approx(n_star, rel=0.12)


@settings(max_examples=50)
@given(seed=st.integers(0, 2**32 - 1))
def test_no_other_law_is_nearer_to_the_points(seed: int) -> None:
    """Against a search on a grid, for points that follow no law."""
    rng = np.random.default_rng(seed)
    x, y = np.log(N), np.sort(rng.uniform(0, 3, len(N)))
    y[-1] += 1  # the rise is clear, so that the fit does not call it flat
    law = fit_law(N, list(np.exp(y)))
    grid = np.linspace(-6, 6, 241)
    deviations = ((y - np.maximum(grid[:, None, None], x + grid[None, :, None])) ** 2).sum(-1)
    assert len(N) * law.residual**2 <= deviations.min() + 1e-9


def test_latencies_that_do_not_rise_show_no_saturation() -> None:
    law = fit_law(N, [0.010, 0.0101, 0.0099, 0.0102, 0.0098, 0.01, 0.0101, 0.0103])
    assert math.isinf(law.rate)
    assert math.isinf(law.n_star)
    assert law.turn_s(1000) == pytest.approx(0.01, rel=0.02)


def test_points_beyond_saturation_only_give_the_rate() -> None:
    law = fit_law((8, 16, 32), [0.08, 0.16, 0.32])
    assert law.rate == pytest.approx(100)


def test_the_papers_own_numbers_saturate_where_they_say() -> None:
    """nuSONIC's fit: an ideal event of 111.4 s, and 4 GPUs that take 2.5 s of each event: 178 jobs."""
    law = fit_law((*N, 256, 512), turns(111.4, 4 / 2.5, (*N, 256, 512)))
    assert round(law.n_star) == 178


def test_no_point_and_a_time_of_0_are_refused() -> None:
    for n, t in (([], []), ([1], [0.0]), ([1, 2], [1.0, math.nan])):
        with pytest.raises(LoadError, match="one or more points"):
            fit_law(n, t)


def point(concurrency: int, answered: int, failed: int = 0) -> Point:
    return Point(Closed(concurrency), 1, 2.0, answered, failed, answered / 2.0, Latency())


def test_closed_loops_are_fitted_by_their_rates_and_open_ones_are_left_out() -> None:
    law = fit_saturation(
        [point(1, 20), point(2, 40), point(4, 40), point(8, 40), Point(Open(5), 1, 2.0, 10, 0, 5.0, Latency())]
    )
    assert law is not None
    assert (law.unloaded_s, law.rate, law.n_star) == pytest.approx((0.1, 20, 2))


def test_one_concurrency_is_too_few_for_a_fit() -> None:
    assert fit_saturation([point(4, 40), point(4, 41), point(8, 0, failed=9)]) is None


def test_points_that_do_not_follow_the_law_are_called_so_in_words() -> None:
    """A service whose turns fall and rise: the law's nearest line is 63 % away."""
    law = fit_saturation([point(1, 20), point(2, 143), point(4, 80), point(8, 573)])
    assert law is not None
    assert law.residual == pytest.approx(0.63, abs=0.1)
    (*_, note) = describe_fit(law, [point(1, 20)])
    deviation = f"{100 * law.residual:.2g} %"
    assert note.startswith(
        f"note: the points deviate by {deviation}, so the server does not follow the law: do not use T0, l_max"
    )


def test_points_that_follow_the_law_have_no_note_and_two_of_them_have_one() -> None:
    assert fit_law(N, turns(0.01, 500)).doubt == ""
    noisy = [turn * (1.15 if place % 2 else 1 / 1.15) for place, turn in enumerate(turns(0.01, 500))]
    assert fit_law(N, noisy).doubt == ""
    assert "measure three or more concurrencies, some below and some above N*" in fit_law((1, 8), (0.01, 0.02)).doubt
    assert "two points fit the law" in fit_law((1, 1, 8), (0.01, 0.02, 0.02)).doubt
    assert "two points fit the law" in describe_fit(fit_law((1, 8), (0.01, 0.01)), [point(1, 20), point(8, 160)])[-1]
