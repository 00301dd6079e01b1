# SPDX-License-Identifier: Apache-2.0
"""The clocks of a swap of weights by the kernel's own counter, compared with the build's prediction.

The Verilated kernel runs one row with one image of weights, then with another, twice each; the clocks of a swap are those by
which the first run with an image takes longer than the second one. All results are compared with csim. Nothing is measured on
a card.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.sharing.figure import Figure, Progress
from hypersonic.firmware.kernel import registers
from hypersonic.firmware.kernel.write import keep_kernel
from hypersonic.hls.build import build_project
from hypersonic.hls.core import Core
from hypersonic.hls.csim.compiled import Csim, compile_csim
from hypersonic.hls.project import HlsProject
from hypersonic.hls.rf.swap import READ_LATENCY_CLOCKS
from hypersonic.hls.weight_stream import WEIGHT_BITS
from hypersonic.sim.card.direct import MemoryTiming, Simulation
from hypersonic.sim.card.simulator import build_hardware_simulator

TITLE = "a swap of EmTrkMichelId's weights (hw_emu)"
MODEL = "emtrk"
#: the largest difference from the prediction
TOLERANCE = 0.02
_X, _Y, _W = 0x10000, 0x80000, 0x100000
_ALIGNED = 0x1000


@dataclass(frozen=True)
class Swap:
    """A swap of a model's weights. busy_clocks: of the runs with the images A, A, B, B. equal: the rows were those of csim."""

    model: str
    weights_bytes: int
    busy_clocks: tuple[int, ...]
    swap_clocks: int
    predicted_clocks: int
    equal: bool

    @property
    def difference(self) -> float:
        """The measured clocks relative to the predicted ones, minus 1."""
        return self.swap_clocks / self.predicted_clocks - 1


def measure(progress: Progress) -> list[Figure]:
    """Measure EmTrkMichelId."""
    with tempfile.TemporaryDirectory() as directory:
        project, core = build_project(MODEL, Path(directory) / "project", progress=progress)
        progress("simulating two swaps")
        swap = swap_of(project, core)
    clocks, predicted = swap.swap_clocks, swap.predicted_clocks
    close = abs(swap.difference) <= TOLERANCE
    return [
        Figure("bytes of weights", swap.weights_bytes, f"{swap.weights_bytes:,}", "", met=True),
        Figure("clocks of a run with the same weights", swap.busy_clocks[3], f"{swap.busy_clocks[3]:,}", "", met=True),
        Figure("clocks of a swap, by the kernel's counter", clocks, f"{clocks:,}", f"{predicted:,} within 2 %", met=close),
        Figure("clocks, relative to the prediction", swap.difference, f"{swap.difference:+.2%}", "within 2 %", met=close),
        Figure("rows equal to csim", swap.equal, "all" if swap.equal else "not all", "all", met=swap.equal),
    ]


def swap_of(project: HlsProject, core: Core | None) -> Swap:
    """Measure a model whose core reads weights at run time. Raises ValueError for another one."""
    if core is None or core.weights is None:
        raise ValueError(f"the core of {project.name!r} reads no weights at run time, expected WeightsIn: LOADED in its YAML")
    image = np.fromfile(core.weights, dtype=np.uint8)
    other = _W + -(-image.size // _ALIGNED) * _ALIGNED
    timing = MemoryTiming(read_latency_clocks=READ_LATENCY_CLOCKS, write_latency_clocks=READ_LATENCY_CLOCKS)
    raw = np.random.default_rng(1).integers(-500, 500, (1, sum(tensor.size for tensor in core.inputs.tensors)))
    expected = core.outputs.encode(core.outputs.from_raw(Csim(compile_csim(project), project).predict_raw(raw))).reshape(-1)
    x = core.inputs.encode(core.inputs.from_raw(raw)).reshape(-1)
    busy: list[int] = []
    equal = True
    with Simulation(build_hardware_simulator(keep_kernel(core)), other + image.size + _ALIGNED, timing) as simulation:
        for address, data in ((_X, x), (_W, image), (other, image)):
            simulation.memory[address : address + data.size] = data
        for w in (_W, _W, other, other):
            before = simulation.read(registers.BUSY_CYCLES)
            simulation.memory[_Y : _Y + expected.size] = 0
            simulation.start(_X, _Y, 1, w)
            simulation.finish()
            busy.append(simulation.read(registers.BUSY_CYCLES) - before)
            equal &= bool((simulation.memory[_Y : _Y + expected.size] == expected).all())
    return Swap(
        project.name,
        core.weight_beats * WEIGHT_BITS // 8,
        tuple(busy),
        busy[2] - busy[3],
        project.report["core"]["swap_clocks"],
        equal,
    )
