# SPDX-License-Identifier: Apache-2.0
"""Changes a copy of ap_types so that its numbers are counted (counted.h). No file of ap_types is kept in this repository.

- A type has a number, its tag: the last template parameter of ap_fixed, which is the count of saturated bits of AP_WRAP and
  nearly always 0, also carries `tag << TAG_SHIFT`. The lists of parameters stay as they are.
- ap_fixed_base and ap_int_base get a member, counted_note, which is 0 for a number that is what unwrapped arithmetic gives.
  Copies keep it, operators pass it on, and comparisons, slices, divisions and conversions read it.
- A conversion to a tagged type, or to one that cannot hold every number of the source, is counted.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from hypersonic.hls.errors import ConversionError

COUNTED = Path(__file__).with_name("counted.h")

#: bits of ap_fixed's last template parameter below the tag
TAG_SHIFT = 12

_NAMES = """\
  static constexpr int counted_tag = {tag}, counted_bits = {bits}, counted_integer = {integer};
  static constexpr bool counted_signed = _AP_S;
  static constexpr int counted_rounding = {rounding}, counted_mode = {mode};
  unsigned counted_note = 0;
  INLINE void counted_leaves() const {{
    if (counted_note) ::hypersonic_overflow::leave(counted_note);
  }}
"""
_FIXED = _NAMES.format(
    tag=f"(_AP_N >> {TAG_SHIFT})",
    bits=f"(_AP_N & {(1 << TAG_SHIFT) - 1})",
    integer="_AP_I",
    rounding="_AP_Q",
    mode="_AP_O",
)
_INTEGER = _NAMES.format(tag="0", bits="0", integer="_AP_W", rounding="-1", mode="AP_WRAP")

_COPY = r"Base::V = {0}.V; Base::counted_note = {0}.counted_note;"
_BOTH = "counted_leaves(); op2.counted_leaves();"
_COMBINED = "::hypersonic_overflow::combined(#Sym[0], {0}, {1})"
_ASSIGNED = "::hypersonic_overflow::assigned(*this, op)"
_COMPOUNDED = (
    r"    const double before = ::hypersonic_overflow::value_of(*this), other = ::hypersonic_overflow::value_of(op2);\\\n\g<0>"
    r"    counted_note = ::hypersonic_overflow::compounded(#Sym[0], *this, before, op2, other);\\\n"
)
_PRODUCT = "r.counted_note = ::hypersonic_overflow::combined('*', *this, op2);"
_SHIFTED = "if (counted_note) r.counted_note = ::hypersonic_overflow::scaled(counted_note, std::ldexp(1.0, -int(sh)));"
_INTEGER_COPY = r"Base::V = \1.V; const_cast<ap_int_base*>(this)->counted_note = \1.counted_note;"
_TRUNCATED = r"{ Base::counted_note = ::hypersonic_overflow::truncated(*this, op); }"

#: (file, pattern, replacement, how often the pattern occurs)
_CHANGES = (
    ("ap_common.h", r"#include <ap_decl\.h>", '#include <ap_decl.h>\n#include "hypersonic_overflow.h"', 1),
    # ap_fixed: the tag
    ("ap_fixed_base.h", r"  static const ap_o_mode omode = _AP_O;\n", r"\g<0>" + _FIXED.replace("\\", r"\\"), 1),
    ("ap_fixed_base.h", r"\b_AP_N (==|!=|>) ", r"counted_bits \1 ", 8),
    ("ap_fixed_base.h", r"_AP_W - _AP_N\b", "_AP_W - counted_bits", 4),
    ("ap_fixed_base.h", r"return _AP_N;", "return counted_bits;", 1),
    # copies of the same type
    ("ap_fixed.h", r"Base::V = op\.V;", _COPY.format("op"), 10),
    # conversions
    (
        "ap_fixed_base.h",
        r"    if \(!underflow && !overflow\) return;\n",
        r"\g<0>    ::hypersonic_overflow::adjusted = _AP_O != AP_WRAP && _AP_O != AP_WRAP_SM;\n",
        1,
    ),
    ("ap_fixed_base.h", r"    return \*this;\n  \} // operator=", rf"    counted_note = {_ASSIGNED};\n\g<0>", 1),
    (
        "ap_fixed_base.h",
        r"    report\(\);\n  \}\n(?=\n  // TODO more optimized implementation\.\n  INLINE ap_fixed_base\(float d\))",
        r"    counted_note = ::hypersonic_overflow::converted(*this, d);\n\g<0>",
        1,
    ),
    ("ap_fixed_base.h", r"    tmp\.V = op\.V;\n", r"\g<0>    tmp.counted_note = op.counted_note;\n", 2),
    # arithmetic
    ("ap_fixed_base.h", r"    r\.V \*= op2\.V;\n", rf"\g<0>    {_PRODUCT}\n", 1),
    ("ap_fixed_base.h", r"    ret\.V = lhs\.V Sym rhs\.V; ", rf"\g<0> ret.counted_note = {_COMBINED.format('lhs', 'rhs')};", 1),
    (
        "ap_fixed_base.h",
        r"    r\.V = -r\.V;\n",
        r"\g<0>    if (r.counted_note) r.counted_note = ::hypersonic_overflow::scaled(r.counted_note, -1);\n",
        2,
    ),
    (
        "ap_fixed_base.h",
        r"    r\.V = Base::V << sh;\n",
        r"\g<0>    r.counted_note = ::hypersonic_overflow::shifted(r, *this, sh);\n",
        1,
    ),
    (
        "ap_fixed_base.h",
        r"    r\.V = Base::V >> sh;\n",
        rf"\g<0>    {_SHIFTED}\n",
        1,
    ),
    # uses of a number
    ("ap_fixed_base.h", r"    typename RType<_AP_W2, _AP_I2, _AP_S2>::div_base r;\n", rf"\g<0>    {_BOTH}\n", 1),
    ("ap_fixed_base.h", r"    enum \{ _AP_F = _AP_W - _AP_I, F2 = _AP_W2 - _AP_I2 \}; ", rf"\g<0> {_BOTH}", 1),
    ("ap_fixed_base.h", r"_AP_S2, _AP_Q2, _AP_O2, _AP_N2>\(op2\)\.V;", "_AP_S2, _AP_Q2, AP_WRAP, 0>(op2).V;", 1),
    ("ap_fixed_base.h", r"_AP_S, _AP_Q, _AP_O, _AP_N>\(\*this\)\.V Sym", "_AP_S, _AP_Q, AP_WRAP, 0>(*this).V Sym", 1),
    ("ap_fixed_base.h", r"  INLINE (double to_double|float to_float)\(\) const \{\n", r"\g<0>    counted_leaves();\n", 2),
    ("ap_fixed_base.h", r"      bool Cnative = true\) const \{\n", r"\g<0>    counted_leaves();\n", 1),
    ("ap_fixed_base.h", r"operator bool\(\) const \{", r"\g<0> counted_leaves();", 1),
    ("ap_fixed_base.h", r"_AP_WARNING\((index >= _AP_W|\(Hi >= _AP_W\))", r"counted_leaves(); \g<0>", 8),
    # ap_int and ap_uint
    ("ap_int_base.h", r"  static const int width = _AP_W;\n", r"\g<0>" + _INTEGER, 1),
    ("ap_int_base.h", r"Base::V = (op2?)\.V;", _INTEGER_COPY, 11),
    (
        "ap_int_base.h",
        r"    Base::V Sym op2\.V; +\\\n(?=    return \*this; +\\\n  \}\n\n  /\* Arithmetic assign)",
        _COMPOUNDED,
        1,
    ),
    ("ap_int_base.h", r"    ret\.V = lhs\.V Sym rhs\.V; ", rf"\g<0> ret.counted_note = {_COMBINED.format('lhs', 'rhs')};", 1),
    ("ap_int_base.h", r"    ret\.V = op\.V Sym op2\.V; ", r"\g<0> op.counted_leaves(); op2.counted_leaves();", 1),
    ("ap_int_base.h", r"    r\.V = Base::V (<<|>>) op2\.to_uint\(\);\n", r"\g<0>    counted_leaves();\n", 2),
    ("ap_int_base.h", r"return \([\w ]+\)\(Base::V\);", r"counted_leaves(); \g<0>", 26),
    ("ap_int_base.h", r"return !?\(?Base::V (==|<|>=|>|<=) op2\.V\)?;", rf"{_BOTH} \g<0>", 6),
    ("ap_int_base.h", r"_AP_ERROR\(Hi >= _AP_W,|AP_ASSERT\(index >= 0,", r"counted_leaves(); \g<0>", 8),
    ("ap_int.h", r"\{ Base::V = (op2?)\.V; \}", r"{ Base::V = \1.V; Base::counted_note = \1.counted_note; }", 4),
    ("ap_int.h", r"Base::V = op2\.V;\n", r"Base::V = op2.V; Base::counted_note = op2.counted_note;\n", 6),
    ("ap_int.h", r"    Base::V = op\.V;\n", rf"\g<0>    Base::counted_note = {_ASSIGNED};\n", 10),
    ("ap_int.h", r"(Base\(\(ap_fixed_base<[\w, ]+>\)op\)) \{\s*\}", rf"\1 {_TRUNCATED}", 8),
    (
        "ap_int.h",
        r"(const ap_fixed_base<_AP_W2, _AP_I2, _AP_S2, _AP_Q2, _AP_O2, _AP_N2>& op\)\s+: Base\(op\)) \{\}",
        rf"\1 {_TRUNCATED}",
        2,
    ),
)  # fmt: skip


class UnknownTypesError(ConversionError):
    """A project's ap_types or C++ is not what hls4ml 1.3.0 writes, so its numbers cannot be counted."""


def patch(ap_types: Path) -> None:
    """Change a copy of ap_types in place. Raises UnknownTypesError if a text does not occur as often as in hls4ml 1.3.0's."""
    if not (ap_types / "ap_fixed_base.h").is_file():
        raise UnknownTypesError(f"{ap_types} has no ap_fixed_base.h; expected the ap_types that hls4ml writes beside a project")
    for name, pattern, instead, count in _CHANGES:
        file = ap_types / name
        text, found = re.subn(pattern, instead, file.read_text())
        if found != count:
            raise UnknownTypesError(
                f"{name} of ap_types has {pattern!r} {found} times, expected {count}: overflows are counted with the ap_types "
                "of hls4ml 1.3.0"
            )
        file.write_text(text)
    shutil.copy(COUNTED, ap_types / "hypersonic_overflow.h")
