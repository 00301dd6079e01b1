# SPDX-License-Identifier: Apache-2.0
"""The rate on a card is the least of what each part carries; who published a figure, or that it is assumed, is said."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hypersonic.firmware.estimate.memory import bank_timing
from hypersonic.firmware.estimate.rates import CardRate, alone_s, card_rate, least_clocks
from hypersonic.firmware.platform import PLATFORMS, TRANSFERS_IN_FLIGHT, Platform, find_platform
from hypersonic.firmware.xclbin.connectivity import most_units

#: FACILE's: 16 000 rows of 18 FP32 in and one out, and its kernel's clocks
CLOCKS, BYTES = 18_008, (16_000 * 72, 16_000 * 4)


def facile(platform: str = "u250", **options: Any) -> CardRate:
    return card_rate(find_platform(platform), CLOCKS, BYTES, **options)


def test_the_network_limits_facile_and_the_other_limits_stand_beside_it() -> None:
    rate = facile()
    assert {limit.part: (round(limit.events_per_s), limit.basis) for limit in rate.limits} == {
        "network": (2_713, "assumed"),
        "card": (5_574, "simulated (bench card)"),
        "memory bank": (5_574, "modelled (AMD's axi_burst_performance)"),
        "PCIe to the card": (8_073, "published (xbutil validate)"),
        "PCIe both ways": (12_336, "published (AMD's host_global_bandwidth)"),
        "kernel": (16_659, "assumed"),
        "PCIe from the card": (185_938, "published (xbutil validate)"),
    }
    assert (rate.binding.part, round(rate.events_per_s)) == ("network", 2_713)
    assert rate.lines()[0] == "2,713 events/s on one u250, limited by the network: a prediction"
    assert rate.as_data()["limited_by"] == "network"


@pytest.mark.parametrize(
    ("options", "part", "events_per_s"),
    [
        ({"network_gbps": 100.0}, "memory bank", 5_574),
        ({"network_gbps": 100.0, "units": 4}, "PCIe to the card", 7_967),
        ({"network_gbps": 100.0, "kernel_mhz": 50.0}, "kernel", 2_777),
        ({"network_gbps": 1.0}, "network", 109),
    ],
)
def test_the_part_that_limits_is_the_least_of_them(options: dict[str, Any], part: str, events_per_s: int) -> None:
    rate = facile(**options)
    assert (rate.limited_by, round(rate.events_per_s)) == (part, events_per_s)


@pytest.mark.parametrize("platform", PLATFORMS.values(), ids=lambda platform: platform.name)
def test_every_card_has_a_rate_whatever_the_units(platform: Platform) -> None:
    for units in (1, 2, most_units(platform), 1000):
        rate = card_rate(platform, CLOCKS, BYTES, units=units)
        assert list(rate.limits) == sorted(rate.limits, key=lambda limit: limit.events_per_s)
        assert rate.of("kernel") == pytest.approx(units * platform.kernel_clock_mhz * 1e6 / CLOCKS)
        assert not any(limit.source for limit in rate.limits if limit.part in ("kernel", "network"))
        assert not any("measured" in f"{limit}" for limit in rate.limits), "this project has measured none of them"


def test_a_rate_is_assumed_where_the_cards_file_names_nobody_who_published_it() -> None:
    assert {limit.part for limit in facile("u55c").limits if limit.source} == {"card", "memory bank"}
    u250 = find_platform("u250")
    bare = replace(u250, memory=tuple(replace(bank, read_gb_s=0.0, write_gb_s=0.0, source="") for bank in u250.memory))
    bank = next(limit for limit in card_rate(bare, CLOCKS, BYTES).limits if limit.part == "memory bank")
    assert (round(bank.events_per_s), bank.basis) == (5_574, "assumed"), "the same kind of memory, in proportion to its peak"


def test_inputs_and_results_share_a_dimm_and_have_channels_of_their_own_on_hbm() -> None:
    u280, u250 = (bank_timing(find_platform(name).memory[0]).mixed_gb_s * 1e9 for name in ("u280", "u250"))
    assert facile("u280").of("memory bank") == pytest.approx(u280 / (2 * BYTES[0]))
    assert facile("u250").of("memory bank") == pytest.approx(u250 / (2 * sum(BYTES)))


def test_answers_as_large_as_their_requests_are_limited_by_both_directions_together() -> None:
    rate = card_rate(find_platform("u250"), 1, (10**6, 10**6), network_gbps=1000.0, units=4)
    assert rate.limited_by == "PCIe both ways"
    assert rate.events_per_s == pytest.approx(15e9 / 2e6)
    assert "PCIe both ways" not in {limit.part for limit in facile("aws_f2").limits}


def test_pcie_carries_what_the_transfers_in_flight_reach_and_no_more_than_all_together() -> None:
    u250 = find_platform("u250")
    slow = replace(u250, h2c_transfer_gb_s=2.0)
    to_card = next(limit for limit in card_rate(slow, CLOCKS, BYTES).limits if limit.part == "PCIe to the card")
    assert to_card.events_per_s == pytest.approx(TRANSFERS_IN_FLIGHT * 2e9 / BYTES[0])
    assert to_card.source == "AMD's host_global_bandwidth"
    assert "9.3 GB/s, 2 transfers in flight" in str(
        next(limit for limit in card_rate(u250, CLOCKS, BYTES).limits if limit.part == "PCIe to the card")
    )


def test_an_event_that_has_the_card_to_itself_takes_its_transfers_and_its_kernel_time() -> None:
    u250, f2 = find_platform("u250"), find_platform("aws_f2")
    assert alone_s(u250, 1e-4, BYTES) == pytest.approx(BYTES[0] / 6.5e9 + 1e-4 + BYTES[1] / 9.7e9)
    assert alone_s(f2, 1e-4, BYTES) == pytest.approx(sum(BYTES) / 12e9 + 1e-4)


def test_on_f2_the_kernel_reads_the_hosts_memory_and_no_bank_is_in_between() -> None:
    assert [limit.part for limit in facile("aws_f2").limits] == [
        *("network", "card", "PCIe to the card", "kernel", "PCIe from the card")
    ]


def test_a_kernel_needs_its_cores_interval_or_the_clocks_of_its_bytes() -> None:
    assert [least_clocks(*row) for row in ((1, (72, 4)), (1, (36, 2)), (16, (72, 4)), (1, (4, 128)))] == [1.125, 1, 16, 2]


@pytest.mark.parametrize(
    ("clocks", "event_bytes", "options"),
    [
        (0, BYTES, {}),
        (1, (0, 4), {}),
        (1, (4, 0), {}),
        (1, BYTES, {"units": 0}),
        (1, BYTES, {"network_gbps": 0.0}),
        (1, BYTES, {"runs": 0}),
    ],
)
def test_what_is_not_above_0_has_no_rate(clocks: float, event_bytes: tuple[int, int], options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="expected all of them above 0"):
        card_rate(find_platform("u250"), clocks, event_bytes, **options)
