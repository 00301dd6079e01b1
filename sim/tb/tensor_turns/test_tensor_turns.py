# SPDX-License-Identifier: Apache-2.0
"""tensor_turns: the beats of each tensor in turn, over and over, with pauses and resets."""

from __future__ import annotations

import random
from itertools import chain, cycle, islice
from pathlib import Path
from typing import Any

from cocotb.triggers import Timer

from hypersonic.firmware.kernel.converters import beats_literal
from hypersonic.firmware.kernel.files import rtl_sources
from tests.support.rtl.cocotb_run import bench_test, run_bench


def beats_of(dut: Any) -> list[int]:
    """The beats of each tensor, from the parameter BEATS."""
    bits = int(dut.BEATS.value)
    return [bits >> 32 * i & 0xFFFF_FFFF for i in range(int(dut.N.value))]


async def clock(dut: Any, rst_n: int, step: int) -> tuple[int, int]:
    """One clock. Returns turn and ends before its rising edge."""
    dut.clk.value, dut.rst_n.value, dut.step.value = 0, rst_n, step
    await Timer(1, "ns")
    seen = int(dut.turn.value), int(dut.ends.value)
    dut.clk.value = 1
    await Timer(1, "ns")
    return seen


@bench_test
async def every_tensor_has_its_beats_in_order_whatever_pauses_and_resets(dut: Any) -> None:
    rng = random.Random(1)
    beats = beats_of(dut)
    flat = list(chain.from_iterable((1 << i, int(k == n - 1)) for i, n in enumerate(beats) for k in range(n)))
    row = list(zip(flat[::2], flat[1::2], strict=True))
    for pause in (0.0, 0.5, 0.9):
        await clock(dut, 0, 1)
        expected = islice(cycle(row), rng.randrange(3 * len(row), 5 * len(row)))
        for state in expected:
            while rng.random() < pause:
                assert await clock(dut, 1, 0) == state
            assert await clock(dut, 1, 1) == state


#: the beats of each tensor
TENSORS = {"one": [1], "three": [3, 1, 5], "two_of_one_beat": [1, 1], "two": [2, 64]}


def test_tensor_turns(tmp_path: Path) -> None:
    sets = {name: {"N": len(beats), "BEATS": beats_literal(beats)} for name, beats in TENSORS.items()}
    run_bench(tmp_path, "tensor_turns", rtl_sources("tensor_turns"), __name__, sets=sets)
