# SPDX-License-Identifier: Apache-2.0
"""The rows a conversion is judged on: an array for one input, a sequence of them for several."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from hypersonic.hls import gate
from hypersonic.hls.description import DescriptionError
from hypersonic.hls.fixed import FixedPoint
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
    assert [(rows.shape, rows.dtype) for rows in gate._rows(f"{__name__}:one", Row((X,)))] == [((5, 3), np.float32)]
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


def test_a_module_beside_the_model_gives_the_rows_unless_a_library_has_its_name(tmp_path: Path) -> None:
    for name in ("rows_beside_me", "random"):
        (tmp_path / f"{name}.py").write_text("import random\nimport numpy as np\ndef rows(): return np.ones((5, 3))\n")
    before = list(sys.path)
    with gate.modules_beside(tmp_path / "model.h5"):
        assert [rows.shape for rows in gate._rows("rows_beside_me:rows", Row((X,)))] == [(5, 3)]
        with pytest.raises(DescriptionError, match=r"AttributeError: .* beside the YAML, whose name no library has"):
            gate._rows("random:rows", Row((X,)))
    assert sys.path == before
