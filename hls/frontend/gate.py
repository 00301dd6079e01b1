# SPDX-License-Identifier: Apache-2.0
"""The `gate` of a model's YAML: rows, and how far the answers to them may be from the trained model's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

from hypersonic.hls.frontend.checks import DescriptionError, mapping
from hypersonic.hls.frontend.rows import is_rows_file

_FIELDS = {"rows", "tolerance", "quantised_tolerance"}


@dataclass(frozen=True)
class Gate:
    """The comparison of csim with the trained model that a conversion has to pass.

    Attributes:
        rows: "module:function" that gives the rows, or a .npy or .npz file, from the YAML's directory.
        tolerance: the largest difference from the trained model's answer, in an output's units on the wire, on the rows as they
            are given: one number for all outputs, or one for each output by the model's name; None: an answer that is far is
            refused (hls/closeness/difference.py).
        accepts_far: a missing tolerance refuses nothing.
        quantised_tolerance: the same for rows that the inputs' types have quantised, before the wire rounds the answers; None:
            not judged.
    """

    rows: str
    tolerance: float | dict[str, float] | None
    accepts_far: bool = False
    quantised_tolerance: float | dict[str, float] | None = None

    def tolerance_of(self, output: str) -> float:
        """Return the tolerance of one output, in its units on the wire; infinity for none.

        Args:
            output: the model's name.
        """
        return _of(self.tolerance, output)

    def quantised_tolerance_of(self, output: str) -> float:
        """Return the quantised tolerance of one output, as tolerance_of."""
        return _of(self.quantised_tolerance, output)

    def check(self, outputs: Sequence[str]) -> None:
        """Raise DescriptionError unless tolerances by name are those of `outputs`, the model's names."""
        for key, value in (("tolerance", self.tolerance), ("quantised_tolerance", self.quantised_tolerance)):
            if isinstance(value, dict) and value.keys() != set(outputs):
                raise DescriptionError(f"gate.{key} names {', '.join(value)}, expected each of {', '.join(outputs)}")


def _of(tolerance: float | dict[str, float] | None, output: str) -> float:
    return tolerance[output] if isinstance(tolerance, dict) else inf if tolerance is None else tolerance


def read_gate(file: Path, value: dict[str, Any]) -> Gate | None:
    """Return the gate of a YAML's fields, None without one. Raises DescriptionError."""
    gate = mapping(f"{file}: gate", value.get("gate"), _FIELDS)
    if not gate:
        return None
    rows = str(gate.get("rows", ""))
    if not (":" in rows or is_rows_file(rows)):
        raise DescriptionError(f"{file}: gate is {gate}, expected rows: 'module:function' or a .npy or .npz file")
    accepts_far = gate.get("tolerance") == "none"
    tolerance = None if accepts_far else _tolerance(file, gate, "tolerance")
    return Gate(rows, tolerance, accepts_far, _tolerance(file, gate, "quantised_tolerance"))


def _tolerance(file: Path, gate: dict[str, Any], key: str) -> float | dict[str, float] | None:
    value = gate.get(key)
    if value is None:
        return None
    numbers: dict[Any, Any] = value if isinstance(value, dict) else {"": value}
    if not numbers or not all(
        isinstance(number, int | float) and not isinstance(number, bool) and 0 <= number < inf for number in numbers.values()
    ):
        none = ", or none" if key == "tolerance" else ""
        raise DescriptionError(
            f"{file}: gate.{key} is {value}, expected a number, 0 or more, or one for each output by name{none}"
        )
    tolerances = {str(name): float(number) for name, number in numbers.items()}
    return tolerances if isinstance(value, dict) else tolerances[""]
