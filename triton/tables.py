# SPDX-License-Identifier: Apache-2.0
"""The tables that the C++ of the backend shares with Python, written as C++: errno, the kernel's registers, parameters."""

from __future__ import annotations

import errno
import json
from pathlib import Path

from hypersonic.firmware.card_parameters import CARD_PARAMETERS
from hypersonic.firmware.kernel import registers
from hypersonic.firmware.platform import TRANSFERS_IN_FLIGHT
from hypersonic.firmware.xclbin.container import DIGEST_KEY
from hypersonic.host.errors import CAUSES

#: the C++ name of a constant -> its value
_REGISTERS = {
    "kControl": registers.CONTROL,
    "kW": registers.W,
    "kBusyCycles": registers.BUSY_CYCLES,
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
    """Return the namespace `registers` of card/unit.cpp, and the constant of card/gate.cpp."""
    lines = "".join(f"constexpr std::uint32_t {name} = {value:#x};\n" for name, value in _REGISTERS.items())
    places = f"namespace hypersonic {{\nconstexpr unsigned kTransfersInFlight = {TRANSFERS_IN_FLIGHT};\n}}\n"
    return f"#include <cstdint>\n\nnamespace hypersonic::registers {{\n{lines}}}\n{places}"


def digest_key() -> str:
    """Return the constant of model/xclbin.cpp: how the keys of kernels' digests in an xclbin begin."""
    return f"constexpr char kDigestKey[] = {json.dumps(DIGEST_KEY)};\n"


def parameters() -> str:
    """Return the namespace `parameters` of backend/config.cpp: the default and the bounds of each whole number."""
    names = {name: "k" + name.title().replace("_", "") for name in CARD_PARAMETERS}
    rows = "".join(
        f'constexpr Parameter {names[name]}{{"{name}", {each.absent}, {each.least}, {each.most}}};\n'
        for name, each in CARD_PARAMETERS.items()
    )
    head = "struct Parameter {\n  const char* name;\n  std::int64_t absent;\n  std::int64_t least;\n  std::int64_t most;\n};\n"
    return f"#include <cstdint>\n\nnamespace hypersonic::parameters {{\n{head}{rows}}}\n"


def write(directory: Path) -> None:
    """Write the files that the C++ includes below a directory."""
    for folder in ("card", "backend", "model"):
        (directory / folder).mkdir()
    (directory / "backend" / "parameters.inc").write_text(parameters())
    (directory / "model" / "digest_key.inc").write_text(digest_key())
    (directory / "causes.inc").write_text(causes())
    (directory / "card" / "constants.inc").write_text(constants())
