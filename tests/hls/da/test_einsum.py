# SPDX-License-Identifier: Apache-2.0
"""EinsumDense and Einsum in the adder graph against numpy's einsum and hls4ml's loops, number by number."""

from __future__ import annotations

from math import prod
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from hypersonic.hls.da.lower import adder_graph
from hypersonic.hls.errors import UnsupportedLayerError
from hypersonic.hls.fixed import FixedPoint, Overflow, Rounding
from hypersonic.hls.network.base import Layer as Read
from hypersonic.hls.network.base import Network, Tensor
from hypersonic.hls.network.evaluate import evaluate
from hypersonic.hls.network.registry import READERS
from tests.hls.network import made

#: a type by its width and the bits right of its point
fixed_point = FixedPoint.with_fraction

X, Y = fixed_point(6, 2), fixed_point(5, 3)
SIZES = {"a": 2, "b": 3, "c": 2, "d": 3}
MATRICES = ("ab,bc->ac", "ab,bc->ca", "abc,cd->abd", "abc,bcd->ad", "abc,bd->adc", "ab,acb->ac", "abc,abd->adc")
PAIRS = ("ab,ab->a", "ab,cb->ac", "abc,adc->adb", "abc,dbc->dba", "ab,ba->ab", "abc,dab->dc")


class Precision(SimpleNamespace):
    """A type as hls4ml has it, under the name that the readers look for."""


class FixedPrecisionType(Precision):
    """hls4ml's name of the class."""


def precision(kind: FixedPoint) -> FixedPrecisionType:
    modes = {
        "rounding_mode": kind.rounding.removeprefix("AP_"), "saturation_mode": kind.overflow.removeprefix("AP_"),
        "saturation_bits": 0,
    }  # fmt: skip
    return FixedPrecisionType(width=kind.width, integer=kind.integer, signed=kind.signed, **modes)


class Weights(list[str]):
    """A weight variable: iterated over, it gives decimal texts, as hls4ml writes them."""

    def __init__(self, raw: NDArray[np.int64], kind: FixedPoint) -> None:
        super().__init__(repr(float(value) / 2**kind.fraction) for value in raw.reshape(-1))
        self.type = SimpleNamespace(precision=precision(kind))
        self.data = raw


class Layer(SimpleNamespace):
    """A layer as hls4ml's backend leaves it, in io_parallel."""

    model = SimpleNamespace(config=SimpleNamespace(get_config_value=lambda _: "io_parallel", get_reuse_factor=lambda _layer: 1))

    def get_attr(self, name: str, default: Any = None) -> Any:
        return {"strategy": "latency", **self.attributes}.get(name, default)


def read(layer: Layer, inputs: list[Tensor], y: Tensor) -> Network:
    """The network of one layer, read in several steps."""
    steps: tuple[Read, ...] = READERS[layer.class_name](layer, *inputs, y)  # type: ignore[assignment]
    return made.network("n", inputs, steps, [y.name])


def shape(axes: str) -> tuple[int, ...]:
    return tuple(SIZES[axis] for axis in axes)


def recipe(equation: str) -> tuple[dict[str, Any], list[tuple[int, ...]]]:
    """The attributes that hls4ml derives from an equation, as its parse_einsum does, and the shapes of both operands."""
    operands, _, out = equation.partition("->")
    left, _, right = operands.partition(",")
    both = [axis for axis in right if axis in left]
    in_place, contracted = ([axis for axis in both if (axis in out) == kept] for kept in (True, False))
    free = [[axis for axis in side if axis not in both] for side in (left, right)]
    result = [*in_place, *free[0], *free[1]]
    sides = zip((left, right), free, strict=True)
    axes = [tuple(side.index(axis) for axis in (*in_place, *own, *contracted)) for side, own in sides]
    plan = {
        "I": prod(shape("".join(in_place))), "C": prod(shape("".join(contracted))),
        "L0": prod(shape("".join(free[0]))), "L1": prod(shape("".join(free[1]))),
        "in_transpose_idxs": axes,
        "out_interpert_shape": shape("".join(result)),
        "out_transpose_idxs": tuple(result.index(axis) for axis in out),
    }  # fmt: skip
    return plan, [shape(left), shape(right)]


types = st.builds(
    lambda width, fraction, rounding, overflow: fixed_point(width, fraction, True, rounding, overflow),
    st.integers(6, 20), st.integers(0, 7), st.sampled_from(Rounding), st.sampled_from((Overflow.WRAP, Overflow.SAT)),
)  # fmt: skip


def rows_of(sizes: list[int], seed: int) -> NDArray[np.int64]:
    rng = np.random.default_rng(seed)
    return np.concatenate(
        [rng.integers(k.min_raw, k.max_raw, (20, n), endpoint=True) for n, k in zip(sizes, (X, Y), strict=False)], 1
    )


@settings(max_examples=40)
@given(st.sampled_from(PAIRS), types, types, st.integers(0, 99))
def test_an_einsum_of_two_tensors_is_summed_as_the_cpp_sums_it(
    equation: str, accum: FixedPoint, to: FixedPoint, seed: int
) -> None:
    plan, shapes = recipe(equation)
    attributes = {
        "n_inplace": plan["I"], "n_free0": plan["L0"], "n_free1": plan["L1"], "n_contract": plan["C"],
        "inp0_shape": shapes[0], "inp1_shape": shapes[1], "out_interpert_shape": plan["out_interpert_shape"],
        "inp0_tpose_idxs": plan["in_transpose_idxs"][0], "inp1_tpose_idxs": plan["in_transpose_idxs"][1],
        "out_tpose_idxs": plan["out_transpose_idxs"], "accum_t": SimpleNamespace(precision=precision(accum)),
    }  # fmt: skip
    sizes = [int(np.prod(one)) for one in shapes]
    inputs, out = [made.vector("x", sizes[0], X), made.vector("y", sizes[1], Y)], prod(plan["out_interpert_shape"])
    network = read(Layer(name="e", class_name="Einsum", attributes=attributes), inputs, made.vector("e", out, to))
    rows = rows_of(sizes, seed)
    expected = []
    for row in rows:
        a, b = (
            part.reshape(one).transpose(axes).reshape(plan["I"], -1, plan["C"])
            for part, one, axes in zip(np.split(row, [sizes[0]]), shapes, plan["in_transpose_idxs"], strict=True)
        )
        answers = np.zeros((plan["I"], plan["L0"], plan["L1"]), dtype=object)
        for i, first, second in np.ndindex(answers.shape):
            total = 0
            for left, right in zip(a[i, first], b[i, second], strict=True):
                fraction = X.fraction + Y.fraction
                finest = max(fraction, accum.fraction)
                exact = (total << finest - accum.fraction) + (int(left) * int(right) << finest - fraction)
                total = accum.cast(exact, finest)
            answers[i, first, second] = to.cast(total, accum.fraction)
        expected.append(answers.reshape(plan["out_interpert_shape"]).transpose(plan["out_transpose_idxs"]).reshape(-1))
    np.testing.assert_array_equal(adder_graph(network).evaluate(rows), np.array(expected, dtype=np.int64))
    np.testing.assert_array_equal(evaluate(network, rows).astype(np.int64), np.array(expected, dtype=np.int64))


@pytest.mark.parametrize("equation", MATRICES)
def test_an_einsum_dense_is_numpys_einsum_where_nothing_is_rounded(equation: str) -> None:
    plan, (data, kernel) = recipe(equation)
    rng = np.random.default_rng(3)
    weight, out = rng.integers(-8, 8, kernel), shape(equation.split("->")[1])
    bias = rng.integers(-8, 8, out)
    order = plan["in_transpose_idxs"][1]
    laid = weight.transpose(order).reshape(plan["I"], plan["L1"], plan["C"]).transpose(0, 2, 1)
    attributes = {
        "n_inplace": plan["I"], "n_free_data": plan["L0"], "n_free_kernel": plan["L1"], "n_contract": plan["C"],
        "inp_shape": data, "inp_tpose_idxs": plan["in_transpose_idxs"][0],
        "out_interpert_shape": plan["out_interpert_shape"], "out_tpose_idxs": plan["out_transpose_idxs"],
        "accum_t": SimpleNamespace(precision=precision(fixed_point(24, 6))),
    }  # fmt: skip
    weights = {
        "weight": Weights(laid, fixed_point(5, 3)),
        "bias": Weights(bias.transpose(np.argsort(plan["out_transpose_idxs"])), fixed_point(6, 5)),
    }
    rows = rng.integers(X.min_raw, X.max_raw, (30, int(np.prod(data))), endpoint=True)
    layer = Layer(name="e", class_name="EinsumDense", attributes=attributes, weights=weights)
    network = read(layer, [made.vector("x", rows.shape[1], X)], made.vector("e", bias.size, fixed_point(24, 5)))
    products = np.stack([np.einsum(equation, row.reshape(data), weight) for row in rows]).reshape(30, -1)
    np.testing.assert_array_equal(adder_graph(network).evaluate(rows), products + bias.reshape(-1))
    np.testing.assert_array_equal(evaluate(network, rows).astype(np.int64), products + bias.reshape(-1))


def test_one_that_is_too_large_to_unroll_is_refused_by_name() -> None:
    wide = {"inp0_shape": (64, 64, 2), "inp1_shape": (64, 64, 2), "out_interpert_shape": (64, 64, 64)}
    axes = dict.fromkeys(("inp0_tpose_idxs", "inp1_tpose_idxs", "out_tpose_idxs"), (0, 1, 2))
    sizes = {"n_inplace": 64, "n_free0": 64, "n_free1": 64, "n_contract": 2}
    attributes = {**wide, **axes, **sizes, "accum_t": SimpleNamespace(precision=precision(X))}
    inputs = [made.vector(name, 8192, X) for name in ("x", "y")]
    network = read(Layer(name="wide", class_name="Einsum", attributes=attributes), inputs, made.vector("e", 1 << 18, X))
    with pytest.raises(
        UnsupportedLayerError, match="layer 'wide': unrolled it has 524288 products, the da core takes up to 262144"
    ):
        adder_graph(network)
