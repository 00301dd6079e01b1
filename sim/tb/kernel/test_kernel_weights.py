# SPDX-License-Identifier: Apache-2.0
"""The kernel around a core with weights in memory, in a C++ loop: when they are loaded, and what a run waits for."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from hypersonic.firmware.kernel import registers
from hypersonic.firmware.kernel.write import write_kernel
from hypersonic.hls import verilator
from hypersonic.hls.core import Core
from hypersonic.hls.weight_stream import WeightStream
from hypersonic.sim.card.direct import MemoryTiming, Simulation, SimulationError
from hypersonic.sim.card.simulator import build_hardware_simulator
from tests.support.rtl.bench_weights import bench_image, bench_weights_rows, write_bench_weights

_X, _Y, _W = 0x10000, 0x80000, 0x100000
#: bytes between images: a multiple of 64, but not of 4 KiB
_STRIDE = 0x8040
_MEMORY_BYTES = 1 << 21

IDEAL = MemoryTiming()
STALLING = MemoryTiming(read_latency_clocks=60, write_latency_clocks=20, stall_percent=30)


class Run(NamedTuple):
    rows: int
    image: int  # index of its weights' image


class TB:
    """A simulation with three images in memory; `expect` keeps track of the image that the core has loaded."""

    def __init__(self, core: Core, simulation: Simulation) -> None:
        self.core, self.simulation = core, simulation
        self.rng = np.random.default_rng(1)
        self.images = [bench_image(core, seed) for seed in range(3)]
        for number, image in enumerate(self.images):
            simulation.memory[_W + _STRIDE * number :][: image.size] = image
        self._loaded, self._rows = -1, 0

    def expect(self, run: Run) -> tuple[NDArray[np.int16], NDArray[np.int16]]:
        """Return random rows and their expected results."""
        if run.image != self._loaded:
            self._loaded, self._rows = run.image, 0
        x = self.rng.integers(-(1 << 15), 1 << 15, (run.rows, 4), dtype=np.int16)
        y = bench_weights_rows(self.core, self.images[run.image], x, self._rows)
        self._rows += run.rows
        return x, y

    def start(self, run: Run, place: int = 0) -> NDArray[np.int16]:
        x, y = self.expect(run)
        self.simulation.memory[_X + place : _X + place + x.nbytes] = x.reshape(-1).view(np.uint8)
        self.simulation.start(_X + place, _Y + place, run.rows, _W + _STRIDE * run.image)
        return y

    def check(self, y: NDArray[np.int16], place: int = 0) -> None:
        beats = self.simulation.memory[_Y + place : _Y + place + y.nbytes]
        np.testing.assert_array_equal(beats.view(np.int16).reshape(y.shape), y)

    def run(self, run: Run) -> int:
        """Run one run and check its results. Returns its clocks."""
        y = self.start(run)
        clocks = self.simulation.finish()
        self.check(y)
        return clocks


class Built(NamedTuple):
    core: Core
    simulator: Path


#: small streams; and a stream of many bursts read once, with a repeated one that is larger than any FIFO
STREAMS = {
    "small": (WeightStream(0, 70, False), WeightStream(128, 5, True)),
    "large": (WeightStream(0, 300, False), WeightStream(320, 110, True)),
}


@pytest.fixture(scope="module", params=STREAMS)
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Built:
    directory = tmp_path_factory.mktemp("weights")
    core = write_bench_weights(directory, streams=STREAMS[request.param])
    kernel = write_kernel(core, directory)
    verilator.lint([*kernel.lint_waivers, *kernel.sources], kernel.top)
    return Built(core, build_hardware_simulator(kernel))


@pytest.mark.parametrize("timing", [IDEAL, STALLING], ids=["ideal", "stalling"])
def test_rows_are_answered_from_the_weights_of_their_run(built: Built, timing: MemoryTiming) -> None:
    with Simulation(built.simulator, _MEMORY_BYTES, timing) as simulation:
        tb = TB(built.core, simulation)
        for run in (Run(3, 0), Run(40, 0), Run(0, 0), Run(7, 1), Run(0, 2), Run(20, 2), Run(1, 0), Run(200, 0)):
            tb.run(run)
        assert simulation.read(registers.AXI_ERROR) == 0
        assert simulation.read(registers.WEIGHTS_BEATS) == built.core.weight_beats


def test_runs_in_the_queue_change_the_weights_between_them(built: Built) -> None:
    with Simulation(built.simulator, _MEMORY_BYTES, STALLING) as simulation:
        tb = TB(built.core, simulation)
        for _ in range(4):
            sizes = tb.rng.integers(0, 30, registers.MAX_RUNS).tolist()
            images = tb.rng.integers(0, 3, registers.MAX_RUNS).tolist()
            runs = [tb.start(Run(*run), 0x800 * i) for i, run in enumerate(zip(sizes, images, strict=True))]
            for _ in runs:
                simulation.finish()
            for i, y in enumerate(runs):
                tb.check(y, 0x800 * i)


def test_only_a_run_with_other_weights_waits_for_them(built: Built) -> None:
    load = built.core.weight_streams[0].beats // 2  # minimum clocks, in addition to those of reading the rows
    with Simulation(built.simulator, _MEMORY_BYTES, IDEAL) as simulation:
        tb = TB(built.core, simulation)
        loading = tb.run(Run(1, 0))
        alone = tb.run(Run(1, 0))
        assert loading > alone + load
        assert tb.run(Run(1, 0)) <= alone + 8  # its rows share the port with weights
        assert tb.run(Run(1, 1)) > alone + load
        assert tb.run(Run(1, 1)) <= alone + 8


def test_runs_with_the_same_weights_leave_no_gap(built: Built) -> None:
    rows = 500
    with Simulation(built.simulator, _MEMORY_BYTES, MemoryTiming(read_latency_clocks=10)) as simulation:
        tb = TB(built.core, simulation)
        tb.run(Run(1, 0))
        one = tb.run(Run(rows, 0))
        before = simulation.read(registers.BUSY_CYCLES)
        runs = [tb.start(Run(rows, 0), 0x1000 * i) for i in range(4)]
        for _ in runs:
            simulation.finish()
        for i, y in enumerate(runs):
            tb.check(y, 0x1000 * i)
        # each row needs ROW_BEATS beats of weights; the latency of the first ones counts once
        assert simulation.read(registers.BUSY_CYCLES) - before < 3 * rows * built.core.ii + one + 50


def _finish(simulation: Simulation) -> int:
    """Each burst of weights is a separate fault, for as many bursts as the FIFOs hold."""
    for _ in range(500):
        simulation.faults.clear()
        with contextlib.suppress(SimulationError):
            return simulation.finish()
    raise TimeoutError("there is no end of faults")


def test_an_address_of_weights_outside_the_memory_shows_in_the_error_register(built: Built) -> None:
    with Simulation(built.simulator, _MEMORY_BYTES, IDEAL) as simulation:
        simulation.start(_X, _Y, 4, _MEMORY_BYTES)
        with pytest.raises(SimulationError, match="no buffer object"):
            simulation.finish()
        assert _finish(simulation)  # the run ends nevertheless
        assert simulation.read(registers.AXI_ERROR) == registers.READ_ERROR
