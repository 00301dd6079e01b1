# SPDX-License-Identifier: Apache-2.0
"""The tables that the C++ of the backend shares with Python, written as C++: XRT's errno, and the kernel's registers."""

from __future__ import annotations

import errno
import json
from pathlib import Path

from hypersonic.firmware.kernel import registers
from hypersonic.host.errors import CAUSES

#: the C++ name of a constant -> its value
_REGISTERS = {
    "kControl": registers.CONTROL,
    "kW": registers.W,
    "kAxiError": registers.AXI_ERROR,
    "kVersion": registers.VERSION,
    "kWeightsBeats": registers.WEIGHTS_BEATS,
    "kApIdle": registers.AP_IDLE,
    "kReadError": registers.READ_ERROR,
    "kWriteError": registers.WRITE_ERROR,
    "kMapVersion": registers.MAP_VERSION,
}


def causes() -> str:
    """Return the rows of the table in driver/error.cpp: errno, its name, Kind, and what to do."""
    return "".join(
        f'{{{number}, "{errno.errorcode[number]}", Kind::{kind.__name__.removesuffix("Error")}, {json.dumps(advice)}}},\n'
        for number, (kind, advice) in CAUSES.items()
    )


def constants() -> str:
    """Return the namespace `registers` of card/unit.cpp."""
    lines = "".join(f"constexpr std::uint32_t {name} = {value:#x};\n" for name, value in _REGISTERS.items())
    return f"#include <cstdint>\n\nnamespace hypersonic::registers {{\n{lines}}}\n"


def write(directory: Path) -> None:
    """Write the files that the C++ includes below a directory."""
    (directory / "card").mkdir()
    (directory / "causes.inc").write_text(causes())
    (directory / "card" / "registers.inc").write_text(constants())
