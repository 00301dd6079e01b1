# SPDX-License-Identifier: Apache-2.0
"""A wire format: FP64. A double has more bits than the words of the RTL and of sw_emu, so all of the conversion has to grow."""

from __future__ import annotations

from tests.house.lists.change import Change

_ONCE = "        wide = (np.abs(values) > 1 << 53) & (self.element.bits < 64)  # a double is rounded once\n"
_SPEC = [
    ('        Datatype("FP32", 32, 8),\n', '        Datatype("FP32", 32, 8),\n        Datatype("FP64", 64, 11),\n'),
    ("        values = np.where(np.abs(values) > 1 << 53, (", f"{_ONCE}        values = np.where(wide, ("),
]

_FLOAT_TO_FIXED = [
    ("EXPONENT_BITS > 8 ||", "EXPONENT_BITS > 11 ||"),
    ("MANTISSA_BITS > 23", "MANTISSA_BITS > 52"),
    ("expected 4 to 8 and 2 to 23", "expected 4 to 11 and 2 to 52"),
    ("wire signed [          10:0] biased", "wire signed [          13:0] biased"),
    ("11'(", "14'("),
]

_FIXED_TO_FLOAT = [
    *_FLOAT_TO_FIXED[:3],
    ("(WIDTH > 32) ? 64", "(WIDTH > 32 || MANTISSA_BITS > 28) ? 64"),
    ("[11:0]", "[14:0]"),
    ("11:0] hidden", "14:0] hidden"),
    ("12'", "15'"),
    ("MANTISSA_BITS+11", "MANTISSA_BITS+14"),
    ("MANTISSA_BITS + 12", "MANTISSA_BITS + 15"),
    ("MANTISSA_BITS+:12", "MANTISSA_BITS+:15"),
    ("wire [4:0] places", "wire [5:0] places"),
    ("5'd0 : down > 15'(FURTHEST) ? 5'(FURTHEST) : down[4:0]", "6'd0 : down > 15'(FURTHEST) ? 6'(FURTHEST) : down[5:0]"),
]

_ROUNDED = """\
    const double rounded = format.bytes == 8 ? std::ldexp(static_cast<double>(raw), -type.fraction - scale_exponent)
                                             : from_raw(raw, scale_exponent, type);
"""

_WIRE_H = [
    ("load_float(uint32_t word", "load_float(uint64_t word"),
    ("const uint32_t exponent = (word", "const uint64_t exponent = (word"),
    ("(1u << format.exponent_bits)", "(uint64_t{1} << format.exponent_bits)"),
    ("const uint32_t fraction = word & ((1u <<", "const uint64_t fraction = word & ((uint64_t{1} <<"),
    (
        "const uint32_t mantissa = exponent != 0 ? fraction | 1u <<",
        "const uint64_t mantissa = exponent != 0 ? fraction | uint64_t{1} <<",
    ),
    ("static_cast<int>(std::max(exponent, 1u))", "static_cast<int>(std::max(exponent, uint64_t{1}))"),
    ("inline uint32_t store_float", "inline uint64_t store_float"),
    ("const uint32_t sign = std::signbit(value) ? 1u <<", "const uint64_t sign = std::signbit(value) ? uint64_t{1} <<"),
    ("static_cast<uint32_t>(std::min(word, infinity))", "std::min(word, infinity)"),
    ("    uint32_t word = 0;\n    std::memcpy", "    uint64_t word = 0;\n    std::memcpy"),
    ("const int unused = 32 -", "const int unused = 64 -"),
    ("static_cast<int32_t>(word << unused)", "static_cast<int64_t>(word << unused)"),
    ("    const uint32_t word = format.exponent_bits", f"{_ROUNDED}    const uint64_t word = format.exponent_bits"),
    ("store_float(from_raw(raw, scale_exponent, type), format)", "store_float(rounded, format)"),
    ("static_cast<uint32_t>(to_raw(from_raw", "static_cast<uint64_t>(to_raw(from_raw"),
]

_ROW = "| `FP32` | 4 | IEEE 754 binary32, the default |\n"
_REFUSED = "| `datatype is FP64, expected one of FP32, FP16, ...` | use one of these; there is no 64-bit format |\n"
_PAIR = '        (("INT32", "BF16"), 18, 7),\n'
_BENCH = [('("FP32", "FP16", "BF16")', '("FP32", "FP16", "BF16", "FP64")')]

_CHECK = """\
from importlib import import_module

import numpy as np

from hypersonic.firmware.kernel.parts import RowPart, converter_parameters
from hypersonic.hls.fixed import FixedPoint
from hypersonic.hls.row import Row
from hypersonic.hls.spec import TensorSpec
from tests.support.rtl.bench_pipeline import differences, packed
from tests.support.rtl.stream_bench import StreamBench

spec = TensorSpec("x", (3,), FixedPoint(45, 12), "FP64", scale_exponents=(0, 3, -2))
row, rng = Row((spec,)), np.random.default_rng(1)
raw = rng.integers(spec.fixed.min_raw, spec.fixed.max_raw, (50, 3))
(numbers,) = row.from_raw(raw)
assert numbers.dtype == np.float64 and row.row_bytes == 24
np.testing.assert_array_equal(row.to_raw(row.decode(row.encode([numbers]))), raw)
given = converter_parameters(RowPart(spec, 3, 1), spec.fixed)
assert (given["WORD_WIDTH"], given["EXPONENT_BITS"]) == ("64", "11")

# the RTL, for some of the types of its benches
to, back = (import_module(f"sim.tb.{name}.test_{name}") for name in ("float_to_fixed", "fixed_to_float"))
types, others = to.SPECS["FP64"][::12], back.SPECS["FP64"][::9]
words = to.words(types)[::40]
raw = np.stack([back.raw_numbers(one, rng) for one in others], axis=1)
with np.errstate(invalid="ignore"):
    expected = np.stack([one.to_raw(one.decode(words.tobytes()))[:, 0] for one in types], axis=1)
with StreamBench([to.lanes(types)]) as bench:
    assert not differences(bench, to.lanes(types), words.tolist(), expected, to.widths(types))
expected = np.stack([one.encode(one.from_raw(raw[:, [i]])).view("<u8") for i, one in enumerate(others)], axis=1)
with StreamBench([back.lanes(others)]) as bench:
    given = packed(raw, [one.fixed.width for one in others])
    assert not differences(bench, back.lanes(others), given, expected, [64] * len(others))
"""

CHANGE = Change(
    section="A wire format",
    new={},
    edits={
        "hls/spec.py": _SPEC,
        "firmware/rtl/float_to_fixed.sv": _FLOAT_TO_FIXED,
        "firmware/rtl/fixed_to_float.sv": _FIXED_TO_FLOAT,
        "sim/emu/wire.h": _WIRE_H,
        "sim/tb/float_to_fixed/test_float_to_fixed.py": _BENCH,
        "sim/tb/fixed_to_float/test_fixed_to_float.py": _BENCH,
        "sim/tb/kernel/test_kernel_bulk.py": [(_PAIR, f'{_PAIR}        (("FP64", "FP64"), 3, 2),\n')],
        "docs/wire-formats.md": [(_ROW, _ROW + "| `FP64` | 8 | IEEE 754 binary64 |\n"), (_REFUSED, "")],
    },
    unneeded={
        "firmware/kernel/parts.py": "bits, exponent bits, binary point and sign describe it",
        "firmware/rtl/axis_wire_to_fixed.sv": "the same",
        "firmware/rtl/axis_fixed_to_wire.sv": "the same",
    },
    check=_CHECK,
    tests=("tests/sim/test_wire.py", "tests/house/test_docs.py::test_the_table_of_wire_formats_has_each_of_them"),
)
