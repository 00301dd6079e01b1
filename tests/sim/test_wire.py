# SPDX-License-Identifier: Apache-2.0
"""The C++ shell's float conversion equals TensorSpec's, bit for bit, for every type, every rounding, every float there is."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from hypersonic.hls import verilator
from hypersonic.hls.cache import cached
from hypersonic.hls.fixed import OVERFLOW_CODES, ROUNDING_CODES, FixedPoint, Overflow, Rounding
from hypersonic.hls.spec import DATATYPES, Datatype, TensorSpec
from hypersonic.sim.card.library import EMU

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


def packed(fixed: FixedPoint) -> list[int]:
    rounding, overflow = ROUNDING_CODES[fixed.rounding], OVERFLOW_CODES[fixed.overflow]
    return [fixed.width, fixed.fraction, fixed.signed, rounding, overflow]


def call(function: object, spec: TensorSpec, values: NDArray[np.generic], result: NDArray[np.generic]) -> None:
    element = spec.element
    kind = np.array(packed(spec.fixed), np.int32)
    integer = spec.integer if element.is_integer else FixedPoint(1, 1)
    form = np.array([element.bytes, element.exponent_bits, *packed(integer)], np.int32)
    pointers = [a.ctypes.data_as(ctypes.c_void_p) for a in (kind, form, values, result)]
    count = ctypes.c_size_t(values.nbytes // element.bytes if values.dtype == np.uint8 else values.size)
    function(*pointers[:2], ctypes.c_int32(int(spec.exponents[0])), *pointers[2:], count)  # type: ignore[operator] # a ctypes function, typed as object


def floats(spec: TensorSpec, draw: np.random.Generator) -> NDArray[np.float32]:
    """Any float32, near each border of the type and each tie."""
    fixed, exponent = spec.fixed, int(spec.exponents[0])
    anything = draw.integers(0, 1 << 32, 300, dtype=np.uint32).view(np.float32)
    near = np.ldexp(draw.integers(-(1 << 12), 1 << 12, 500) / 8, -fixed.fraction - exponent).astype(np.float32)
    around = np.add.outer([-1.0, -0.5, 0.0, 0.5, 1.0], [float(fixed.min_raw), float(fixed.max_raw)])
    ends = np.ldexp(around, -fixed.fraction - exponent).astype(np.float32)
    return np.concatenate([SPECIAL.view(np.float32), anything, near, ends.ravel()])


def words(spec: TensorSpec, draw: np.random.Generator) -> NDArray[np.uint8]:
    """Bytes of elements: any pattern, and floats worth looking at."""
    patterns = draw.integers(0, 256, 400 * spec.element.bytes, dtype=np.uint8)
    return patterns if spec.element.is_integer else np.concatenate([patterns, spec.encode(floats(spec, draw))])


@st.composite
def specs(draw: st.DrawFn) -> TensorSpec:
    """Any type that may travel as any datatype."""
    datatype = draw(st.sampled_from(list(DATATYPES)))
    fixed, element = draw(types), DATATYPES[datatype]
    if not element.is_integer:
        return TensorSpec("x", (1,), fixed, datatype, scale_exponents=(draw(exponents),))
    fixed = replace(fixed, width=min(fixed.width, 53), signed=element.signed)
    wire = replace(draw(types), width=element.bits, signed=element.signed)
    return TensorSpec("x", (1,), fixed, datatype, wire=draw(st.sampled_from([None, wire])))


@given(spec=specs(), seed=st.integers(0, 1 << 32))
def test_every_element_becomes_the_integer_tensorspec_makes_of_it(probe: ctypes.CDLL, spec: TensorSpec, seed: int) -> None:
    with np.errstate(all="ignore"):
        data = words(spec, np.random.default_rng(seed))
        raw = np.zeros(data.size // spec.element.bytes, np.int64)
        call(probe.to_raw, spec, data, raw)
        np.testing.assert_array_equal(raw, spec.to_raw(spec.decode(data))[:, 0])


@given(spec=specs(), seed=st.integers(0, 1 << 32))
def test_every_integer_becomes_the_nearest_element(probe: ctypes.CDLL, spec: TensorSpec, seed: int) -> None:
    draw, fixed = np.random.default_rng(seed), spec.fixed
    raw = np.concatenate([[fixed.min_raw, fixed.max_raw, 0], draw.integers(fixed.min_raw, fixed.max_raw, 200, endpoint=True)])
    y = np.zeros(raw.size * spec.element.bytes, np.uint8)
    call(probe.from_raw, spec, raw, y)
    np.testing.assert_array_equal(y, spec.encode(spec.from_raw(raw[:, None])))
    if not spec.element.is_integer:
        exponent = -fixed.fraction - int(spec.exponents[0])
        expected = [nearest(int(value), exponent, spec.element) for value in raw]
        np.testing.assert_array_equal(y.view(f"<u{spec.element.bytes}"), expected)


def nearest(value: int, exponent: int, element: Datatype) -> int:
    """The bits of value * 2**exponent, ties to even, by exact fractions."""
    mantissa_bits, bias = element.bits - 1 - element.exponent_bits, 2 ** (element.exponent_bits - 1) - 1
    least = 1 - bias - mantissa_bits
    ulp = max(abs(value).bit_length() + exponent - mantissa_bits - 1, least)
    mantissa = round(abs(value) * Fraction(2) ** (exponent - ulp))  # Python rounds a Fraction half to even
    word = mantissa + (ulp - least << mantissa_bits) if mantissa else 0
    return min(word, (2 * bias + 1) << mantissa_bits) | (value < 0) << (element.bits - 1)
