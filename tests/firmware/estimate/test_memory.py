# SPDX-License-Identifier: Apache-2.0
"""The model of a memory bank: published rates alone, a mix burst by burst, and what the two say about each other."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle, islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypersonic.firmware.estimate.memory import BURST_BYTES, BankTiming, bank_timing
from hypersonic.firmware.platform import PLATFORMS, MemoryBank, find_platform

U250, U55C = (find_platform(name).memory[0] for name in ("u250", "u55c"))
BANKS = {f"{card.name} {bank.kind}": bank for card in PLATFORMS.values() for bank in card.memory}


def simulated_gb_s(bank: BankTiming, refresh_every_ns: float, streams: Iterator[tuple[int, bool]], bursts: int) -> float:
    """GB/s of bursts in turn, each of a (stream, writes): rows are missed, refreshed, and the bus is turned around."""
    time_ns, next_refresh_ns, had, moved = 0.0, refresh_every_ns, (-1, False), 0
    in_row: dict[int, int] = {}
    for stream, writes in islice(streams, bursts):
        if time_ns >= next_refresh_ns:
            time_ns += bank.refresh * refresh_every_ns
            next_refresh_ns += refresh_every_ns
        miss_ns = bank.write_miss_ns if writes else bank.read_miss_ns
        if had[1] != writes and had[0] >= 0:
            time_ns += 1.7 if writes else 21.7
        if had[0] != stream or in_row.get(stream, 0) >= bank.row_bytes:
            time_ns += miss_ns
            in_row[stream] = 0
        in_row[stream] = in_row.get(stream, 0) + BURST_BYTES
        time_ns += BURST_BYTES * bank.byte_ns
        had, moved = (stream, writes), moved + BURST_BYTES
    return moved / time_ns


@pytest.mark.parametrize("bank", BANKS.values(), ids=BANKS)
def test_the_model_is_what_bursts_one_after_the_other_take(bank: MemoryBank) -> None:
    timing, every_ns = bank_timing(bank), 7800.0 if bank.kind == "DDR4" else 3900.0
    for streams, expected in (
        ([(0, False)], timing.read_gb_s),
        ([(0, True)], timing.write_gb_s),
        ([(0, True), (1, False)], timing.mixed_gb_s),
    ):
        assert simulated_gb_s(timing, every_ns, cycle(streams), 20_000) == pytest.approx(expected, rel=0.005)


@pytest.mark.parametrize("bank", [U250, U55C], ids=["u250", "u55c"])
def test_reads_alone_and_writes_alone_have_their_published_rates(bank: MemoryBank) -> None:
    timing = bank_timing(bank)
    assert timing.read_gb_s == pytest.approx(bank.read_gb_s)
    assert timing.write_gb_s == pytest.approx(bank.write_gb_s)


def test_a_dimm_that_is_read_and_written_in_turn_carries_13_to_14_and_hbm_has_figures_of_its_own() -> None:
    assert 13 < bank_timing(U250).mixed_gb_s < 14
    assert 11.5 < bank_timing(U55C).mixed_gb_s < 12


@given(st.sampled_from(list(BANKS.values())), st.floats(0.3, 1.0), st.floats(0.3, 1.0))
def test_a_mix_is_never_faster_than_the_faster_of_reads_and_writes_alone(bank: MemoryBank, read: float, write: float) -> None:
    peak = bank.peak_gb_s
    given_rates = MemoryBank("t", "t", bank.kind, 0, 1, peak, 0, read * peak, write * peak, "a test")
    timing = bank_timing(given_rates)
    assert timing.mixed_gb_s < max(timing.read_gb_s, timing.write_gb_s) <= peak
