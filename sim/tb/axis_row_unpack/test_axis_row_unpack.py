# SPDX-License-Identifier: Apache-2.0
"""axis_row_unpack: unpacks runs of rows of any length from beats of 16 words."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from hypersonic.firmware.kernel.files import rtl_sources
from tests.support.rtl.bus import Agent, Source, StreamTB
from tests.support.rtl.cocotb_run import bench_test, run_bench


class TB(StreamTB):
    sink_fields = ("tdata", "tlast")

    def others(self) -> list[Agent]:
        word = int(self.dut.WORD_WIDTH.value) // 8
        self.beat_bytes, self.row_bytes = int(self.dut.BEAT_WORDS.value) * word, int(self.dut.ROW_WORDS.value) * word
        self.runs = Source(self.dut, "s_axis_desc", ("rows",), self.rng, self.pause_in)
        return [self.runs]

    def send(self, count: int) -> None:
        self.runs.send(rows=count)
        text = self.rng.randbytes(count * self.row_bytes)
        for row in range(count):
            value = int.from_bytes(text[row * self.row_bytes : (row + 1) * self.row_bytes], "little")
            self.expected.append({"tdata": value, "tlast": int(row == count - 1)})
        text += self.rng.randbytes(-len(text) % self.beat_bytes)  # random bytes after the run's last row
        for at in range(0, len(text), self.beat_bytes):
            self.source.send(tdata=int.from_bytes(text[at : at + self.beat_bytes], "little"))


@bench_test
async def rows_of_every_run_come_whole_and_unmixed(dut: Any) -> None:
    rows = random.Random(1).choices(range(1, 40), k=20)
    await TB.check_pauses(dut, 1, 0, 2, 15, 16, 17, 0, 0, 1, 3, *rows, pauses=((0.0, 0.0), (0.5, 0.0), (0.0, 0.5), (0.3, 0.3)))


@bench_test
async def the_slower_side_sets_the_pace_across_runs(dut: Any) -> None:
    tb = TB(dut)
    await tb.bench.reset()
    for _ in range(4):
        tb.send(160)
    await tb.bench.until(lambda: len(tb.sink.received) == 640)
    assert tb.bench.clocks <= 640 * max(1, tb.row_bytes / tb.beat_bytes) + 8


@bench_test
async def reset_in_mid_run_leaves_nothing_behind(dut: Any) -> None:
    rows = random.Random(2).choices(range(1, 20), k=5)
    await TB(dut, 0.2, 0.2).check_resets((3, 10, 31), 200, *rows)


SETS = {f"words_{words}": {"WORD_WIDTH": 16, "ROW_WORDS": words} for words in (3, 16, 18, 40)}


def test_axis_row_unpack(tmp_path: Path) -> None:
    run_bench(tmp_path, "axis_row_unpack", rtl_sources("axis_row_unpack"), __name__, sets=SETS)
