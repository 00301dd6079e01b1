# SPDX-License-Identifier: Apache-2.0
"""irq_request: every rise of the level gives one request of one clock, and never before the last one's acknowledge."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import cocotb

from hypersonic.firmware.kernel.files import rtl_sources
from tests.support.rtl.bus import Bench
from tests.support.rtl.cocotb_run import run_bench


class Shell:
    """Acknowledges each request `latency` clocks later, and toggles the level at random."""

    def __init__(self, dut: Any, rng: random.Random, latency: int, toggle: float) -> None:
        self._dut, self._rng, self._latency, self.toggle = dut, rng, latency, toggle
        self.level = self.waits = 0
        self.requests = self.rises = 0

    def drive(self) -> None:
        if self._rng.random() < self.toggle:
            self.level ^= 1
            self.rises += self.level
        self._dut.irq.value = self.level
        self._dut.ack.value = int(self.waits == 1)

    def sample(self) -> None:
        acknowledged = self.waits == 1
        self.waits = max(0, self.waits - 1)
        if self._dut.request.value == 1:
            assert self.waits == 0 or acknowledged
            self.requests += 1
            self.waits = self._latency

    def reset(self) -> None:
        self.level = self.waits = self.requests = self.rises = 0
        self._dut.irq.value = self._dut.ack.value = 0


async def _run(dut: Any, latency: int, toggle: float) -> Shell:
    shell = Shell(dut, random.Random(latency), latency, toggle)
    bench = Bench(dut, [shell])
    await bench.reset()
    await bench.step(2000)
    shell.toggle = 0
    await bench.step(3 * latency + 5)
    return shell


@cocotb.test()
async def slow_rises_are_requested_one_by_one(dut: Any) -> None:
    shell = await _run(dut, 1, 0.2)
    assert shell.requests == shell.rises > 100


@cocotb.test()
async def rises_in_the_time_of_one_request_are_one_request(dut: Any) -> None:
    shell = await _run(dut, 20, 0.5)
    assert 2000 // 25 <= shell.requests <= 2000 // 20 + 1


def test_irq_request(tmp_path: Path) -> None:
    run_bench(tmp_path, "irq_request", rtl_sources("irq_request"), __name__)
