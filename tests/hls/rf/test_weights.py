# SPDX-License-Identifier: Apache-2.0
"""Weights that come at run time: into UltraRAM once, or from the card's memory for every vector."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hypersonic.hls.fixed import Constants
from hypersonic.hls.network.base import Network, Tensor, WeightsIn
from hypersonic.hls.network.evaluate import evaluate
from hypersonic.hls.network.layers.dense import Dense
from hypersonic.hls.rf.plan import plan
from hypersonic.hls.rf.stage import Feed, Memory, clocks_a_word, feed_beats, row_beats, words_a_beat
from hypersonic.hls.rf.timing import clocks
from hypersonic.hls.rf.top.weights import weight_streams
from hypersonic.hls.rf.write import figures
from hypersonic.hls.rtl.simulate import RtlCore, Stalls
from hypersonic.hls.spec import SpecMismatchError
from hypersonic.hls.weight_stream import WEIGHT_BITS, WeightStream
from tests.hls.rf.golden import random_rows
from tests.hls.rf.weight_networks import KIND, image_network, layer, written

ROWS = 25


PLACES = {
    "all in block RAM": {},
    "all in UltraRAM": dict.fromkeys(("conv", "wide", "narrow"), WeightsIn.URAM),
    "all in the card's memory": dict.fromkeys(("conv", "wide", "narrow"), WeightsIn.DRAM),
    "loaded into block RAM": dict.fromkeys(("conv", "wide", "narrow"), WeightsIn.LOADED),
    "each elsewhere": {"conv": WeightsIn.URAM, "wide": WeightsIn.DRAM},
}


@pytest.mark.parametrize("places", PLACES.values(), ids=PLACES.keys())
def test_a_network_answers_the_same_wherever_its_weights_are(places: dict[str, WeightsIn], tmp_path: Path) -> None:
    network = image_network(places)
    x = random_rows(network, ROWS, 1)
    expected = evaluate(network, x).astype(np.int64)
    with RtlCore(written(network, tmp_path), optimisation="-O0") as rtl:
        rtl.predict_raw(x, Stalls(60, 90, 3), clock_limit=500)
        rtl.reset()
        np.testing.assert_array_equal(rtl.predict_raw(x, Stalls(60, 90, 3)), expected)
        np.testing.assert_array_equal(rtl.predict_raw(x), expected)
        predicted = rtl.core.latency_cycles + (ROWS - 1) * rtl.core.ii + 1
        assert abs(rtl.clocks - predicted) <= 0.02 * predicted


def test_weights_in_ultra_ram_cost_no_clock_and_those_in_the_cards_memory_the_beats_of_one_port() -> None:
    plain, loaded, streamed = (clocks(plan(image_network(PLACES[name]))) for name in list(PLACES)[:3])
    assert (loaded.ii, loaded.latency) == (plain.ii, plain.latency)
    stages = {stage.layer: stage for stage in plan(image_network(PLACES["all in the card's memory"])).stages if stage.feed}
    beats = {name: row_beats(stage) for name, stage in stages.items()}
    # 12 vectors: 24 words of 168 bits, 3 a beat; 2 words of 672 bits, 2 beats each; 36 words of 14 bits, 36 a beat
    assert beats == {"conv": 12 * 8, "wide": 12 * 4, "narrow": 12}
    assert streamed.ii == max(sum(beats.values()), plain.ii)


def test_a_row_takes_as_long_as_its_weights_take_through_the_port() -> None:
    """All the multipliers there could be, and words that fill the port many times over."""
    x = Tensor("x", (64,), KIND)
    network = Network("net", (x,), (layer("a", x, 64, 2).y,), (replace(layer("a", x, 64, 2), weights_in=WeightsIn.DRAM),))
    told = figures(pipeline := plan(network), timed := clocks(pipeline))
    assert timed.ii == told["dram_beats"] == 2 * -(-64 * 64 * 7 // 2 // WEIGHT_BITS)
    assert told["ramb36"] == told["uram288"] == 0


def test_what_lies_in_ultra_ram_is_told_in_ultra_rams() -> None:
    told = figures(pipeline := plan(image_network(PLACES["all in UltraRAM"])), clocks(pipeline))
    wide = next(stage for stage in told["stages"] if stage["name"] == "wide")
    assert (wide["module"], wide["uram288"], wide["memory_bits"]) == ("rf_mac_stream", -(-672 // 72), 2 * 672 + 12 * 30)


@pytest.mark.parametrize(
    ("width", "words", "repeats", "together", "beats"),
    [
        (14, 36, True, 36, 1), (14, 37, True, 1, 37), (14, 74, True, 2, 37),
        (513, 3, True, 1, 6), (512, 3, False, 1, 3), (8, 9, False, 1, 9),
    ],
)  # fmt: skip
def test_words_share_beats_where_they_end_with_one(width: int, words: int, repeats: bool, together: int, beats: int) -> None:
    feed = Feed(Memory("w", np.zeros((words, 1), dtype=np.int64), (width,)), repeats)
    assert (words_a_beat(feed), feed_beats(feed)) == (together, beats)
    assert clocks_a_word(width) == -(-width // WEIGHT_BITS)


def test_streams_begin_on_the_borders_of_4_kib(tmp_path: Path) -> None:
    pipeline = plan(image_network({"conv": WeightsIn.URAM, "wide": WeightsIn.DRAM, "narrow": WeightsIn.DRAM}))
    streams = weight_streams(pipeline)
    biases = 4 + 2 + 6  # words of 120, 180 and 30 bits, one beat each
    assert streams == (WeightStream(0, 24 + biases, False), WeightStream(64, 1024, True), WeightStream(1088, 1024, True))
    core = written(image_network({"wide": WeightsIn.DRAM, "narrow": WeightsIn.DRAM}), tmp_path)
    assert core.weights is not None
    assert core.weights.stat().st_size == core.weight_beats * WEIGHT_BITS // 8 == (64 + 2048) * 64


@pytest.mark.parametrize("place", [WeightsIn.URAM, WeightsIn.DRAM, WeightsIn.LOADED])
def test_networks_of_one_topology_differ_in_the_weights_file_alone(place: WeightsIn, tmp_path: Path) -> None:
    """Other weights, needing fewer bits than their type, and other biases: the same hardware, byte by byte."""
    network = image_network(dict.fromkeys(("conv", "wide", "narrow"), place))
    typed = [replace(one, type_width=7) for one in network.layers if isinstance(one, Dense)]
    small = [
        replace(one, weight=Constants(one.weight.raw // 9, 5), bias=Constants(one.bias.raw + 1, 5)) for one in typed
    ]  # fmt: skip
    files = []
    for name, layers in (("one", typed), ("other", small)):
        core = written(replace(network, layers=tuple(layers)), tmp_path / name)
        assert core.weights is not None
        assert not core.memories
        sources = {file.name: file.read_bytes() for file in (tmp_path / name).iterdir() if file != core.weights}
        files.append((sources, core.weights.read_bytes()))
    assert files[0][0] == files[1][0]
    assert files[0][1] != files[1][1]


def test_a_weights_file_that_is_too_short_is_named(tmp_path: Path) -> None:
    core = written(image_network(PLACES["all in UltraRAM"]), tmp_path)
    assert core.weights is not None
    core.weights.write_bytes(core.weights.read_bytes()[:-1])
    with pytest.raises(SpecMismatchError, match=r"net_weights.bin has \d+ bytes, expected \d+"):
        RtlCore(core, optimisation="-O0")
