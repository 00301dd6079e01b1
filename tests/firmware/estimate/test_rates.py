# SPDX-License-Identifier: Apache-2.0
"""The rate on a card is the least of what each part of the way carries; what is measured and what is assumed is said."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hypersonic.firmware.estimate.rates import CardRate, card_rate, least_clocks
from hypersonic.firmware.platform import PLATFORMS, Platform, find_platform
from hypersonic.firmware.xclbin.connectivity import most_units

#: FACILE's: 16 000 rows of 18 FP32 in and one out, and its kernel's clocks
CLOCKS, BYTES = 18_008, (16_000 * 72, 16_000 * 4)


def facile(platform: str = "u250", **options: Any) -> CardRate:
    return card_rate(find_platform(platform), CLOCKS, BYTES, **options)


def test_the_network_limits_facile_and_the_other_limits_stand_beside_it() -> None:
    rate = facile()
    assert {limit.part: (round(limit.events_per_s), limit.basis) for limit in rate.limits} == {
        "network": (2_713, "assumed"),
        "memory bank": (6_908, "measured"),
        "PCIe to the card": (8_073, "measured"),
        "kernel": (16_659, "assumed"),
        "PCIe from the card": (185_938, "measured"),
    }
    assert "7,895 at its peak of 19.2" in str(rate.limits[1])
    assert (rate.binding.part, round(rate.events_per_s)) == ("network", 2_713)
    assert rate.lines()[0] == "2,713 events/s on one u250, limited by the network: a prediction"
    assert rate.as_data()["limited_by"] == "network"


@pytest.mark.parametrize(
    ("options", "part", "events_per_s"),
    [
        ({"network_gbps": 100.0}, "memory bank", 6_908),
        ({"network_gbps": 100.0, "units": 4}, "PCIe to the card", 8_073),
        ({"network_gbps": 100.0, "kernel_mhz": 100.0}, "kernel", 5_553),
        ({"network_gbps": 1.0}, "network", 109),
    ],
)
def test_the_part_that_limits_is_the_least_of_them(options: dict[str, Any], part: str, events_per_s: int) -> None:
    rate = facile(**options)
    assert (rate.binding.part, round(rate.events_per_s)) == (part, events_per_s)


@pytest.mark.parametrize("platform", PLATFORMS.values(), ids=lambda platform: platform.name)
def test_every_card_has_a_rate_whatever_the_units(platform: Platform) -> None:
    for units in (1, 2, most_units(platform), 1000):
        rate = card_rate(platform, CLOCKS, BYTES, units=units)
        assert list(rate.limits) == sorted(rate.limits, key=lambda limit: limit.events_per_s)
        assert rate.of("kernel") == pytest.approx(units * platform.kernel_clock_mhz * 1e6 / CLOCKS)
        assert not any(limit.measured for limit in rate.limits if limit.part in ("kernel", "network"))


def test_a_rate_is_assumed_where_the_cards_file_says_that_nobody_has_confirmed_it() -> None:
    assert {limit.part for limit in facile("u55c").limits if limit.measured} == {"memory bank"}
    u250 = find_platform("u250")
    bare = replace(u250, memory=tuple(replace(bank, measured_gb_s=0.0) for bank in u250.memory))
    bank = next(limit for limit in card_rate(bare, CLOCKS, BYTES).limits if limit.part == "memory bank")
    assert (round(bank.events_per_s), bank.basis) == (7_895, "assumed")


def test_inputs_and_results_share_a_dimm_and_have_channels_of_their_own_on_hbm() -> None:
    assert facile("u280").of("memory bank") == pytest.approx(14.4e9 / (2 * BYTES[0]))
    assert facile("u250").of("memory bank") == pytest.approx(16.8e9 / (2 * sum(BYTES)))


def test_on_f2_the_kernel_reads_the_hosts_memory_and_no_bank_is_in_between() -> None:
    assert [limit.part for limit in facile("aws_f2").limits] == [
        *("network", "PCIe to the card", "kernel", "PCIe from the card")
    ]


def test_a_kernel_needs_its_cores_interval_or_the_clocks_of_its_bytes() -> None:
    assert [least_clocks(*row) for row in ((1, (72, 4)), (1, (36, 2)), (16, (72, 4)), (1, (4, 128)))] == [1.125, 1, 16, 2]


@pytest.mark.parametrize(
    ("clocks", "event_bytes", "options"),
    [(0, BYTES, {}), (1, (0, 4), {}), (1, (4, 0), {}), (1, BYTES, {"units": 0}), (1, BYTES, {"network_gbps": 0.0})],
)
def test_what_is_not_above_0_has_no_rate(clocks: float, event_bytes: tuple[int, int], options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="expected all of them above 0"):
        card_rate(find_platform("u250"), clocks, event_bytes, **options)
