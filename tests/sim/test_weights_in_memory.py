# SPDX-License-Identifier: Apache-2.0
"""An rf core with weights in UltraRAM, in the card's memory and in block RAM, inside the kernel that brings them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from hypersonic.firmware.kernel import registers
from hypersonic.hls.core import Core
from hypersonic.hls.rf.plan import plan
from hypersonic.hls.rf.swap import swap_clocks
from hypersonic.sim.bench_rf import rf_bench_network
from hypersonic.sim.card.direct import MemoryTiming, Simulation
from hypersonic.sim.card.simulator import build_hardware_simulator
from tests.support.rf_kernels import EVERYWHERE, LOADED, Model

_X, _Y, _W = 0x1000, 0x40000, 0x80000
STALLING = MemoryTiming(read_latency_clocks=80, write_latency_clocks=20, stall_percent=25)


class Built(NamedTuple):
    core: Core
    simulator: Path
    image: bytes


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    directory = tmp_path_factory.mktemp("everywhere")
    kernel = EVERYWHERE.kernel(directory)
    assert kernel.core.weights is not None
    image = kernel.core.weights.read_bytes()
    simulator = build_hardware_simulator(kernel)
    shutil.rmtree(directory)
    return Built(kernel.core, simulator, image)


def test_rows_are_those_of_numpy_wherever_the_weights_come_from(built: Built) -> None:
    assert [stream.repeats for stream in built.core.weight_streams] == [False, True]
    with Simulation(built.simulator, 1 << 20, STALLING) as simulation:
        simulation.memory[_W : _W + len(built.image)] = np.frombuffer(built.image, np.uint8)
        assert simulation.read(registers.WEIGHTS_BEATS) == built.core.weight_beats == len(built.image) // 64
        for seed in range(3):
            data, expected = EVERYWHERE.rows(40, seed)
            simulation.memory[_X : _X + data.size] = data
            simulation.start(_X, _Y, 40, _W)
            simulation.finish()
            np.testing.assert_array_equal(simulation.memory[_Y : _Y + expected.size], expected)


def test_another_image_counts_from_its_first_run_on(built: Built) -> None:
    """All weights zero, but those in block RAM."""
    with Simulation(built.simulator, 1 << 20, STALLING) as simulation:
        simulation.memory[_W : _W + len(built.image)] = np.frombuffer(built.image, np.uint8)
        data, expected = EVERYWHERE.rows(20)
        simulation.memory[_X : _X + data.size] = data
        results = []
        for w in (_W, _W + 0x40000, _W):
            simulation.start(_X, _Y, 20, w)
            simulation.finish()
            results.append(simulation.memory[_Y : _Y + expected.size].copy())
    np.testing.assert_array_equal(results[0], expected)
    np.testing.assert_array_equal(results[2], expected)
    assert (results[1] != expected).any()


def predicted(model: Model, latency: int) -> int:
    network = rf_bench_network(model.x, model.y, reuse_factor=model.reuse_factor, weights_in=model.weights_in)
    return swap_clocks(plan(network, model.whole_row_bits), latency)


def busy_clocks(simulation: Simulation, rows: int, weights: list[int]) -> list[int]:
    """The clocks of runs with the weights at these addresses, by the kernel's counter."""
    clocks = []
    for w in weights:
        before = simulation.read(registers.BUSY_CYCLES)
        simulation.start(_X, _Y, rows, w)
        simulation.finish()
        clocks.append(simulation.read(registers.BUSY_CYCLES) - before)
    return clocks


@pytest.mark.parametrize("latency", [5, 60])
def test_a_swap_of_loaded_weights_takes_the_predicted_clocks(tmp_path: Path, latency: int) -> None:
    kernel = LOADED.kernel(tmp_path)
    assert kernel.core.weights is not None
    image = np.fromfile(kernel.core.weights, np.uint8)
    other = _W + 0x4000
    timing = MemoryTiming(read_latency_clocks=latency, write_latency_clocks=latency)
    with Simulation(build_hardware_simulator(kernel), 1 << 20, timing) as simulation:
        for address in (_W, other):
            simulation.memory[address : address + image.size] = image
        for rows in (1, 30):
            _, same, swapped, again = busy_clocks(simulation, rows, [_W, _W, other, other])
            assert same == again
            assert abs(swapped - same - predicted(LOADED, latency)) <= 24


def test_a_swap_of_weights_that_repeat_takes_no_longer_than_predicted(built: Built) -> None:
    with Simulation(built.simulator, 1 << 20, MemoryTiming(read_latency_clocks=60)) as simulation:
        for address in (_W, _W + 0x40000):
            simulation.memory[address : address + len(built.image)] = np.frombuffer(built.image, np.uint8)
        _, same, swapped = busy_clocks(simulation, 1, [_W, _W, _W + 0x40000])
        assert 0 < swapped - same <= predicted(EVERYWHERE, 60)
