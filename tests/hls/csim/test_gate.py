# SPDX-License-Identifier: Apache-2.0
"""The gate compares what the user sends and gets with the trained model's answers to the same rows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hypersonic.hls.closeness.comparison import Comparison, judged_of
from hypersonic.hls.closeness.difference import NUMBERS, Judged, Kind
from hypersonic.hls.csim.gate import FarError, compare, figures, refuse_differences
from hypersonic.hls.csim.rows import GivenRows
from hypersonic.hls.errors import ConversionError
from hypersonic.hls.fixed import FixedPoint, Overflow, Rounding
from hypersonic.hls.frontend.gate import Gate
from hypersonic.hls.row import Row
from hypersonic.hls.spec import TensorSpec

WIDE = FixedPoint(24, 12, rounding=Rounding.RND, overflow=Overflow.SAT)
PROJECT: Any = SimpleNamespace(name="m")
TRAINED: Any = SimpleNamespace(outputs=[SimpleNamespace(name="y")])
X = np.linspace(-7.0, 7.0, 1001)


def identity(x: NDArray[np.float64], fixed: FixedPoint, answer: TensorSpec | None = None, factor: float = 1.0) -> Comparison:
    """A network that answers its input, of the type `fixed`, times a factor. The trained model answers the input itself."""
    given = np.asarray(x, np.float64).reshape(-1, 1)
    row, out = Row((TensorSpec("x", (1,), fixed),)), Row((answer or TensorSpec("y", (1,), WIDE),))
    trained: Any = SimpleNamespace(
        inputs=[SimpleNamespace(name="x", shape=(1,))],
        outputs=[SimpleNamespace(name="y")],
        predict=lambda rows: [np.asarray(rows[0], np.float64)],
    )

    def computed(raw: NDArray[np.int64]) -> NDArray[np.int64]:
        return out.tensors[0].fixed.from_float(factor * fixed.to_float(raw))

    csim: Any = SimpleNamespace(project=SimpleNamespace(name="m", inputs=row, outputs=out), predict_raw=computed)
    return compare(csim, trained, GivenRows("rows.npy", (given,), row.to_raw([given])), [NUMBERS])


def refuse(found: Comparison, gate: Gate | None) -> None:
    refuse_differences(found, PROJECT, TRAINED, gate)


def test_a_narrow_input_is_in_the_total_difference_and_not_in_that_of_what_it_keeps() -> None:
    found = identity(X, FixedPoint(16, 2, overflow=Overflow.SAT))
    (output,) = found.outputs
    assert output.total.worst == pytest.approx(5.0, abs=1e-3)
    assert output.quantised.worst < 2**-11
    (loss,) = found.inputs
    assert loss.beyond == int((np.abs(X) > 2).sum())
    assert loss.text.startswith("input 'x', ap_fixed<16,2")
    assert loss.text.endswith("numbers lie beyond its type; they run from -7 to 7")
    assert "against the trained model 5; of that from the inputs' types and the wire 5" in found.lines()[0]
    with pytest.raises(FarError, match=r"far from the trained model on the 1,001 rows of rows\.npy: output 'y': the rms"):
        refuse(found, Gate("rows.npy", None))
    with pytest.raises(ConversionError, match=r"a difference of 5, of that from the inputs' types and the wire 5, tol"):
        refuse(found, Gate("rows.npy", 0.05))


def test_numbers_that_become_0_are_counted() -> None:
    (loss,) = identity(np.array([0.0, 0.1, 0.2, 1.0]), FixedPoint(4, 3, rounding=Rounding.TRN)).inputs
    assert (loss.zeroed, loss.beyond) == (2, 0)


@pytest.mark.parametrize(
    ("datatype", "step"), [("FP32", 0.0), ("FP16", 2.0**-9), ("BF16", 2.0**-6), ("INT8", 2.0**-4), ("INT32", 0.0)]
)
def test_answers_are_judged_as_the_wire_rounds_them(datatype: str, step: float) -> None:
    fixed = FixedPoint(20, 4, rounding=Rounding.RND, overflow=Overflow.SAT)
    (output,) = identity(X, fixed, TensorSpec("y", (1,), fixed, datatype)).outputs
    assert output.quantised.worst < 2**-15
    assert 0.9 * step / 2 <= output.total.worst <= max(2 * step, 2**-15)


def test_units_on_the_wire_scale_the_difference() -> None:
    found = identity(X, WIDE, TensorSpec("y", (1,), WIDE, scale_exponents=(-3,)), factor=1.5)
    assert found.outputs[0].total.worst == pytest.approx(8 * 3.5, rel=1e-3)


def test_what_is_close_and_what_is_tolerated_is_not_refused() -> None:
    refuse(identity(X, WIDE), Gate("rows.npy", None))
    refuse(identity(X, WIDE), None)
    far = identity(X, WIDE, factor=2.0)
    refuse(far, Gate("rows.npy", 8.0))
    refuse(far, Gate("rows.npy", None, accepts_far=True))
    refuse(far, None)
    with pytest.raises(ConversionError, match=r"row 0 of rows\.npy gives -14 in .* and -7 in .* keep it, quantised_tol"):
        refuse(far, Gate("rows.npy", 8.0, quantised_tolerance=1.0))


def test_what_was_accepted_is_in_the_report_and_random_rows_warn() -> None:
    far = identity(X, WIDE, factor=2.0)
    accepted = figures(far, PROJECT, Gate("rows.npy", None, accepts_far=True))
    assert accepted["accepted"][0].startswith("output 'y': the rms difference is 100 % of the answers' spread; the worst")
    assert accepted["warnings"] == []
    (warning,) = figures(far, PROJECT, None)["warnings"]
    assert warning.startswith("model 'm' is far from the trained model on 1,001 random rows: output 'y': the rms difference")
    assert figures(identity(X, WIDE), PROJECT, None)["warnings"] == []


def test_not_a_number_is_refused_whatever_the_tolerance() -> None:
    found = identity(np.array([np.nan, 1.0]), WIDE)
    with pytest.raises(ConversionError, match=r"row 0 of rows\.npy gives"):
        refuse(found, Gate("rows.npy", 1e9))


def test_a_comparison_remembers_what_its_answers_are() -> None:
    kept = {"y": {"judged": {"kind": "classes", "table_error": 0.0, "classes": 3}}}
    assert judged_of({"gate": {"outputs": kept}}, ["y", "z"]) == (Judged(Kind.CLASSES, classes=3), NUMBERS)
