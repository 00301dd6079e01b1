# SPDX-License-Identifier: Apache-2.0
"""axis_broadcast: each consumer takes each beat once, at its own pace."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import cocotb

from hypersonic.firmware.kernel.files import rtl_sources
from tests.support.rtl.bus import Bench, Source
from tests.support.rtl.cocotb_run import run_bench


class Consumers:
    """All consumers together, because the ports are vectors. Counts the beats each has taken and checks that valid stays."""

    def __init__(self, dut: Any, count: int, rng: random.Random, pause: float) -> None:
        self._dut, self._rng, self._pause = dut, rng, pause
        self._standing = 0
        self.taken = [0] * count

    def drive(self) -> None:
        ready = sum((self._rng.random() >= self._pause) << i for i in range(len(self.taken)))
        self._dut.m_axis_tready.value = ready

    def sample(self) -> None:
        valid, ready = int(self._dut.m_axis_tvalid.value), int(self._dut.m_axis_tready.value)
        assert self._standing & ~valid == 0
        self._standing = valid & ~ready
        for i in range(len(self.taken)):
            self.taken[i] += valid >> i & ready >> i & 1
        assert max(self.taken) - min(self.taken) <= 1

    def reset(self) -> None:
        self._standing = 0
        self.taken = [0] * len(self.taken)
        self._dut.m_axis_tready.value = 0


@cocotb.test()
async def every_consumer_takes_every_beat_once(dut: Any) -> None:
    for seed, (pause_in, pause_out) in enumerate([(0.0, 0.0), (0.5, 0.0), (0.0, 0.5), (0.3, 0.3)]):
        rng = random.Random(seed)
        source = Source(dut, "s_axis", (), rng, pause_in)
        consumers = Consumers(dut, int(dut.N.value), rng, pause_out)
        bench = Bench(dut, [source, consumers])
        await bench.reset()
        for _ in range(200):
            source.send()
        await bench.step(20)
        await bench.reset(1)  # in mid-stream: the beats on offer are lost, and none is given twice
        for _ in range(200):
            source.send()
        await bench.until(lambda source=source: source.idle)
        await bench.step(5)
        assert consumers.taken == [200] * len(consumers.taken)


def test_axis_broadcast(tmp_path: Path) -> None:
    run_bench(tmp_path, "axis_broadcast", rtl_sources("axis_broadcast"), __name__, parameters={"N": 3})
