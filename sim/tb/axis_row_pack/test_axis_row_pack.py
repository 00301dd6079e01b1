# SPDX-License-Identifier: Apache-2.0
"""axis_row_pack: packs rows of any length into beats of 16 words, and flushes at each run's end."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from hypersonic.firmware.kernel.files import rtl_sources
from tests.support.rtl.bus import Agent, StreamTB
from tests.support.rtl.cocotb_run import bench_test, run_bench


class TB(StreamTB):
    source_fields = sink_fields = ("tdata", "tlast")

    def others(self) -> list[Agent]:
        word = int(self.dut.WORD_WIDTH.value) // 8
        self.beat_bytes, self.row_bytes = int(self.dut.BEAT_WORDS.value) * word, int(self.dut.ROW_WORDS.value) * word
        return []

    def send(self, count: int) -> None:
        text = self.rng.randbytes(count * self.row_bytes)
        for row in range(count):
            value = int.from_bytes(text[row * self.row_bytes : (row + 1) * self.row_bytes], "little")
            self.source.send(tdata=value, tlast=int(row == count - 1))
        for at in range(0, len(text), self.beat_bytes):
            value = int.from_bytes(text[at : at + self.beat_bytes], "little")
            self.expected.append({"tdata": value, "tlast": int(at + self.beat_bytes >= len(text))})


@bench_test
async def beats_are_packed_tightly_and_flushed_with_each_run(dut: Any) -> None:
    rows = random.Random(1).choices(range(1, 40), k=20)
    await TB.check_pauses(dut, 1, 2, 15, 16, 17, 1, 1, 3, *rows, pauses=((0.0, 0.0), (0.5, 0.0), (0.0, 0.5), (0.3, 0.3)))


@bench_test
async def the_slower_side_sets_the_pace_across_runs(dut: Any) -> None:
    tb = TB(dut)
    await tb.bench.reset()
    for _ in range(4):
        tb.send(160)
    await tb.bench.until(lambda: len(tb.sink.received) == len(tb.expected))
    assert tb.bench.clocks <= 640 * max(1, tb.row_bytes / tb.beat_bytes) + 4 * 2 + 8


@bench_test
async def reset_in_mid_run_leaves_nothing_behind(dut: Any) -> None:
    rows = random.Random(2).choices(range(1, 20), k=5)
    await TB(dut, 0.2, 0.2).check_resets((3, 10, 31), 200, *rows)


SETS = {f"words_{words}": {"WORD_WIDTH": 16, "ROW_WORDS": words} for words in (1, 3, 16, 40)}


def test_axis_row_pack(tmp_path: Path) -> None:
    run_bench(tmp_path, "axis_row_pack", rtl_sources("axis_row_pack"), __name__, sets=SETS)
