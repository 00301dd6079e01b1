# SPDX-License-Identifier: Apache-2.0
"""Measures the clocks of a swap of weights with the kernel's own counter, and compares them with the prediction of the build.

    python -m bench.sharing.weights [--model emtrk] [--latency 60]

The Verilated kernel runs one row with one image of weights, then with another, twice each; the clocks of a swap are those by
which the first run with an image takes longer than the second one. All results are compared with csim. Nothing is measured on
a card.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from hypersonic.firmware.kernel import registers
from hypersonic.firmware.kernel.write import keep_kernel
from hypersonic.hls.build import build_project
from hypersonic.hls.core import Core
from hypersonic.hls.csim.compiled import Csim, compile_csim
from hypersonic.hls.project import HlsProject
from hypersonic.hls.weight_stream import WEIGHT_BITS, swap_clocks
from hypersonic.sim.direct import MemoryTiming, Simulation
from hypersonic.sim.simulator import build_hardware_simulator

MODEL, LATENCY_CLOCKS = "emtrk", 60
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


def measure(model: str = MODEL, latency_clocks: int = LATENCY_CLOCKS) -> Swap:
    """Measure a model whose core reads weights at run time. Raises ValueError for another one."""
    with tempfile.TemporaryDirectory() as directory:
        return _measure(model, *build_project(model, Path(directory) / "project"), latency_clocks)


def _measure(model: str, project: HlsProject, core: Core | None, latency_clocks: int) -> Swap:
    if core is None or core.weights is None:
        raise ValueError(f"the core of {model!r} reads no weights at run time, expected WeightsIn: LOADED in its YAML")
    image = np.fromfile(core.weights, dtype=np.uint8)
    other = _W + -(-image.size // _ALIGNED) * _ALIGNED
    timing = MemoryTiming(read_latency_clocks=latency_clocks, write_latency_clocks=latency_clocks)
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
        model, core.weight_beats * WEIGHT_BITS // 8, tuple(busy), busy[2] - busy[3], swap_clocks(core.weight_streams), equal
    )


def lines(swap: Swap) -> list[str]:
    """Return the figures as text."""
    clocks = f"a swap takes {swap.swap_clocks:,} clocks by the kernel's counter, predicted {swap.predicted_clocks:,}"
    rows = f"rows {'equal to' if swap.equal else 'DIFFER from'} csim"
    return [f"weights: {swap.model}, {swap.weights_bytes:,} bytes: {clocks} ({swap.difference:+.2%}); {rows}"]


def main(argv: Sequence[str] | None = None) -> int:
    """Print the figures; return 1 if a row differs from csim's or the clocks from the prediction by more than 2 %."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=MODEL, help=f"a zoo name or a model file (default: {MODEL})")
    parser.add_argument("--latency", type=int, default=LATENCY_CLOCKS, help="of the memory in clocks (default: 60)")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    asked = parser.parse_args(argv)
    swap = measure(asked.model, asked.latency)
    print(json.dumps({**asdict(swap), "difference": swap.difference}) if asked.json else "\n".join(lines(swap)))
    return int(not swap.equal or abs(swap.difference) > 0.02)


if __name__ == "__main__":
    raise SystemExit(main())
