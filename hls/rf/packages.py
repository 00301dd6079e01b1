# SPDX-License-Identifier: Apache-2.0
"""The names of modes in RTL: the enums of ap_fixed_pkg.sv, from hls/fixed.py, and of rf_pkg.sv, from hls/rf/modes.py.

`python -m hypersonic.hls.rf.packages` rewrites the block between two marker lines in each package; a test checks that the
blocks are current.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import IntEnum
from pathlib import Path

from hypersonic.hls.core import AXIS_RTL, RF_RTL
from hypersonic.hls.fixed import OVERFLOW_CODES, ROUNDING_CODES, rtl_name
from hypersonic.hls.rf.modes import MapMode, MergeOp, PoolOp
from hypersonic.hls.rf.stage import Value

#: enum -> its type in rf_pkg.sv, and what its names begin with there
_MODES: dict[type[IntEnum], tuple[str, str]] = {
    MapMode: ("map_t", "MAP_"),
    MergeOp: ("merge_t", ""),
    PoolOp: ("pool_t", "POOL_"),
}

#: the end of a parameter's name -> value -> constant, for the modes of ap_fixed
_FIXED = {
    "ROUNDING": {code: rtl_name(mode) for mode, code in ROUNDING_CODES.items()},
    "OVERFLOW": {code: rtl_name(mode) for mode, code in OVERFLOW_CODES.items()},
}

_FIRST = "  // the modes, written by hls/rf/packages.py"
_LAST = "  // end of the modes"
_BLOCK = re.compile(rf"^{re.escape(_FIRST)}$.*?^{re.escape(_LAST)}$", re.MULTILINE | re.DOTALL)


def constant(parameter: str, value: Value) -> str:
    """The text of a numeric parameter's value: the constant of a package if it is a mode, otherwise the number."""
    if isinstance(value, IntEnum):
        return f"rf_pkg::{_MODES[type(value)][1]}{value.name}"
    for end, names in _FIXED.items():
        if parameter.endswith(end):
            return names[int(value)]
    return str(value)


def _enum(name: str, codes: Mapping[str, int]) -> str:
    return "\n".join(
        ["  typedef enum int {", ",\n".join(f"    {mode} = {code}" for mode, code in codes.items()), f"  }} {name};"]
    )


def _blocks() -> dict[Path, str]:
    """The block of each package."""
    fixed = [
        _enum(name, {mode.removeprefix("AP_"): code for mode, code in codes.items()})
        for name, codes in (("rounding_t", ROUNDING_CODES), ("overflow_t", OVERFLOW_CODES))
    ]
    modes = [_enum(name, {prefix + mode.name: mode.value for mode in kind}) for kind, (name, prefix) in _MODES.items()]
    texts = {AXIS_RTL / "ap_fixed_pkg.sv": fixed, RF_RTL / "rf_pkg.sv": modes}
    return {file: "\n".join([_FIRST, "\n\n".join(enums), _LAST]) for file, enums in texts.items()}


def products(texts: Mapping[Path, str] | None = None) -> dict[Path, str]:
    """The text of each package with a current block.

    Args:
        texts: the packages' present texts; those of the files if it is None.

    Raises:
        ValueError: For a package without the marker lines.
    """
    blocks = _blocks()
    present = texts or {file: file.read_text() for file in blocks}
    if without := [file.name for file, text in present.items() if len(_BLOCK.findall(text)) != 1]:
        raise ValueError(f"{', '.join(without)}: expected one block from {_FIRST.strip()!r} to {_LAST.strip()!r}")
    return {file: _BLOCK.sub(blocks[file], text) for file, text in present.items()}


def main() -> None:
    """Write the packages with current blocks."""
    for file, text in products().items():
        file.write_text(text)


if __name__ == "__main__":
    main()
