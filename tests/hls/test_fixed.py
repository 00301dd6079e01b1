# SPDX-License-Identifier: Apache-2.0
"""FixedPoint against exact fractions, and against the ap_fixed headers that the golden C++ is compiled with."""

from __future__ import annotations

import subprocess
from fractions import Fraction
from importlib.util import find_spec
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hypersonic.hls.fixed import FixedPoint, Overflow, PrecisionError, Rounding
from hypersonic.hls.spec import TensorSpec
from tests.hls.precisions import exact_raw, fixed_points

finite = st.floats(allow_nan=False, allow_infinity=False, width=64)
near = st.builds(lambda whole, half: (whole + half / 4) * 2.0**-6, st.integers(-(2**20), 2**20), st.integers(0, 3))


@given(fixed_points(62), st.lists(finite | near, min_size=1, max_size=20))
@example(FixedPoint(8, 0), [1e308, -1e308])
@example(FixedPoint(8, 0, overflow=Overflow.SAT), [1e308, -1e308])
def test_from_float_is_exact_for_every_double(fixed: FixedPoint, numbers: list[float]) -> None:
    expected = [exact_raw(Fraction(number), fixed) for number in numbers]
    np.testing.assert_array_equal(fixed.from_float(numbers), expected)


@given(fixed_points(200), st.integers(-(2**210), 2**210), st.integers(-8, 70))
def test_a_cast_between_types_is_exact_for_every_integer(fixed: FixedPoint, raw: int, fraction: int) -> None:
    assert fixed.cast(raw, fraction) == exact_raw(Fraction(raw) / Fraction(2) ** fraction, fixed)


@pytest.mark.parametrize("width", [0, 63, 1000])
def test_arrays_and_tensors_of_a_type_that_int64_does_not_hold_are_refused(width: int) -> None:
    wide = FixedPoint(width, 6)
    for refused in (lambda: wide.from_float([0.5]), lambda: wide.to_float([1]), lambda: TensorSpec("x", (2,), wide)):
        with pytest.raises(PrecisionError, match=rf"ap_fixed<{width},6,.*>: width is {width}, expected 1 to 62"):
            refused()


@given(st.integers(1, 90), st.integers(-20, 100), st.booleans())
def test_a_type_is_made_by_its_fraction_too(width: int, fraction: int, signed: bool) -> None:
    fixed = FixedPoint.with_fraction(width, fraction, signed)
    assert (fixed, fixed.fraction) == (FixedPoint(width, width - fraction, signed), fraction)


@given(fixed_points())
def test_not_a_number_is_zero_and_infinities_saturate(fixed: FixedPoint) -> None:
    beyond = {
        Overflow.WRAP: (fixed.max_raw, fixed.min_raw),
        Overflow.SAT: (fixed.max_raw, fixed.min_raw),
        Overflow.SAT_ZERO: (0, 0),
        Overflow.SAT_SYM: (fixed.max_raw, -fixed.max_raw if fixed.signed else 0),
    }
    np.testing.assert_array_equal(fixed.from_float([np.nan, np.inf, -np.inf]), [0, *beyond[fixed.overflow]])


@given(fixed_points(53), st.integers(-(2**52), 2**52))
def test_a_raw_value_survives_the_way_to_float_and_back(fixed: FixedPoint, number: int) -> None:
    raw = exact_raw(Fraction(number), fixed)
    np.testing.assert_array_equal(fixed.from_float(fixed.to_float(raw)), raw)


@given(fixed_points(62))
def test_the_written_type_reads_back(fixed: FixedPoint) -> None:
    assert FixedPoint.parse(str(fixed)) == fixed


@pytest.mark.parametrize(
    "text",
    [
        "ap_fixed<16>",
        "fixed<16,6>",
        "ap_fixed<16,6,AP_RND_DOWN>",
        "ap_fixed<16,6,AP_RND,AP_WRAP_SM>",
        "ap_fixed<16,6,AP_RND,AP_WRAP,1>",
        "ap_fixed<63,6>",
        "ap_fixed<0,0>",
    ],
)
def test_a_type_nobody_computes_is_refused_with_its_text(text: str) -> None:
    with pytest.raises(PrecisionError, match=r"ap_u?fixed|precision"):
        FixedPoint.parse(text)


@pytest.mark.parametrize(
    "sizes",
    [[(8, 3), (5, 9)], pytest.param([(16, 6), (7, -2), (30, 12)], marks=pytest.mark.whole)],
    ids=["short", "all others"],
)
def test_the_ap_fixed_headers_agree(tmp_path: Path, sizes: list[tuple[int, int]]) -> None:
    """Doubles and other ap_fixed values assigned in real C++: every rounding and overflow mode, signed and not."""
    source = FixedPoint(24, 9)
    types = [
        FixedPoint(width, integer, signed, rounding, overflow)
        for (width, integer), signed, rounding, overflow in product(sizes, [True, False], Rounding, Overflow)
    ]
    rng = np.random.default_rng(5)
    raws = np.concatenate([rng.integers(source.min_raw, source.max_raw, 400), np.arange(-300, 300) * 2**9])
    printed = _run_cpp(_program(types, source, raws), tmp_path)
    answers = np.array([int(word) for word in printed.split()]).reshape(len(types), 2, len(raws))
    for fixed, (from_fixed, from_double) in zip(types, answers, strict=True):
        expected = [fixed.cast(int(raw), source.fraction) for raw in raws]
        np.testing.assert_array_equal(from_fixed, expected, err_msg=f"{fixed} from {source}")
        np.testing.assert_array_equal(from_double, fixed.from_float(source.to_float(raws)), err_msg=f"{fixed} from double")


def _program(types: list[FixedPoint], source: FixedPoint, raws: np.ndarray) -> str:
    numbers = ",".join(str(raw) for raw in raws)
    calls = "\n".join(f"    show<{fixed}>();" for fixed in types)
    return f"""
#include "ap_fixed.h"
#include <cstdio>
static const long raws[] = {{{numbers}}};
template <class T> void show() {{
    for (long raw : raws) {{ {source} x; x.V = raw; T y = x; std::printf("%ld ", (long)y.V); }}
    for (long raw : raws) {{ T y = std::ldexp((double)raw, -{source.fraction}); std::printf("%ld ", (long)y.V); }}
}}
int main() {{
{calls}
}}
"""


def _run_cpp(text: str, directory: Path) -> str:
    spec = find_spec("hls4ml")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    headers = Path(spec.submodule_search_locations[0]) / "templates/vivado/ap_types"
    (directory / "show.cpp").write_text(text)
    subprocess.run(["g++", "-std=c++17", "-O0", "-w", f"-I{headers}", "show.cpp", "-o", "show"], cwd=directory, check=True)
    return subprocess.run([directory / "show"], check=True, capture_output=True, text=True).stdout
