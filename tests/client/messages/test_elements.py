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
    assert as_elements("x", "UINT8", [0, 255]).dtype == np.uint8
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
        ("INT32", [1, 2**33 + 7], "has 8589934599, expected -2147483648 to 2147483647, for INT32"),
        ("INT8", [-129], "has -129, expected -128 to 127, for INT8"),
        ("INT64", np.array([2**63 + 5], np.uint64), "has 9223372036854775813, expected"),
        ("UINT8", [-1], "has -1, expected 0 to 255, for UINT8"),
        ("UINT8", np.array([1, 256], np.uint16), "has 256, expected 0 to 255, for UINT8"),
        ("FP32", [0.0, 1e300], "has 1e+300, which is infinite as FP32; the largest number is 3.4028235e+38"),
        ("FP16", [-1e6], "has -1000000.0, which is infinite as FP16"),
        ("FP16", [1, 70000], "has 70000, which is infinite as FP16"),
        ("BF16", [1e300], "has 1e+300, which is infinite as BF16"),
        ("FP32", [True], "input 'x' is of dtype bool, expected float32"),
        ("INT32", [True], "input 'x' is of dtype bool, expected int32"),
    ],
)
def test_other_values_are_refused_by_name(datatype: str, values: object, words: str) -> None:
    with pytest.raises(InputError, match="'x'") as error:
        as_elements("x", datatype, values)
    assert words in str(error.value)


@given(st.data())
def test_integers_keep_their_values_or_are_refused(data: st.DataObject) -> None:
    given, datatype = (data.draw(st.sampled_from([name for name in NUMBERS if "INT" in name])) for _ in range(2))
    array = data.draw(arrays(DTYPES[given], array_shapes(min_dims=1, min_side=0)))
    limits = np.iinfo(DTYPES[datatype])
    if all(limits.min <= int(value) <= limits.max for value in array.ravel()):
        sent = as_elements("x", datatype, array)
        assert [int(value) for value in sent.ravel()] == [int(value) for value in array.ravel()]
    else:
        with pytest.raises(InputError, match=f"expected {limits.min} to {limits.max}, for {datatype}"):
            as_elements("x", datatype, array)


@pytest.mark.filterwarnings("error")
def test_infinity_and_nan_are_numbers_of_a_narrower_float_too() -> None:
    values = as_elements("x", "FP16", np.array([np.inf, -np.inf, np.nan, 1e-30, 65504.0]))
    np.testing.assert_array_equal(values, np.array([np.inf, -np.inf, np.nan, 0, 65504], np.float16))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_float_that_bfloat16_rounds_to_infinity_is_refused(dtype: type) -> None:
    largest, infinite = dtype(2.0**128 - 2.0**119 - 2.0**104), dtype(2.0**128 - 2.0**119)
    fine: np.ndarray = np.array([largest, -largest, np.inf, np.nan], dtype)
    bits = np.asarray(to_buffer("x", "BF16", as_elements("x", "BF16", fine)))
    assert bits.tolist()[:3] == [0x7F7F, 0xFF7F, 0x7F80]
    for value in (infinite, -infinite, dtype(np.finfo(np.float32).max)):
        with pytest.raises(InputError, match=r"which is infinite as BF16; the largest number is 3\.3895314e\+38"):
            as_elements("x", "BF16", np.array([1, value], dtype))


def test_masked_values_in_a_list_are_refused_as_those_of_an_array_are() -> None:
    masked, whole = np.ma.array([1.0, 2.0], mask=[True, False]), np.ma.array([3.0, 4.0])
    for values in ([masked, whole], (whole, [masked]), [[[1.0, np.ma.masked]]], [[masked], [whole]]):
        with pytest.raises(InputError, match="has 1 masked values, expected none"):
            as_elements("x", "FP32", values)
    assert as_elements("x", "FP32", [whole, whole]).tolist() == [[3, 4], [3, 4]]


def test_a_text_that_is_not_utf8_is_not_an_element_of_bytes() -> None:
    with pytest.raises(InputError, match="input 'x' has an element that is not UTF-8"):
        to_buffer("x", "BYTES", np.array(["\udc80"], object))


def test_a_number_is_not_an_element_of_bytes() -> None:
    with pytest.raises(InputError, match="element of type int, expected bytes or str"):
        to_buffer("x", "BYTES", np.array([1], object))


def test_an_unmasked_masked_array_is_its_data() -> None:
    x = np.ma.masked_array(np.ones(2, np.float32), False)
    assert as_elements("x", "FP32", x).tolist() == [1, 1]
