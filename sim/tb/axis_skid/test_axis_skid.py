# SPDX-License-Identifier: Apache-2.0
"""axis_skid: every beat once and in order under any stalls, full throughput, two beats held, reset in mid-burst."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cocotb

from hypersonic.hls.core import AXIS_RTL
from tests.support.rtl.bus import StreamTB
from tests.support.rtl.cocotb_run import bench_test, run_bench


class TB(StreamTB):
    def send(self, count: int) -> None:
        for _ in range(count):
            self.expected.append({"tdata": self.rng.getrandbits(int(self.dut.WIDTH.value))})
            self.source.send(**self.expected[-1])


@bench_test
async def beats_come_out_once_and_in_order(dut: Any) -> None:
    await TB.check_pauses(dut, 300)


@bench_test
async def one_beat_a_clock_passes_with_one_clock_of_latency(dut: Any) -> None:
    tb = TB(dut)
    await tb.bench.reset()
    tb.send(200)
    await tb.bench.until(lambda: len(tb.sink.received) == 200)
    assert tb.bench.clocks == 200 + 1


@bench_test
async def a_stopped_sink_leaves_two_beats_inside(dut: Any) -> None:
    tb = TB(dut, pause_out=1.0)
    await tb.bench.reset()
    tb.send(5)
    await tb.bench.step(20)
    assert tb.source.taken == 2
    tb.sink.pause = 0.0
    await tb.check()


@bench_test
async def ready_does_not_follow_ready_within_a_clock(dut: Any) -> None:
    tb = TB(dut, pause_out=1.0)
    await tb.bench.reset()
    tb.send(5)
    await tb.bench.step(20)
    assert dut.s_axis_tready.value == 0
    dut.m_axis_tready.value = 1
    await cocotb.triggers.Timer(1, "ns")
    assert dut.s_axis_tready.value == 0
    dut.m_axis_tready.value = 0


@bench_test
async def reset_in_mid_burst_leaves_nothing_behind(dut: Any) -> None:
    await TB(dut, 0.2, 0.5).check_resets((1, 2, 7, 25), 100, 40)


SETS = {f"width_{width}": {"WIDTH": width} for width in (1, 65)}


def test_axis_skid(tmp_path: Path) -> None:
    run_bench(tmp_path, "axis_skid", [AXIS_RTL / "axis_skid.sv"], __name__, sets=SETS)
