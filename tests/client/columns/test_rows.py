# SPDX-License-Identifier: Apache-2.0
"""Columns to rows, against numpy's own stacking; filters; the errors of values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench import columns
from hypersonic.client.columns import (
    Chunk,
    Column,
    ColumnMapping,
    DataError,
    MappingError,
    infer_array,
    parse_mapping,
    read_mapping,
)
from hypersonic.client.columns.rows import make_rows

FLOAT = np.dtype(np.float32)
COUNTS = np.array([2, 0, 3])


def chunk(first: int = 0, counts: Any = COUNTS, **columns: Any) -> Chunk:
    return Chunk(first, len(counts), {f"H_{name}": Column(np.asarray(values), counts) for name, values in columns.items()})


def of(text: str) -> ColumnMapping:
    return parse_mapping(f"{{collection: H, {text}}}")


@settings(max_examples=50)
@given(
    rows=st.integers(0, 40),
    ones=st.lists(st.integers(-3, 9), min_size=1, max_size=7, unique=True),
    kept=st.booleans(),
    seed=st.integers(0, 100),
)
def test_rows_are_the_columns_side_by_side(rows: int, ones: list[int], kept: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b, c = rng.random(rows), rng.integers(-9, 9, rows).astype(np.int16), rng.random((rows, 2)).astype(np.float32)
    ok = rng.integers(0, 2, rows).astype(np.bool_)
    counts = np.array([rows, 0])
    text = f"features: [b, {{one_hot: b, values: {ones}}}, {{constant: 3}}, a, {{block: c, width: 2}}]"
    made = make_rows(of(text + (", filter: ok" if kept else "")), chunk(counts=counts, a=a, b=b, c=c, ok=ok), FLOAT, "f")
    hot = [b == one for one in ones]
    expected = np.column_stack([b, *hot, np.full(rows, 3), a, c]).astype(np.float32)
    assert made.array.tolist() == (expected[ok] if kept else expected).tolist()
    assert made.array.flags.c_contiguous
    assert (made.array.dtype, made.total) == (FLOAT, rows)


def test_a_block_is_a_view_only_if_all_of_it_is_sent() -> None:
    block = np.arange(20, dtype=np.float32).reshape(5, 4)
    whole = of("features: [{block: x, width: 4}], filter: ok")
    some = make_rows(whole, chunk(x=block, ok=[1, 0, 1, 1, 1]), FLOAT, "f")
    view = make_rows(whole, chunk(x=block, ok=[1, 1, 1, 1, 1]), FLOAT, "f")
    assert np.shares_memory(view.array, block)
    assert some.array.tolist() == block[[0, 2, 3, 4]].tolist()
    converted = make_rows(whole, chunk(x=block.astype(np.float64), ok=np.ones(5, np.int8)), FLOAT, "f")
    assert converted.array.tolist() == block.tolist()


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"a": [1, 2, np.nan, 4, 5], "b": [0] * 5}, r"f: event 12 has nan in H_a, and the model takes finite numbers only"),
        ({"a": [0] * 5, "b": [1, np.inf, 0, 0, 0]}, r"f: event 10 has inf in H_b"),
        ({"a": [0] * 5, "b": [1e300, 0, 0, 0, 0]}, r"f: event 10 has 1e\+300 in column H_b, which does not fit"),
        ({"a": ["x"] * 5, "b": [0] * 5}, r"f: column H_a is of type <U1, expected numbers"),
        ({"a": np.zeros((5, 2)), "b": [0] * 5}, r"f: column H_a has 2 numbers per row, and the mapping says one number"),
    ],
)
def test_values_that_cannot_be_sent_are_named(columns: dict[str, Any], words: str) -> None:
    with pytest.raises(DataError, match=words):
        make_rows(of("finite: true, features: [a, b]"), chunk(10, **columns), FLOAT, "f")


def test_a_filter_is_a_column_of_booleans_or_integers() -> None:
    columns = chunk(a=np.zeros(5), ok=[1.0, np.nan, 0.0, 1.0, 1.0])
    with pytest.raises(DataError, match=r"f: column H_ok is float64, expected booleans or integers for a filter"):
        make_rows(of("features: [a], filter: ok"), columns, FLOAT, "f")


def test_columns_of_a_collection_have_equal_counts() -> None:
    columns = {"H_a": Column(np.zeros(5), COUNTS), "H_b": Column(np.zeros(5), np.array([2, 1, 2]))}
    with pytest.raises(DataError, match=r"f: event 8 has 1 values in column H_b and 0 in H_a"):
        make_rows(of("features: [a, b]"), Chunk(7, 3, columns), FLOAT, "f")


def test_flat_and_jagged_columns_are_told_apart() -> None:
    flat = Chunk(0, 3, {"H_a": Column(np.zeros(3))})
    with pytest.raises(DataError, match=r"column H_a has one value per event, expected a list, .* collection H"):
        make_rows(of("features: [a]"), flat, FLOAT, "f")
    both = Chunk(0, 3, {"H_a": Column(np.zeros(5), COUNTS), "b": Column(np.zeros(3))})
    with pytest.raises(DataError, match=r"column b has one value per event, expected a list, as column H_a has"):
        make_rows(parse_mapping("features: [H_a, b]"), both, FLOAT, "f")
    with pytest.raises(DataError, match=r"column H_a has a list per event, expected one value, as column b has"):
        make_rows(parse_mapping("features: [b, H_a]"), both, FLOAT, "f")


def test_a_table_gives_the_gain_and_says_what_it_lacks(tmp_path: Path) -> None:
    (tmp_path / "g.csv").write_text("ieta,gain\n-1,0.5\n2,0.25\n")
    (tmp_path / "m.yaml").write_text("{collection: H, features: [{table: g.csv, keys: [ieta], value: gain}]}")
    mapping = read_mapping(tmp_path / "m.yaml")
    assert make_rows(mapping, chunk(ieta=[-1, 2, 2, -1, 2]), FLOAT, "f").array[:, 0].tolist() == [0.5, 0.25, 0.25, 0.5, 0.25]
    with pytest.raises(DataError, match=r"f: event 2 has a row of ieta 7, which the table .*g\.csv does not have"):
        make_rows(mapping, chunk(ieta=[-1, 2, 2, 7, 2]), FLOAT, "f")
    with pytest.raises(DataError, match=r"column H_ieta is float64, expected integers for a key"):
        make_rows(mapping, chunk(ieta=np.zeros(5)), FLOAT, "f")


def test_models_of_integers_get_integers_that_fit() -> None:
    int8 = np.dtype(np.int8)
    assert make_rows(of("features: [a]"), chunk(a=[1, -2, 3, 127, -128]), int8, "f").array[:, 0].tolist() == [
        1,
        -2,
        3,
        127,
        -128,
    ]
    with pytest.raises(DataError, match=r"f: event 2 has 128 in column H_a, which does not fit the model's int8"):
        make_rows(of("features: [a]"), chunk(a=[1, 2, 3, 128, 5]), int8, "f")
    with pytest.raises(DataError, match=r"f: column H_a is of type float64, and the model takes int8"):
        make_rows(of("features: [a]"), chunk(a=np.zeros(5)), int8, "f")


@pytest.mark.parametrize(
    ("dtype", "value", "words"),
    [
        (np.float32, 1e39, r"f: event 2 has 1e\+39 in column H_a, which does not fit the model's float32"),
        (np.float16, np.float32(7e4), r"f: event 2 has 70000.0 in column H_a, which does not fit the model's float16"),
        (np.float16, 70000, "f: event 2 has 70000 in column H_a, which does not fit the model's float16"),
    ],
)
def test_numbers_that_would_be_infinite_are_refused_and_infinity_is_sent(dtype: type, value: Any, words: str) -> None:
    a = np.ones(5, np.asarray(value).dtype)
    a[3] = value
    for text, values in (("features: [a]", a), ("features: [{block: a, width: 1}]", a[:, np.newaxis])):
        with pytest.raises(DataError, match=words if "block" not in text else "does not fit"):
            make_rows(of(text), chunk(a=values), np.dtype(dtype), "f")
    infinite = np.array([np.inf, -np.inf, np.nan, 0, 1])
    np.testing.assert_array_equal(make_rows(of("features: [a]"), chunk(a=infinite), np.dtype(dtype), "f").array[:, 0], infinite)


@pytest.mark.parametrize(
    ("dtype", "value"), [(np.int8, 1.5), (np.int8, 300), (np.uint8, -1), (np.int8, ".nan"), (np.float16, 7.0e4)]
)
def test_a_constant_that_the_models_type_does_not_hold_is_refused(dtype: type, value: Any) -> None:
    with pytest.raises(MappingError, match=r"the constant .* does not fit the model's"):
        make_rows(of(f"features: [{{constant: {value}}}, a]"), chunk(a=np.zeros(5, np.int8)), np.dtype(dtype), "f")


@pytest.mark.parametrize(("dtype", "value"), [(np.int8, "2.7"), (np.int8, "300"), (np.uint8, "-1"), (np.float32, "1e39")])
def test_a_number_of_a_table_that_the_models_type_does_not_hold_is_refused(tmp_path: Path, dtype: type, value: str) -> None:
    (tmp_path / "t.csv").write_text(f"k,v\n1,5\n2,{value}\n")
    (tmp_path / "m.yaml").write_text("{collection: H, features: [{table: t.csv, keys: [k], value: v}, a]}")
    mapping, zeros = read_mapping(tmp_path / "m.yaml"), np.zeros(5, np.bool_)
    with pytest.raises(DataError, match=r"event 2 has a row of k 2, which the table .* has as .*, and the model takes"):
        make_rows(mapping, chunk(a=zeros, k=[1, 1, 1, 2, 1]), np.dtype(dtype), "f")
    assert make_rows(mapping, chunk(a=zeros, k=[1] * 5), np.dtype(dtype), "f").array[:, 0].tolist() == [5] * 5


def test_rows_that_are_not_sent_get_the_fill_value(client: Any) -> None:
    arrays = {f"H_{name}": np.arange(5, dtype=np.float32) for name in "abcd"}
    arrays |= {"nH": COUNTS, "H_ok": np.array([True, False, True, True, False])}
    model = client.model("double")
    text = "filter: ok, features: [a, b, c, d]"
    column = infer_array(model, of(text), arrays)["H_y0"]
    np.testing.assert_array_equal(column.values, [0, np.nan, 4, 6, np.nan])
    assert column.counts is not None
    assert column.counts.tolist() == COUNTS.tolist()
    assert infer_array(model, of(f"{text}, fill: -1"), arrays)["H_y3"].values.tolist() == [0, -1, 4, 6, -1]


def test_masked_values_of_numpy_are_refused_with_their_event(client: Any) -> None:
    arrays: dict[str, Any] = {f"H_{name}": np.arange(5, dtype=np.float32) for name in "abcd"} | {"nH": COUNTS}
    mapping = of("features: [a, b, c, d]")
    arrays["H_b"] = np.ma.array(arrays["H_b"], mask=False)
    whole = infer_array(client.model("double"), mapping, arrays)
    assert whole["H_y1"].values.tolist() == [0, 2, 4, 6, 8]
    arrays["H_b"] = np.ma.array(arrays["H_b"], mask=[False, False, False, True, False])
    with pytest.raises(DataError, match="the arrays: event 2 has no value in column H_b"):
        infer_array(client.model("double"), mapping, arrays)
    arrays["nH"] = np.ma.array(COUNTS, mask=[False, True, False])
    with pytest.raises(DataError, match="the counter nH has to be one integer of 0 or more per event"):
        infer_array(client.model("double"), mapping, arrays)
    rows = np.ma.array(np.zeros((5, 4), np.float32), mask=np.eye(5, 4, -2, dtype=np.bool_))
    with pytest.raises(DataError, match="the arrays: event 2 has no value in column rows"):
        infer_array(client.model("double"), parse_mapping("{features: [{block: rows, width: 4}]}"), rows)


def test_two_columns_of_one_name_are_refused(client: Any) -> None:
    arrays = {name: np.zeros(3, np.float32) for name in "abcd"}
    with pytest.raises(MappingError, match="has no output 'e'; it has y"):
        infer_array(client.model("double"), parse_mapping("{features: [a, b, c, d], outputs: {e: z}}"), arrays)


def test_the_bench_program_prints_its_tables(capsys: pytest.CaptureFixture[str]) -> None:
    assert columns.main(["--rows", "100", "--events", "1", "--rounds", "2", "--kind", "npz"]) == 0
    printed = capsys.readouterr().out
    assert [line.split(" | ")[0] for line in printed.splitlines() if line.startswith(("| one block", "| npz"))] == [
        "| one block",
        "| npz",
    ]
