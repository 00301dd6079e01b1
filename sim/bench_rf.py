# SPDX-License-Identifier: Apache-2.0
"""An rf core for benches: it takes and gives rows in beats, has memory files, and has a result that numpy computes.

The network is a Dense layer over each input and the sum of them. It computes the same function as the core of
sim/bench_core.py, so bench_core_raw and bench_core_wire are its references too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from hypersonic.hls.core import Core
from hypersonic.hls.fixed import Constants, FixedPoint, Overflow
from hypersonic.hls.network.base import Layer, Network, Tensor, WeightsIn
from hypersonic.hls.network.layers.dense import Dense
from hypersonic.hls.network.layers.merge import Merge, MergeOperation
from hypersonic.hls.network.layers.reshape import Reshape
from hypersonic.hls.rf.write import write_rf_core
from hypersonic.hls.row import Row
from hypersonic.hls.spec import TensorSpec


def write_rf_bench(
    x: Row, y: Row, directory: Path, *, name: str = "bench_rf", reuse_factor: int = 1, whole_row_bits: int = 0,
    weights_in: Sequence[WeightsIn] = (),
) -> Core:  # fmt: skip
    """Write the core's files into `directory` and return the core.

    All tensors must have the same number of fraction bits, and y must be one signed tensor. reuse_factor applies to each
    Dense. Rows of at most whole_row_bits bits pass in one beat; with 0, a row passes in several beats unless it fits in one.
    weights_in places the weights of each input's Dense in turn; those it does not name are in block RAM.
    """
    network = rf_bench_network(x, y, name=name, reuse_factor=reuse_factor, weights_in=weights_in)
    return write_rf_core(network, name, x, y, directory, whole_row_bits)[0]


def rf_bench_network(
    x: Row, y: Row, *, name: str = "bench_rf", reuse_factor: int = 1, weights_in: Sequence[WeightsIn] = ()
) -> Network:
    """Return the network of write_rf_bench."""
    layers, places = tuple(_layers(x, y, reuse_factor)), iter(weights_in)
    placed = (
        replace(layer, weights_in=next(places, WeightsIn.BRAM)) if isinstance(layer, Dense) else layer for layer in layers
    )
    return Network(name, tuple(map(_tensor, x.tensors)), (_tensor(y.tensors[0]),), tuple(placed))


def rf_bench_rows(*inputs: tuple[tuple[int, ...], str], n_out: int = 5, datatype: str = "FP32") -> tuple[Row, Row]:
    """Return the rows of the given inputs, each (shape, datatype), and of one output of n_out elements.

    Inputs of a floating-point datatype have scales, which repeat along the last dimension.
    """
    tensors = []
    for index, (shape, travels) in enumerate(inputs):
        scales = tuple(i % shape[-1] % 3 - 1 for i in range(int(np.prod(shape))))
        fixed = FixedPoint(12 + index, 6 + index, overflow=Overflow.SAT)
        tensors.append(TensorSpec(f"x{index}", shape, fixed, travels, scales if travels.startswith(("F", "B")) else ()))
    return Row(tuple(tensors)), Row((TensorSpec("y", (n_out,), FixedPoint(24, 18), datatype),))


def _tensor(spec: TensorSpec) -> Tensor:
    return Tensor(spec.name, (spec.size,) if spec.packing else spec.shape, _plain(spec.fixed))


def _plain(fixed: FixedPoint) -> FixedPoint:
    """The type with the default rounding and overflow modes."""
    return FixedPoint(fixed.width, fixed.integer, fixed.signed)


def _layers(x: Row, y: Row, reuse_factor: int) -> Iterator[Layer]:
    result, total = _tensor(y.tensors[0]), None
    for index, (spec, first) in enumerate(zip(x.tensors, x.element_offsets, strict=True)):
        is_last = index == len(x.tensors) - 1
        flat = Tensor(f"flat{index}", (spec.size,), _plain(spec.fixed))
        output = Tensor(result.name if total is None and is_last else f"dense{index}", result.shape, result.precision)
        yield Reshape(f"reshape_{index}", _tensor(spec), flat)
        weight = Constants(_weights(first, spec.size, y.size), 0)
        bias = Constants(np.zeros(y.size, dtype=np.int64), 0)
        yield Dense(f"dense_{index}", flat, output, weight, bias, result.precision, reuse_factor, reuse_factor)
        if total is not None:
            summed = Tensor(result.name if is_last else f"sum{index}", result.shape, result.precision)
            yield Merge(f"add_{index}", total, output, summed, MergeOperation.ADD)
            output = summed
        total = output


def _weights(first: int, n_in: int, n_out: int) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """The weights (n_in, n_out) of bench_core's function: i + 1 for element i of all, and j more for element 0."""
    weights = np.repeat(np.arange(first + 1, first + n_in + 1)[:, None], n_out, axis=1)
    if first == 0:
        weights[0] += np.arange(n_out)
    return weights
