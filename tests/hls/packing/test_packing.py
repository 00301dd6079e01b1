# SPDX-License-Identifier: Apache-2.0
"""Packed rows: bits on the wire, what the codes become, and layouts that are refused."""

from __future__ import annotations

from math import ldexp
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypersonic.hls.fixed import FixedPoint
from hypersonic.hls.packing.codes import converters
from hypersonic.hls.packing.layout import Field, Packing, PackingError
from hypersonic.hls.spec import SpecMismatchError, TensorSpec

TABLE = ((0.5, 1.0, 2.0, 4.0), (8.0, 7.0, 7.0, -1.5))


@st.composite
def fields(draw: st.DrawFn, name: str) -> Field:
    """A field of any kind that no other field selects."""
    kind, bits, count = (
        draw(st.sampled_from(["number", "table", "one_hot", "spare"])),
        draw(st.integers(1, 16)),
        draw(st.integers(1, 4)),
    )
    if kind == "number":
        return Field(name, bits, count, signed=draw(st.booleans()), fraction=draw(st.integers(-3, 9)))
    if kind == "spare":
        return Field(name, bits, count, is_input=False)
    bits = min(bits, 5)
    if kind == "one_hot":
        return Field(name, bits, count, one_hot=draw(st.integers(1, 9)), first=draw(st.integers(0, 3)))
    numbers = st.floats(-100, 100, width=32)
    selections = draw(st.sampled_from([1, 2, 4]))
    table = tuple(tuple(draw(st.lists(numbers, min_size=1 << bits, max_size=1 << bits))) for _ in range(selections))
    return Field(name, bits, count, table=table, select="selecting" if selections > 1 else "")


@st.composite
def packings(draw: st.DrawFn) -> Packing:
    """Some fields, with one that may select others among them."""
    count = draw(st.integers(1, 5))
    drawn = [draw(fields(f"f{k}")) for k in range(count)]
    drawn.insert(draw(st.integers(0, count)), Field("selecting", draw(st.integers(2, 11))))
    return Packing(tuple(drawn))


def slowly(packing: Packing, row: bytes, exponents: tuple[int, ...], fixed: FixedPoint) -> list[int]:
    """A second way from a row's bytes to raw integers: one code at a time, on Python's integers."""
    bits, at, codes = int.from_bytes(row, "little"), 0, dict[str, list[int]]()
    for field in packing.fields:
        codes[field.name] = [bits >> (at + i * field.bits) & ((1 << field.bits) - 1) for i in range(field.count)]
        at += field.bits * field.count
    numbers: list[float] = []
    for field in packing.fields:
        for code in codes[field.name] if field.is_input else []:
            if field.one_hot:
                numbers += [float(code == field.first + k) for k in range(field.one_hot)]
            elif field.table:
                selection = codes[field.select][0] % len(field.table) if field.select else 0
                numbers.append(field.table[selection][code])
            else:
                negative = field.signed and code >> (field.bits - 1)
                numbers.append(ldexp(code - (1 << field.bits if negative else 0), -field.fraction))
    scaled = [ldexp(number, exponent) for number, exponent in zip(numbers, exponents or (0,) * len(numbers), strict=True)]
    return [int(raw) for raw in fixed.from_float(scaled)]


@settings(max_examples=60)
@given(packings(), st.data())
def test_bytes_become_the_raw_integers_of_the_definition(packing: Packing, data: st.DataObject) -> None:
    fixed = data.draw(
        st.sampled_from(["ap_fixed<16,6,AP_RND_CONV,AP_SAT>", "ap_ufixed<9,7>", "ap_fixed<24,4,AP_RND,AP_SAT_SYM>"])
    )
    exponents = tuple(data.draw(st.lists(st.integers(-3, 3), min_size=packing.size, max_size=packing.size)))
    spec = TensorSpec("x", (packing.row_bytes,), FixedPoint.parse(fixed), "UINT8", exponents, packing=packing)
    rows = np.random.default_rng(packing.row_bytes).integers(0, 256, (5, packing.row_bytes), dtype=np.uint8)
    raw = spec.to_raw(rows)
    assert raw.tolist() == [slowly(packing, row.tobytes(), exponents, spec.fixed) for row in rows]
    assert TensorSpec.from_json(spec.to_json()) == spec
    # what each converter of the kernel takes
    at = 0
    for part in converters(packing, exponents):
        codes = packing.unpack(rows)[part.field.name]
        first = (
            part.first_bit - dict(zip(packing.by_name, packing.first_bits, strict=True))[part.field.name]
        ) // part.field.bits
        mine = codes[:, first : first + part.codes]
        if not part.is_number:
            selected = packing.unpack(rows)["selecting"] % max(1, len(part.field.table)) if part.field.select else 0
            got = part.raw_table(spec.fixed)[(selected << part.field.code_bits) + mine].reshape(len(rows), -1)
        else:
            got = spec.fixed.from_float(np.ldexp(mine.astype(np.float64), -part.fraction))
        assert np.array_equal(got, raw[:, at : at + part.elements])
        at += part.elements
    assert at == packing.size


@settings(max_examples=40)
@given(packings(), st.integers(0, 9))
def test_the_nearest_codes_of_a_rows_numbers_have_the_same_numbers(packing: Packing, seed: int) -> None:
    rows = np.random.default_rng(seed).integers(0, 256, (4, packing.row_bytes), dtype=np.uint8)
    numbers = packing.numbers(rows)
    again = packing.nearest(numbers)
    everything_has_a_place = all(f.first > 0 or f.one_hot < 1 << f.bits for f in packing.fields if f.one_hot)
    assert everything_has_a_place is False or np.array_equal(packing.numbers(again), numbers)
    assert np.array_equal(packing.pack(packing.unpack(rows))[:, :-1], rows[:, :-1])  # the last byte has unused bits


def test_the_example_of_the_documentation_has_these_bytes() -> None:
    packing = Packing((Field("ieta", 6, signed=True), Field("iphi", 7), Field("depth", 3, one_hot=7, first=1)))
    codes = {"ieta": np.array([[-3]]), "iphi": np.array([[100]]), "depth": np.array([[2]])}
    assert packing.pack(codes).tolist() == [[0b00111101, 0b01011001]]
    assert packing.numbers(packing.pack(codes)).tolist() == [[-3, 100, 0, 1, 0, 0, 0, 0, 0]]
    codes["depth"] = np.array([[0]])
    assert packing.numbers(packing.pack(codes))[:, 2:].tolist() == [[0] * 7]


def test_a_table_is_searched_for_the_nearest_number() -> None:
    packing = Packing((Field("gain", 1), Field("adc", 2, 3, table=TABLE, select="gain")))
    nearest = packing.nearest([[0, 0.4, 3.1, 99], [1, 7.2, -9, 7.6]])
    assert packing.unpack(nearest)["adc"].tolist() == [[0, 3, 3], [1, 3, 0]]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ([Field("a", 3), Field("a", 3)], "a name appears twice"),
        ([Field("adc", 2, table=TABLE, select="gain")], "field 'adc': select is 'gain', expected one of the fields adc"),
        ([Field("adc", 2, table=TABLE, select="adc")], "fields adc -> adc: each selects the next, expected no loop"),
        (
            [Field("a", 2, table=TABLE, select="b"), Field("b", 2, table=TABLE, select="a")],
            "fields a -> b -> a: each selects the next, expected no loop",
        ),
        (
            [Field("g", 2, 3), Field("adc", 2, table=TABLE, select="g")],
            "select is 'g' with 3 codes of 2 bits, expected one code of 1 bits or more for 2 selections",
        ),
        ([Field("spare", 3, is_input=False)], "the fields become 0 elements"),
        ([], "a row of 0 fields, expected 1 to 256"),
    ],
)
def test_fields_that_contradict_each_other_are_refused(fields: list[Field], message: str) -> None:
    with pytest.raises(PackingError, match=message):
        Packing(tuple(fields))


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ({"bits": 17}, "field 'x': bits is 17, expected 1 to 16"),
        ({"bits": 3, "count": 1 << 40}, "count is 1099511627776, expected 1 to 4194304"),
        ({"bits": 2, "table": [[1, 2, 3]]}, "a table of 3 numbers, expected 4, one for each code of 2 bits"),
        ({"bits": 1, "table": [[1, 2]] * 3, "select": "g"}, "a table of 3 selections, expected a power of two"),
        ({"bits": 2, "table": [[1, 2, 3, float("nan")]]}, "not finite"),
        ({"bits": 2, "table": [[1, 2, 3, 4]], "select": "g"}, "a table of 1 selections and select g"),
        ({"bits": 12, "table": [[0] * 4096] * 8, "select": "g"}, "a table of 32768 numbers, expected at most 16384"),
        ({"bits": 2, "table": [[1, 2, 3, 4]], "one_hot": 2}, "both table and one_hot"),
        ({"bits": 2, "one_hot": 2, "signed": True}, "signed belongs to a field that is a number"),
        ({"bits": 13, "one_hot": 2}, "one_hot of 13 bits, expected at most 12"),
        ({"bits": 3, "one_hot": 2000}, "one_hot is 2000, expected 0 to 256"),
        ({"bits": 3, "first": 1}, "first without one_hot"),
        ({"bits": "3"}, "bits is '3', expected an integer"),
        ({"bits": 3, "signed": True, "input": False}, "is not an input of the network"),
    ],
)
def test_a_field_of_a_file_is_checked(field: dict[str, Any], message: str) -> None:
    with pytest.raises(PackingError, match=message):
        Field.from_json({"name": "x", **field})


def test_a_tensor_is_as_long_as_its_fields() -> None:
    packing, fixed = Packing((Field("x", 12, 3),)), FixedPoint(8, 4)
    with pytest.raises(SpecMismatchError, match=r"UINT8 of shape \[4\] is 4 bytes, the fields have 5"):
        TensorSpec("x", (4,), fixed, "UINT8", packing=packing)
    with pytest.raises(SpecMismatchError, match="packed rows travel as FP32, expected UINT8 or UINT16"):
        TensorSpec("x", (5,), fixed, packing=packing)
    wide = Packing((Field("x", 12, one_hot=200),))
    with pytest.raises(PackingError, match=r"a table of 6553600 bits, expected at most 524288"):
        TensorSpec("x", (2,), fixed, "UINT8", packing=wide)
    spec = TensorSpec("x", (5,), fixed, "UINT8", (1,) * 3, packing=packing)
    assert (spec.size, spec.wire_size, spec.row_bytes) == (3, 5, 5)
