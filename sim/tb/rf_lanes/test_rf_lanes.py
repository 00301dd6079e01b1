# SPDX-License-Identifier: Apache-2.0
"""rf_lanes: every element once and in order under any stalls, the narrow side never idle, reset in mid-row."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from hypersonic.sim.stream_bench import Beat, Dut, Stalls, StreamBench, beats_of

SHAPES = [(4, 1, 8), (1, 4, 8), (2, 1, 3), (1, 2, 3), (3, 3, 5), (6, 2, 7), (2, 6, 7), (1, 8, 1), (35, 5, 4), (5, 35, 4)]


def dut_of(in_lanes: int, out_lanes: int, width: int) -> Dut:
    parameters = {"IN_LANES": in_lanes, "OUT_LANES": out_lanes, "WIDTH": width}
    return Dut("rf_lanes", parameters, {"s_axis": in_lanes * width}, out_lanes * width)


@pytest.fixture(scope="module")
def bench() -> Iterator[StreamBench]:
    with StreamBench([dut_of(*shape) for shape in SHAPES]) as opened:
        yield opened


def both_sides(dut: Dut, rows: int, seed: int) -> tuple[list[Beat], list[Beat]]:
    """Rows of random length, as input beats and as output beats."""
    rng = random.Random(seed)
    in_lanes, out_lanes, width = (int(dut.parameters[name]) for name in ("IN_LANES", "OUT_LANES", "WIDTH"))
    source, sink = [], []
    for _ in range(rows):
        row = [rng.getrandbits(width) for _ in range(max(in_lanes, out_lanes) * rng.randint(1, 9))]
        source += beats_of(row, in_lanes, width)
        sink += beats_of(row, out_lanes, width)
    return source, sink


@pytest.mark.parametrize("shape", SHAPES)
def test_elements_come_out_once_and_in_order_under_any_stalls(bench: StreamBench, shape: tuple[int, int, int]) -> None:
    dut = dut_of(*shape)
    for seed, stalls in enumerate([(0, 0), (150, 0), (0, 150), (90, 90)]):
        source, sink = both_sides(dut, 30, seed)
        assert bench.run(dut, source, results=len(sink), stalls=Stalls(*stalls)).beats == sink


@pytest.mark.parametrize("shape", SHAPES)
def test_the_narrow_side_moves_a_beat_every_clock(bench: StreamBench, shape: tuple[int, int, int]) -> None:
    dut = dut_of(*shape)
    source, sink = both_sides(dut, 30, 5)
    assert bench.run(dut, source, results=len(sink), drain=0).clocks <= max(len(source), len(sink)) + 3


@pytest.mark.parametrize("shape", SHAPES)
def test_reset_in_mid_row_leaves_nothing_behind(bench: StreamBench, shape: tuple[int, int, int]) -> None:
    dut = dut_of(*shape)
    for clocks in (1, 2, 5, 12):
        source, sink = both_sides(dut, 10, clocks)
        bench.run(dut, source, results=len(sink), stalls=Stalls(30, 90), clock_limit=clocks)
        bench.reset()
        assert bench.run(dut, source, results=len(sink)).beats == sink
