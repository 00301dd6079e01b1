# SPDX-License-Identifier: Apache-2.0
"""Packed rows in the C++ shell and in the kernel's RTL, byte for byte against hls/packing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hypersonic.firmware.kernel import registers
from hypersonic.firmware.kernel.files import KernelError
from hypersonic.firmware.kernel.write import write_kernel
from hypersonic.hls.fixed import FixedPoint, Overflow, Rounding
from hypersonic.hls.packing.layout import Field, Packing
from hypersonic.hls.row import Row
from hypersonic.hls.spec import TensorSpec
from hypersonic.hls.verilator import lint, warnings
from hypersonic.sim import vivado
from hypersonic.sim.bench_core import bench_core_wire, write_bench_core
from hypersonic.sim.bench_rf import write_rf_bench
from hypersonic.sim.card.direct import MemoryTiming, Simulation
from hypersonic.sim.card.simulator import build_hardware_simulator
from tests.support.multi_tensor_kernel import software

_X, _Y, _ROWS = 0x1000, 0x80000, 16_000
_DRAW = np.random.default_rng(7)
_IDEAL = MemoryTiming()


def table(bits: int, selections: int = 1) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(row) for row in _DRAW.normal(0, 9, (selections, 1 << bits)).tolist())


def packed(name: str, fixed: FixedPoint, fields: tuple[Field, ...], exponents: tuple[int, ...] = ()) -> TensorSpec:
    packing = Packing(fields)
    return TensorSpec(name, (packing.row_bytes,), fixed, "UINT8", exponents, packing=packing)


#: every kind of field, with equal and unequal exponents, in 13 bytes
_EVERY_KIND = packed(
    "codes",
    FixedPoint(14, 6, True, Rounding.RND_CONV, Overflow.SAT),
    (
        Field("ieta", 6, signed=True),
        Field("iphi", 7, fraction=2),
        Field("spare", 3, is_input=False),
        Field("adc", 6, 4, table=table(6, 4), select="gain"),
        Field("time", 13, 2, table=table(12)),
        Field("depth", 3, one_hot=5, first=1),
        Field("gain", 5, table=table(5)),
        Field("raw", 16, signed=True, fraction=9),
    ),
    (-2, 1, 0, 0, 3, 3, 0, 1, -1, 0, 0, 2, 0, 4, -3),
)
_Y_ROW = Row((TensorSpec("y", (2,), FixedPoint(24, 12), "INT16"),))
_FLOATS = TensorSpec("floats", (3,), FixedPoint(12, 5, True, Rounding.RND, Overflow.SAT), "FP16", (1, 0, -1))


def answers(x: Row, y: Row, rows: int) -> tuple[np.ndarray, np.ndarray]:
    data = np.random.default_rng(rows).integers(0, 256, rows * x.row_bytes, dtype=np.uint8)
    return data, y.encode(bench_core_wire(x.decode(data), x, y))


def run(simulator: Path, x: Row, y: Row, rows: int, timing: MemoryTiming = _IDEAL) -> int:
    data, expected = answers(x, y, rows)
    with Simulation(simulator, 1 << 20, timing) as simulation:
        simulation.memory[:] = 0xA5
        simulation.memory[_X : _X + data.size] = data
        simulation.start(_X, _Y, rows)
        clocks = simulation.finish()
        np.testing.assert_array_equal(simulation.memory[_Y : _Y + expected.size], expected)
        assert (simulation.memory[_Y + expected.size :] == 0xA5).all()
        sizes = simulation.read(registers.ROW_IN_BYTES), simulation.read(registers.ROW_OUT_BYTES)
        assert sizes == (x.row_bytes, y.row_bytes)
    return clocks


@pytest.mark.parametrize("beside", [(), (_FLOATS,)], ids=["alone", "with floats"])
def test_the_shell_in_cpp_is_exact(beside: tuple[TensorSpec, ...]) -> None:
    x = Row((*beside, _EVERY_KIND))
    run(software(x, _Y_ROW), x, _Y_ROW, 500)


def test_the_kernel_is_exact_beside_another_tensor_and_takes_a_row_every_clock(tmp_path: Path) -> None:
    x = Row((_FLOATS, _EVERY_KIND))
    kernel = write_kernel(write_bench_core(x, _Y_ROW, tmp_path), tmp_path)
    assert not warnings(lint([*kernel.lint_waivers, *kernel.sources], kernel.top))
    assert list(vivado.found_in(kernel.top_file)) == []
    assert (tmp_path / f"{kernel.name}.v").read_text().count(") u_axis_skid_row (") == 1
    simulator = build_hardware_simulator(kernel)
    assert run(simulator, x, _Y_ROW, _ROWS) < _ROWS + 250
    run(simulator, x, _Y_ROW, 700, MemoryTiming(read_latency_clocks=60, write_latency_clocks=20, stall_percent=30))


def test_a_long_row_comes_in_beats_of_its_codes(tmp_path: Path) -> None:
    """30 codes of 12 bits, one a beat: a pair of them is three bytes of memory."""
    fixed = FixedPoint(10, 6, True, Rounding.TRN, Overflow.SAT)
    x = Row((packed("pixels", fixed, (Field("pixel", 12, 30, table=table(12)),)),))
    y = Row((TensorSpec("y", (2,), FixedPoint(24, 20), "INT32"),))
    core = write_rf_bench(x, y, tmp_path / "core", reuse_factor=30)
    assert core.x_lanes == (1,)
    simulator = build_hardware_simulator(write_kernel(core, tmp_path))
    assert run(simulator, x, y, 200, MemoryTiming(read_latency_clocks=60, stall_percent=30)) > 200 * 30


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ((Field("pixel", 12, 15),), "a row is 15 beats of 12 bits, expected a multiple of 2 beats, which are whole bytes"),
        ((Field("a", 8, 15), Field("b", 8, 15)), "a row of 2 kinds of codes and beats of 2 elements, expected a single field"),
    ],
)
def test_a_row_in_beats_that_are_not_alike_is_refused(tmp_path: Path, fields: tuple[Field, ...], message: str) -> None:
    x = Row((packed("pixels", FixedPoint(10, 6), fields),))
    core = write_rf_bench(x, Row((TensorSpec("y", (2,), FixedPoint(24, 20), "INT32"),)), tmp_path, reuse_factor=15)
    with pytest.raises(KernelError, match=message):
        write_kernel(core, tmp_path)
