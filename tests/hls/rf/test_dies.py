# SPDX-License-Identifier: Apache-2.0
"""A core over several dies: the division of its stages, and the registers where its streams pass from die to die."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import chain, combinations, combinations_with_replacement, pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypersonic.hls.core import Core
from hypersonic.hls.errors import UnsupportedLayerError
from hypersonic.hls.fixed import FixedPoint
from hypersonic.hls.network.base import Network, Tensor, WeightsIn, Window
from hypersonic.hls.network.evaluate import evaluate
from hypersonic.hls.network.layers.merge import Merge, MergeOperation
from hypersonic.hls.resources import NOTHING, Amounts
from hypersonic.hls.rf.cost import skid_cost
from hypersonic.hls.rf.crossings import chained
from hypersonic.hls.rf.dies import SHELL, Division, Link, NoDivisionError, Parts, divide, joined, links
from hypersonic.hls.rf.plan import plan
from hypersonic.hls.rf.stage import Pipeline
from hypersonic.hls.rf.timing import clocks
from hypersonic.hls.rf.write import write_rf_core
from hypersonic.hls.row import Row
from hypersonic.hls.rtl.simulate import RtlCore, Stalls
from hypersonic.hls.spec import TensorSpec
from hypersonic.hls.verilator import lint
from tests.hls.rf.golden import random_rows
from tests.hls.rf.lint_networks import network
from tests.hls.rf.untimed import blocks, drawn_cuts
from tests.hls.rf.weight_networks import KIND, layer

ROWS = 12


# ---------------------------------------------------------------- divisions
def taken(parts: Parts, moved: frozenset[int], dies: int, cuts: tuple[int, ...]) -> list[Amounts]:
    """Add up the resources of each die, stage by stage and stream by stream."""
    amounts = []
    for die, (first, last) in enumerate(pairwise((0, *cuts, len(parts.stages)))):
        held = parts.shell if die == 0 else NOTHING
        for stage in range(first, last):
            held += parts.stages[stage] + (parts.moves[stage] if stage in moved else NOTHING)
        for cut in ([first] if die else []) + ([last] if die < dies - 1 else []):
            held += sum((skid_cost(link.bits) for link in parts.streams if link.first < cut <= link.last), NOTHING)
        amounts.append(held)
    return amounts


def best(parts: Parts, dies: list[Amounts], most_wires: int) -> int | None:
    """The fewest wires of all divisions and all places of weights; None if none fits."""
    found = []
    for cuts in combinations_with_replacement(range(len(parts.stages) + 1), len(dies) - 1):
        wires = [sum(link.wires for link in parts.streams if link.first < cut <= link.last) for cut in cuts]
        if parts.never & set(cuts) or max(wires, default=0) > most_wires:
            continue
        ways = chain.from_iterable(combinations(parts.moves, count) for count in range(len(parts.moves) + 1))
        if any(all(map(Amounts.fits, taken(parts, frozenset(way), len(dies), cuts), dies)) for way in ways):
            found.append(sum(wires))
    return min(found, default=None)


@st.composite
def problems(draw: st.DrawFn) -> Parts:
    count = draw(st.integers(1, 5))
    blocks = st.integers(0, 12).map(lambda halves: halves / 2)
    stages = [Amounts(dsp=draw(st.integers(0, 4)), bram36=draw(blocks)) for _ in range(count)]
    moves = {
        k: Amounts(bram36=-stage.bram36, uram=draw(st.integers(1, 4)))
        for k, stage in enumerate(stages) if stage.bram36 and draw(st.booleans())
    }  # fmt: skip
    streams = [Link(k - 1, k, width, width + 2) for k, width in enumerate(draw(st.lists(st.integers(1, 64), min_size=count,
                                                                                      max_size=count)))]  # fmt: skip
    ends = st.tuples(st.integers(SHELL, count - 1), st.integers(SHELL, count - 1)).map(sorted)
    streams += [Link(first, last, 8, 10) for first, last in draw(st.lists(ends, max_size=3))]
    never = frozenset(draw(st.sets(st.integers(1, count), max_size=2)))
    return Parts(stages, moves, streams, Amounts(lut=50, bram36=draw(st.integers(0, 2))), never)


@settings(max_examples=200)
@given(problems(), st.integers(1, 3), st.integers(2, 12), st.integers(1, 12), st.integers(0, 8), st.sampled_from((60, 10**6)))
def test_the_division_has_the_fewest_wires_of_all_that_fit(
    parts: Parts, count: int, dsp: int, bram: int, uram: int, most_wires: int
) -> None:
    dies = [Amounts(lut=400, ff=10_000, dsp=dsp, bram36=bram, uram=uram)] * count
    wanted = best(parts, dies, most_wires)
    if wanted is None:
        with pytest.raises(NoDivisionError) as caught:
            divide(parts, dies, most_wires)
        assert caught.value.short
        assert 0 <= caught.value.die < count
        return
    found = divide(parts, dies, most_wires)
    check(parts, found, dies)
    assert sum(found.wires) == wanted
    assert max(found.wires, default=0) <= most_wires
    assert not parts.never & set(found.cuts)


def check(parts: Parts, found: Division, dies: list[Amounts]) -> None:
    """The amounts are those of the stages and registers, and fit."""
    for got, expected, die in zip(found.amounts, taken(parts, found.moved, len(dies), found.cuts), dies, strict=True):
        assert vars(got) == pytest.approx(vars(expected))
        assert got.fits(die)


def test_what_has_no_room_is_named_with_its_die_and_the_resource() -> None:
    parts = Parts([Amounts(dsp=3), Amounts(dsp=3), Amounts(dsp=9)], streams=[Link(k - 1, k, 8, 10) for k in range(3)])
    with pytest.raises(NoDivisionError) as caught:
        divide(parts, [Amounts(lut=1000, ff=1000, dsp=6)] * 2)
    assert (caught.value.die, caught.value.stage) == (1, 2)
    assert caught.value.short == "DSP48E2: got 9, expected at most 6"
    with pytest.raises(
        NoDivisionError, match="die 0 has no room for stage 0: wires to the next die: got 10, expected at most 9"
    ):
        divide(parts, [Amounts(lut=1000, ff=1000, dsp=9)] * 2, 9)


# ---------------------------------------------------------------- registers
CUTS = ("point", "narrow")
PLACES = {"conv": WeightsIn.URAM, "point": WeightsIn.DRAM, "narrow": WeightsIn.LOADED}


def residual(places: Mapping[str, WeightsIn]) -> Network:
    """A convolution, a pointwise one with a way around it, and a narrow one."""
    conv = layer("conv", Tensor("x", (6, 5, 4), KIND), 16, 24, Window((3, 3), (1, 1)))
    point = layer("point", conv.y, 16, 16)
    total = Merge("total", conv.y, point.y, Tensor("total_y", conv.y.shape, KIND), MergeOperation.ADD)
    narrow = layer("narrow", total.y, 6, 24)
    placed = (replace(one, weights_in=places.get(one.name, WeightsIn.BRAM)) for one in (conv, point, narrow))
    first, second, last = placed
    return Network("net", (conv.x,), (narrow.y,), (first, second, total, last))


def checked(pipeline: Pipeline) -> None:
    """Streams between stages of different dies pass a register on each side of every boundary."""
    source = {stream.name: stage for stage in pipeline.stages for stream in stage.outputs}
    assert all(source[stream.name].die == 0 for stream in pipeline.outputs)
    for stage in pipeline.stages:
        for stream in stage.inputs:
            before = source.get(stream.name)  # None: the shell, on die 0
            if (before.die if before else 0) != stage.die:
                assert before is not None
                assert abs(before.die - stage.die) == 1
                assert before.module == stage.module == "axis_skid"


@pytest.mark.parametrize("places", [{}, PLACES], ids=["block RAM", "at run time"])
def test_every_stream_between_dies_has_a_register_on_each_side(places: dict[str, WeightsIn]) -> None:
    one, three = plan(residual(places)), plan(residual(places), cuts=CUTS)
    checked(three)
    kept = [(stage.name, stage.module) for stage in three.stages if stage.module != "axis_skid"]
    assert kept == [(stage.name, stage.module) for stage in one.stages]
    dies = {stage.layer: stage.die for stage in three.stages if stage.module.startswith("rf_mac")}
    assert dies == {"conv": 0, "point": 1, "narrow": 2}
    # conv's result and its copy pass one boundary, the sum one, the network's result two on its way back
    assert sum(stage.module == "axis_skid" for stage in three.stages) == 2 * 5
    assert clocks(three).ii == clocks(one).ii
    assert clocks(three).latency == clocks(one).latency + 2 * 4  # on the longest way
    assert not blocks(three)


@pytest.mark.parametrize("seed", range(24))
def test_drawn_networks_on_drawn_dies_have_their_registers(seed: int) -> None:
    try:
        one = plan(network(seed))
    except UnsupportedLayerError:
        return
    three = plan(network(seed), cuts=drawn_cuts(one, np.random.default_rng(seed).random(2)))
    checked(three)
    assert [s.name for s in three.stages if s.module != "axis_skid"] == [s.name for s in one.stages]
    assert clocks(three).ii == clocks(one).ii


def test_a_join_is_not_parted_from_the_fifos_that_have_its_depth() -> None:
    pipeline = plan(residual({}))
    first = [stage.module for stage in pipeline.stages].index("axis_fifo")
    join = [stage.name for stage in pipeline.stages].index("total")
    assert joined(pipeline) == set(range(first + 1, join + 1))


def test_streams_around_a_boundary_and_weights_count() -> None:
    pipeline = plan(residual({}))
    at = {stage.name: k for k, stage in enumerate(pipeline.stages)}
    found = links(pipeline, ["conv", "point"], {"narrow": 512})
    cut = at["point"]
    crossing = [link.wires for link in found if link.first < cut <= link.last]
    made = {stream.name: stream for stage in pipeline.stages[:cut] for stream in stage.outputs}
    ahead = [made[s.name].width + 3 for stage in pipeline.stages[cut:] for s in stage.inputs if s.name in made]
    back = pipeline.stages[chained(pipeline.stages) - 1].outputs[0].width + 3
    assert len(ahead) == 2  # the chain, and the way around it
    assert sorted(crossing) == sorted([*ahead, back, 514, 514])


def written(places: Mapping[str, WeightsIn], cuts: tuple[str, ...], directory: Path) -> Core:
    whole = residual(places)
    x, y = (
        Row((TensorSpec(t.name, t.shape, FixedPoint(t.precision.width, t.precision.width - t.precision.fraction)),))
        for t in (whole.inputs[0], whole.outputs[0])
    )
    write_rf_core(whole, "net", x, y, directory, cuts=cuts)
    return Core.load(directory)


def test_a_core_over_three_dies_answers_as_the_network_and_its_top_has_the_registers(tmp_path: Path) -> None:
    core, whole = written(PLACES, CUTS, tmp_path), residual(PLACES)
    lint(core.sources, core.top)
    x = random_rows(whole, ROWS, 1)
    expected = evaluate(whole, x).astype(np.int64)
    with RtlCore(core, optimisation="-O0") as rtl:
        np.testing.assert_array_equal(rtl.predict_raw(x, Stalls(60, 90, 3)), expected)
        rtl.reset()
        np.testing.assert_array_equal(rtl.predict_raw(x), expected)
        predicted = core.latency_cycles + (ROWS - 1) * core.ii + 1
        assert abs(rtl.clocks - predicted) <= 0.02 * predicted
    dies = dict(core.cell_dies)
    instances = re.findall(r"^  (\w+) #\(.*?\) (u_\w+) \($", (tmp_path / "net_core.sv").read_text(), re.MULTILINE | re.DOTALL)
    registers = {cell for module, cell in instances if module == "axis_skid"}
    # five of streams; weights are loaded from die 0 to die 1 and on to die 2, and those of point are read on die 1
    assert len(registers) == 2 * (5 + 2 + 1)
    assert registers <= dies.keys() == {cell for _, cell in instances} - {"u_packets"}
    assert Counter(dies[cell] for cell in registers) == {0: 2 + 1 + 1 + 1, 1: 3 + 1 + 1 + 1 + 1 + 1, 2: 1 + 1 + 1}


def test_a_core_on_one_die_has_no_registers_and_no_dies(tmp_path: Path) -> None:
    core = written(PLACES, (), tmp_path)
    assert core.cell_dies == ()
    assert "axis_skid" not in (tmp_path / "net_core.sv").read_text()
