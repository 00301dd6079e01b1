# SPDX-License-Identifier: Apache-2.0
"""Adder graphs of random networks against the same network computed number by number, and what the da core refuses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from hypersonic.hls.da import lower
from hypersonic.hls.da.delay import FF_OUT, FF_SETUP, WIRE
from hypersonic.hls.da.graph import Add, AdderGraph, Wrap, operands
from hypersonic.hls.da.lower import adder_graph
from hypersonic.hls.da.network import (
    Activation,
    Concatenation,
    Dense,
    Dot,
    Einsum,
    EinsumDense,
    GarNet,
    Layer,
    Merge,
    MergeOperation,
    Network,
    Scaling,
    Source,
    Unrolled,
    Wiring,
)
from hypersonic.hls.da.schedule import schedule
from hypersonic.hls.errors import UnsupportedLayerError
from hypersonic.hls.fixed import Constants, FixedPoint, Overflow, Rounding
from hypersonic.hls.rf.layers import Tensor
from hypersonic.hls.rf.parts.maps import Map, MapFunction
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
    inputs = tuple(Source(f"x_{index}", draw(st.integers(1, 4)), draw(precisions)) for index in range(draw(st.integers(1, 3))))
    network = Network("random", inputs, (), ())
    for index in range(draw(st.integers(1, 6))):
        layer = draw(layers(network, f"layer_{index}", rng))
        network = Network("random", inputs, (*network.layers, layer), ())
    names = [layer.name for layer in network.layers]
    outputs = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
    return Network("random", inputs, network.layers, tuple(outputs))


@st.composite
def layers(draw: st.DrawFn, before: Network, name: str, rng: np.random.Generator) -> Layer:  # noqa: PLR0911 - one a kind
    result = draw(precisions)
    kinds = ["dense", "dense", "scaling", "relu", "linear", "merge", "merge", "concatenation", "wiring", "dot", "steps"]
    kind = draw(st.sampled_from(kinds))
    bits, lsb = draw(st.integers(1, 10)), draw(st.integers(-2, 10))
    sizes = before.sizes
    a, b = (draw(st.sampled_from(list(sizes)[-4:])) for _ in range(2))
    size = sizes[a]
    if kind == "dense":
        n_out = draw(st.integers(1, 4))
        fraction = before.results[a].fraction + lsb + draw(st.integers(-6, 3))
        accum = fixed_point(draw(st.integers(6, 70)), fraction, True, draw(st.sampled_from(Rounding)))
        bias = constants(rng, (n_out,), bits, draw(st.integers(-2, 12)))
        return Dense(name, a, constants(rng, (size, n_out), bits, lsb), bias, accum, result)
    if kind == "scaling":
        return Scaling(name, a, constants(rng, (size,), bits, lsb), constants(rng, (size,), bits, lsb + 3), result)
    if kind == "merge":
        b = draw(st.sampled_from([other for other, elements in sizes.items() if elements == size]))
        return Merge(name, (a, b), draw(st.sampled_from(MergeOperation)), result)
    if kind == "concatenation":
        turns = draw(st.sampled_from([turns for turns in range(1, 5) if size % turns == 0 == sizes[b] % turns]))
        return Concatenation(name, (a, b), (size // turns, sizes[b] // turns), result)
    if kind == "dot":
        b = draw(st.sampled_from([other for other, elements in sizes.items() if elements == size]))
        return Dot(name, (a, b), draw(precisions), result)
    if kind == "steps":
        above, below = (constants(rng, (size,), bits, lsb) for _ in range(2))
        x, y = Tensor(a, (size,), before.results[a]), Tensor(name, (size,), result)
        return Unrolled(name, (a,), Map(name, x, y, MapFunction.STEP, above, below))
    if kind == "wiring":
        return Wiring(name, a, tuple(draw(st.lists(st.integers(-1, size - 1), min_size=1, max_size=5))), result)
    return Activation(name, a, kind == "relu", result)


def reference(network: Network, x_raw: NDArray[np.int64]) -> NDArray[np.int64]:
    """hls4ml's loops, one number at a time, in Python integers."""
    rows = []
    for row in x_raw:
        left = iter(int(value) for value in row)
        values = {source.name: [next(left) for _ in range(source.size)] for source in network.inputs}
        fractions = {name: to.fraction for name, to in network.results.items()}
        for layer in network.layers:
            values[layer.name] = _layer(layer, values, fractions)
        rows.append([value for name in network.outputs for value in values[name]])
    return np.array(rows)


def _layer(layer: Layer, values: dict[str, list[int]], fractions: dict[str, int]) -> list[int]:  # noqa: PLR0911 - one a kind
    if isinstance(layer, Merge):
        return _merged(layer, values, fractions)
    if isinstance(layer, Dot):
        fraction, total = sum(fractions[name] for name in layer.sources), 0
        for x, y in zip(*(values[name] for name in layer.sources), strict=True):
            total = layer.accum.confine(total + layer.accum.cast(x * y, fraction))
        return [layer.result.cast(total, layer.accum.fraction)]
    if isinstance(layer, Concatenation):
        (a, b), (run_a, run_b) = layer.sources, layer.runs
        moved = [[layer.result.cast(value, fractions[name]) for value in values[name]] for name in (a, b)]
        turns = len(moved[0]) // run_a
        parts = [(moved[0][k * run_a : (k + 1) * run_a], moved[1][k * run_b : (k + 1) * run_b]) for k in range(turns)]
        return [value for left, right in parts for value in (*left, *right)]
    if isinstance(layer, Unrolled):
        return _stepped(layer, values[layer.sources[0]])
    assert not isinstance(layer, EinsumDense | Einsum | GarNet)  # test_einsum.py, test_garnet.py
    x, fraction = values[layer.source], fractions[layer.source]
    if isinstance(layer, Activation):
        return [layer.result.cast(max(value, 0) if layer.relu else value, fraction) for value in x]
    if isinstance(layer, Wiring):
        return [layer.result.cast(x[place] if place >= 0 else 0, fraction) for place in layer.places]
    assert isinstance(layer, Scaling | Dense)
    if isinstance(layer, Scaling):
        product, bias = fraction + layer.scale.fraction, layer.bias.fraction
        finest = max(product, bias)
        return [
            layer.result.cast((value * int(s) << (finest - product)) + (int(b) << (finest - bias)), finest)
            for value, s, b in zip(x, layer.scale.raw, layer.bias.raw, strict=True)
        ]
    outputs = []
    for j, b in enumerate(layer.bias.raw):
        total = layer.accum.cast(int(b), layer.bias.fraction)
        for i, value in enumerate(x):
            product = layer.accum.cast(value * int(layer.weight.raw[i, j]), fraction + layer.weight.fraction)
            total = layer.accum.confine(total + product)
        outputs.append(layer.result.cast(total, layer.accum.fraction))
    return outputs


def _stepped(layer: Unrolled, x: list[int]) -> list[int]:
    read = layer.read
    assert isinstance(read, Map)
    limits = [
        [Fraction(int(limit), 1) / Fraction(2) ** read.scale.fraction for limit in pair]
        for pair in zip(read.scale.raw, read.bias.raw, strict=True)
    ]
    points = [Fraction(value) / Fraction(2) ** read.x.precision.fraction for value in x]
    steps = [1 if at > high else -1 if at <= low else 0 for at, (high, low) in zip(points, limits, strict=True)]
    return [layer.result.cast(step, 0) for step in steps]


def _merged(layer: Merge, values: dict[str, list[int]], fractions: dict[str, int]) -> list[int]:
    """In half units of the finer of the two, so that a mean is an integer too."""
    finest = max(fractions[name] for name in layer.sources)
    a, b = ([value << (1 + finest - fractions[name]) for value in values[name]] for name in layer.sources)
    compute: dict[MergeOperation, Callable[[int, int], int]] = {
        MergeOperation.ADD: lambda x, y: x + y,
        MergeOperation.SUBTRACT: lambda x, y: x - y,
        MergeOperation.MULTIPLY: lambda x, y: x * y,
        MergeOperation.AVERAGE: lambda x, y: (x + y) // 2,
        MergeOperation.MAXIMUM: max,
        MergeOperation.MINIMUM: min,
    }
    fraction = (finest + 1) * (2 if layer.operation is MergeOperation.MULTIPLY else 1)
    return [layer.result.cast(compute[layer.operation](x, y), fraction) for x, y in zip(a, b, strict=True)]


def random_rows(network: Network, count: int) -> NDArray[np.int64]:
    rng = np.random.default_rng(1)
    low, high = ([getattr(to, end) for to in network.input_types] for end in ("min_raw", "max_raw"))
    rows = rng.integers(low, high, (count, len(low)), endpoint=True)
    rows[0], rows[-1] = low, high
    return rows


@settings(deadline=None, max_examples=150)
@given(networks())
def test_the_adder_graph_computes_what_the_loops_compute(network: Network) -> None:
    rows = random_rows(network, 12)
    np.testing.assert_array_equal(adder_graph(network).evaluate(rows), reference(network, rows))


@settings(deadline=None, max_examples=50)
@given(networks())
def test_no_node_ever_leaves_the_range_it_was_given(network: Network) -> None:
    graph = adder_graph(network)
    every = AdderGraph(graph.nodes, tuple(range(len(graph.nodes))))
    values = every.evaluate(random_rows(network, 12))
    assert (values >= [node.low for node in graph.nodes]).all()
    assert (values <= [node.high for node in graph.nodes]).all()


@settings(deadline=None, max_examples=50)
@given(networks(), st.sampled_from([1.0, 2.8, 1000.0]))
def test_no_stage_takes_longer_than_it_may_but_for_a_single_operation(network: Network, stage_ns: float) -> None:
    plan = schedule(adder_graph(network), [to.width for to in network.output_types], stage_ns)
    assert plan.stages == 1 or stage_ns < 1000.0
    for i, node in enumerate(plan.graph.nodes):
        before = [k for k in operands(node.operation) if plan.stage[k] == plan.stage[i] and plan.ready_ps[k] > FF_OUT]
        wire_ps = WIRE if i in plan.graph.outputs else 0
        assert plan.ready_ps[i] + wire_ps + FF_SETUP <= 1000 * stage_ns or not before


def dense(accum: FixedPoint, weight: int = 3, result: FixedPoint | None = None) -> Network:
    layer = Dense(
        "dense_7",
        "x",
        Constants(np.array([[weight, -weight], [weight, 2]]), 4),
        Constants(np.zeros(2, np.int64), 0),
        accum,
        result or accum,
    )
    return Network("small", (Source("x", 2, fixed_point(8, 4)),), (layer,), ("dense_7",))


def test_progress_is_told_of_each_large_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lower, "LARGE", 4)
    types = fixed_point(4, 0), fixed_point(4, 0), fixed_point(16, 0)
    wide, narrow = Constants(np.ones((1, 5), np.int64), 0), Constants(np.ones((5, 1), np.int64), 0)
    zeros = [Constants(np.zeros(n, np.int64), 0) for n in (5, 1, 1)]
    one = Constants(np.ones((1, 1), np.int64), 0)
    layers = (
        Dense("a", "x", wide, zeros[0], types[2], types[1]),
        Dense("b", "a", narrow, zeros[1], types[2], types[2]),
        Dense("c", "b", one, zeros[2], types[2], types[2]),
    )
    lines: list[str] = []
    lower.adder_graph(Network("net", (Source("x", 1, types[0]),), layers, ("c",)), lines.append)
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
    wide = replace(layer, weight=constants(rng, (2, 4), 7, 4), bias=constants(rng, (4,), 7, 6))
    network = replace(network, layers=(wide,))
    rows = random_rows(network, 200)
    exact = replace(wide, accum=fixed_point(40, 8))
    np.testing.assert_array_equal(adder_graph(network).evaluate(rows), reference(network, rows))
    assert (reference(network, rows) != reference(replace(network, layers=(exact,)), rows)).any()


def test_an_accumulator_that_drops_only_zeros_adds_no_rounding() -> None:
    network = dense(fixed_point(20, 6), weight=4)
    (layer,) = network.layers
    assert isinstance(layer, Dense)
    even = replace(
        network,
        layers=(
            Activation("even", "x", False, fixed_point(6, 3)),
            replace(layer, source="even"),
        ),
    )
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
