# SPDX-License-Identifier: Apache-2.0
"""rf_maximum: a vector's maximum and the first place of it on each of its beats, any stalls, full throughput, reset."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypersonic.hls.rf.modules import rtl_sources
from tests.support.rtl.bus import Agent, StreamTB
from tests.support.rtl.cocotb_run import bench_test, run_bench
from tests.support.rtl.stream_bench import beats_of


class TB(StreamTB):
    source_fields = sink_fields = ("tdata", "tlast")
    sink_also = ("m_max", "m_place")

    def others(self) -> list[Agent]:
        self.n, self.lanes, self.width = (int(getattr(self.dut, name).value) for name in ("N", "LANES", "X_WIDTH"))
        self.low = -(1 << self.width - 1) if int(self.dut.X_SIGNED.value) else 0
        return []

    def send(self, count: int) -> None:
        """Send random vectors. Every second one has only three different values, so that the maximum occurs several times."""
        for vector in range(count):
            span = 3 if vector % 2 else 1 << self.width
            low = self.rng.randint(self.low, self.low + (1 << self.width) - span)
            x = [low + self.rng.randrange(span) for _ in range(self.n)]
            largest = max(x)
            for data, last in beats_of(x, self.lanes, self.width):
                item = {"tdata": data, "tlast": int(last)}
                self.source.send(**item)
                self.expected.append({**item, "m_max": largest & (1 << self.width) - 1, "m_place": x.index(largest)})


@bench_test
async def every_beat_has_its_vectors_maximum_and_its_first_place(dut: Any) -> None:
    await TB.check_pauses(dut, 80)


@bench_test
async def a_beat_is_taken_every_clock(dut: Any) -> None:
    tb = TB(dut)
    await tb.bench.reset()
    tb.send(50)
    await tb.bench.until(lambda: tb.source.idle)
    assert tb.bench.clocks == 50 * tb.n // tb.lanes
    await tb.check()


@bench_test
async def reset_in_mid_vector_leaves_nothing_behind(dut: Any) -> None:
    await TB(dut, 0.2, 0.5).check_resets((1, 2, 7, 25), 30, 12)


SETS = {
    f"n_{n}_lanes_{lanes}": {"N": n, "LANES": lanes, "X_WIDTH": 6, "X_SIGNED": signed}
    for n, lanes, signed in [(1, 1, 1), (6, 3, 1), (12, 2, 0), (5, 5, 1)]
}


def test_rf_maximum(tmp_path: Path) -> None:
    run_bench(tmp_path, "rf_maximum", rtl_sources("rf_maximum"), __name__, sets=SETS)
