# SPDX-License-Identifier: Apache-2.0
"""Rows of several tensors, each in its own datatype, through the C++ shell and through XRT's functions on the emulated card."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypersonic.firmware.kernel import registers
from hypersonic.firmware.target import Target
from hypersonic.hls.fixed import FixedPoint, Overflow, Rounding
from hypersonic.hls.row import Row
from hypersonic.hls.spec import DATATYPES, TensorSpec
from hypersonic.sim.bench_core import bench_core_wire, several_rows
from hypersonic.sim.card.direct import Simulation
from tests.support.multi_tensor_kernel import NAME, simulator, software

if TYPE_CHECKING:
    from tests.sim.conftest import WriteXclbin, Xrt

_X, _Y = 0x1000, 0x40000

TYPES = st.builds(
    FixedPoint, st.integers(1, 40), st.integers(-4, 30), st.booleans(), st.sampled_from(Rounding), st.sampled_from(Overflow)
)


@st.composite
def rows(draw: st.DrawFn) -> Row:
    tensors = []
    for index in range(draw(st.integers(1, 4))):
        fixed, datatype, size = draw(TYPES), draw(st.sampled_from(list(DATATYPES))), draw(st.integers(1, 9))
        if (element := DATATYPES[datatype]).is_integer:
            tensors.append(TensorSpec(f"t{index}", (size,), replace(fixed, signed=element.signed), datatype))
        else:
            exponents = tuple(draw(st.integers(-20, 20)) for _ in range(size))
            tensors.append(TensorSpec(f"t{index}", (size,), fixed, datatype, exponents))
    return Row(tuple(tensors))


@settings(max_examples=10)
@given(x=rows(), y=rows(), count=st.integers(1, 70), seed=st.integers(0, 1 << 32))
def test_any_tensors_are_exact_in_the_shell(x: Row, y: Row, count: int, seed: int) -> None:
    data = np.random.default_rng(seed).integers(0, 256, count * x.row_bytes, dtype=np.uint8)
    expected = y.encode(bench_core_wire(x.decode(data), x, y))
    with Simulation(software(x, y), 1 << 19) as simulation:
        simulation.memory[:] = 0xA5
        simulation.memory[_X : _X + data.size] = data
        simulation.start(_X, _Y, count)
        simulation.finish()
        np.testing.assert_array_equal(simulation.memory[_Y : _Y + expected.size], expected)
        assert (simulation.memory[_Y + expected.size :] == 0xA5).all()
        row_bytes = simulation.read(registers.ROW_IN_BYTES), simulation.read(registers.ROW_OUT_BYTES)
        assert row_bytes == (x.row_bytes, y.row_bytes)


@pytest.mark.parametrize("target", [Target.HW_EMU, Target.SW_EMU])
def test_both_targets_answer_rows_that_numpy_reads_by_name(
    xrt: Xrt, write_xclbin: WriteXclbin, tmp_path: Path, target: Target
) -> None:
    x_row, y_row = several_rows()
    device = xrt.device(write_xclbin(simulator(target, x_row, y_row, tmp_path).read_bytes(), kernel=NAME, target=target))
    kernel = xrt.kernel(device, NAME)
    x, y = xrt.buffer(device, 500 * x_row.row_bytes), xrt.buffer(device, 500 * y_row.row_bytes)
    given = x.array.view(x_row.dtype)
    draw = np.random.default_rng(3)
    given["tracks"], given["flags"] = draw.normal(0, 20, (500, 3, 2)), draw.integers(0, 256, (500, 5))
    x.to_device()
    run = xrt.run(kernel, x, y, 500)
    xrt.start(run)
    assert xrt.finish(run).name == "COMPLETED"
    y.from_device()
    answered = y.array.view(y_row.dtype)
    expected = bench_core_wire((given["tracks"].reshape(500, 6), given["flags"]), x_row, y_row)
    for name, values in zip(("mass", "tag", "energy"), expected, strict=True):
        np.testing.assert_array_equal(answered[name], values)
