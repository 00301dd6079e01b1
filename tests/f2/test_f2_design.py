# SPDX-License-Identifier: Apache-2.0
"""The whole custom logic, two compute units, between the shell's OCL and PCIM: exact results, rules kept, rules checked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from numpy.typing import NDArray

from hypersonic.firmware.f2 import registers as f2
from hypersonic.firmware.f2.design import TOP, write_f2
from hypersonic.firmware.kernel import registers
from hypersonic.firmware.kernel.files import KernelError, rtl_sources
from hypersonic.hls import verilator
from hypersonic.sim.card.direct import MemoryTiming, Simulation, SimulationError
from hypersonic.sim.card.f2 import build_f2_simulator

if TYPE_CHECKING:
    from tests.f2.conftest import Built

MEMORY_BYTES, CANARY = 1 << 22, 0xA5
ROOT = Path(__file__).resolve().parents[2]

Job = tuple[int, int, NDArray[np.float32]]  # addresses of x and y, what y must become


class Card:
    """A simulated card and its memory; runs of both units, several in each at once."""

    def __init__(self, built: Built, simulation: Simulation) -> None:
        self._built, self.simulation = built, simulation
        self._next, self.jobs = 4096, {0: list[Job](), 1: list[Job]()}
        simulation.memory[:] = CANARY
        simulation.memory[: f2.REPORT_BYTES] = 0
        self.completed = simulation.memory[: f2.REPORT_BYTES].view(np.uint32)
        for register, value in ((f2.REPORT, 0), (f2.REPORT + 4, 0), (f2.REPORT, f2.REPORT_ENABLE)):
            simulation.write(f2.IDENTITY + register, value)

    def add(self, unit: int, rows: int, seed: int) -> None:
        """A run of so many random rows; page after page, x and y of all units mixed, a page of canaries behind each."""
        x, y = self._built.rows(rows, seed)
        x_at, y_at = self._room(x.nbytes), self._room(y.nbytes)
        self.simulation.memory[x_at : x_at + x.nbytes] = x.reshape(-1).view(np.uint8)
        self.jobs[unit].append((x_at, y_at, y))

    def _room(self, size_bytes: int) -> int:
        at, self._next = self._next, self._next + -(-size_bytes // 4096) * 4096 + 4096
        assert self._next <= MEMORY_BYTES
        return at

    def run(self) -> None:
        """Every job of every unit, started as soon as its unit takes it."""
        started, done = {0: 0, 1: 0}, {0: 0, 1: 0}
        for _ in range(20_000):
            if all(done[unit] == len(jobs) for unit, jobs in self.jobs.items()):
                return
            for unit in self.jobs:
                self.serve(unit, started, done)
            self.simulation.advance(32)
        raise TimeoutError(f"of {started} runs {done} are done")

    def serve(self, unit: int, started: dict[int, int], done: dict[int, int]) -> None:
        control = self.simulation.read(unit * f2.UNIT_STRIDE + registers.CONTROL)
        while done[unit] < self.completed[unit]:
            self.simulation.write(unit * f2.UNIT_STRIDE + registers.CONTROL, registers.AP_CONTINUE)
            done[unit] += 1
        if not control & registers.AP_START and started[unit] < len(self.jobs[unit]):
            x, y, rows = self.jobs[unit][started[unit]]
            words = {registers.X: x, registers.X + 4: 0, registers.Y: y, registers.Y + 4: 0, registers.ROWS: len(rows)}
            for offset, value in (*words.items(), (registers.CONTROL, registers.AP_START)):
                self.simulation.write(unit * f2.UNIT_STRIDE + offset, value)
            started[unit] += 1

    def check(self) -> None:
        memory = self.simulation.memory
        assert [*self.completed] == [len(self.jobs[0]), len(self.jobs[1]), *[0] * 14]
        for _, at, y in (job for jobs in self.jobs.values() for job in jobs):
            np.testing.assert_array_equal(memory[at : at + y.nbytes].view(np.uint32), y.reshape(-1).view(np.uint32))
            assert (memory[at + y.nbytes : (at + y.nbytes + 4095) // 4096 * 4096 + 4096] == CANARY).all()
        for unit in self.jobs:
            assert self.simulation.read(unit * f2.UNIT_STRIDE + registers.AXI_ERROR) == 0


@pytest.mark.parametrize(
    "timing",
    [MemoryTiming(), MemoryTiming(250, 60), *(MemoryTiming(100, 40, stall_percent=30, seed=seed) for seed in (1, 2, 3))],
    ids=["ideal", "latency", "disorder 1", "disorder 2", "disorder 3"],
)
def test_two_units_compute_exactly_and_keep_the_shells_rules(built: Built, timing: MemoryTiming) -> None:
    draw = np.random.default_rng(timing.seed)
    with Simulation(built.simulator, MEMORY_BYTES, timing) as simulation:
        card = Card(built, simulation)
        for unit in (0, 1):
            for run, rows in enumerate([3000, 0, 1, 13, *draw.integers(1, 1500, 6)]):
                card.add(unit, int(rows), 100 * unit + run)
        card.run()
        card.check()


def test_a_run_is_counted_in_host_memory_after_its_data_and_in_a_register_before(built: Built) -> None:
    with Simulation(built.simulator, MEMORY_BYTES, MemoryTiming(250, 60)) as simulation:
        card = Card(built, simulation)
        card.add(1, 700, 5)
        ((_, y_at, y),) = card.jobs[1]
        written = simulation.memory[y_at : y_at + y.nbytes].view(np.uint32)
        card.serve(1, {1: 0}, {1: 0})
        while not simulation.read(f2.UNIT_STRIDE + registers.CONTROL) & registers.AP_DONE:
            simulation.advance(1)
        assert (written != y.reshape(-1).view(np.uint32)).any()
        assert not card.completed.any()
        while not card.completed[1]:
            simulation.advance(1)
        np.testing.assert_array_equal(written, y.reshape(-1).view(np.uint32))


def test_counts_of_runs_begin_with_0_when_the_report_is_enabled(built: Built) -> None:
    with Simulation(built.simulator, MEMORY_BYTES) as simulation:
        for _ in range(2):
            card = Card(built, simulation)
            for unit in (0, 1, 1):
                card.add(unit, 20, unit)
            card.run()
            card.check()


def test_two_units_at_once_take_hardly_longer_than_one(built: Built) -> None:
    busy = []
    for units in ((0,), (0, 1)):
        with Simulation(built.simulator, MEMORY_BYTES, MemoryTiming(250, 60)) as simulation:
            card = Card(built, simulation)
            for unit in units:
                card.add(unit, 12_000, unit)
            card.run()
            card.check()
            busy.append(simulation.read(registers.BUSY_CYCLES))
    one, two = busy
    assert one <= 12_000 + 1000  # a row a clock
    assert two <= 1.02 * one


def test_the_identity_block_tells_units_and_uuid(built: Built) -> None:
    with Simulation(built.simulator, MEMORY_BYTES) as simulation:
        words = [simulation.read(f2.IDENTITY + offset) for offset in (f2.MAGIC, f2.VERSION, f2.COMPUTE_UNITS)]
        assert words == [f2.MAGIC_VALUE, f2.MAP_VERSION, 2]
        uuid = tuple(simulation.read(f2.IDENTITY + f2.UUID + 4 * word) for word in range(4))
        assert uuid == f2.uuid_words(built.design.uuid)


def test_an_interrupt_is_requested_and_acknowledged(built: Built) -> None:
    with Simulation(built.simulator, MEMORY_BYTES) as simulation:
        for unit in (0, 1):
            simulation.write(unit * f2.UNIT_STRIDE + registers.GIE, 1)
            simulation.write(unit * f2.UNIT_STRIDE + registers.IER, 1)
        card = Card(built, simulation)
        for unit in (0, 1, 0, 1):
            card.add(unit, 50, unit)
        card.run()  # the simulated shell tells of a request too many
        card.check()


#: what is broken, in which module, and what the simulated shell says to it
BREAKS: dict[str, tuple[str, str, str, str]] = {
    "one ID for all reads": (
        "axi_read_merge", "ID_WIDTH'(ar_slot_q)", "ID_WIDTH'(ar_slot_q & '0)", "its ID is that of a read on its way",
    ),
    "a pause in the data": (
        "axi_write_merge", "assign m_axi_wvalid  = giving_q;",
        "assign m_axi_wvalid  = giving_q && (m_axi_wlast || !m_axi_awlen[0] || beats_q[0]);",
        "a pause between an address and the end of its data",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BREAKS)
def test_the_simulated_shell_sees_a_broken_rule(built: Built, tmp_path: Path, name: str) -> None:
    module, before, after, fault = BREAKS[name]
    (file,) = [source for source in built.design.sources if source.stem == module]
    text = file.read_text()
    assert text.count(before) == 1
    (tmp_path / file.name).write_text(text.replace(before, after))
    sources = tuple(tmp_path / file.name if source == file else source for source in built.design.sources)
    simulator = build_f2_simulator(replace(built.design, sources=sources))
    with Simulation(simulator, MEMORY_BYTES, MemoryTiming(30, 10)) as simulation:
        for offset in (registers.GIE, registers.IER):
            simulation.write(offset, 1)
        card = Card(built, simulation)
        for run in range(4):
            card.add(0, 700 + run, run)
        with pytest.raises(SimulationError, match=fault):
            card.run()


def test_the_top_is_free_of_warnings(built: Built) -> None:
    verilator.lint([*built.design.kernel.lint_waivers, *built.design.sources], TOP)


@pytest.mark.parametrize("units", [0, 17])
def test_more_units_than_the_shell_has_interrupts_are_refused(built: Built, tmp_path: Path, units: int) -> None:
    with pytest.raises(KernelError, match=rf"compute units are {units} \(bench {units}\), expected 1 to 16"):
        write_f2(built.design.kernel, units, tmp_path)


def test_a_kernel_of_a_name_that_the_top_uses_is_refused(built: Built, tmp_path: Path) -> None:
    with pytest.raises(KernelError, match="'f2_shell', which the F2 top uses itself"):
        write_f2(replace(built.design.kernel, name="f2_shell"), 1, tmp_path)


def test_the_uuid_tells_designs_apart(built: Built, tmp_path: Path) -> None:
    kernel = built.design.kernel
    two = write_f2(kernel, 2, tmp_path / "a").uuid
    assert write_f2(kernel, 2, tmp_path / "b").uuid == two
    assert write_f2(kernel, 3, tmp_path / "c").uuid != two


def test_the_files_written_from_the_map_are_up_to_date() -> None:
    for file, text in f2.products(ROOT).items():
        assert file.read_text() == text, f"{file.name}: run python -m hypersonic.firmware.f2.registers"


def test_every_module_of_the_shell_lists_its_sources() -> None:
    assert {file.stem for file in rtl_sources("f2_shell")} >= {"ocl_decode", "axi_read_merge", "axi_write_merge", "irq_request"}
