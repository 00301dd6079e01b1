# SPDX-License-Identifier: Apache-2.0
"""Compute units of several kernels on one card: which share a bank, what they get of it, and that others notice nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from hypersonic.firmware.kernel import registers
from hypersonic.firmware.kernel.write import write_kernel
from hypersonic.firmware.platform import find_platform
from hypersonic.firmware.target import Target
from hypersonic.firmware.xclbin.assemble import LinkedKernel, assemble_kernels
from hypersonic.firmware.xclbin.images import pack_images
from hypersonic.sim.bench_core import bench_core_wire, bench_rows, write_bench_core
from hypersonic.sim.card.simulator import build_hardware_simulator

if TYPE_CHECKING:
    from tests.sim.conftest import Buffer, Pair, Xrt

ROWS = 3000
MEETS, NEVER_COMPLETES = 0xDEAD0003, 0xDEAD0001
X, Y = bench_rows(16, 1)


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory, stub_image: bytes, pair: Pair) -> dict[str, bytes]:
    """The simulators of four kernels. `first` and `second` read 64 bytes for each row, and so a beat in each clock."""
    place = tmp_path_factory.mktemp("kernels")
    readers = {
        name: build_hardware_simulator(write_kernel(write_bench_core(X, Y, place, name=name), place / name)).read_bytes()
        for name in ("first", "second")
    }
    return {"stub": stub_image, **readers, "pair": pair.images[Target.HW_EMU]}


@pytest.fixture
def xclbin(tmp_path: Path, images: dict[str, bytes]) -> Path:
    """On bank 0: stub_1, first_4, second_4, pair_4. Units 1, 2 and 3 of the others are on banks 1, 2 and 3."""
    kernels = [LinkedKernel("stub"), *(LinkedKernel(name, 4) for name in ("first", "second", "pair"))]
    path = tmp_path / "several.xclbin"
    path.write_bytes(assemble_kernels(kernels, Target.HW_EMU, find_platform("u250"), pack_images(images)))
    return path


@dataclass(frozen=True)
class Unit:
    """A compute unit with one run of ROWS rows."""

    xrt: Xrt
    kernel: int
    run: int
    y: Buffer

    def clocks(self) -> int:
        """Wait for the run; its clocks, from accepted to done."""
        assert self.xrt.finish(self.run, 60_000).name == "COMPLETED"
        return self.xrt.register(self.kernel, registers.RUN_CYCLES)


@dataclass(frozen=True)
class Card:
    xrt: Xrt
    device: int

    def unit(self, name: str, number: int, rows: int = ROWS, bank: int | None = None) -> Unit:
        bank = number % 4 if bank is None else bank
        kernel = self.xrt.kernel(self.device, f"{name}:{{{name}_{number}}}", exclusive=True)
        x, y = self.xrt.buffer(self.device, 64 * ROWS, bank), self.xrt.buffer(self.device, 64 * ROWS, bank)
        x.fill(np.arange(16 * ROWS) % 97)
        return Unit(self.xrt, kernel, self.xrt.run(kernel, x, y, rows), y)

    def start_together(self, *units: Unit) -> None:
        """Start runs of bank 0 while stub_1 keeps the thread that simulates this bank from going on."""
        kernel = self.xrt.kernel(self.device, "stub:{stub_1}")
        present, x, y = (self.xrt.buffer(self.device, 64) for _ in range(3))
        x.fill(np.array([self.xrt.xrtBOAddress(present.handle)], np.uint64).view(np.float32))
        y.fill(np.array([2], np.uint32).view(np.float32))
        gate = self.xrt.run(kernel, x, y, MEETS)
        self.xrt.start(gate)
        while not present.floats(1).view(np.uint32)[0]:
            pass
        for unit in units:
            self.xrt.start(unit.run)
        y.fill(np.array([1], np.uint32).view(np.float32))


@pytest.fixture
def card(xrt: Xrt, xclbin: Path) -> Card:
    return Card(xrt, xrt.device(xclbin))


@pytest.fixture
def alone(xrt: Xrt, images: dict[str, bytes], tmp_path: Path) -> dict[str, int]:
    """The clocks of ROWS rows of kernels that have a card to themselves."""
    clocks = {}
    for index, name in enumerate(("first", "pair"), start=1):
        path = tmp_path / f"{name}.xclbin"
        path.write_bytes(assemble_kernels([LinkedKernel(name)], Target.HW_EMU, find_platform("u250"), images[name]))
        unit = Card(xrt, xrt.device(path, index)).unit(name, 1, bank=0)
        xrt.start(unit.run)
        clocks[name] = unit.clocks()
    return clocks


def test_two_units_on_one_bank_read_a_beat_each_clock_together_and_half_of_it_each(card: Card, alone: dict[str, int]) -> None:
    units = card.unit("first", 4), card.unit("second", 4)
    card.start_together(*units)
    clocks = [unit.clocks() for unit in units]
    assert 2 * ROWS <= max(clocks) <= 2 * ROWS + 300
    assert max(clocks) - min(clocks) <= 100
    assert alone["first"] <= ROWS + 300
    expected = bench_core_wire([np.arange(16 * ROWS, dtype=np.float32).reshape(-1, 16) % 97], X, Y)[0]
    for unit in units:
        np.testing.assert_array_equal(unit.y.floats(ROWS).view(np.uint32), expected.ravel().view(np.uint32))


def test_a_unit_that_needs_little_of_a_bank_gets_it_and_the_rest_is_for_the_other(card: Card, alone: dict[str, int]) -> None:
    little, much = card.unit("pair", 4), card.unit("first", 4)
    card.start_together(little, much)
    assert little.clocks() <= alone["pair"] + 300
    assert much.clocks() <= alone["first"] + ROWS * 12 // 64 + 300


def test_units_on_banks_of_their_own_or_with_idle_neighbours_take_the_clocks_of_a_whole_card(
    card: Card, alone: dict[str, int]
) -> None:
    units = [card.unit("first", number) for number in (1, 2, 3, 4)]
    for unit in units:
        card.xrt.start(unit.run)
    assert [unit.clocks() for unit in units] == [alone["first"]] * 4
    card.xrt.start(units[3].run)
    assert units[3].clocks() == alone["first"]


def test_a_unit_that_never_ends_or_hangs_takes_nothing_of_the_bank(card: Card, alone: dict[str, int]) -> None:
    x, y = (card.xrt.buffer(card.device, 64) for _ in range(2))
    stuck = card.xrt.run(card.xrt.kernel(card.device, "stub:{stub_1}"), x, y, NEVER_COMPLETES)
    card.xrt.start(stuck)
    unit = card.unit("first", 4)
    for _ in range(2):
        card.xrt.start(unit.run)
        assert unit.clocks() == alone["first"]
    assert card.xrt.finish(stuck, 1).name == "RUNNING"


def test_a_card_closes_while_its_units_share_a_bank(card: Card) -> None:
    units = card.unit("first", 4), card.unit("second", 4)
    card.start_together(*units)
    assert card.xrt.finish(units[0].run, 1).name in {"RUNNING", "QUEUED", "COMPLETED"}
