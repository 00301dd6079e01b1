# SPDX-License-Identifier: Apache-2.0
"""The client's packer makes the bytes of hls/packing, and refuses what the bits do not hold, by the field's name."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypersonic.client import AnswerError, InputError, PackedField, PackedRows
from hypersonic.client.packing import read_layouts
from hypersonic.hls.packing.layout import Field, Packing

CHANNEL = Packing((
    Field("ieta", 6, signed=True),
    Field("adc", 8, 4, table=((0.0,) * 256, (1.0,) * 256), select="gain"),
    Field("depth", 3, one_hot=7, first=1),
    Field("gain", 2, is_input=False),
    Field("spare", 4, is_input=False),
))  # fmt: skip
CODES: dict[str, Any] = {"ieta": [-3, 31], "adc": [[0, 1, 2, 255], [7, 7, 7, 7]], "depth": [1, 7], "gain": [2, 3]}


def layout_of(packing: Packing) -> PackedRows:
    return read_layouts("a:8001", json.dumps({"x": packing.layout()}))["x"]


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(1, 16), st.integers(1, 20), st.booleans()), min_size=1, max_size=6),
    st.integers(0, 5),
    st.integers(0, 99),
)
def test_the_packer_makes_the_bytes_that_the_kernel_takes(shapes: list[tuple[int, int, bool]], rows: int, seed: int) -> None:
    fields = [Field(f"f{i}", bits, count, signed=signed) for i, (bits, count, signed) in enumerate(shapes)]
    packing, draw = Packing(tuple(fields)), np.random.default_rng(seed)
    codes = {field.name: draw.integers(*field.allowed, (rows, field.count), endpoint=True) for field in fields}
    packed = layout_of(packing).pack(codes)
    np.testing.assert_array_equal(packed, packing.pack(codes))
    for name, array in packing.unpack(packed).items():
        np.testing.assert_array_equal(array, codes[name])


def test_a_field_of_the_models_rows_is_described_as_the_kernel_has_it() -> None:
    layout = layout_of(CHANNEL)
    assert [(field.name, field.bits, field.first_bit, field.count) for field in layout.fields] == [
        ("ieta", 6, 0, 1), ("adc", 8, 6, 4), ("depth", 3, 38, 1), ("gain", 2, 41, 1), ("spare", 4, 43, 1),
    ]  # fmt: skip
    assert [field.spare for field in layout.fields] == [False, False, False, False, True]
    assert (layout.fields[2].one_hot, layout.fields[2].first, layout.row_bytes) == (7, 1, 6)
    packed = layout.pack(CODES)
    assert packed.shape == (2, 6)
    assert packed.dtype == np.uint8
    assert CHANNEL.unpack(packed)["adc"].tolist() == CODES["adc"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"adc": [[0, 1, 2, 3], [0, 256, 0, 0]]}, r"field 'adc' of input 'x': code 256 in row 1, place 1, expected 0 to 255"),
        ({"ieta": [0, -33]}, r"field 'ieta' of input 'x': code -33 in row 1, place 0, expected -32 to 31"),
        ({"ieta": [0.5, 1]}, "field 'ieta' of input 'x' is an array of float64, expected integers"),
        ({"adc": [[0, 1, 2], [0, 1, 2]]}, r"field 'adc' of input 'x' has shape \(2, 3\), expected \(rows, 4\)"),
        ({"depth": np.ma.array([1, 2], mask=[True, False])}, "field 'depth' of input 'x' has masked codes, expected none"),
        (
            {"adc": [np.ma.array([0, 1, 2, 3], mask=[False, False, False, True]), [0, 1, 2, 3]]},
            "field 'adc' of input 'x' has masked codes",
        ),
        ({"depth": 3}, r"field 'depth' of input 'x' has shape \(\), expected \(rows,\)"),
        ({"depth": [1]}, "the fields of input 'x' have different numbers of rows: .*'depth': 1"),
        ({"charge": [1, 2]}, "input 'x' has no field charge, expected ieta, adc, depth, gain, spare"),
    ],
)
def test_a_code_that_the_bits_do_not_hold_is_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        layout_of(CHANNEL).pack({**CODES, **change})


def test_only_spare_bits_may_be_left_out() -> None:
    codes = {name: value for name, value in CODES.items() if name != "gain"}
    with pytest.raises(InputError, match="input 'x' needs the field gain, got ieta, adc, depth"):
        layout_of(CHANNEL).pack(codes)


@pytest.mark.parametrize(
    "field",
    [("a", 17, 0), ("a", 0, 0), ("a", 8, -1), ("a", 8, 0, 0)],
)
def test_a_field_that_cannot_be_packed_is_refused(field: tuple[Any, ...]) -> None:
    with pytest.raises(ValueError, match="expected 1 to 16 bits, one code or more, and 0 or more"):
        PackedField(*field)


@pytest.mark.parametrize(
    ("row_bytes", "fields", "words"),
    [
        (1, [("a", 9, 0)], "field 'a' of input 'x' begins at bit 0 and ends at bit 8, expected 0 to 7"),
        (2, [("b", 8, 7), ("a", 8, 0)], "field 'b' of input 'x' begins at bit 7 and ends at bit 14, expected 8 to 15"),
    ],
)
def test_fields_that_overlap_or_leave_the_row_are_refused(row_bytes: int, fields: list[tuple[Any, ...]], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        PackedRows("x", row_bytes, tuple(PackedField(*field) for field in fields))


@pytest.mark.parametrize(
    "text",
    [
        "[]", "{", '{"x": 3}', '{"x": {"row_bytes": 1}}', '{"x": {"row_bytes": 9, "fields": [{"name": "a", "bits": 3}]}}',
        '{"x": {"row_bytes": 1, "fields": [{"name": "a", "bits": 30}]}}', '{"x": {"row_bytes": 1, "fields": [{"bits": 3}]}}',
        '{"x": {"row_bytes": 1, "fields": [{"name": "a", "bits": 3, "count": 1e30}]}}', "[" * 100_000,
    ],
)  # fmt: skip
def test_a_layout_that_describes_no_rows_is_the_servers_error(text: str) -> None:
    with pytest.raises(AnswerError, match=r"a:8001: the model's parameter packed_rows is .* describes no packed rows"):
        read_layouts("a:8001", text)
