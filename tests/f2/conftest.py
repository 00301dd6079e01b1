# SPDX-License-Identifier: Apache-2.0
"""Two compute units of a small kernel behind the F2 shell, Verilated, and the container that a build would publish of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from hypersonic.firmware.f2.design import F2Design, assemble_f2_xclbin, write_f2
from hypersonic.firmware.kernel.write import write_kernel
from hypersonic.firmware.platform import find_platform
from hypersonic.firmware.publish.manifest import Manifest
from hypersonic.firmware.target import Target
from hypersonic.host.device import Device
from hypersonic.host.opening import open_device as open_card
from hypersonic.sim.bench_core import bench_core_wire, bench_rows, write_bench_core
from hypersonic.sim.card.f2 import build_f2_simulator

UNITS = 2
N_IN, N_OUT = 5, 3


@dataclass(frozen=True)
class Built:
    """A design, its simulator, its container as a file, and the manifest of that."""

    design: F2Design
    simulator: Path
    xclbin: Path
    manifest: Manifest

    def rows(self, count: int, seed: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Random rows, (count, N_IN), and what the kernel must make of them, (count, N_OUT)."""
        x = np.random.default_rng(seed).normal(0, 8, (count, N_IN)).astype(np.float32)
        (y,) = bench_core_wire((x,), *bench_rows(N_IN, N_OUT))
        return x, np.asarray(y, np.float32)


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    directory = tmp_path_factory.mktemp("f2")
    core = write_bench_core(*bench_rows(N_IN, N_OUT), directory)
    design = write_f2(write_kernel(core, directory), UNITS, directory)
    simulator = build_f2_simulator(design)
    data = assemble_f2_xclbin(design, Target.HW_EMU, find_platform("aws_f2"), simulator.read_bytes())
    path = directory / "model.xclbin"
    path.write_bytes(data)
    manifest = Manifest.of(
        data, model=core.name, platform="aws_f2", core="da", inputs=core.inputs, outputs=core.outputs, ii=core.ii,
        latency_cycles=core.latency_cycles, max_batch_size=1000,
    )  # fmt: skip
    return Built(design, simulator, path, manifest)


@pytest.fixture
def open_device(built: Built) -> Callable[[], Device]:
    """Opens a simulated F2 card with the build on it, by the driver that a real one has."""
    return lambda: open_card(built.xclbin)


@pytest.fixture
def device(open_device: Callable[[], Device]) -> Iterator[Device]:
    with open_device() as opened:
        opened.open_units()
        yield opened
