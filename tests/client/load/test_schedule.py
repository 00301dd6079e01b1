# SPDX-License-Identifier: Apache-2.0
"""When the requests of an open loop start."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypersonic.client.load import Closed, LoadError, Open, Window
from hypersonic.client.load.offer import schedule


def test_constant_arrivals_are_equally_spaced_and_end_with_the_window() -> None:
    starts, end_s = schedule(Open(4, "constant"), Window(duration_s=1.5, warm_up_s=0.5))
    assert end_s == 2.0
    np.testing.assert_allclose(starts, np.arange(8) / 4)


def test_poisson_arrivals_have_the_spacing_of_independent_clients() -> None:
    starts, _ = schedule(Open(1000), Window(duration_s=100, warm_up_s=0))
    gaps = np.diff(starts)
    # 100,000 gaps: mean and standard deviation of an exponential distribution are equal, here within 5 / sqrt(n)
    assert gaps.mean() == pytest.approx(1e-3, rel=0.016)
    assert gaps.std() == pytest.approx(1e-3, rel=0.03)


@given(
    rate=st.floats(0.5, 5000),
    arrivals=st.sampled_from(["poisson", "constant"]),
    requests=st.integers(1, 300),
    warm_up_s=st.floats(0, 2),
    seed=st.integers(0, 2**32 - 1),
)
def test_a_window_of_requests_holds_exactly_these(rate: float, arrivals, requests: int, warm_up_s: float, seed: int) -> None:
    starts, end_s = schedule(Open(rate, arrivals), Window(requests=requests, warm_up_s=warm_up_s, seed=seed))
    assert (np.diff(starts) >= 0).all()
    assert (starts >= warm_up_s).sum() == requests
    assert starts[-1] == end_s


def test_the_same_seed_gives_the_same_schedule_and_another_one_does_not() -> None:
    first, again, other = (schedule(Open(50), Window(seed=seed))[0] for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert len(first) != len(other) or (first != other).any()


@pytest.mark.parametrize("rate", [0, -1, float("inf"), float("nan")])
def test_a_rate_is_a_number_above_0(rate: float) -> None:
    with pytest.raises(LoadError, match="expected a number above 0"):
        Open(rate)


def test_a_loop_and_a_window_that_send_nothing_are_refused() -> None:
    with pytest.raises(LoadError, match="the concurrency is 0"):
        Closed(0)
    for arguments in ({"duration_s": 0.0}, {"requests": -1}, {"warm_up_s": -1.0}, {"duration_s": float("nan")}):
        with pytest.raises(LoadError, match="the window is"):
            Window(**arguments)
