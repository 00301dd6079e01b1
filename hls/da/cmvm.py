# SPDX-License-Identifier: Apache-2.0
"""Turns x @ constants into adders with da4ml's solver, and checks its solutions in exact integers.

da4ml (github.com/calad0i/da4ml) finds a small set of adders for a matrix of constants. A solution that does not multiply out to
exactly the weights raises an error. The solver's time grows with the square of the digits of all weights that are not zero, as
sums and differences of powers of two. A matrix that would take more than about half a minute is therefore cut into pieces, and
the partial results of the pieces of one output are added. `python -m bench.da_adders` prints adders and seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.da.graph import AdderGraph
from hypersonic.hls.errors import INSTEAD, UnsupportedLayerError
from hypersonic.hls.fixed import Rounding

#: the most work for a matrix: the sum over its pieces of the square of their digits
WORK = 180_000_000

#: solutions that are cached: windows at an image's edges have matrices of their own
_KEPT = 64


@dataclass(frozen=True)
class _Form:
    """A node that is a linear form of the matrix's inputs: node = inputs @ coefficients * 2**-fraction."""

    node: int
    fraction: int
    coefficients: NDArray[np.int64]


def factored(graph: AdderGraph, layer: str, x: Sequence[int], weight: NDArray[np.int64], work: int = WORK) -> list[int]:
    """Add x @ weight to the graph; return the n_out nodes of the result.

    Args:
        layer: its name, for errors.
        x: n_in nodes.
        weight: (n_in, n_out) int64 with magnitudes below 2**24, because the solver uses float32.
        work: the limit, see WORK.

    Raises:
        UnsupportedLayerError: If da4ml's adders do not reproduce the weights.
    """
    rows, columns = pieces(weight, work)
    sums: list[int] = []
    for outputs in columns:
        parts = [_block(graph, layer, x[inputs], weight[inputs, outputs], outputs.start) for inputs in rows]
        sums += [_tree(graph, terms) for terms in zip(*parts, strict=True)]
    return sums


def count_digits(weight: NDArray[np.int64]) -> int:
    """The number of digits that are not zero in all weights, in canonical signed digits: 7 = 8 - 1 has two."""
    magnitude = np.abs(weight)
    return int(sum(map(int.bit_count, (magnitude ^ (3 * magnitude)).ravel().tolist())))


def pieces(weight: NDArray[np.int64], work: int) -> tuple[list[slice], list[slice]]:
    """Cut a matrix (n_in, n_out) into as few equal pieces as `work` allows; return the slices of rows and of columns.

    Halves of the outputs share more adders than halves of the inputs, until a piece has twice as many inputs as outputs.
    """
    digits = count_digits(weight)
    inputs, outputs = weight.shape
    rows, columns = 1, 1
    while digits**2 > work * rows * columns and (rows < inputs or columns < outputs):
        if columns < outputs and (rows == inputs or 2 * outputs * rows >= inputs * columns):
            columns = min(2 * columns, outputs)
        else:
            rows = min(2 * rows, inputs)
    return evenly(inputs, rows), evenly(outputs, columns)


def evenly(count: int, parts: int) -> list[slice]:
    """Cut range(count) into slices whose lengths differ by at most one."""
    ends = [count * i // parts for i in range(parts + 1)]
    return [slice(*ends) for ends in pairwise(ends)]


def _tree(graph: AdderGraph, terms: Sequence[int]) -> int:
    """The sum of the terms, as a balanced tree."""
    if len(terms) == 1:
        return terms[0]
    half = len(terms) // 2
    return graph.add(_tree(graph, terms[:half]), _tree(graph, terms[half:]))


def _block(graph: AdderGraph, layer: str, x: Sequence[int], weight: NDArray[np.int64], first: int) -> list[int]:
    """As `factored`, for one piece.

    Args:
        first: the index of its first column in the layer.
    """
    solution = _solution(weight.astype(np.int64).tobytes(), weight.shape, tuple(graph.range(node) for node in x))
    identity = np.eye(len(x), dtype=np.int64)
    forms = [_Form(node, 0, identity[i]) for i, node in enumerate(x)]
    bounds = _Bounds.of(graph, x)
    for stage in solution.solutions:
        forms = _replay(graph, stage, forms, bounds)
    wrong = [first + j for j, form in enumerate(forms) if not np.array_equal(form.coefficients, weight[:, j] << form.fraction)]
    if wrong:
        raise UnsupportedLayerError(
            f"layer {layer!r}: da4ml's adders do not reproduce the weights of outputs {wrong}; {INSTEAD}"
        )
    return [graph.drop(form.node, form.fraction, Rounding.TRN) for form in forms]


@lru_cache(_KEPT)
def _solution(weight: bytes, shape: tuple[int, ...], ranges: tuple[tuple[int, int], ...]) -> Any:
    """da4ml's solution, which is the same for every window of a convolution.

    Args:
        weight: int64.
    """
    from da4ml.cmvm import solve

    matrix = np.ascontiguousarray(np.frombuffer(weight, dtype=np.int64).reshape(shape), dtype=np.float32)
    intervals = [(float(low), float(high), 1.0) for low, high in ranges]
    return solve(matrix, qintervals=intervals, adder_size=1, carry_size=-1, hard_dc=2)


@dataclass(frozen=True)
class _Bounds:
    """The ranges of the matrix's inputs, from which the exact ranges of linear forms follow."""

    low: NDArray[Any]
    high: NDArray[Any]

    @classmethod
    def of(cls, graph: AdderGraph, x: Sequence[int]) -> _Bounds:
        low, high = zip(*(graph.range(node) for node in x), strict=True)
        return cls(np.array(low, dtype=object), np.array(high, dtype=object))

    def range(self, coefficients: NDArray[np.int64]) -> tuple[int, int]:
        used = np.flatnonzero(coefficients)
        factors = coefficients[used].astype(object)
        ends = np.stack([factors * self.low[used], factors * self.high[used]]) if len(used) else np.zeros((2, 0), dtype=object)
        return int(ends.min(axis=0).sum()), int(ends.max(axis=0).sum())


def _replay(graph: AdderGraph, stage: Any, x: list[_Form], bounds: _Bounds) -> list[_Form]:
    """Add the nodes of one da4ml CombLogic. Its ops are inputs (opcode -1) and adders (0: a + b*2**data, 1: a - b*2**data)."""
    forms: list[_Form] = []
    for op in stage.ops:
        if op.opcode == -1:
            source = x[op.id0]
            forms.append(_Form(source.node, source.fraction - stage.inp_shifts[op.id0], source.coefficients))
        else:
            forms.append(_added(graph, forms[op.id0], _scaled(forms[op.id1], op.data), bool(op.opcode), bounds))
    zero = _Form(graph.constant(0), 0, np.zeros_like(x[0].coefficients))
    outputs = zip(stage.out_idxs, stage.out_shifts, stage.out_negs, strict=True)
    return [
        zero if index < 0 else _signed(graph, _scaled(forms[index], shift), negative, zero, bounds)
        for index, shift, negative in outputs
    ]


def _scaled(form: _Form, exponent: int) -> _Form:
    return _Form(form.node, form.fraction - int(exponent), form.coefficients)


def _signed(graph: AdderGraph, form: _Form, negative: bool, zero: _Form, bounds: _Bounds) -> _Form:
    if not negative:
        return _normal(graph, form)
    return _normal(graph, _added(graph, _Form(zero.node, form.fraction, zero.coefficients), form, True, bounds))


def _normal(graph: AdderGraph, form: _Form) -> _Form:
    """The same form without a negative fraction, so that its coefficients can be compared with the weights."""
    if form.fraction >= 0:
        return form
    return _Form(graph.shift(form.node, -form.fraction), 0, form.coefficients << -form.fraction)


def _added(graph: AdderGraph, a: _Form, b: _Form, subtract: bool, bounds: _Bounds) -> _Form:
    fraction = max(a.fraction, b.fraction)
    shift_a, shift_b = fraction - a.fraction, fraction - b.fraction
    right = b.coefficients << shift_b
    coefficients = (a.coefficients << shift_a) + (-right if subtract else right)
    before = len(graph.nodes)
    node = graph.add(a.node, b.node, shift_a, shift_b, subtract=subtract)
    if len(graph.nodes) > before:
        graph.narrow(node, *bounds.range(coefficients))
    return _Form(node, fraction, coefficients)
