# SPDX-License-Identifier: Apache-2.0
"""run_report between units that complete runs at random and a memory: it counts each run, once, and none too early."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.firmware.kernel.files import rtl_sources
from tests.support.rtl.axi_bus import WAITS, MemoryBehaviour, WriteMemory, WriteMonitor
from tests.support.rtl.bus import Bench
from tests.support.rtl.cocotb_run import bench_test, run_bench

_ADDRESS = 192


class Units:
    """Compute units that complete runs at random. completed has the runs of each."""

    def __init__(self, dut: Any, rng: random.Random, often: float) -> None:
        self._dut, self._rng, self.often = dut, rng, often
        self.count = int(dut.UNITS.value)
        self.completed = [0] * self.count
        self._ends = 0

    def drive(self) -> None:
        self._ends = sum((self._rng.random() < self.often) << unit for unit in range(self.count))
        self._dut.run_done.value = self._ends

    def sample(self) -> None:
        for unit in range(self.count):
            self.completed[unit] += self._ends >> unit & 1

    def reset(self) -> None:
        self._ends = 0
        self.completed = [0] * self.count
        self._dut.run_done.value = 0
        self._dut.enable.value = 0
        self._dut.address.value = _ADDRESS


class TB:
    def __init__(self, dut: Any, behaviour: MemoryBehaviour, often: float, seed: int = 1) -> None:
        rng = random.Random(seed)
        self.dut, self.stored = dut, bytearray(4096)
        self.units = Units(dut, rng, often)
        self.memory = WriteMemory(dut, "m_axi", self.stored, rng, behaviour)
        self.monitor = WriteMonitor(dut, "m_axi")
        self.bench = Bench(dut, [self.units, self.memory, self.monitor])

    def told(self) -> NDArray[np.uint32]:
        return np.frombuffer(bytes(self.stored[_ADDRESS : _ADDRESS + 64]), np.uint32)

    async def end(self) -> None:
        """Let no run end any more, and check that all have been told."""
        self.units.often = 0.0
        await self.bench.step(100)
        assert [*self.told()] == [*self.units.completed, *[0] * (16 - self.units.count)]
        assert not any(self.stored[:_ADDRESS] + self.stored[_ADDRESS + 64 :])


@bench_test
async def every_run_is_counted_once_and_none_before_it_ends(dut: Any) -> None:
    for seed, (address, data) in enumerate(WAITS):
        for often in (0.02, 0.7):
            behaviour = MemoryBehaviour(0.3, 7, address_waits_for_data=address, data_waits_for_address=data)
            tb = TB(dut, behaviour, often, seed)
            await tb.bench.reset()
            dut.enable.value = 1
            for _ in range(400):
                before = tb.told()
                await tb.bench.step()
                now = tb.told()
                assert (before <= now).all()
                assert (now[: tb.units.count] <= tb.units.completed).all()
            await tb.end()
            assert any(tb.units.completed)


@bench_test
async def nothing_is_written_until_it_is_enabled_and_then_from_0(dut: Any) -> None:
    tb = TB(dut, MemoryBehaviour(0.3, 7), 0.5)
    await tb.bench.reset()
    await tb.bench.step(100)
    assert not tb.memory.taken
    for _ in range(2):
        tb.units.completed = [0] * tb.units.count
        tb.units.often = 0.5
        dut.enable.value = 1
        await tb.bench.step(100)
        await tb.end()
        dut.enable.value = 0
        await tb.bench.step(20)


@bench_test
async def a_reset_leaves_nothing_behind(dut: Any) -> None:
    tb = TB(dut, MemoryBehaviour(0.3, 7), 0.5)
    await tb.bench.reset()
    for clocks in (3, 6, 11):
        dut.enable.value = 1
        await tb.bench.step(clocks)
        await tb.bench.reset(2)
    await tb.bench.step(50)
    tb.stored[:] = bytes(4096)
    tb.units.completed = [0] * tb.units.count
    dut.enable.value = 1
    await tb.bench.step(50)
    await tb.end()


SETS = {"one": {"UNITS": 1}, "two": {"UNITS": 2}, "sixteen": {"UNITS": 16}}


def test_run_report(tmp_path: Path) -> None:
    sources = [*rtl_sources("run_report"), Path(__file__).with_name("run_report_bench.sv")]
    run_bench(tmp_path, "run_report_bench", sources, __name__, sets=SETS)
