# SPDX-License-Identifier: Apache-2.0
"""Reuse factors, lanes, lines, FIFOs and clocks on paper: no RTL is simulated here."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypersonic.hls.errors import UnsupportedLayerError
from hypersonic.hls.fixed import Constants, FixedPoint
from hypersonic.hls.network.base import Network, Tensor, Window
from hypersonic.hls.network.layers.dense import Dense
from hypersonic.hls.network.layers.map import Map, MapFunction
from hypersonic.hls.network.layers.merge import Merge, MergeOperation
from hypersonic.hls.network.windows import window_shape
from hypersonic.hls.rf.cost import block_rams, ultra_rams
from hypersonic.hls.rf.parts.windows import fewest_lines, window_interval, window_needs
from hypersonic.hls.rf.plan import notes, plan
from hypersonic.hls.rf.stage import Memory, port_beats, port_width
from hypersonic.hls.rf.stages.dense import dense_shape
from hypersonic.hls.rf.timing import clocks, waiting
from hypersonic.hls.rf.write import figures

#: a type by its width and the bits right of its point
fixed_point = FixedPoint.with_fraction

KIND = fixed_point(8, 4)
WIDE = fixed_point(24, 8)
NONE = Constants(np.zeros(0, dtype=np.int64), 0)


def dense(n_in: int, n_out: int, reuse_factor: int, window: Window | None = None, x: tuple[int, ...] = ()) -> Dense:
    source = Tensor("x", x or (n_in,), KIND)
    y_shape = (*window_shape(source, window), n_out) if window else (n_out,)
    weight, bias = (Constants(np.ones(shape, dtype=np.int64), 4) for shape in ((n_in, n_out), (n_out,)))
    return Dense("d", source, Tensor("y", y_shape, KIND), weight, bias, WIDE, reuse_factor, reuse_factor, window)


def network(*layers: Dense | Map | Merge) -> Network:
    return Network("net", (layers[0].x if not isinstance(layers[0], Merge) else layers[0].a,), (layers[-1].y,), layers)


@given(st.integers(1, 64), st.integers(1, 64), st.integers(1, 5000))
def test_the_clocks_taken_are_the_nearest_that_divide(n_in: int, n_out: int, reuse_factor: int) -> None:
    shape = dense_shape(dense(n_in, n_out, reuse_factor))
    assert shape.reuse_factor == (n_in // shape.p) * (n_out // shape.q)
    possible = {a * b for a in range(1, n_in + 1) if n_in % a == 0 for b in range(1, n_out + 1) if n_out % b == 0}
    assert abs(shape.reuse_factor - reuse_factor) == min(abs(one - reuse_factor) for one in possible)


def test_a_convolutions_inputs_come_by_columns_of_its_kernel() -> None:
    seen = Window((3, 3), (1, 1), 1, 1, 1, 1)
    assert dense_shape(dense(36, 8, 72, seen, (6, 6, 4))).p % 3 == 0


def test_a_reuse_factor_that_is_not_taken_is_said() -> None:
    (note,) = notes(network(dense(31, 11, 7)))
    assert note == "layer 'd': ReuseFactor is 7, hls4ml takes 7, the core 11, the nearest that it can do"
    assert not notes(network(dense(32, 8, 16)))


def test_multipliers_of_the_slowest_layer_never_rest() -> None:
    pipeline = plan(network(dense(32, 8, 16)))
    told = figures(pipeline, clocks(pipeline))
    (mac,) = (stage for stage in told["stages"] if stage["module"] == "rf_mac")
    assert (told["ii"], told["multipliers"], told["bottleneck"], mac["busy"]) == (16, 16, "d", 1.0)


def test_layers_without_multipliers_get_as_few_lanes_as_keep_up() -> None:
    layer = dense(32, 64, 128)
    assert dense_shape(layer).q == 2
    relu = Map("relu", layer.y, Tensor("z", (64,), KIND), MapFunction.RELU, NONE, NONE)
    stages = plan(network(layer, relu)).stages
    assert next(stage for stage in stages if stage.module == "rf_map").parameters["LANES"] == 2  # as the Dense gives them


def test_lanes_that_do_not_divide_each_other_do_not_slow_a_stream_down() -> None:
    """48 channels of 121 pixels in 605 clocks want ten lanes; 11 divide the row, but go with 48 by way of one."""
    layer = dense(25, 48, 5, Window((5, 5), (1, 1)), (15, 15, 1))
    relu = Map("relu", layer.y, Tensor("z", layer.y.shape, KIND), MapFunction.RELU, NONE, NONE)
    assert clocks(plan(network(layer, relu))).ii == 605


def test_a_large_row_comes_in_beats_and_a_small_one_at_once() -> None:
    image = network(dense(36, 8, 72, Window((3, 3), (1, 1)), (32, 32, 4)))
    pipeline = plan(image, whole_row_bits=8192)
    assert port_beats(pipeline.inputs) > 1
    assert port_width(pipeline.inputs) == pipeline.inputs[0].lanes * KIND.width
    assert port_beats(plan(image, whole_row_bits=1 << 20).inputs) == 1


def test_a_branch_waits_in_a_fifo_for_the_other() -> None:
    layer = dense(16, 16, 64)
    first = Map("first", Tensor("a", (16,), KIND), layer.x, MapFunction.RELU, NONE, NONE)
    join = Merge("join", layer.x, layer.y, Tensor("z", (16,), KIND), MergeOperation.ADD)
    stages = plan(network(first, layer, join)).stages
    depths = {stage.name: int(stage.parameters["DEPTH"]) for stage in stages if stage.module == "axis_fifo"}
    assert depths["join_fifo_a"] >= 16 > depths["join_fifo_b"]


def test_rows_of_several_large_inputs_wait_for_the_last_of_them() -> None:
    a, b = (Tensor(name, (64, 8), KIND) for name in "ab")
    join = Merge("join", a, b, Tensor("z", (64, 8), KIND), MergeOperation.ADD)
    pipeline = plan(Network("net", (a, b), (join.y,), (join,)), whole_row_bits=1024)
    depths = {stage.name: int(stage.parameters["DEPTH"]) for stage in pipeline.stages if stage.module == "axis_fifo"}
    assert depths["join_fifo_a"] >= pipeline.inputs[0].beats > depths["join_fifo_b"]
    assert clocks(pipeline).ii == 2 * pipeline.inputs[0].beats


def test_beats_that_wait_are_counted_over_rows_too() -> None:
    early, taken = np.arange(4), np.arange(4) + 10
    assert waiting(early, taken, 100) == 4
    assert waiting(early, taken, 4) == 11


def test_a_window_needs_its_newest_line_up_to_its_last_column() -> None:
    tensor, seen = Tensor("x", (3, 3, 1), KIND), Window((2, 2), (1, 1))
    np.testing.assert_array_equal(window_needs(tensor, seen, 1), [3, 4, 4, 5, 6, 7, 7, 8])


def test_more_lines_are_kept_only_where_they_save_clocks() -> None:
    tensor, seen = Tensor("x", (4, 7, 1), KIND), Window((3, 3), (1, 1))
    assert [window_interval(tensor, seen, 1, lines) for lines in (4, 5, 6)] == [38, 31, 30]
    assert fewest_lines(tensor, seen, 1, 30) == (6, 30)
    assert fewest_lines(tensor, seen, 1, 40) == (5, 31)  # four would hold up a source of a row in 40 clocks
    assert fewest_lines(tensor, seen, 1, 60) == (4, 38)


def test_numbers_too_wide_for_a_stage_are_refused_by_the_layers_name() -> None:
    layer = dense(4, 4, 1)
    wide = Map("wide", Tensor("a", (4,), fixed_point(130, 4)), layer.x, MapFunction.RELU, NONE, NONE)
    with pytest.raises(UnsupportedLayerError, match=r"layer 'wide'.* 130 bits"):
        plan(network(wide, layer))


@given(st.lists(st.lists(st.integers(-(2**11), 2**11 - 1), min_size=3, max_size=3), min_size=1, max_size=5))
def test_memory_files_hold_the_words_whatever_the_way_they_are_packed(words: list[list[int]]) -> None:
    by_bits, by_integers = (Memory("m", np.array(words, dtype=kind), (12,)).text() for kind in (np.int64, object))
    assert by_bits == by_integers
    first = int(by_bits.splitlines()[0], 16)
    assert [first >> 12 * i & 0xFFF for i in range(3)] == [word & 0xFFF for word in words[0]]


def test_memories_are_counted_in_their_best_shape() -> None:
    assert [block_rams(*shape) for shape in ((64, 500), (512, 72), (1024, 40), (4096, 9), (5000, 9))] == [0, 1, 2, 1, 2]
    assert [ultra_rams(*shape) for shape in ((64, 500), (4096, 72), (4097, 73))] == [7, 1, 4]
