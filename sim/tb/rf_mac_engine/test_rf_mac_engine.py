# SPDX-License-Identifier: Apache-2.0
"""rf_mac_engine: the order of its weight addresses, exact results with weights that wait, full throughput, reset in mid-vector.

The benches of rf_mac and rf_mac_stream check every fixed-point mode; this one is about the weight port, which is inside
those modules.
"""

from __future__ import annotations

import random
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from hypersonic.hls.rf.modules import rtl_sources
from tests.support.rtl.bus import Agent, StreamTB
from tests.support.rtl.cocotb_run import bench_test, run_bench
from tests.support.rtl.stream_bench import beats_of, pack

_X, _W, _Y = 8, 6, 20  # bits of an input, a weight and a result, which no sum here exceeds


class Weights:
    """Answers the weight port: the word of `weight_address` one clock after `weight_enable`, random bits in every other clock.

    weight_tvalid is low at random, and stays high until a word is taken.
    """

    def __init__(self, dut: Any, words: list[int], rng: random.Random, pause: float) -> None:
        self._dut, self._words, self._rng, self._pause = dut, words, rng, pause
        self.reset()

    def reset(self) -> None:
        self._valid, self._word = False, 0
        self.addresses: list[int] = []
        self._dut.weight_tvalid.value = 0

    def drive(self) -> None:
        self._valid = self._valid or self._rng.random() >= self._pause
        self._dut.weight_tvalid.value = int(self._valid)
        self._dut.weight_word.value = self._word

    def sample(self) -> None:
        self._word = self._rng.getrandbits(len(self._dut.weight_word))
        if self._dut.weight_enable.value == 1:
            assert self._valid
            self.addresses.append(int(self._dut.weight_address.value))
            self._word = self._words[self.addresses[-1]]
            self._valid = False


class TB(StreamTB):
    source_fields = sink_fields = ("tdata", "tlast")
    quiet_clocks = 20
    weights_pause = 0.0

    def others(self) -> list[Agent]:
        rng = self.rng
        self.n_in, self.n_out, self.p, self.q = (int(getattr(self.dut, name).value) for name in ("N_IN", "N_OUT", "P", "Q"))
        self.matrix = [[rng.randrange(-(1 << _W - 1), 1 << _W - 1) for _ in range(self.n_out)] for _ in range(self.n_in)]
        words = [
            pack([self.matrix[i + p][j + q] for q in range(self.q) for p in range(self.p)], _W)
            for j in range(0, self.n_out, self.q)
            for i in range(0, self.n_in, self.p)
        ]
        self.reuse = len(words)
        self.weights = Weights(self.dut, words, rng, self.weights_pause)
        self.dut.bias_word.value = 0
        return [self.weights]

    def send(self, count: int) -> None:
        for _ in range(count):
            x = [self.rng.randrange(-(1 << _X - 1), 1 << _X - 1) for _ in range(self.n_in)]
            y = [sum(x[i] * self.matrix[i][j] for i in range(self.n_in)) for j in range(self.n_out)]
            for data, last in beats_of(x, self.p, _X):
                self.source.send(tdata=data, tlast=int(last))
            self.expected += [{"tdata": data, "tlast": int(last)} for data, last in beats_of(y, self.q, _Y)]

    async def check(self) -> None:
        await super().check()
        vectors = len(self.expected) * self.q // self.n_out
        assert self.weights.addresses == list(islice(cycle(range(self.reuse)), vectors * self.reuse))


class WaitingTB(TB):
    weights_pause = 0.6


@bench_test
async def results_are_exact_and_addresses_in_order_under_any_stalls(dut: Any) -> None:
    await TB.check_pauses(dut, 40)
    await WaitingTB.check_pauses(dut, 40)


@bench_test
async def a_word_is_read_every_clock(dut: Any) -> None:
    tb = TB(dut)
    await tb.bench.reset()
    tb.send(50)
    await tb.bench.until(lambda: len(tb.weights.addresses) == 50 * tb.reuse)
    assert tb.bench.clocks <= 50 * tb.reuse + 1
    await tb.check()


@bench_test
async def reset_in_mid_vector_leaves_nothing_behind(dut: Any) -> None:
    await WaitingTB(dut, 0.2, 0.5).check_resets((1, 2, 7, 25, 60), 20, 10)


#: N_IN, N_OUT, P and Q
SHAPES = {
    "two_beats_two_groups": (6, 4, 3, 2),
    "one_word": (4, 3, 4, 3),
    "three_beats": (6, 2, 2, 2),
    "one_multiplier": (3, 3, 1, 1),
}


def test_rf_mac_engine(tmp_path: Path) -> None:
    sets = {
        name: {
            "N_IN": n_in, "N_OUT": n_out, "P": p, "Q": q, "X_WIDTH": _X, "W_WIDTH": _W, "ACC_WIDTH": _Y, "RESULT_SHIFT": 0,
            "Y_WIDTH": _Y,
        }
        for name, (n_in, n_out, p, q) in SHAPES.items()
    }  # fmt: skip
    run_bench(tmp_path, "rf_mac_engine", rtl_sources("rf_mac_engine"), __name__, sets=sets)
