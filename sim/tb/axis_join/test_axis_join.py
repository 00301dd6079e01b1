# SPDX-License-Identifier: Apache-2.0
"""axis_join: takes a beat of every producer at the same time, at the pace of the slowest."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import cocotb
from cocotb.triggers import Timer

from hypersonic.firmware.kernel.files import rtl_sources
from tests.support.rtl.bus import Sink
from tests.support.rtl.cocotb_run import run_bench


class Producers:
    """All producers together, because the ports are vectors. Each holds its beat until it is taken, and counts them."""

    def __init__(self, dut: Any, count: int, rng: random.Random, pause: float) -> None:
        self._dut, self._rng, self._pause = dut, rng, pause
        self._offered = 0
        self._all = (1 << count) - 1
        self.left = self.taken = 0

    def drive(self) -> None:
        if self.left:
            for i in range(self._all.bit_length()):
                self._offered |= (self._rng.random() >= self._pause) << i
        self._dut.s_axis_tvalid.value = self._offered

    def sample(self) -> None:
        taken = self._offered & int(self._dut.s_axis_tready.value)
        assert taken in (0, self._all)
        if taken:
            self._offered = 0
            self.taken += 1
            self.left -= 1

    def reset(self) -> None:
        self._offered = self.left = self.taken = 0
        self._dut.s_axis_tvalid.value = 0


@cocotb.test()
async def beats_go_together_once_all_are_there(dut: Any) -> None:
    for seed, (pause_in, pause_out) in enumerate([(0.0, 0.0), (0.5, 0.0), (0.0, 0.5), (0.3, 0.3)]):
        rng = random.Random(seed)
        producers = Producers(dut, int(dut.N.value), rng, pause_in)
        sink = Sink(dut, "m_axis", (), rng, pause_out)
        producers.left = 200
        clocks = 0
        while producers.left:  # the module has no registers, so the bench needs no clock
            for agent in (producers, sink):
                agent.drive()
            await Timer(1, "ns")
            for agent in (producers, sink):
                agent.sample()
            clocks += 1
        assert producers.taken == len(sink.received) == 200
        assert clocks == 200 or pause_in or pause_out


def test_axis_join(tmp_path: Path) -> None:
    run_bench(tmp_path, "axis_join", rtl_sources("axis_join"), __name__, parameters={"N": 3})
