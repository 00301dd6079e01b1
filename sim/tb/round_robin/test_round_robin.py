# SPDX-License-Identifier: Apache-2.0
"""round_robin: the grant against a model in Python, no request waits for more than one round, reset at any time."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from cocotb.triggers import Timer

from hypersonic.firmware.kernel.files import rtl_sources
from tests.support.rtl.cocotb_run import bench_test, run_bench


async def clock(dut: Any, rst_n: int, request: int, taken: int) -> int:
    """One clock. Returns the grant before its rising edge."""
    dut.clk.value, dut.rst_n.value, dut.request.value, dut.taken.value = 0, rst_n, request, taken
    await Timer(1, "ns")
    grant = int(dut.grant.value)
    dut.clk.value = 1
    await Timer(1, "ns")
    return grant


def granted(request: int, count: int, last: int) -> int | None:
    """The index of the first request after `last`, cyclically; None without a request."""
    order = [(last + 1 + i) % count for i in range(count)]
    return next((i for i in order if request >> i & 1), None)


@bench_test
async def the_next_request_above_the_last_one_served_is_granted(dut: Any) -> None:
    rng = random.Random(1)
    count = int(dut.COUNT.value)
    for often in (0.2, 0.5, 1.0):
        await clock(dut, 0, rng.getrandbits(count), 1)
        last = count - 1  # after a reset, 0 is first
        for _ in range(500):
            request = sum((rng.random() < often) << i for i in range(count))
            expected = granted(request, count, last)
            taken = int(expected is not None and rng.random() < 0.6)
            assert await clock(dut, 1, request, taken) == (0 if expected is None else 1 << expected)
            if taken and expected is not None:
                last = expected
            if rng.random() < 0.02:
                await clock(dut, 0, request, taken)
                last = count - 1


@bench_test
async def a_request_that_stays_is_served_within_one_round(dut: Any) -> None:
    rng = random.Random(2)
    count = int(dut.COUNT.value)
    for patient in range(count):
        await clock(dut, 0, 0, 0)
        waited = 0
        for _ in range(200):
            grant = await clock(dut, 1, rng.getrandbits(count) | 1 << patient, 1)
            waited = 0 if grant == 1 << patient else waited + 1
            assert waited < count


SETS = {f"count_{count}": {"COUNT": count} for count in (1, 2, 5)}


def test_round_robin(tmp_path: Path) -> None:
    run_bench(tmp_path, "round_robin", rtl_sources("round_robin"), __name__, sets=SETS)
