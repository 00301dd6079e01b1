# SPDX-License-Identifier: Apache-2.0
"""The kernel around a core that takes and gives rows in many beats, in a C++ loop: sizes of runs, stalls, clocks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hypersonic.firmware.kernel import registers
from hypersonic.firmware.kernel.files import Kernel
from hypersonic.sim.card.direct import MemoryTiming, Simulation
from hypersonic.sim.card.simulator import build_hardware_simulator
from tests.support.rf_kernels import SEVERAL, WHOLE_IN, Model

_X, _Y = 0x1000, 0x80000
_MEMORY_BYTES = 1 << 20

IDEAL = MemoryTiming()
STALLING = MemoryTiming(read_latency_clocks=60, write_latency_clocks=20, stall_percent=30)

MODELS = {"several": SEVERAL, "whole in": WHOLE_IN}


class Built:
    """A model's kernel and its simulator."""

    def __init__(self, model: Model, directory: Path) -> None:
        self.model = model
        self.kernel: Kernel = model.kernel(directory)
        self.simulator = build_hardware_simulator(self.kernel)

    def run(self, simulation: Simulation, count: int, seed: int) -> int:
        """Check that a run writes its rows and no other byte. Returns its clocks."""
        data, expected = self.model.rows(count, seed)
        simulation.memory[:] = 0xA5
        simulation.memory[_X : _X + data.size] = data
        simulation.start(_X, _Y, count)
        clocks = simulation.finish()
        np.testing.assert_array_equal(simulation.memory[_Y : _Y + expected.size], expected)
        assert (simulation.memory[_Y + expected.size :] == 0xA5).all()
        return clocks


@pytest.fixture(scope="module", params=MODELS)
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Built:
    return Built(MODELS[request.param], tmp_path_factory.mktemp("beats"))


@pytest.mark.parametrize("timing", [IDEAL, STALLING], ids=["ideal", "stalling"])
def test_every_row_count_is_exact_and_writes_nothing_behind_its_end(built: Built, timing: MemoryTiming) -> None:
    with Simulation(built.simulator, _MEMORY_BYTES, timing) as simulation:
        for seed, rows in enumerate((0, 1, 2, 3, 17, 150)):
            built.run(simulation, rows, seed)
        row_bytes = simulation.read(registers.ROW_IN_BYTES), simulation.read(registers.ROW_OUT_BYTES)
        assert row_bytes == (built.model.x.row_bytes, built.model.y.row_bytes)
        assert simulation.read(registers.RUNS) == 6


def test_runs_follow_each_other_without_a_pause_and_unmixed(built: Built) -> None:
    with Simulation(built.simulator, _MEMORY_BYTES, STALLING) as simulation:
        for seed in range(3):
            sizes = np.random.default_rng(seed).integers(0, 9, registers.MAX_RUNS).tolist()
            places = [(_X + 0x2000 * i, _Y + 0x2000 * i) for i in range(len(sizes))]
            rows = [built.model.rows(size, seed + i) for i, size in enumerate(sizes)]
            for size, (x, y), (data, _) in zip(sizes, places, rows, strict=True):
                simulation.memory[x : x + data.size] = data
                simulation.start(x, y, size)
            for (_, y), (_, expected) in zip(places, rows, strict=True):
                simulation.finish()
                np.testing.assert_array_equal(simulation.memory[y : y + expected.size], expected)


def test_the_shell_keeps_up_with_the_core(built: Built) -> None:
    core = built.kernel.core
    with Simulation(built.simulator, _MEMORY_BYTES, IDEAL) as simulation:
        few, many = (built.run(simulation, rows, 1) for rows in (50, 150))
        burst = 64  # beats, which are written when the last of them is there
        # the core's own clocks, which may be more than its ii where branches wait for each other
        assert core.ii <= (many - few) / 100 <= 1.2 * core.ii + burst / 100
        assert simulation.read(registers.STARVED_CYCLES) < 40  # only the first piece of a run waits for its bytes
