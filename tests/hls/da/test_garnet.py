# SPDX-License-Identifier: Apache-2.0
"""GarNet in the adder graph, and in the network's own integers, against the loops of hls4ml's C++."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hypersonic.hls.da.lower import adder_graph
from hypersonic.hls.errors import UnsupportedLayerError
from hypersonic.hls.fixed import Constants, FixedPoint, Overflow, Rounding
from hypersonic.hls.network.evaluate import evaluate
from hypersonic.hls.network.layers.garnet import DISTANCE, LAYER, GarNet, GarNetStep, edge_weights
from tests.hls.network import made

X, COUNT, OFFSET = FixedPoint(7, 3), FixedPoint(4, 4, signed=False), FixedPoint(8, 2, True, Rounding.RND, Overflow.SAT)
WRAPS = FixedPoint(10, 0, False), FixedPoint(12, 2, False), FixedPoint(14, 4), FixedPoint(12, 5)
SATURATES = (
    FixedPoint(9, 0, False, Rounding.TRN, Overflow.SAT), FixedPoint(9, 1, False, Rounding.TRN, Overflow.SAT),
    FixedPoint(9, 2, True, Rounding.RND, Overflow.SAT), FixedPoint(10, 3, True, Rounding.RND, Overflow.SAT),
)  # fmt: skip
#: with fewer fraction bits of the sums than the constants have
COARSE = FixedPoint(9, 0, False), FixedPoint(11, 2, False), FixedPoint(8, 4), FixedPoint(12, 5)


def step(rng: np.random.Generator, features: int, aggregators: int, outputs: int) -> GarNetStep:
    def drawn(*shape: int) -> Constants:
        return Constants(rng.integers(-40, 40, shape), 5)

    distance = drawn(aggregators, features), drawn(aggregators)
    weight = drawn(outputs, aggregators, features), drawn(outputs, aggregators)
    return GarNetStep(*distance, *weight, drawn(outputs), OFFSET)


def summed(to: FixedPoint, *terms: tuple[int, int]) -> int:
    """The sum of raw numbers with their fraction bits, cast to a type."""
    finest = max(fraction for _, fraction in terms)
    return to.cast(sum(raw << finest - fraction for raw, fraction in terms), finest)


def present(layer: GarNet, count: Fraction) -> list[int]:
    """The vertices at which the loops over the blocks and over a block's vertices arrive before they end."""
    block = layer.vertices // layer.blocks
    starts = [first for first in range(0, layer.vertices, block) if first < count]
    return [v for first in starts for v in range(first, first + block) if not first <= count <= v or count.denominator > 1]


def loops(layer: GarNet, row: list[int], counted: FixedPoint) -> list[int]:
    """The answers of the C++ for one row. counted: the type of the number of vertices, the last of the row."""
    *numbers, count = row
    there = present(layer, Fraction(count, 1 << counted.fraction))
    width = len(numbers) // layer.vertices
    data, kind = [numbers[at : at + width] for at in range(0, len(numbers), width)], layer.a.precision
    table, edge, aggregate = edge_weights(layer.edge), layer.edge, layer.aggregate
    block = layer.vertices // layer.blocks
    for at, one in enumerate(layer.steps):
        outputs, aggregators, features = one.weight.raw.shape
        means = [[0] * (features + 1) for _ in range(aggregators)]
        edges: dict[tuple[int, int], int] = {}
        for first in range(0, layer.vertices, block):
            local = [[0] * (features + 1) for _ in range(aggregators)]
            for v in (v for v in there if first <= v < first + block):
                for a in range(aggregators):
                    distance = DISTANCE.cast(int(one.distance_bias.raw[a]), one.distance_bias.fraction)
                    for k in range(features):
                        part = DISTANCE.cast(data[v][k] * int(one.distance.raw[a, k]), kind.fraction + one.distance.fraction)
                        distance = DISTANCE.cast(distance + part, DISTANCE.fraction)
                    edges[v, a] = table[distance - DISTANCE.min_raw]
                    local[a][0] = summed(layer.edge_sum, (local[a][0], layer.edge_sum.fraction), (edges[v, a], edge.fraction))
                    for k in range(features):
                        part = kind.cast(data[v][k] * edges[v, a], kind.fraction + edge.fraction)
                        local[a][k + 1] = summed(aggregate, (local[a][k + 1], aggregate.fraction), (part, kind.fraction))
            shift = block.bit_length() - 1
            for a in range(aggregators):
                for k in range(features + 1):
                    to = aggregate if k else layer.edge_sum
                    means[a][k] = to.confine(means[a][k] + (local[a][k] >> shift))
        shift = layer.blocks.bit_length() - 1
        weights = [edge.cast(mean[0] >> shift, layer.edge_sum.fraction) for mean in means]
        base = [[0] * aggregators for _ in range(outputs)]
        for o in range(outputs):
            for a in range(aggregators):
                y = aggregate.cast(weights[a] * int(one.bias.raw[o, a]), edge.fraction + one.bias.fraction)
                for k in range(features):
                    term = (means[a][k + 1] >> shift) * int(one.weight.raw[o, a, k]), aggregate.fraction + one.weight.fraction
                    y = summed(aggregate, (y, aggregate.fraction), term)
                base[o][a] = y
        to, finest = layer.y.precision, edge.fraction + aggregate.fraction
        if at < len(layer.steps) - 1:
            data, kind = [[0] * outputs for _ in range(layer.vertices)], to
            for v in there:
                for o in range(outputs):
                    y = to.cast(int(one.offset.raw[o]), one.offset.fraction)
                    for a in range(aggregators):
                        y = to.confine(y + to.cast(edges[v, a] * base[o][a], finest))
                    data[v][o] = y
    answers = []
    for o in range(outputs):
        raw = aggregate.cast(int(one.offset.raw[o]), one.offset.fraction)
        raw = aggregate.cast(raw * count, aggregate.fraction + counted.fraction) >> layer.vertices.bit_length() - 1
        y = to.cast(one.offset_type.cast(raw, aggregate.fraction), one.offset_type.fraction)
        for a in range(aggregators):
            y = summed(to, (y, to.fraction), (weights[a] * base[o][a], finest))
        answers.append(y)
    return answers


@pytest.mark.parametrize("kinds", [WRAPS, SATURATES, COARSE], ids=["wraps", "saturates", "coarse"])
@pytest.mark.parametrize("blocks", [1, 2])
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("counted", [COUNT, FixedPoint(6, 4)], ids=["whole", "with a fraction"])
def test_garnets_are_summed_as_the_cpp_sums_them(
    kinds: tuple[FixedPoint, FixedPoint, FixedPoint, FixedPoint], blocks: int, count: int, counted: FixedPoint
) -> None:
    rng, vertices = np.random.default_rng(blocks + 2 * count), 4
    steps = (step(rng, 2, 2, 2), step(rng, 2, 1, 2))[:count]
    edge, edge_sum, aggregate, result = kinds
    a, b = made.vector("x", 2 * vertices, X), made.vector("n", 1, counted)
    layer = GarNet("g", a, b, made.vector("g", 2, result), vertices, blocks, steps, edge, edge_sum, aggregate)
    network = made.network("n", [a, b], [layer], ["g"])
    x = rng.integers(X.min_raw, X.max_raw, (40, 2 * vertices), endpoint=True)
    x[20:] >>= 3
    counts = rng.integers(counted.min_raw >> 1, 8 << counted.fraction, (40, 1))
    rows = np.concatenate([x, np.clip(counts, None, counted.max_raw)], axis=1)
    expected = [loops(layer, row, counted) for row in rows.tolist()]
    np.testing.assert_array_equal(adder_graph(network).evaluate(rows), np.array(expected, dtype=np.int64))
    np.testing.assert_array_equal(evaluate(network, rows).astype(np.int64), np.array(expected, dtype=np.int64))
    assert len(np.unique(expected)) > 4


def test_the_edge_weight_of_no_distance_is_the_greatest_number_below_1() -> None:
    table = edge_weights(FixedPoint(10, 0, signed=False))
    assert table[2048] == 1023
    assert table[0] == table[-1] == 0
    assert table[2048 + 256] == int(np.exp(-1.0) * 1024)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"collapse": None}, "leaves the outputs of absent vertices unset"),
        ({"collapse": "max"}, "collapse is 'max', for which hls4ml 1.3.0 has no C"),
        ({"mean_by_nvert": True}, "its C.. takes their mean: leave it out"),
        ({"quantizer": "ternary"}, "makes all weights ternary"),
        ({"n_vertices": 6}, "it has 6 vertices, and hls4ml's C.. divides by 4: pad the input to 8 vertices"),
    ],
)
def test_options_that_hls4mls_cpp_gets_wrong_are_refused_by_name(given: dict[str, Any], words: str) -> None:
    attributes = {"n_vertices": 4, "reuse_factor": 1, "collapse": "mean", **given}
    layer = SimpleNamespace(name="g", class_name="GarNet", inputs=["x", "n"], get_attr=attributes.get)
    with pytest.raises(UnsupportedLayerError, match=rf"layer 'g' \(GarNet\): .*{words}"):
        LAYER.readers["GarNet"](layer, made.vector("x", 8, X), made.vector("n", 1, COUNT), made.vector("g", 2, X))
