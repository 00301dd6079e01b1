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

from hypersonic.hls.csim import gate
from hypersonic.hls.fixed import FixedPoint
from hypersonic.hls.frontend.description import DescriptionError, Gate
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
    assert [(rows.shape, rows.dtype) for rows in gate._rows(f"{__name__}:one", Row((X,)))] == [((5, 3), np.dtype(np.float32))]
    assert [rows.shape for rows in gate._rows(f"{__name__}:two", Row((X, Z)))] == [(5, 3), (5, 2)]


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
        gate._rows(f"{__name__}:{rows}", Row(inputs))


def test_a_file_of_rows_has_numbers_in_the_wires_units_whatever_travels(tmp_path: Path) -> None:
    trained: Any = SimpleNamespace(inputs=[SimpleNamespace(name="input_1", shape=(3,))])
    np.save(tmp_path / "rows.npy", np.array([[0.5, -1.0, 3.0]]))
    whole = TensorSpec("x", (3,), FixedPoint(8, 4), "INT8")
    for tensor, expected in ((X, [[0.5, -1.0, 3.0]]), (whole, [[8, -16, 48]])):
        (rows,) = gate._given_rows("rows.npy", Row((tensor,)), trained, tmp_path)
        np.testing.assert_array_equal(rows, expected)
    with pytest.raises(DescriptionError, match=r"gate\.rows is '.*none\.npy', which cannot be read: No such file"):
        gate._given_rows("none.npy", Row((X,)), trained, tmp_path)


def test_a_module_beside_the_model_gives_the_rows_unless_a_library_has_its_name(tmp_path: Path) -> None:
    for name in ("rows_beside_me", "random"):
        (tmp_path / f"{name}.py").write_text("import random\nimport numpy as np\ndef rows(): return np.ones((5, 3))\n")
    before = list(sys.path)
    with gate.modules_beside(tmp_path / "model.h5"):
        assert [rows.shape for rows in gate._rows("rows_beside_me:rows", Row((X,)))] == [(5, 3)]
        with pytest.raises(
            DescriptionError, match=r"AttributeError: .* in a module beside the YAML that is not named like a library"
        ):
            gate._rows("random:rows", Row((X,)))
    assert sys.path == before


@pytest.mark.parametrize(("vocabulary", "last"), [(3, 2), (8, 7), (100, 7)])
def test_random_rows_of_an_index_lie_in_its_table_and_its_type(vocabulary: int, last: int) -> None:
    numbers, index = gate._random_rows(Row((X, Z)), [0, vocabulary])
    assert sorted(set(index.ravel().tolist())) == list(range(last + 1))
    assert numbers.min() < 0 < numbers.max()


@pytest.mark.parametrize("index", [-1, 3, 7.875])
def test_an_index_of_the_gates_rows_without_a_row_in_the_table_is_refused(index: float) -> None:
    project, given, rows = SimpleNamespace(inputs=Row((X, Z))), SimpleNamespace(rows="mine:rows"), np.zeros((4, 5))
    rows[1, 3] = 2.5  # its whole part has one
    rows[2, 4] = index
    x_raw = Row((X, Z)).to_raw([rows[:, :3], rows[:, 3:]])
    message = rf"input 'z' of row 2 holds the index {index:g} in ap_fixed<8,4.*, expected 0 to 2"
    with pytest.raises(DescriptionError, match=message):
        gate._check_vocabularies(project, given, x_raw, [0, 3])  # type: ignore[arg-type] # a project of the attributes that are read


def compared(got: list[float], wanted: list[float], tolerance: float | None = None) -> dict[str, Any]:
    """The figures of a model of one output that answers `got` to rows that the framework answers `wanted`."""
    fixed = FixedPoint(16, 8)
    row, out = Row((X,)), Row((TensorSpec("y", (1,), fixed),))

    def answers(x: Any) -> Any:
        return np.resize(fixed.from_float(np.array(got)), (len(x), 1))

    trained = SimpleNamespace(
        inputs=[SimpleNamespace(name="x", shape=(3,))],
        outputs=[SimpleNamespace(name="y")],
        predict=lambda x: [np.resize(np.array(wanted), (len(x[0]), 1))],
    )
    project = SimpleNamespace(name="m", inputs=row, outputs=out)
    judged = Gate(f"{__name__}:one", tolerance) if tolerance else None
    return gate.compare(SimpleNamespace(project=project, predict_raw=answers), trained, judged, [0])  # type: ignore[arg-type] # a csim of the attributes that are read


def test_without_a_tolerance_a_difference_of_the_answers_size_is_a_warning() -> None:
    (warning,) = compared([0.0, 1.0], [1.0, 0.5])["warnings"]
    assert warning.startswith("output 'y' of model 'm' is not what the trained model answers: on 1,000 random rows the worst")
    assert "difference is 1, and the trained model's answers run from 0.5 to 1." in warning
    assert len(compared([3.0, 3.0], [6.0, 6.0])["warnings"]) == 1
    assert len(compared([0.0], [float("nan")])["warnings"]) == 1


def test_small_differences_rounding_and_a_tolerance_that_is_met_are_no_warning() -> None:
    assert compared([0.0, 1.0], [0.25, 1.0])["warnings"] == []
    assert compared([0.0, 0.0], [0.0, 2.0**-9])["warnings"] == []  # less than a step of ap_fixed<16,8>
    assert compared([0.0, 0.0], [0.0, 0.0])["warnings"] == []
    assert compared([0.0, 1.0], [1.0, 0.5], tolerance=2.0)["warnings"] == []
