# SPDX-License-Identifier: Apache-2.0
"""The numbers of ap_fixed's modes are in one table, from which the RTL's constants are generated."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hypersonic.firmware.kernel import fixed_modes
from hypersonic.hls.fixed import OVERFLOW_CODES, ROUNDING_CODES, Overflow, Rounding

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("file", [file.relative_to(ROOT) for file in fixed_modes.products(ROOT)], ids=str)
def test_the_constants_are_those_of_the_table(file: Path) -> None:
    text = (ROOT / file).read_text()
    assert text == fixed_modes.products(ROOT)[ROOT / file], f"{file} is stale: python -m hypersonic.firmware.kernel.fixed_modes"
    for mode, code in (*ROUNDING_CODES.items(), *OVERFLOW_CODES.items()):
        assert f"  localparam int {mode.removeprefix('AP_')} = {code};\n" in text
    assert not re.search(r"(ROUNDING|OVERFLOW) (==|!=|<|>|<=|>=) \d", text), "a mode by its number"


def test_every_mode_has_a_number_and_the_numbers_leave_no_gap() -> None:
    for modes, codes in ((Rounding, ROUNDING_CODES), (Overflow, OVERFLOW_CODES)):
        assert codes.keys() == set(modes)
        assert sorted(codes.values()) == list(range(len(modes)))


def test_a_module_without_its_marks_is_named(tmp_path: Path) -> None:
    for file in fixed_modes.products(ROOT):
        (copy := tmp_path / file.relative_to(ROOT)).parent.mkdir(parents=True)
        copy.write_text(file.read_text().replace("end of the modes", "") if "rf_cast" in file.name else file.read_text())
    with pytest.raises(ValueError, match=r"rf_cast\.sv: expected one block from"):
        fixed_modes.products(tmp_path)
