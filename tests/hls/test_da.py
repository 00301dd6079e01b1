# SPDX-License-Identifier: Apache-2.0
"""Adder graphs of random networks against the same network computed number by number, and what the da core refuses."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from hypersonic.hls.adders import AdderGraph, Wrap
from hypersonic.hls.da import adder_graph
from hypersonic.hls.fixed import Overflow, Rounding
from hypersonic.hls.network import Activation, Constants, Dense, Layer, Network, Precision, Scaling, UnsupportedLayerError
from hypersonic.hls.pipeline import schedule
from tests.hls.precisions import fixed_points, precision_of

precisions = fixed_points(24).map(precision_of)


def constants(rng: np.random.Generator, shape: tuple[int, ...], bits: int, fraction: int) -> Constants:
    """Random raw weights of up to `bits` bits, a fifth of them zero."""
    raw = rng.integers(-(1 << bits), 1 << bits, shape)
    return Constants(np.where(rng.random(shape) < 0.2, 0, raw), fraction)


@st.composite
def networks(draw: st.DrawFn) -> Network:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    source = draw(precisions)
    size = n_in = draw(st.integers(1, 5))
    fraction = source.fraction
    layers: list[Layer] = []
    for index in range(draw(st.integers(1, 4))):
        result = draw(precisions.filter(lambda to: to.overflow is not Overflow.SAT_ZERO))
        kind = draw(st.sampled_from(["dense", "scaling", "relu", "linear"]))
        bits, lsb = draw(st.integers(1, 10)), draw(st.integers(-2, 10))
        if kind == "dense":
            n_out = draw(st.integers(1, 4))
            extra = draw(st.integers(0, 3))
            accum = Precision(draw(st.integers(6, 70)), fraction + lsb + extra, True, draw(st.sampled_from(Rounding)))
            bias = constants(rng, (n_out,), bits, draw(st.integers(-2, 12)))
            layers.append(Dense(f"dense_{index}", constants(rng, (size, n_out), bits, lsb), bias, accum, result))
            size = n_out
        elif kind == "scaling":
            layers.append(
                Scaling(f"bn_{index}", constants(rng, (size,), bits, lsb), constants(rng, (size,), bits, lsb + 3), result)
            )
        else:
            layers.append(Activation(f"{kind}_{index}", kind == "relu", result))
        fraction = result.fraction
    return Network("random", source, n_in, tuple(layers))


def reference(network: Network, x_raw: NDArray[np.int64]) -> NDArray[np.int64]:
    """hls4ml's loops, one number at a time, in Python integers."""
    rows = []
    for row in x_raw:
        values, fraction = [int(value) for value in row], network.input.fraction
        for layer in network.layers:
            values = _layer(layer, values, fraction)
            fraction = layer.result.fraction
        rows.append(values)
    return np.array(rows)


def _layer(layer: Layer, x: list[int], fraction: int) -> list[int]:
    if isinstance(layer, Activation):
        return [layer.result.cast(max(value, 0) if layer.relu else value, fraction) for value in x]
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


def random_rows(network: Network, count: int) -> NDArray[np.int64]:
    rng = np.random.default_rng(1)
    rows = rng.integers(network.input.low, network.input.high, (count, network.n_in), endpoint=True)
    rows[0], rows[-1] = network.input.low, network.input.high
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
@given(networks(), st.sampled_from([1.0, 3.0, 100.0]))
def test_no_stage_holds_more_levels_than_it_may(network: Network, limit: float) -> None:
    plan = schedule(adder_graph(network), network.output.width, limit)
    assert all(plan.stage[i] <= plan.stages - 1 for i in plan.graph.outputs)
    assert plan.stages == 1 or limit < 100.0


def dense(accum: Precision, weight: int = 3, result: Precision | None = None) -> Network:
    layer = Dense(
        "dense_7",
        Constants(np.array([[weight, -weight], [weight, 2]]), 4),
        Constants(np.zeros(2, np.int64), 0),
        accum,
        result or accum,
    )
    return Network("small", Precision(8, 4), 2, (layer,))


def test_an_accumulator_that_drops_product_bits_is_refused_by_layer_name() -> None:
    with pytest.raises(
        UnsupportedLayerError, match=re.escape("layer 'dense_7': accum is ap_fixed<20,13,AP_TRN,AP_WRAP>, 7 fraction bits")
    ):
        adder_graph(dense(Precision(20, 7)))


def test_an_accumulator_that_drops_only_zeros_is_not_refused() -> None:
    network = dense(Precision(20, 6), weight=4)
    even = Network(network.name, network.input, 2, (Activation("even", False, Precision(6, 3)), *network.layers))
    rows = random_rows(even, 20)
    np.testing.assert_array_equal(adder_graph(even).evaluate(rows), reference(even, rows))


def test_an_accumulator_that_may_saturate_inside_the_sum_is_refused_by_layer_name() -> None:
    with pytest.raises(UnsupportedLayerError, match=r"layer 'dense_7': accum .* a partial sum can leave it"):
        adder_graph(dense(Precision(9, 8, overflow=Overflow.SAT)))


def test_a_saturating_accumulator_that_never_saturates_is_a_plain_sum() -> None:
    graph = adder_graph(dense(Precision(20, 8, overflow=Overflow.SAT)))
    assert not any(isinstance(node.operation, Wrap) for node in graph.nodes)


def test_weights_too_wide_for_the_solver_are_refused_by_layer_name() -> None:
    with pytest.raises(UnsupportedLayerError, match=r"layer 'dense_7': a weight has 25 bits"):
        adder_graph(dense(Precision(60, 8), weight=1 << 24))
