# SPDX-License-Identifier: Apache-2.0
"""Constant matrices as adders, whole and in pieces."""

from __future__ import annotations

from typing import Any

import da4ml.cmvm
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypersonic.hls.da.cmvm import count_digits, evenly, factored, pieces
from hypersonic.hls.da.graph import AdderGraph, operands
from hypersonic.hls.errors import UnsupportedLayerError

_LOW, _HIGH = -128, 127


def graph_of(inputs: int) -> tuple[AdderGraph, list[int]]:
    graph = AdderGraph()
    return graph, [graph.input(i, _LOW, _HIGH) for i in range(inputs)]


@settings(max_examples=60)
@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 3000), st.integers(2, 12), st.integers(0, 2**32 - 1))
def test_pieces_of_any_size_make_up_the_product(inputs: int, outputs: int, work: int, bits: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    high = 1 << (bits - 1)
    weight = rng.integers(-high, high, (inputs, outputs)) * rng.integers(0, 2, (inputs, outputs))
    graph, x = graph_of(inputs)
    graph = graph.finished(tuple(factored(graph, "dense", x, weight, work)))
    rows = rng.integers(_LOW, _HIGH + 1, (20, inputs))
    np.testing.assert_array_equal(graph.evaluate(rows), rows @ weight)


def test_sums_of_pieces_are_as_wide_as_the_product_and_no_wider() -> None:
    weight = np.random.default_rng(3).integers(-9, 10, (8, 5))
    graph, x = graph_of(8)
    ends = np.stack([weight * _LOW, weight * _HIGH])
    expected = list(zip(ends.min(axis=0).sum(axis=0), ends.max(axis=0).sum(axis=0), strict=True))
    assert [graph.range(y) for y in factored(graph, "dense", x, weight, work=100)] == expected


def test_sums_of_pieces_are_a_flat_tree() -> None:
    graph, x = graph_of(8)
    (y,) = factored(graph, "dense", x, np.ones((8, 1), np.int64), work=1)
    assert _depth(graph, y) == 3, "eight terms add up in three levels"


def _depth(graph: AdderGraph, node: int) -> int:
    read = operands(graph.nodes[node].operation)
    return 1 + max(_depth(graph, i) for i in read) if read else 0


@given(st.integers(1, 500), st.integers(1, 100))
def test_slices_cover_everything_once_and_differ_by_one_at_most(count: int, parts: int) -> None:
    parts = min(parts, count)
    slices = evenly(count, parts)
    assert [i for piece in slices for i in range(count)[piece]] == list(range(count))
    lengths = {piece.stop - piece.start for piece in slices}
    assert max(lengths) - min(lengths) <= 1
    assert len(slices) == parts


@pytest.mark.parametrize(("weight", "digits"), [(0, 0), (1, 1), (-8, 1), (7, 2), (-5, 2), (11, 3), (-(1 << 23), 1)])
def test_the_digits_of_a_weight(weight: int, digits: int) -> None:
    assert count_digits(np.array([[weight, 0]])) == digits


def test_a_matrix_is_cut_into_as_few_pieces_as_keep_to_the_work() -> None:
    weight = np.ones((20, 10), np.int64)  # 200 digits
    assert [tuple(map(len, pieces(weight, work))) for work in (40_000, 20_000, 10_000, 1)] == [(1, 1), (1, 2), (2, 2), (20, 10)]
    assert tuple(map(len, pieces(weight.T, 10_000))) == (1, 4)


def test_adders_that_are_not_the_weights_are_refused_by_layer_name(monkeypatch: pytest.MonkeyPatch) -> None:
    solve = da4ml.cmvm.solve

    def wrong(kernel: Any, **options: Any) -> Any:
        return solve(kernel + np.eye(*kernel.shape, dtype=np.float32)[:, ::-1] * (kernel == 5), **options)

    monkeypatch.setattr(da4ml.cmvm, "solve", wrong)
    graph, x = graph_of(2)
    with pytest.raises(UnsupportedLayerError, match=r"layer 'dense1': da4ml's adders do not reproduce .* outputs \[3\]"):
        factored(graph, "dense1", x, np.array([[3, 9, 3, 5], [7, 1, 7, 11]]), work=150)
