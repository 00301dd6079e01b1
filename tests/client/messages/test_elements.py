# SPDX-License-Identifier: Apache-2.0
"""Arrays to bytes and back, for all datatypes; what does not fit is refused by name."""

from __future__ import annotations

from contextlib import suppress

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from tritonclient.utils import serialize_byte_tensor

from hypersonic.client.errors import AnswerError, InputError
from hypersonic.client.messages.elements import DTYPES, as_elements, from_buffer, to_buffer

NUMBERS = [datatype for datatype in DTYPES if datatype not in {"BF16", "BYTES"}]


def to_bytes(name: str, datatype: str, array: np.ndarray) -> bytes:
    buffer = to_buffer(name, datatype, array)
    return buffer if isinstance(buffer, bytes) else buffer.tobytes()


@given(st.data())
def test_numbers_come_back_as_they_were(data: st.DataObject) -> None:
    datatype = data.draw(st.sampled_from(NUMBERS))
    array = data.draw(arrays(DTYPES[datatype], array_shapes(min_dims=0, min_side=0)))
    back = from_buffer("y", datatype, array.shape, memoryview(to_bytes("x", datatype, array)))
    assert back.tobytes() == array.tobytes()
    assert (back.shape, back.dtype, back.flags.writeable) == (array.shape, array.dtype, False)


@given(arrays(np.float32, 20))
def test_bfloat16_rounds_to_nearest_even_as_ml_dtypes_does(array: np.ndarray) -> None:
    expected = array.astype(ml_dtypes.bfloat16).astype(np.float32)
    back = from_buffer("y", "BF16", (20,), memoryview(to_bytes("x", "BF16", array)))
    np.testing.assert_array_equal(back, expected)


@given(st.lists(st.binary(max_size=9), max_size=5))
def test_bytes_are_written_as_tritonclient_writes_them(elements: list[bytes]) -> None:
    array = np.empty(len(elements), object)
    array[:] = elements
    written = to_bytes("x", "BYTES", array)
    assert written == (serialize_byte_tensor(array).item() if elements else b"")
    assert list(from_buffer("y", "BYTES", array.shape, memoryview(written))) == elements


@given(st.binary(max_size=40), st.integers(0, 2**40))
def test_any_bytes_are_elements_or_an_error(data: bytes, count: int) -> None:
    with suppress(AnswerError):
        assert len(from_buffer("y", "BYTES", (count,), memoryview(data))) == count


def test_numbers_are_converted_within_their_kind_only() -> None:
    assert as_elements("x", "FP32", [[1, 2]]).dtype == np.float32
    assert as_elements("x", "FP32", np.ones(2)).dtype == np.float32
    assert as_elements("x", "INT32", np.ones(2, np.int64)).dtype == np.int32
    assert as_elements("x", "BF16", np.ones(2, ml_dtypes.bfloat16)).dtype == np.float32
    assert list(as_elements("x", "BYTES", ["a", b"b"])) == ["a", b"b"]
    x = np.ones(3, np.float32)
    assert as_elements("x", "FP32", x) is x


@pytest.mark.parametrize(
    ("datatype", "values", "words"),
    [
        ("INT32", np.ones(2), "input 'x' is of dtype float64, expected int32"),
        ("FP32", np.array(["a"]), "expected float32"),
        ("FP32", np.array([None]), "expected float32"),
        ("FP32", [[1], [1, 2]], "use Ragged or Rectangular"),
        ("FP32", np.ma.masked_array([1.0, 2.0], [True, False]), "has 1 masked values, expected none"),
    ],
)
def test_other_values_are_refused_by_name(datatype: str, values: object, words: str) -> None:
    with pytest.raises(InputError, match="'x'") as error:
        as_elements("x", datatype, values)
    assert words in str(error.value)


def test_a_number_is_not_an_element_of_bytes() -> None:
    with pytest.raises(InputError, match="element of type int, expected bytes or str"):
        to_buffer("x", "BYTES", np.array([1], object))


def test_an_unmasked_masked_array_is_its_data() -> None:
    x = np.ma.masked_array(np.ones(2, np.float32), False)
    assert as_elements("x", "FP32", x).tolist() == [1, 1]
