# SPDX-License-Identifier: Apache-2.0
"""Adder graphs of random networks against the same networks computed number by number, and what the da core refuses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from hypersonic.hls.da import lower
from hypersonic.hls.da.delay import FF_OUT, FF_SETUP, WIRE
from hypersonic.hls.da.graph import Add, AdderGraph, Wrap, operands
from hypersonic.hls.da.lower import adder_graph
from hypersonic.hls.da.schedule import schedule
from hypersonic.hls.errors import UnsupportedLayerError
from hypersonic.hls.fixed import Constants, FixedPoint, Overflow, Rounding
from hypersonic.hls.network.base import Layer, Network, Tensor, element_types
from hypersonic.hls.network.evaluate import evaluate
from hypersonic.hls.network.layers.dense import Dense
from hypersonic.hls.network.layers.map import Map, MapFunction
from hypersonic.hls.network.layers.merge import MergeOperation
from tests.hls.network import made
from tests.hls.precisions import fixed_points

#: a type by its width and the bits right of its point
fixed_point = FixedPoint.with_fraction

precisions = fixed_points(24)


def constants(rng: np.random.Generator, shape: tuple[int, ...], bits: int, fraction: int) -> Constants:
    """Random raw weights of up to `bits` bits, a fifth of them zero."""
    raw = rng.integers(-(1 << bits), 1 << bits, shape)
    return Constants(np.where(rng.random(shape) < 0.2, 0, raw), fraction)


@st.composite
def networks(draw: st.DrawFn) -> Network:
    """Up to three inputs and six layers, each of which reads any before it; up to three of them are outputs."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    count = draw(st.integers(1, 3))
    inputs = tuple(made.vector(f"x_{index}", draw(st.integers(1, 4)), draw(precisions)) for index in range(count))
    drawn: list[Layer] = []
    for index in range(draw(st.integers(1, 6))):
        drawn.append(draw(layers([*inputs, *(layer.y for layer in drawn)], f"layer_{index}", rng)))
    names = [layer.name for layer in drawn]
    return made.network("random", inputs, drawn, draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True)))


@st.composite
def layers(draw: st.DrawFn, before: list[Tensor], name: str, rng: np.random.Generator) -> Layer:  # noqa: PLR0911 - one a kind
    result = draw(precisions)
    kinds = ["dense", "dense", "scaling", "relu", "linear", "merge", "merge", "concatenation", "moved", "dot", "steps"]
    kind = draw(st.sampled_from(kinds))
    bits, lsb = draw(st.integers(1, 10)), draw(st.integers(-2, 10))
    a, b = (draw(st.sampled_from(before[-4:])) for _ in range(2))
    size = a.size
    if kind == "dense":
        n_out = draw(st.integers(1, 4))
        fraction = a.precision.fraction + lsb + draw(st.integers(-6, 3))
        accum = fixed_point(draw(st.integers(6, 70)), fraction, True, draw(st.sampled_from(Rounding)))
        bias = constants(rng, (n_out,), bits, draw(st.integers(-2, 12)))
        return made.dense(name, a, constants(rng, (size, n_out), bits, lsb), bias, accum, result)
    if kind == "scaling":
        return made.scaling(name, a, constants(rng, (size,), bits, lsb), constants(rng, (size,), bits, lsb + 3), result)
    if kind in ("merge", "dot"):
        b = draw(st.sampled_from([other for other in before if other.size == size]))
        if kind == "dot":
            return made.dot(name, a, b, draw(precisions), result)
        return made.merge(name, a, b, draw(st.sampled_from(MergeOperation)), result)
    if kind == "concatenation":
        turns = draw(st.sampled_from([turns for turns in range(1, 5) if size % turns == 0 == b.size % turns]))
        return made.concatenation(name, a, b, result, turns)
    if kind == "steps":
        above, below = (constants(rng, (size,), bits, lsb) for _ in range(2))
        return Map(name, a, made.vector(name, size, result), MapFunction.STEP, above, below)
    if kind == "moved":
        return made.moved(name, a, draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=5)))
    return made.activation(name, a, kind == "relu", result)


def reference(network: Network, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    return evaluate(network, rows).astype(np.int64)


def random_rows(network: Network, count: int) -> NDArray[np.int64]:
    rng = np.random.default_rng(1)
    low, high = ([getattr(to, end) for to in element_types(network.inputs)] for end in ("least_raw", "max_raw"))
    rows = rng.integers(low, high, (count, len(low)), endpoint=True)
    rows[0], rows[-1] = low, high
    return rows


@settings(max_examples=150)
@given(networks())
def test_the_adder_graph_computes_what_the_loops_compute(network: Network) -> None:
    rows = random_rows(network, 12)
    np.testing.assert_array_equal(adder_graph(network).evaluate(rows), reference(network, rows))


@settings(max_examples=50)
@given(networks())
def test_no_node_ever_leaves_the_range_it_was_given(network: Network) -> None:
    graph = adder_graph(network)
    every = AdderGraph(graph.nodes, tuple(range(len(graph.nodes))))
    values = every.evaluate(random_rows(network, 12))
    assert (values >= [node.low for node in graph.nodes]).all()
    assert (values <= [node.high for node in graph.nodes]).all()


@settings(max_examples=50)
@given(networks(), st.sampled_from([1.0, 2.8, 1000.0]))
def test_no_stage_takes_longer_than_it_may_but_for_a_single_operation(network: Network, stage_ns: float) -> None:
    plan = schedule(adder_graph(network), [to.width for to in element_types(network.outputs)], stage_ns)
    assert plan.stages == 1 or stage_ns < 1000.0
    for i, node in enumerate(plan.graph.nodes):
        before = [k for k in operands(node.operation) if plan.stage[k] == plan.stage[i] and plan.ready_ps[k] > FF_OUT]
        wire_ps = WIRE if i in plan.graph.outputs else 0
        assert plan.ready_ps[i] + wire_ps + FF_SETUP <= 1000 * stage_ns or not before


def dense(accum: FixedPoint, weight: int = 3, result: FixedPoint | None = None) -> Network:
    x, zeros = made.vector("x", 2, fixed_point(8, 4)), Constants(np.zeros(2, np.int64), 0)
    layer = made.dense("dense_7", x, Constants(np.array([[weight, -weight], [weight, 2]]), 4), zeros, accum, result or accum)
    return made.network("small", [x], [layer], ["dense_7"])


def test_progress_is_told_of_each_large_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lower, "LARGE", 4)
    types = fixed_point(4, 0), fixed_point(4, 0), fixed_point(16, 0)
    wide, narrow = Constants(np.ones((1, 5), np.int64), 0), Constants(np.ones((5, 1), np.int64), 0)
    zeros = [Constants(np.zeros(n, np.int64), 0) for n in (5, 1, 1)]
    one = Constants(np.ones((1, 1), np.int64), 0)
    x = made.vector("x", 1, types[0])
    a = made.dense("a", x, wide, zeros[0], types[2], types[1])
    b = made.dense("b", a.y, narrow, zeros[1], types[2], types[2])
    c = made.dense("c", b.y, one, zeros[2], types[2], types[2])
    lines: list[str] = []
    lower.adder_graph(made.network("net", [x], [a, b, c], ["c"]), lines.append)
    assert lines == ["factoring layer a, 1 x 5 weights", "factoring layer b, 5 x 1 weights"]


@pytest.mark.parametrize("rounding", Rounding)
@pytest.mark.parametrize("overflow", [Overflow.WRAP, Overflow.SAT])
def test_products_are_rounded_one_by_one_to_an_accumulator_with_fewer_fraction_bits(
    rounding: Rounding, overflow: Overflow
) -> None:
    network = dense(fixed_point(20, 5, rounding=rounding, overflow=overflow))
    (layer,) = network.layers
    assert isinstance(layer, Dense)
    rng = np.random.default_rng(1)
    weight, bias = constants(rng, (2, 4), 7, 4), constants(rng, (4,), 7, 6)
    wide = made.dense(layer.name, layer.x, weight, bias, layer.accum, layer.y.precision)
    network = made.network("wide", network.inputs, [wide], [wide.name])
    rows = random_rows(network, 200)
    exact = replace(wide, accum=fixed_point(40, 8))
    np.testing.assert_array_equal(adder_graph(network).evaluate(rows), reference(network, rows))
    assert (reference(network, rows) != reference(made.network("exact", network.inputs, [exact], [exact.name]), rows)).any()


def test_an_accumulator_that_drops_only_zeros_adds_no_rounding() -> None:
    network = dense(fixed_point(20, 6), weight=4)
    (layer,) = network.layers
    assert isinstance(layer, Dense)
    cast = made.activation("even", layer.x, False, fixed_point(6, 3))
    even = made.network("even", network.inputs, [cast, replace(layer, x=cast.y)], [layer.name])
    rows = random_rows(even, 20)
    graph = adder_graph(even)
    np.testing.assert_array_equal(graph.evaluate(rows), reference(even, rows))
    assert sum(isinstance(node.operation, Add) for node in graph.nodes) == 2


def test_an_accumulator_that_may_saturate_inside_the_sum_is_refused_by_layer_name() -> None:
    with pytest.raises(UnsupportedLayerError, match=r"layer 'dense_7': accum .* a partial sum can overflow it"):
        adder_graph(dense(fixed_point(9, 8, overflow=Overflow.SAT)))


def test_a_saturating_accumulator_that_never_saturates_is_a_plain_sum() -> None:
    graph = adder_graph(dense(fixed_point(20, 8, overflow=Overflow.SAT)))
    assert not any(isinstance(node.operation, Wrap) for node in graph.nodes)


def test_weights_too_wide_for_the_solver_are_refused_by_layer_name() -> None:
    with pytest.raises(UnsupportedLayerError, match=r"layer 'dense_7': a weight has 25 bits"):
        adder_graph(dense(fixed_point(60, 8), weight=1 << 24))
