# SPDX-License-Identifier: Apache-2.0
"""The simulation against queueing theory, and the theory against closed formulas of another kind."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypersonic.plan.farm import (
    Call,
    ClosedLoop,
    Constant,
    Farm,
    FarmError,
    Linear,
    Link,
    OpenLoop,
    Server,
    simulate,
)  # fmt: skip
from tests.plan.farm.farms import FACILE, SMALL, Exponential
from tests.plan.farm.mva import FifoStation, analyse
from tests.plan.farm.queues import chance_to_wait_mmc, mean_wait_md1_s, mean_wait_mg1_s, mean_wait_mmc_s

pytestmark = pytest.mark.whole("plan")
stations = st.lists(st.builds(FifoStation, st.floats(0.01, 2.0), st.integers(1, 6)), min_size=1, max_size=3)


def throughput_by_convolution(jobs: int, delay_s: float, network: list[FifoStation]) -> float:
    """Buzen's algorithm: X(N) = G(N - 1) / G(N), with the normalisation constants G."""
    constants = [1.0]
    for n in range(1, jobs + 1):
        constants.append(constants[-1] * delay_s / n)
    for station in network:
        factors = [1.0]
        for n in range(1, jobs + 1):
            factors.append(factors[-1] * station.demand_s / min(n, station.servers))
        constants = [sum(factors[j] * constants[n - j] for j in range(n + 1)) for n in range(jobs + 1)]
    return constants[jobs - 1] / constants[jobs]


@settings(max_examples=50)
@given(st.integers(1, 40), st.floats(0.0, 5.0), stations)
def test_mean_value_analysis_equals_the_convolution_algorithm(jobs: int, delay_s: float, network: list[FifoStation]) -> None:
    means = analyse(jobs, delay_s, network)[-1]
    assert means.throughput_per_s == pytest.approx(throughput_by_convolution(jobs, delay_s, network), rel=1e-9)
    assert means.cycle_s == pytest.approx(delay_s + sum(means.residence_s))


def test_mean_value_analysis_is_exact_far_above_saturation() -> None:
    """The usual recursion is wrong by half here: it subtracts numbers that are almost equal."""
    means = analyse(1000, 10.0, [FifoStation(0.4, 100)])[-1]
    assert means.throughput_per_s == pytest.approx(250 / 2.6)  # 100 servers at 1 / 0.4 s; N* = 2600 jobs
    assert analyse(4000, 10.0, [FifoStation(0.4, 100)])[-1].throughput_per_s == pytest.approx(250)


@pytest.mark.parametrize(("jobs", "units"), [(5, 1), (20, 1), (30, 1), (40, 4), (80, 4), (150, 4), (300, 16)])
def test_exponential_service_agrees_with_mean_value_analysis_within_2_percent(jobs: int, units: int) -> None:
    """N* is 21 jobs for one unit, 81 for four, 336 for 16."""
    means = analyse(jobs, 10.0, [FifoStation(0.5, units)])[-1]
    farm = Farm((Server(Exponential(0.5), units_per_card=units),))
    result = simulate(farm, ClosedLoop(jobs, 10.0, SMALL), seconds=100 + 14_000 / means.throughput_per_s, warmup_s=100)
    assert result.events_per_s == pytest.approx(means.throughput_per_s, rel=0.02)
    assert result.event_s.mean_s == pytest.approx(means.cycle_s, rel=0.02)
    assert result.utilisation.units == pytest.approx(means.utilisation[0], rel=0.02)


def test_processor_and_units_in_series_agree_with_mean_value_analysis() -> None:
    means = analyse(60, 10.0, [FifoStation(0.3, 2), FifoStation(0.5, 4)])[-1]
    farm = Farm((Server(Exponential(0.5), cards=4, cpu_cores=2, request_cpu=Exponential(0.3)),))
    result = simulate(farm, ClosedLoop(60, 10.0, SMALL), seconds=3000, warmup_s=100)
    assert result.events_per_s == pytest.approx(means.throughput_per_s, rel=0.02)
    assert result.utilisation.server_cpu == pytest.approx(means.utilisation[0], rel=0.02)


@pytest.mark.parametrize("load", [0.3, 0.5, 0.7])
def test_constant_service_and_poisson_arrivals_wait_as_in_an_md1_queue(load: float) -> None:
    """5 percent: the time for the mean to settle grows as 1 / (1 - load)**2."""
    result = simulate(Farm((Server(Constant(1.0)),)), OpenLoop(load, SMALL), seconds=50_000, warmup_s=1000)
    assert result.queue_s.mean_s == pytest.approx(mean_wait_md1_s(load, 1.0), rel=0.05)
    assert result.utilisation.units == pytest.approx(load, rel=0.02)


def test_exponential_service_waits_as_in_an_mmc_queue() -> None:
    """6 percent: the standard deviation of such a mean is 2.5 percent."""
    result = simulate(Farm((Server(Exponential(1.0), cards=4),)), OpenLoop(2.4, SMALL), seconds=60_000, warmup_s=500)
    assert result.queue_s.mean_s == pytest.approx(mean_wait_mmc_s(2.4, 1.0, 4), rel=0.06)


def test_a_link_is_an_md1_queue_of_bits() -> None:
    call = Call(rows=1, request_bytes=1.25e6, answer_bytes=0.0)  # 10 ms of 1 Gb/s, of which a fifth is taken
    farm = Farm((Server(Constant(0.0)),), link=Link(1.25e9, 0.005, background_bits_per_s=0.25e9))
    result = simulate(farm, OpenLoop(80.0, call), seconds=250, warmup_s=5)
    assert result.call_s.mean_s == pytest.approx(0.01 + 0.01 + mean_wait_md1_s(80.0, 0.01), rel=0.05)
    assert result.utilisation.link_requests == pytest.approx(0.8, rel=0.02)


def test_the_formulas_agree_where_they_meet() -> None:
    assert mean_wait_mmc_s(0.6, 1.0, 1) == pytest.approx(mean_wait_mg1_s(0.6, 1.0, 1.0))
    assert chance_to_wait_mmc(0.6, 1.0, 1) == pytest.approx(0.6)
    assert chance_to_wait_mmc(2.0, 1.0, 3) == pytest.approx(4 / 9)  # of textbooks
    with pytest.raises(FarmError, match=r"load of 1\.5, expected one below 1"):
        mean_wait_md1_s(1.5, 1.0)


@pytest.mark.parametrize(
    ("server", "jobs", "seconds"),
    [
        pytest.param(Server(Constant(1 / 500), link=Link(25e9)), 300, 22, id="T4"),
        pytest.param(Server(Linear(0.0, 1 / 86e6), link=Link(100e9)), 3225, 8, id="U250", marks=pytest.mark.slow),
    ],
)
def test_time_per_event_rises_only_from_saturation_on(server: Server, jobs: int, seconds: float) -> None:
    """N* jobs of 600 ms saturate the card. At N* events take at most 3 percent longer, at 1.1 N* 10 +- 2 percent."""
    capacity_per_s = jobs / 0.6
    alone_s = server.service.mean_s(FACILE.rows) + 8 * (FACILE.request_bytes + FACILE.answer_bytes) / server.link.bits_per_s

    def result_with(share: float) -> tuple[float, float]:
        load = ClosedLoop(round(share * jobs), 0.6 - alone_s, FACILE)
        result = simulate(Farm((server,)), load, seconds=seconds, warmup_s=2)
        return result.events_per_s, result.event_s.mean_s

    half, full, above = result_with(0.5), result_with(1.0), result_with(1.1)
    assert half[0] == pytest.approx(0.5 * capacity_per_s, rel=0.02)
    assert half[1] == pytest.approx(0.6, rel=0.01)
    assert 0.96 * capacity_per_s < full[0] <= 1.005 * capacity_per_s
    assert 1.0 <= full[1] / 0.6 <= 1.03
    assert above[0] == pytest.approx(capacity_per_s, rel=0.005)
    assert above[1] == pytest.approx(0.66, abs=0.012)
