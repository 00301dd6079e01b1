# SPDX-License-Identifier: Apache-2.0
"""The C++ shell's float conversion equals TensorSpec's, bit for bit, for every type, every rounding, every float there is."""

from __future__ import annotations

import ctypes
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from hypersonic.hls import verilator
from hypersonic.hls.cache import cached
from hypersonic.hls.fixed import FixedPoint, Overflow, Rounding
from hypersonic.hls.spec import TensorSpec
from hypersonic.sim.library import EMU

SPECIAL = np.array(
    [0, 0x80000000, 1, 0x807FFFFF, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFF800001], np.uint32
)

types = st.builds(
    FixedPoint,
    st.integers(1, 62), st.integers(-40, 80), st.booleans(), st.sampled_from(list(Rounding)), st.sampled_from(list(Overflow)),
)  # fmt: skip
exponents = st.integers(-60, 60)


@pytest.fixture(scope="session")
def probe() -> ctypes.CDLL:
    source = Path(__file__).with_name("wire_probe.cpp")
    flags = ["-std=c++17", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", f"-I{EMU}"]

    def build(directory: Path) -> None:
        verilator.run(["g++", *flags, source, "-o", "probe.so"], directory)

    return ctypes.CDLL(str(cached("test_wire", [source, EMU / "wire.h"], build) / "probe.so"))


def packed(fixed: FixedPoint) -> NDArray[np.int32]:
    rounding, overflow = list(Rounding).index(fixed.rounding), list(Overflow).index(fixed.overflow)
    return np.array([fixed.width, fixed.fraction, fixed.signed, rounding, overflow], np.int32)


def call(function: object, fixed: FixedPoint, exponent: int, values: NDArray[np.generic], result: NDArray[np.generic]) -> None:
    pointers = (a.ctypes.data_as(ctypes.c_void_p) for a in (packed(fixed), values, result))
    kind, given_values, out = pointers
    function(kind, ctypes.c_int32(exponent), given_values, out, ctypes.c_size_t(values.size))  # type: ignore[operator]


@given(fixed=types, exponent=exponents, seed=st.integers(0, 1 << 32))
def test_every_float_becomes_the_integer_tensorspec_makes_of_it(
    probe: ctypes.CDLL, fixed: FixedPoint, exponent: int, seed: int
) -> None:
    draw = np.random.default_rng(seed)
    anything = draw.integers(0, 1 << 32, 500, dtype=np.uint32).view(np.float32)
    near = np.ldexp(draw.integers(-(1 << 12), 1 << 12, 500) / 8, -fixed.fraction - exponent).astype(np.float32)
    around = np.add.outer([-1.0, -0.5, 0.0, 0.5, 1.0], [float(fixed.min_raw), float(fixed.max_raw)])
    ends = np.ldexp(around, -fixed.fraction - exponent).astype(np.float32)
    x = np.concatenate([SPECIAL.view(np.float32), anything, near, ends.ravel()])
    raw = np.zeros(x.size, np.int64)
    call(probe.to_raw, fixed, exponent, x, raw)
    spec = TensorSpec("x", (1,), fixed, scale_exponents=(exponent,))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(raw, spec.to_raw(x[:, None])[:, 0])


@given(fixed=types, exponent=exponents, seed=st.integers(0, 1 << 32))
def test_every_integer_becomes_the_nearest_float(probe: ctypes.CDLL, fixed: FixedPoint, exponent: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    raw = np.concatenate([[fixed.min_raw, fixed.max_raw], draw.integers(fixed.min_raw, fixed.max_raw, 200, endpoint=True)])
    y = np.zeros(raw.size, np.float32)
    call(probe.from_raw, fixed, exponent, raw, y)
    np.testing.assert_array_equal(y.view(np.uint32), nearest(raw, -fixed.fraction - exponent).view(np.uint32))
    spec = TensorSpec("y", (1,), fixed, scale_exponents=(exponent,))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(y.view(np.uint32), spec.from_raw(raw[:, None])[:, 0].view(np.uint32))


def nearest(raw: NDArray[np.int64], exponent: int) -> NDArray[np.float32]:
    """raw * 2**exponent as float32, ties to even, by exact fractions."""
    return np.array([_nearest(int(value), exponent) for value in raw], np.float32)


def _nearest(value: int, exponent: int) -> float:
    if value == 0:
        return 0.0
    ulp = max(abs(value).bit_length() + exponent - 24, -149)
    mantissa = round(abs(value) * Fraction(2) ** (exponent - ulp))  # Python rounds a Fraction half to even
    magnitude = Fraction(mantissa) * Fraction(2) ** ulp
    return float(np.copysign(np.inf if magnitude >= Fraction(2) ** 128 else float(magnitude), value))
