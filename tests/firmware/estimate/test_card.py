# SPDX-License-Identifier: Apache-2.0
"""The simulated card: never faster than a part alone, no slower with more, and right where a formula is known."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from hypersonic.firmware.estimate.card import CardLoad, simulate
from hypersonic.firmware.estimate.rates import CARD, alone_s, card_rate
from hypersonic.firmware.platform import PLATFORMS, Platform, find_platform

#: the machine may be slow
CASES = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])

U250, F2 = find_platform("u250"), find_platform("aws_f2")
FACILE = CardLoad(18_004 / 300e6, 16_000 * 72, 16_000 * 4, units=1, runs=2)

LOADS = st.builds(
    CardLoad,
    st.floats(1e-6, 1e-2),
    st.integers(64, 4_000_000),
    st.integers(64, 4_000_000),
    st.integers(1, 4),
    st.integers(1, 4),
)


@CASES
@given(st.sampled_from(list(PLATFORMS.values())), LOADS)
@example(find_platform("u50"), CardLoad(1.2e-6, 141, 3_800_000, units=1, runs=1))  # nothing interleaves in the results' bank
def test_the_card_is_no_faster_than_any_part_alone_and_no_slower_than_one_run_at_a_time(
    platform: Platform, load: CardLoad
) -> None:
    got = simulate(platform, load)
    clocks = load.kernel_s * platform.kernel_clock_mhz * 1e6
    rate = card_rate(platform, clocks, (load.x_bytes, load.y_bytes), units=load.units, runs=load.runs)
    parts = [limit.events_per_s for limit in rate.limits if limit.part not in ("network", CARD)]
    assert got.runs_per_s <= 1.05 * min(parts)
    assert rate.of(CARD) <= min(parts)
    assert all(busy <= 1 + 1e-6 for busy in got.busy.values())
    bank_s = 2 * (load.x_bytes + load.y_bytes) / 8e9  # slower than any bank here with one stream
    assert got.runs_per_s >= 0.95 / (alone_s(platform, load.kernel_s, (load.x_bytes, load.y_bytes)) + bank_s)


@CASES
@given(st.sampled_from(("u250", "u55c", "aws_f2")), LOADS)
def test_more_runs_in_flight_or_a_faster_kernel_make_no_card_slower(name: str, load: CardLoad) -> None:
    platform = find_platform(name)
    rate = simulate(platform, load).runs_per_s
    for better in (replace(load, runs=load.runs + 1), replace(load, kernel_s=load.kernel_s / 2)):
        assert simulate(platform, better).runs_per_s >= 0.9 * rate


def test_one_run_at_a_time_takes_its_transfers_and_its_kernel_time() -> None:
    load = replace(FACILE, runs=1)
    event_bytes = load.x_bytes, load.y_bytes
    assert simulate(F2, load).runs_per_s == pytest.approx(1 / alone_s(F2, load.kernel_s, event_bytes))
    assert simulate(F2, load).limited_by == "runs in flight"


def test_a_slow_kernel_is_always_busy_with_two_runs_and_units_add_up() -> None:
    slow = replace(FACILE, kernel_s=1e-2)
    for units in (1, 2, 4):
        got = simulate(U250, replace(slow, units=units))
        assert got.limited_by == "kernel"
        assert got.runs_per_s == pytest.approx(units * 100)


@pytest.mark.parametrize(
    ("units", "runs", "limited_by", "events_per_s"),
    [(1, 1, "runs in flight", 3_880), (1, 2, "memory bank", 5_574), (2, 2, "PCIe to the card", 7_967)],
)
def test_facile_is_limited_by_its_bank_and_with_a_second_unit_by_pcie(
    units: int, runs: int, limited_by: str, events_per_s: int
) -> None:
    rate = card_rate(U250, 18_004, (16_000 * 72, 16_000 * 4), units=units, runs=runs, network_gbps=200.0)
    assert (rate.limited_by, round(rate.events_per_s)) == (limited_by, events_per_s)
    assert rate.binding.part == CARD
    assert rate.lines()[0].startswith(f"{events_per_s:,} events/s on one u250, limited by ")
