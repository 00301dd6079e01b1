# SPDX-License-Identifier: Apache-2.0
"""Rows of several tensors: bytes, wire numbers, raw integers and numpy's structured dtype tell the same story."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from hypersonic.hls.fixed import FixedPoint
from hypersonic.hls.row import MAX_TENSORS, Row
from hypersonic.hls.spec import DATATYPES, SpecMismatchError, TensorSpec


@st.composite
def tensors(draw: st.DrawFn, name: str) -> TensorSpec:
    """Any datatype; an integer one reads as the raw integers themselves or by a type of its own."""
    element = DATATYPES[draw(st.sampled_from(sorted(DATATYPES)))]
    shape = tuple(draw(st.lists(st.integers(1, 3), min_size=1, max_size=3)))
    width = draw(st.integers(1, 30))
    signed = element.signed if element.is_integer else draw(st.booleans())
    fixed = FixedPoint(width, draw(st.integers(0, width)), signed)
    exponents = tuple(draw(st.lists(st.integers(-3, 3), max_size=1))) * int(np.prod(shape))
    wire = FixedPoint(element.bits, element.bits // 2, element.signed) if element.is_integer and draw(st.booleans()) else None
    return TensorSpec(name, shape, fixed, element.name, exponents, wire)


rows = st.integers(1, 5).flatmap(lambda n: st.tuples(*(tensors(f"t{k}") for k in range(n)))).map(Row)


def wires(row: Row, count: int) -> list[NDArray[np.float64]]:
    """Numbers that travel exactly in every datatype, a few of them out of some types' ranges."""
    rng = np.random.default_rng(count)
    return [
        rng.integers(0 if not tensor.element.signed else -100, 100, (count, tensor.size)).astype(np.float64)
        for tensor in row.tensors
    ]


@given(rows, st.integers(0, 4))
def test_bytes_decode_to_what_was_encoded_and_are_the_tensors_own_bytes_side_by_side(row: Row, count: int) -> None:
    sent = wires(row, count)
    data = row.encode(sent)
    assert data.shape == (count * row.row_bytes,)
    for tensor, wire, got in zip(row.tensors, sent, row.decode(data), strict=True):
        assert got.shape == (count, tensor.size)
        np.testing.assert_array_equal(got, wire)
    for k in range(count):
        alone = [tensor.encode(wire[k : k + 1]) for tensor, wire in zip(row.tensors, sent, strict=True)]
        np.testing.assert_array_equal(data[k * row.row_bytes : (k + 1) * row.row_bytes], np.concatenate(alone))


@given(rows, st.integers(1, 4))
def test_the_structured_dtype_sees_every_tensor_in_the_bytes(row: Row, count: int) -> None:
    sent = wires(row, count)
    data = row.encode(sent)
    assert row.dtype.itemsize == row.row_bytes
    fields: Mapping[str, Any] = row.dtype.fields or {}
    assert [fields[tensor.name][1] for tensor in row.tensors] == list(row.offsets)
    seen = data.view(row.dtype)
    for tensor, wire in zip(row.tensors, sent, strict=True):
        assert seen[tensor.name].shape == (count, *tensor.shape)
        own_bytes = np.ascontiguousarray(seen[tensor.name]).reshape(-1).view(np.uint8)
        np.testing.assert_array_equal(own_bytes, tensor.encode(wire))
    empty = np.zeros(count, row.dtype)
    for tensor, wire in zip(row.tensors, sent, strict=True):
        words = tensor.encode(wire).view(tensor.element.dtype)
        empty[tensor.name] = words.reshape(count, *tensor.shape)
    np.testing.assert_array_equal(empty.view(np.uint8), data)


@given(rows, st.integers(0, 4))
def test_raw_integers_are_the_tensors_own_side_by_side(row: Row, count: int) -> None:
    sent = wires(row, count)
    raw = row.to_raw(sent)
    assert (raw.dtype, raw.shape) == (np.dtype(np.int64), (count, row.size))
    for tensor, wire, part, start in zip(row.tensors, sent, row.split(raw), row.element_offsets, strict=True):
        np.testing.assert_array_equal(part, tensor.to_raw(wire))
        np.testing.assert_array_equal(part, raw[:, start : start + tensor.size])
        assert part.base is not None, "a view, no copy"
    for tensor, part, back in zip(row.tensors, row.split(raw), row.from_raw(raw), strict=True):
        np.testing.assert_array_equal(back, tensor.from_raw(part))
    assert row.raw_bits == sum(tensor.fixed.width * tensor.size for tensor in row.tensors)


@given(rows)
def test_a_row_comes_back_from_its_json(row: Row) -> None:
    assert Row.from_json(row.to_json()) == row


def test_a_row_has_tensors_of_different_names_and_takes_an_array_for_each() -> None:
    x = TensorSpec("x", (2,), FixedPoint(8, 4))
    with pytest.raises(SpecMismatchError, match=r"the tensors x, x: a name appears twice"):
        Row((x, x))
    with pytest.raises(SpecMismatchError, match=r"a row has 0 tensors, expected 1 to 64"):
        Row(())
    with pytest.raises(SpecMismatchError, match=r"a row has 65 tensors"):
        Row(tuple(TensorSpec(f"x{k}", (1,), FixedPoint(8, 4)) for k in range(MAX_TENSORS + 1)))
    with pytest.raises(SpecMismatchError, match=r"2 arrays, expected 1: x"):
        Row((x,)).encode([np.zeros((1, 2)), np.zeros((1, 2))])
