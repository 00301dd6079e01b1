# SPDX-License-Identifier: Apache-2.0
"""The rows a conversion is judged on: an array for one input, a sequence of them for several."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hypersonic.hls.csim import rows as of_gate
from hypersonic.hls.fixed import FixedPoint
from hypersonic.hls.frontend.description import DescriptionError
from hypersonic.hls.frontend.gate import Gate
from hypersonic.hls.frontend.trained import ModelTensor
from hypersonic.hls.row import Row
from hypersonic.hls.spec import TensorSpec

X, Z = (TensorSpec(name, (size,), FixedPoint(8, 4)) for name, size in (("x", 3), ("z", 2)))


def one() -> NDArray[np.float64]:
    return np.ones((5, 3))


def two() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return np.ones((5, 3)), np.ones((5, 2))


def uneven() -> list[NDArray[np.float64]]:
    return [np.ones((5, 3)), np.ones((4, 2))]


def empty() -> NDArray[np.float64]:
    return np.ones((0, 3))


def scalar() -> float:
    return 1.0


def test_each_input_gets_its_rows_in_single_precision() -> None:
    assert [(rows.shape, rows.dtype) for rows in of_gate._call(f"{__name__}:one", Row((X,)))] == [
        ((5, 3), np.dtype(np.float32))
    ]
    assert [rows.shape for rows in of_gate._call(f"{__name__}:two", Row((X, Z)))] == [(5, 3), (5, 2)]


@pytest.mark.parametrize(
    ("rows", "inputs", "message"),
    [
        ("one", (X, Z), "gives 5 arrays, expected 2, one for each input"),
        ("one", (Z,), "gives shape (5, 3), expected (rows, 2)"),
        ("uneven", (X, Z), "gives shape (5, 3) and (4, 2), expected (rows, 3) and (rows, 2)"),
        ("empty", (X,), "gives shape (0, 3), expected (rows, 3)"),
        ("scalar", (X,), "gives shape (), expected (rows, 3)"),
        ("scalar", (X, Z), "gives no rows: TypeError"),
        ("missing", (X,), "gives no rows: AttributeError"),
    ],
)
def test_rows_of_another_form_are_refused_with_both_forms(rows: str, inputs: tuple[TensorSpec, ...], message: str) -> None:
    with pytest.raises(DescriptionError, match=re.escape(message)):
        of_gate._call(f"{__name__}:{rows}", Row(inputs))


def test_a_file_of_rows_has_numbers_in_the_wires_units_whatever_travels(tmp_path: Path) -> None:
    trained: Any = SimpleNamespace(inputs=[ModelTensor("input_1", "input_1", (3,))])
    np.save(tmp_path / "rows.npy", np.array([[0.5, -1.0, 3.0]]))
    whole = TensorSpec("x", (3,), FixedPoint(8, 4), "INT8")
    for tensor, expected in ((X, [[0.5, -1.0, 3.0]]), (whole, [[8, -16, 48]])):
        ((given, wire),), own = of_gate._rows_of_file(tmp_path / "rows.npy", Row((tensor,)), trained)
        assert own == []
        np.testing.assert_array_equal(given, [[0.5, -1.0, 3.0]])
        np.testing.assert_array_equal(wire, expected)
    with pytest.raises(DescriptionError, match=r"gate\.rows is '.*none\.npy', which cannot be read: No such file"):
        of_gate._rows_of_file(tmp_path / "none.npy", Row((X,)), trained)


def test_a_module_beside_the_model_gives_the_rows_unless_a_library_has_its_name(tmp_path: Path) -> None:
    for name in ("rows_beside_me", "random"):
        (tmp_path / f"{name}.py").write_text("import random\nimport numpy as np\ndef rows(): return np.ones((5, 3))\n")
    before = list(sys.path)
    with of_gate.modules_beside(tmp_path / "model.h5"):
        assert [rows.shape for rows in of_gate._call("rows_beside_me:rows", Row((X,)))] == [(5, 3)]
        with pytest.raises(
            DescriptionError, match=r"AttributeError: .* in a module beside the YAML that is not named like a library"
        ):
            of_gate._call("random:rows", Row((X,)))
    assert sys.path == before


@pytest.mark.parametrize(("vocabulary", "last"), [(3, 2), (8, 7), (100, 7)])
def test_random_rows_of_an_index_lie_in_its_table_and_its_type(vocabulary: int, last: int) -> None:
    (numbers, _), (_, index) = of_gate._random_rows(Row((X, Z)), [0, vocabulary])
    assert sorted(set(index.ravel().tolist())) == list(range(last + 1))
    assert numbers.min() < 0 < numbers.max()


@pytest.mark.parametrize("index", [-1, 3, 7.875])
def test_an_index_of_the_gates_rows_without_a_row_in_the_table_is_refused(index: float) -> None:
    given, rows = Gate("mine:rows", None), np.zeros((4, 5))
    rows[1, 3] = 2.5  # its whole part has one
    rows[2, 4] = index
    x_raw = Row((X, Z)).to_raw([rows[:, :3], rows[:, 3:]])
    message = rf"input 'z' of row 2 holds the index {index:g} in ap_fixed<8,4.*, expected 0 to 2"
    with pytest.raises(DescriptionError, match=message):
        of_gate._check_vocabularies(Row((X, Z)), given, x_raw, [0, 3])
