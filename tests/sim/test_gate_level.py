# SPDX-License-Identifier: Apache-2.0
"""Netlists that Yosys makes of the RTL, simulated: cores and kernels give the integers of csim and numpy, rf modules pass their
benches. `make gate-level` runs all of these."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hypersonic.firmware.estimate.yosys import SynthesisError
from hypersonic.firmware.kernel.files import Kernel
from hypersonic.firmware.kernel.write import write_kernel
from hypersonic.firmware.netlist import netlist
from hypersonic.hls.build import build_project
from hypersonic.hls.core import RF_RTL, Core
from hypersonic.hls.csim.compiled import Csim, compile_csim
from hypersonic.hls.rf.modules import is_package, sources_of
from hypersonic.hls.rtl.simulate import RtlCore, Stalls
from hypersonic.sim.bench_core import bench_core_wire, several_rows, write_bench_core
from hypersonic.sim.card.direct import MemoryTiming, Simulation
from hypersonic.sim.card.simulator import build_hardware_simulator
from tests.support.rf_kernels import EVERYWHERE

ROOT = Path(__file__).parents[2]
BENCHES = ROOT / "sim" / "tb"
STALLING = MemoryTiming(read_latency_clocks=80, write_latency_clocks=20, stall_percent=25)
_X, _Y, _W = 0x1000, 0x40000, 0x80000

whole = pytest.mark.whole(
    "firmware/kernel", "firmware/netlist.py", "firmware/rtl", "hls/da", "hls/rf", "hls/rtl", "sim/tb", "tests/support/rtl"
)


def core_netlist(core: Core) -> Core:
    """Return the core with its netlist in place of its RTL; its memories' contents are in there."""
    return replace(core, sources=(netlist(core.top, [*core.sources, *core.memories]),), memories=())


def kernel_netlist(kernel: Kernel) -> Kernel:
    """Return the kernel with its netlist in place of its RTL."""
    gates = netlist(kernel.top, [*kernel.sources, *kernel.core.memories])
    return replace(kernel, sources=(gates,), core=replace(kernel.core, memories=()))


@whole
@pytest.mark.hours
@pytest.mark.parametrize("model", ["jets_hgq", "facile"])
def test_the_netlist_of_a_da_core_equals_csim(model: str, tmp_path: Path) -> None:
    project, core = build_project(model, tmp_path / model)
    assert core is not None
    (tensor,) = project.inputs.tensors
    x = np.random.default_rng(1).normal(0, 2, (1000, tensor.size)).astype(np.float32)
    x_raw = project.inputs.to_raw([x])
    expected = Csim(compile_csim(project), project).predict_raw(x_raw)
    assert len(np.unique(expected)) > 100
    with RtlCore(core_netlist(core), optimisation="-O0") as gates:
        np.testing.assert_array_equal(gates.predict_raw(x_raw), expected)
        assert gates.clocks == len(x) + core.latency_cycles
        np.testing.assert_array_equal(gates.predict_raw(x_raw, Stalls(60, 60, 3)), expected)


@whole
def test_the_netlist_of_a_kernel_with_whole_rows_equals_numpy(tmp_path: Path) -> None:
    x, y = several_rows()
    kernel = write_kernel(write_bench_core(x, y, tmp_path), tmp_path)
    rows = np.random.default_rng(2).integers(0, 256, 400 * x.row_bytes, dtype=np.uint8)
    assert ran(kernel_netlist(kernel), rows, 400) == y.encode(bench_core_wire(x.decode(rows), x, y)).tobytes()


@whole
@pytest.mark.hours
def test_the_netlist_of_a_kernel_with_weights_in_memory_and_rows_in_beats_equals_numpy(tmp_path: Path) -> None:
    kernel = EVERYWHERE.kernel(tmp_path)
    assert kernel.core.weights is not None
    rows, expected = EVERYWHERE.rows(40)
    assert ran(kernel_netlist(kernel), rows, 40, kernel.core.weights.read_bytes()) == expected.tobytes()


def ran(kernel: Kernel, rows: np.ndarray, count: int, weights: bytes = b"") -> bytes:
    """Return what a kernel writes for these rows, in as many bytes as its results have."""
    with Simulation(build_hardware_simulator(kernel), 1 << 21, STALLING) as simulation:
        simulation.memory[_W : _W + len(weights)] = np.frombuffer(weights, np.uint8)
        simulation.memory[_X : _X + rows.size] = rows.reshape(-1)
        simulation.start(_X, _Y, count, _W if weights else None)
        simulation.finish()
        return simulation.memory[_Y : _Y + count * kernel.core.outputs.row_bytes].tobytes()


@whole
def test_netlists_of_rf_modules_pass_the_benches_of_the_modules() -> None:
    """Of three here: a window, a merge, and a table. `make gate-level` takes all."""
    benches = [BENCHES / name for name in ("rf_pool", "rf_merge", "rf_table")]
    argv = [sys.executable, "-m", "pytest", "-n", "0", "-q", "--gate-level", *map(str, benches)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_every_rf_module_is_in_a_netlist(tmp_path: Path) -> None:
    benches = [file.stem.removeprefix("test_") for file in BENCHES.glob("rf_*/test_*.py") if "CASES" in file.read_text()]
    inside = {file.stem for file in (*sources_of(benches), *EVERYWHERE.kernel(tmp_path).sources)}
    assert {file.stem for file in RF_RTL.glob("*.sv") if not is_package(file)} <= inside


def test_a_netlist_computes_what_the_rtl_says(tmp_path: Path) -> None:
    """A signed value in an unsigned sum, which is where front ends differ first."""
    rtl = tmp_path / "mixed.sv"
    rtl.write_text(
        "module mixed (input logic clk, input logic signed [3:0] a, input logic [3:0] b, output logic [5:0] y);\n"
        "  always_ff @(posedge clk) y <= a + b;\nendmodule\n"
    )
    text = netlist("mixed", [rtl]).read_text()
    assert "always @(posedge clk)" in text
    assert "a + b" not in text


def test_a_combinational_loop_is_refused(tmp_path: Path) -> None:
    rtl = tmp_path / "loop.sv"
    rtl.write_text("module loop (input logic a, output logic y);\n  assign y = a ^ y;\nendmodule\n")
    with pytest.raises(SynthesisError, match="problems in"):
        netlist("loop", [rtl])
