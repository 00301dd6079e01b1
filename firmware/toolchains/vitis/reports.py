# SPDX-License-Identifier: Apache-2.0
"""The vendor tools' reports on a finished xclbin: timing, clocks, utilisation.

The formats are those of Vivado and v++ 2020 to 2025: `report_timing_summary` (the table under "Design Timing Summary"), v++'s
kernel utilisation (cells such as `585049 [ 56.28%]`, one row each for the platform, the kernels and each compute unit), and
`xclbinutil --info` ("System Clocks"). Reports are read as hostile input: sizes are bounded, and anything unexpected is a
ReportError that names the file.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hypersonic.firmware.toolchains.errors import VendorError

#: a full timing report lists every path; the tables that are read here are before that list
MAX_BYTES = 8 << 20
_MAX_ROWS = 10_000
_MAX_LINE = 2_000


class ReportError(VendorError):
    """A report is not in the tools' format. The message names the file and what was expected in it."""

    exit_code = 1


@dataclass(frozen=True)
class Timing:
    """The slacks of the whole routed design, the shell included, in ns; a negative slack is a violation. wns, whs: the worst
    slack of setup and hold; tns, ths: the totals of the negative ones; failing: number of failing endpoints."""

    setup_wns_ns: float
    setup_tns_ns: float
    setup_failing: int
    hold_whs_ns: float
    hold_ths_ns: float
    hold_failing: int


@dataclass(frozen=True)
class Clock:
    """One clock of an xclbin: its requested frequency, and the one that was achieved after place and route."""

    name: str
    kind: str  # SCALABLE or FIXED
    requested_mhz: float
    achieved_mhz: float


def read_text(file: Path) -> str:
    """The first MAX_BYTES of a report. Raises ReportError when it cannot be read."""
    try:
        with file.open("rb") as stream:
            return stream.read(MAX_BYTES).decode(errors="replace")
    except OSError as error:
        raise ReportError(f"{file}: {error.strerror}") from error


def read_timing(file: Path) -> Timing:
    """The slacks in a `report_timing_summary` report. Raises ReportError."""
    lines = iter(_lines(read_text(file)))
    for line in lines:
        columns = re.split(r"\s{2,}", line.strip())
        if columns[0] == "WNS(ns)":
            rule, values = next(lines, ""), next(lines, "").split()
            if not re.fullmatch(r"[\s-]+", rule) or len(values) != len(columns):
                break
            return _timing(file, dict(zip(columns, values, strict=True)))
    raise ReportError(f"{file}: no table that begins with WNS(ns), expected a report_timing_summary report")


def _timing(file: Path, row: dict[str, str]) -> Timing:
    """The slacks in one row of the table. A value is NA, read as 0, when the design has no paths of that kind."""
    names = ("WNS(ns)", "TNS(ns)", "TNS Failing Endpoints", "WHS(ns)", "THS(ns)", "THS Failing Endpoints")
    try:
        wns, tns, setup, whs, ths, hold = (0.0 if row[name] == "NA" else float(row[name]) for name in names)
    except KeyError as error:
        raise ReportError(f"{file}: the timing summary has no column {error}") from error
    except ValueError as error:
        raise ReportError(f"{file}: the timing summary holds no numbers: {error}") from error
    if not all(map(math.isfinite, (wns, tns, setup, whs, ths, hold))):
        raise ReportError(f"{file}: the timing summary holds no finite numbers")
    return Timing(wns, tns, int(setup), whs, ths, int(hold))


def read_clocks(file: Path) -> tuple[Clock, ...]:
    """The "System Clocks" in the text of `xclbinutil --info`, which v++ writes to <name>.xclbin.info. Raises ReportError."""
    clocks: list[dict[str, str]] = []
    inside = False
    for line in _lines(read_text(file)):
        if line and not line[0].isspace() and not line.startswith("-"):
            inside = line.strip() == "System Clocks"
        match = re.fullmatch(r"\s+(Name|Type|Requested Freq|Achieved Freq):\s+(\S+)(?: MHz)?\s*", line)
        if inside and match:
            if match[1] == "Name":
                clocks.append({})
            if clocks:
                clocks[-1][match[1]] = match[2]
    try:
        return tuple(
            Clock(clock["Name"], clock.get("Type", ""), _frequency(clock["Requested Freq"]), _frequency(clock["Achieved Freq"]))
            for clock in clocks
            if {"Requested Freq", "Achieved Freq"} <= clock.keys()
        )
    except ValueError as error:
        raise ReportError(f"{file}: a clock's frequency is not a number: {error}") from error


def _frequency(text: str) -> float:
    value = float(text)
    if not 0 <= value < 1e5:
        raise ValueError(f"{text} MHz")
    return value


def read_kernel_utilisation(file: Path) -> dict[str, dict[str, int]]:
    """The table of v++'s kernel utilisation: row -> {LUT: n, REG: n, BRAM: n, URAM: n, DSP: n, ...}. Raises ReportError.

    The rows are Platform, User Budget, Used Resources, Unused Resources, each kernel, and each compute unit.
    """
    columns: list[str] = []
    rows: dict[str, dict[str, int]] = {}
    for cells in _rows(read_text(file)):
        if cells[0] == "Name":
            columns = cells[1:]
        elif columns and len(cells) == len(columns) + 1 and None not in (counts := [_count(cell) for cell in cells[1:]]):
            rows.setdefault(cells[0], {name: count or 0 for name, count in zip(columns, counts, strict=True)})
    if "Used Resources" not in rows:
        raise ReportError(f"{file}: no row `Used Resources`, expected v++'s kernel utilisation report")
    return rows


def _lines(text: str) -> Iterator[str]:
    return (line for line in text.splitlines() if len(line) <= _MAX_LINE)


def _rows(text: str) -> Iterator[list[str]]:
    """The cells of lines such as `| a | b |`."""
    rows = 0
    for line in _lines(text):
        if line.startswith("|") and line.count("|") > 2 and (rows := rows + 1) <= _MAX_ROWS:
            yield [cell.strip() for cell in line.strip().strip("|").split("|")]


def _count(cell: str) -> int | None:
    match = re.fullmatch(r"(\d{1,12}) \[ *\d+\.\d+%\]", cell)
    return int(match[1]) if match else None


def manifest_report(timing: Timing, clocks: tuple[Clock, ...], used: dict[str, dict[str, int]]) -> dict[str, Any]:
    """The fields of the manifest's `report` that are taken from the tools' reports."""
    rows = {name: row for name, row in used.items() if name != "Unused Resources"}
    return {"timing": asdict(timing), "clocks": [asdict(clock) for clock in clocks], "utilisation": rows}
