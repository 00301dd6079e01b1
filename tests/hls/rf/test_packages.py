# SPDX-License-Identifier: Apache-2.0
"""The modes' numbers are in one table in Python, from which the RTL's packages are generated."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hypersonic.hls.core import AXIS_RTL, RF_RTL
from hypersonic.hls.fixed import OVERFLOW_CODES, ROUNDING_CODES, Overflow, Rounding
from hypersonic.hls.rf import packages
from hypersonic.hls.rf.modes import MapMode, MergeOp, PoolOp

ROOT = Path(__file__).resolve().parents[3]
RTL = [file for folder in (AXIS_RTL, RF_RTL, ROOT / "firmware" / "rtl") for file in sorted(folder.glob("*.sv"))]


@pytest.mark.parametrize("file", packages.products(), ids=lambda file: file.name)
def test_the_constants_are_those_of_the_tables(file: Path) -> None:
    assert file.read_text() == packages.products()[file], f"{file} is stale: python -m hypersonic.hls.rf.packages"


def test_the_packages_have_every_mode() -> None:
    texts = {file.name: text for file, text in packages.products().items()}
    for mode, code in (*ROUNDING_CODES.items(), *OVERFLOW_CODES.items()):
        assert re.search(rf"^    {mode.removeprefix('AP_')} = {code},?$", texts["ap_fixed_pkg.sv"], re.MULTILINE)
    for kind in (MapMode, MergeOp, PoolOp):
        for member in kind:
            name = packages.constant("OP", member).removeprefix("rf_pkg::")
            assert re.search(rf"^    {name} = {member.value},?$", texts["rf_pkg.sv"], re.MULTILINE)


@pytest.mark.parametrize("file", RTL, ids=lambda file: file.stem)
def test_no_module_compares_a_mode_with_a_number(file: Path) -> None:
    assert re.findall(r"\b(?:\w*ROUNDING|\w*OVERFLOW|MODE|OP) (?:==|!=|<|>|<=|>=) \d", file.read_text()) == []


@pytest.mark.parametrize(
    ("parameter", "value", "text"),
    [
        ("NORM_ROUNDING", 2, "ap_fixed_pkg::RND_CONV"),
        ("OVERFLOW", 3, "ap_fixed_pkg::SAT_SYM"),
        ("MODE", MapMode.AFFINE, "rf_pkg::MAP_AFFINE"),
        ("OP", MergeOp.ADD, "rf_pkg::ADD"),
        ("OP", PoolOp.MAX, "rf_pkg::POOL_MAX"),
        ("LANES", 3, "3"),
    ],
)
def test_a_mode_is_written_by_its_name(parameter: str, value: int, text: str) -> None:
    assert packages.constant(parameter, value) == text


def test_every_mode_has_a_number_and_the_numbers_leave_no_gap() -> None:
    for modes, codes in ((Rounding, ROUNDING_CODES), (Overflow, OVERFLOW_CODES)):
        assert codes.keys() == set(modes)
        assert sorted(codes.values()) == list(range(len(modes)))


def test_a_package_without_its_marks_is_named() -> None:
    texts = packages.products()
    broken = {file: text.replace("end of the modes", "") if file.name == "rf_pkg.sv" else text for file, text in texts.items()}
    with pytest.raises(ValueError, match=r"^rf_pkg\.sv: expected one block from"):
        packages.products(broken)
