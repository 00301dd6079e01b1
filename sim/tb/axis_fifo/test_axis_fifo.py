# SPDX-License-Identifier: Apache-2.0
"""axis_fifo: every beat once and in order under any stalls, full throughput, DEPTH + 1 beats held, reset in mid-burst."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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
async def one_beat_a_clock_passes(dut: Any) -> None:
    tb = TB(dut)
    await tb.bench.reset()
    tb.send(200)
    await tb.bench.until(lambda: len(tb.sink.received) == 200)
    assert tb.bench.clocks <= 200 + 2


@bench_test
async def a_stopped_sink_leaves_depth_beats_and_one_more_inside(dut: Any) -> None:
    tb, depth = TB(dut, pause_out=1.0), int(dut.DEPTH.value)
    await tb.bench.reset()
    tb.send(depth + 5)
    await tb.bench.step(depth + 20)
    assert tb.source.taken == depth + 1
    tb.sink.pause = 0.0
    await tb.check()


@bench_test
async def reset_in_mid_burst_leaves_nothing_behind(dut: Any) -> None:
    await TB(dut, 0.2, 0.5).check_resets((1, 2, 7, 25), 100, 40)


def test_axis_fifo(tmp_path: Path) -> None:
    shapes = [(1, 2), (32, 16), (70, 4)]
    sets = {f"width_{width}_depth_{depth}": {"WIDTH": width, "DEPTH": depth} for width, depth in shapes}
    run_bench(tmp_path, "axis_fifo", [AXIS_RTL / "axis_fifo.sv"], __name__, sets=sets)
