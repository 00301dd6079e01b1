# SPDX-License-Identifier: Apache-2.0
"""JSON and tensors: every datatype there and back, Triton's texts for what is wrong, and depth counted before parsing."""

from __future__ import annotations

import json
import math
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from hypersonic.server.core.datatype import DATATYPES
from hypersonic.server.core.inference.answer import Output
from hypersonic.server.errors import InvalidRequestError, MalformedJsonError, ServerError
from hypersonic.server.wire.http import jsonscan, jsontext, tensors
from hypersonic.server.wire.http.codec import parse_request
from hypersonic.server.wire.http.tensors import to_json
from tests.server.wire.http.codec_config import CONFIG

NUMERIC = [name for name, datatype in DATATYPES.items() if name not in ("BYTES", *tensors.BINARY_ONLY)]
SHAPES = arrays.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4)


def depth_of(value: Any) -> int:
    if isinstance(value, list | dict):
        inner = value.values() if isinstance(value, dict) else value
        return 1 + max(map(depth_of, inner), default=0)
    return 0


def as_output(data: bytes, datatype: str, shape: tuple[int, ...]) -> Output:
    half = len(data) // 2
    return Output(0, datatype, shape, (data[:half], memoryview(data)[half:]), len(data))


@pytest.mark.parametrize("name", NUMERIC)
@given(data=st.data())
def test_a_tensor_survives_json(name: str, data: st.DataObject) -> None:
    datatype = DATATYPES[name]
    values = data.draw(arrays.arrays(np.dtype(datatype.numpy), data.draw(SHAPES)))
    decoded = json.loads(tensors.decode("y", as_output(values.tobytes(), name, values.shape)))
    for nested in (decoded, np.array(decoded, object).reshape(values.shape).tolist()):
        again = tensors.encode("x", datatype, values.shape, nested)
        np.testing.assert_array_equal(np.frombuffer(again, datatype.numpy).reshape(values.shape), values)


@given(st.lists(st.text()))
def test_strings_survive_json(texts: list[str]) -> None:
    texts = [text.encode(errors="ignore").decode() for text in texts]
    data = bytes(tensors.encode("x", DATATYPES["BYTES"], (len(texts),), texts))
    assert data == b"".join(struct.pack("<I", len(text.encode())) + text.encode() for text in texts)
    assert json.loads(tensors.decode("y", as_output(data, "BYTES", (len(texts),)))) == texts


@pytest.mark.parametrize("name", sorted(tensors.BINARY_ONLY))
def test_half_floats_travel_as_bytes_only(name: str) -> None:
    with pytest.raises(InvalidRequestError, match=f"receiving {name} data via JSON is not supported.*for input x$"):
        tensors.encode("x", DATATYPES[name], (1,), [1.5])
    with pytest.raises(InvalidRequestError, match=f"sending {name} data via JSON is not supported"):
        tensors.decode("y", as_output(b"ab", name, (1,)))


def test_bytes_that_are_no_text_travel_as_bytes_only() -> None:
    with pytest.raises(InvalidRequestError, match="output 'y' holds bytes that are not UTF-8 text"):
        tensors.decode("y", as_output(struct.pack("<I", 2) + b"\xff\xfe", "BYTES", (1,)))


WRONG = [
    ("FP32", ["a"], "attempt to access JSON non-number as double"),
    ("FP64", [True], "attempt to access JSON non-number as double"),
    ("FP32", [None], "attempt to access JSON non-number as double"),
    ("FP32", [{}], "attempt to access JSON non-number as double"),
    ("FP64", [10**400], "Number too big to be stored in double."),
    ("BOOL", [1], "attempt to access JSON non-boolean as boolean"),
    ("INT8", [1.0], "attempt to access JSON non-signed-integer as signed-integer"),
    ("INT64", [2**63], "attempt to access JSON non-signed-integer as signed-integer"),
    ("INT64", [-(2**63) - 1], "attempt to access JSON non-signed-integer as signed-integer"),
    ("UINT64", [2**64], "attempt to access JSON non-unsigned-integer as unsigned-integer"),
    ("UINT8", [-1], "attempt to access JSON non-unsigned-integer as unsigned-integer"),
    ("INT32", [True], "attempt to access JSON non-signed-integer as signed-integer"),
    ("BYTES", [1], "Unable to parse JSON bytes array: attempt to access JSON non-string as string"),
    ("FP32", "abc", "Unable to parse 'data': attempt to access JSON non-array as array"),
    ("FP32", [1, 2], "Unable to parse 'data': Shape does not match true shape of 'data' field"),
    ("FP32", [], "Unable to parse 'data': Shape does not match true shape of 'data' field"),
    ("INT8", [128], "input 'x': 128 does not fit INT8, which holds -128 to 127"),
    ("UINT16", [65536], "input 'x': 65536 does not fit UINT16, which holds 0 to 65535"),
    ("INT32", [10**5000], "attempt to access JSON non-signed-integer as signed-integer"),
]


@pytest.mark.parametrize(("datatype", "data", "text"), WRONG)
def test_values_of_another_type_are_refused(datatype: str, data: Any, text: str) -> None:
    with pytest.raises(ServerError) as caught:
        tensors.encode("x", DATATYPES[datatype], (1,), data)
    assert text in str(caught.value)


LARGEST = "-3.4028234663852886e+38 to 3.4028234663852886e+38"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("1e39", "1e+39"),
        ("-1e39", "-1e+39"),
        ("3.4028236e38", "3.4028236e+38"),
        ("1" + "0" * 39, "1e+39"),
        ("[[[1], [-1e39]], 1e300]", "-1e+39"),
        ("NaN, Infinity, 1e39", "1e+39"),
        ("1.5, " * 30_000 + "1e39", "1e+39"),
    ],
    ids=["positive", "negative", "nearly", "integer", "nested", "beside infinity", "long"],
)
def test_floats_that_do_not_fit_fp32_are_refused(text: str, shown: str) -> None:
    text = f'{{"inputs":[{{"data":[{text}]}}]}}'
    data = jsontext.parse_request(memoryview(text.encode()))["inputs"][0]["data"]
    with pytest.raises(InvalidRequestError) as caught:
        tensors.encode("x", DATATYPES["FP32"], (len(text.split(",")),), data)
    assert str(caught.value) == f"input 'x': {shown} does not fit FP32, which holds {LARGEST}, NaN and Infinity"


def test_floats_that_fit_fp32_are_taken() -> None:
    text = b"[3.4028235e38, -3.4028235677973362e38, 1e-50, -Infinity, NaN]"
    data = tensors.encode("x", DATATYPES["FP32"], (5,), jsontext.parse(text))
    largest = np.finfo("f4").max
    np.testing.assert_array_equal(np.frombuffer(data, "<f4"), np.array([largest, -largest, 0, -np.inf, np.nan], "f4"))


def test_a_double_holds_what_fp32_does_not() -> None:
    data = tensors.encode("x", DATATYPES["FP64"], (2,), jsontext.parse(b"[1e39, -1e308]"))
    np.testing.assert_array_equal(np.frombuffer(data, "<f8"), [1e39, -1e308])


#: nothing before it, or so much that the text is parsed piece by piece
BEFORE = {"short": "", "long": "1.5," * 40_000}


def encoded(text: str, datatype: str, shape: tuple[int, ...]) -> np.ndarray:
    """`data` of an inference request, long or short."""
    body = f'{{"inputs":[{{"data":{text}}}]}}'.encode()
    data = jsontext.parse_request(memoryview(body))["inputs"][0]["data"]
    return np.frombuffer(tensors.encode("x", DATATYPES[datatype], shape, data), DATATYPES[datatype].numpy)


@pytest.mark.parametrize("before", BEFORE.values(), ids=BEFORE)
@pytest.mark.parametrize("datatype", ["FP32", "FP64"])
@pytest.mark.parametrize("number", ["-1e400", "1" + "0" * 400, "1" + "0" * 400 + ".0", "-1" + "0" * 300 + "e99"])
def test_a_number_beyond_every_double_is_refused_however_it_is_spelled(before: str, datatype: str, number: str) -> None:
    with pytest.raises(MalformedJsonError, match=r"Number too big to be stored in double\."):
        encoded(f"[{before}{number}]", datatype, (before.count(",") + 1,))


@pytest.mark.parametrize("before", BEFORE.values(), ids=BEFORE)
@pytest.mark.parametrize("datatype", ["FP32", "FP64"])
def test_infinities_that_are_written_as_such_are_read(before: str, datatype: str) -> None:
    """And the largest number there is, what rounds to it, and what rounds to nothing."""
    text, count = f"[{before}Infinity, [-Infinity], NaN, 3.4028235677e38, 1e-400]", before.count(",") + 5
    largest = 3.4028235677e38 if datatype == "FP64" else np.finfo(np.float32).max
    np.testing.assert_array_equal(encoded(text, datatype, (count,))[-5:], [np.inf, -np.inf, np.nan, largest, 0])


def test_floats_are_written_as_the_double_they_equal() -> None:
    data = np.array([0.1, np.nan, -np.inf, -0.0, 1e20], np.float32).tobytes()
    assert (
        tensors.decode("y", as_output(data, "FP32", (5,))) == b"[0.10000000149011612,NaN,-Infinity,-0.0,1.0000000200408773e+20]"
    )


# the text


@pytest.mark.parametrize(
    "text",
    [
        b"", b"  ", b"x", b'{"inputs":[', b'{"inputs":[]} x', b'{"inputs":[],}', b'{"inputs":[], }', b"[1, ]", b"{'id':1}",
        b'{"id":"abc', b'{"id" 3}', b'{"id":"3" "a":2}', b'{"id":"a\x01b"}', b'{"id":"\\x"}', b'{"id":"\\u12"}',
        b'{"id":"\xff"}', b'{"id":"\\ud800"}', b"[" + b"9" * 5000 + b"]", b"[-1e400]", b"[1.5E+309]",
        b"[" + b"9" * 310 + b".0]", '{"é":x}'.encode(),
    ],
)  # fmt: skip
def test_text_that_is_no_json_is_refused_as_triton_refuses_it(text: bytes) -> None:
    with pytest.raises(MalformedJsonError, match=r"^failed to parse the request JSON buffer: ."):
        jsontext.parse(text)


def test_large_numbers_and_infinities_are_read_as_such() -> None:
    assert jsontext.parse(b'[1e308,-1E+307,1e-400,Infinity,-Infinity,"1e999"]') == [
        1e308,
        -1e307,
        0.0,
        math.inf,
        -math.inf,
        "1e999",
    ]


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_nesting_is_counted_before_anything_is_parsed(opening: bytes) -> None:
    closing = b"]" if opening == b"[" else b"}"
    jsontext.parse(opening * 100 + b"1" + closing * 100)
    for depth in (101, 200_000):
        with pytest.raises(InvalidRequestError, match="nested deeper than 100 levels"):
            jsontext.parse(opening * depth + b"1" + closing * depth)
        with pytest.raises(InvalidRequestError, match="nested deeper than 100 levels"):
            jsontext.parse(opening * depth)


def test_brackets_in_strings_are_no_nesting() -> None:
    inner = "[{" * 300 + '\\"[' * 300 + "\\\\"
    value = [inner, inner[::-1], "[" * 101] * 50
    assert jsontext.parse(to_json(value)) == value


def test_nesting_is_followed_across_blocks() -> None:
    filling = b'"' + b"[" * (1 << 20) + b'",'
    with pytest.raises(InvalidRequestError, match="nested deeper than 100 levels"):
        jsontext.parse((b"[" + filling) * 60 + b"[" * 41)
    jsonscan.check_depth(b"[" + b"[[1],[2]]," * 300_000 + b"1]")


@pytest.mark.parametrize("value", ["1", '""', "{}", "[]", "[1,2]"])
def test_many_values_are_refused_before_they_are_parsed(value: str) -> None:
    values = ",".join([value] * 100_000).encode()
    with pytest.raises(InvalidRequestError, match="JSON of more than 32768 values outside tensors' data is refused"):
        jsontext.parse(b"[" + values + b"]")
    with pytest.raises(InvalidRequestError, match=r"outside (its )?tensors' data"):
        jsontext.parse_request(memoryview(b'{"a":[' + values + b"]}"))


LONG = st.sampled_from(["FP32", "FP64", "INT64", "INT8", "BOOL", "BYTES"])


@given(LONG, st.integers(0, 2**32), st.sampled_from([(70_000,), (7, 100, 100), (35_000, 2), (2, 1, 35_000)]), st.booleans())
@settings(max_examples=20)
def test_long_tensors_are_what_short_ones_are(name: str, seed: int, shape: tuple[int, ...], blanks: bool) -> None:
    random = np.random.default_rng(seed)
    if name == "BYTES":
        words = ['a,b"]', "[", "\\", '\\"', "é{", "", "x" * 300]
        values = np.array(words, object)[random.integers(0, len(words), shape)]
    elif name == "BOOL":
        values = random.random(shape) < 0.5
    else:
        values = (random.standard_normal(shape) * 100).astype(DATATYPES[name].numpy)
    inputs = [{"name": "x", "shape": list(shape), "datatype": name, "data": values.tolist()}, {"name": "z", "data": [1]}]
    text = json.dumps({"id": "i", "inputs": inputs}, indent=1 if blanks else None).encode()
    parsed = jsontext.parse_request(memoryview(text))
    assert isinstance(parsed["inputs"][0]["data"], jsonscan.LongArray)
    assert parsed["inputs"][1] == inputs[1]
    encoded = tensors.encode("x", DATATYPES[name], shape, parsed["inputs"][0]["data"])
    assert encoded == tensors.encode("x", DATATYPES[name], shape, values.tolist())


FILL = "1.5," * 30_000


@pytest.mark.parametrize(
    "data",
    [
        FILL,  # a comma at the end
        FILL + " ",
        "," + FILL + "1",
        FILL + ",1",
        FILL + "1 2",
        FILL + "x",
        FILL + "[1][2]",
        FILL + "[1]2",
        FILL + "3[1]",
        FILL + "[1,]",
        FILL + "[,1]",
        FILL + "[[]]",
        FILL + "{}",
        FILL + '{"a":1}',
        FILL + '"a"',
        FILL + '"a',
        FILL + "null",
        FILL + "[1}",
        FILL + "9" * 5000,
        FILL + "ÿ",
        FILL + "1]",
        FILL + "[1",
        FILL + "1,2",  # one more than the shape says
        FILL[:-1],  # one less
        "1,[" + FILL + "1],]",
    ],
)
def test_long_tensors_are_refused_as_short_ones_are(data: str) -> None:
    text = f'{{"inputs":[{{"name":"x","shape":[30001],"datatype":"FP32","data":[{data}]}}]}}'.encode("latin-1")
    with pytest.raises(ServerError):
        parse_request(memoryview(text), len(text), CONFIG, None, {})


def test_arrays_elsewhere_stay_what_they_are() -> None:
    for text in (b'{"inputs":3}', b'{"inputs":[3]}', b'{"inputs":{"data":[1]}}', b"[]", b'{"inputs":[{"data":3}]}'):
        padded = text + b" " * 70_000
        assert jsontext.parse_request(memoryview(padded)) == json.loads(text)


@given(
    st.recursive(st.none() | st.text('[]{}",\\ab\n'), lambda inner: st.lists(inner) | st.dictionaries(st.text("[{\\"), inner))
)
def test_depth_is_what_the_parsed_value_has(value: Any) -> None:
    wrapped: Any = [[value] * 20] * 6  # enough brackets for the count to begin
    for _ in range(100 - depth_of(wrapped)):
        wrapped = [wrapped]
    assert jsontext.parse(json.dumps(wrapped).encode()) == wrapped
    with pytest.raises(InvalidRequestError):
        jsontext.parse(json.dumps([wrapped]).encode())
