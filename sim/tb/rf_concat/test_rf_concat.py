# SPDX-License-Identifier: Apache-2.0
"""rf_concat: groups of both streams in turn, every beat once, for stalls on any side, reset in mid-group."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from hypersonic.sim.stream_bench import Beat, Dut, StreamBench

SHAPES = [(2, 1, 8), (1, 1, 3), (1, 4, 8), (5, 3, 70)]


def dut_of(a: int, b: int, width: int) -> Dut:
    return Dut("rf_concat", {"WIDTH": width, "A_BEATS": a, "B_BEATS": b}, {"s_axis_a": width, "s_axis_b": width}, width)


@pytest.fixture(scope="module")
def bench() -> Iterator[StreamBench]:
    with StreamBench([dut_of(*shape) for shape in SHAPES]) as opened:
        yield opened


def traffic_of(a: int, b: int, width: int, rows: int, seed: int) -> tuple[list[list[Beat]], list[Beat]]:
    rng = random.Random(seed)
    inputs: list[list[Beat]] = [[], []]
    sink: list[Beat] = []
    for _ in range(rows):
        groups = rng.randint(1, 5)
        for group in range(groups):
            for which, beats in ((0, a), (1, b)):
                data = [rng.getrandbits(width) for _ in range(beats)]
                last = [group + 1 == groups and i + 1 == beats for i in range(beats)]
                inputs[which] += map(Beat, data, last)
                sink += [Beat(word, which == 1 and end) for word, end in zip(data, last, strict=True)]
    return inputs, sink


@pytest.mark.parametrize("shape", SHAPES)
def test_both_come_in_turn_under_any_stalls_and_after_a_reset(bench: StreamBench, shape: tuple[int, int, int]) -> None:
    bench.check(dut_of(*shape), lambda rows, seed: traffic_of(*shape, rows, seed), rows=20)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_beat_passes_every_clock(bench: StreamBench, shape: tuple[int, int, int]) -> None:
    inputs, expected = traffic_of(*shape, 20, 1)
    taken = bench.run(dut_of(*shape), *inputs, results=len(expected)).taken_at
    assert taken[-1] - taken[0] == len(expected) - 1
