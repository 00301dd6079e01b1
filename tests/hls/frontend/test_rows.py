# SPDX-License-Identifier: Apache-2.0
"""Files of rows: what numpy users write is taken, anything else is refused in a sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hypersonic.hls.frontend.rows import RowsError, Wanted, is_rows_file, read_rows, rows_and_layout

ONE = (Wanted(("x", "served"), (2, 3)),)
TWO = (Wanted(("a",), (2,)), Wanted(("b", "served_b"), (1,)))


def written(directory: Path, array: Any = None, **arrays: Any) -> Path:
    file = directory / ("rows.npz" if arrays else "rows.npy")
    if arrays:
        np.savez(file, **arrays)
    else:
        np.save(file, array)
    return file


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64", "uint8", "bool"])
@pytest.mark.parametrize("shape", [(4, 2, 3), (4, 6)])
def test_rows_of_any_real_dtype_and_either_shape_are_float32_rows_of_elements(
    tmp_path: Path, dtype: str, shape: tuple[int, ...]
) -> None:
    numbers = np.arange(24).astype(dtype).reshape(shape)
    (rows,) = read_rows(written(tmp_path, numbers), ONE)
    assert (rows.dtype.name, rows.shape) == ("float32", (4, 6))
    np.testing.assert_array_equal(rows, numbers.reshape(4, 6).astype(np.float32))


def test_rows_of_images_may_have_the_channels_first_as_in_the_models_file_or_last_as_they_are_served(tmp_path: Path) -> None:
    wanted = (Wanted(("x",), (4, 3, 2), channels_first=True),)
    served = np.arange(48.0).reshape(2, 4, 3, 2)
    for layout, own in ((served, []), (np.moveaxis(served, -1, 1), ["x"]), (served.reshape(2, 24), [])):
        file = written(tmp_path, layout)
        np.testing.assert_array_equal(read_rows(file, wanted)[0], served.reshape(2, 24))
        assert rows_and_layout(file, wanted)[1] == own
    both = r"expected \(rows, 2, 4, 3\) as in the model's file, or \(rows, 4, 3, 2\) as it is served, with 1 or more rows"
    with pytest.raises(RowsError, match=both):
        read_rows(written(tmp_path, np.zeros((2, 3, 4, 2))), wanted)


def test_rows_whose_shape_does_not_tell_the_layout_have_that_of_the_models_file(tmp_path: Path) -> None:
    rows = np.arange(54.0).reshape(2, 3, 3, 3)
    (read,) = read_rows(written(tmp_path, rows), (Wanted(("x",), (3, 3, 3), channels_first=True),))
    np.testing.assert_array_equal(read, np.moveaxis(rows, 1, -1).reshape(2, 27))


def test_several_inputs_are_found_by_the_models_or_the_served_name(tmp_path: Path) -> None:
    a, b = read_rows(written(tmp_path, served_b=np.array([7, 8]), a=np.zeros((2, 2)), labels=np.zeros(2)), TWO)
    np.testing.assert_array_equal(b, [[7], [8]])
    assert a.shape == (2, 2)


def test_the_only_array_of_an_npz_is_the_only_inputs_whatever_its_name(tmp_path: Path) -> None:
    assert read_rows(written(tmp_path, arr_0=np.ones((1, 6))), ONE)[0].shape == (1, 6)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((6,)), r"rows of x have shape \(6,\), expected \(rows, 2, 3\) with 1 or more rows"),
        (np.zeros((4, 5)), r"have shape \(4, 5\), expected \(rows, 2, 3\)"),
        (np.zeros((0, 6)), r"have shape \(0, 6\)"),
        (np.zeros((4, 6), complex), "have dtype complex128, expected real numbers or integers"),
        (np.full((4, 6), "1"), "have dtype <U1"),
        (np.array([[0, 0, 0, 0, 0, 0], [0, 0, np.nan, 0, 0, 0]]), "row 1 of x holds nan at place 2, expected finite numbers"),
        (np.full((1, 6), 1e300), r"row 0 of x holds 1e\+300 at place 0, expected finite numbers within float32"),
        (np.array([[{}]]), "does not hold arrays of numbers that numpy can read"),
    ],
)
def test_rows_that_cannot_be_used_are_refused_with_what_is_expected(tmp_path: Path, array: Any, message: str) -> None:
    with pytest.raises(RowsError, match=message):
        read_rows(written(tmp_path, array), ONE)


def test_arrays_that_do_not_fit_several_inputs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RowsError, match=r"holds one array, the model has a, b: write a \.npz"):
        read_rows(written(tmp_path, np.zeros((4, 2))), TWO)
    with pytest.raises(RowsError, match="holds the arrays a, c, expected a, b"):
        read_rows(written(tmp_path, a=np.zeros((4, 2)), c=np.zeros(4)), TWO)
    with pytest.raises(RowsError, match="holds different numbers of rows: a 4, b 3"):
        read_rows(written(tmp_path, a=np.zeros((4, 2)), b=np.zeros(3)), TWO)


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("1,2\n")
    with pytest.raises(RowsError, match=r"rows\.csv is not a file of rows: expected \.npy"):
        read_rows(file, ONE)
    for name, content in (("a.npy", b""), ("a.npz", b"PK\x03\x04nothing"), ("b.npy", b"\x93NUMPY\x01\x00")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(RowsError, match="does not hold arrays of numbers"):
            read_rows(tmp_path / name, ONE)
    assert (is_rows_file("a.npz"), is_rows_file("a.b:c")) == (True, False)
