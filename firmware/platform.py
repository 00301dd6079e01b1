# SPDX-License-Identifier: Apache-2.0
"""The platforms: each card with its shell, its resources and its memory, read from platforms/<name>.toml.

There is one file for each card, and it is read when the card is first requested. Its fields::

    name, part          the card's name in this project, and its part number in Vivado
    vbnv                the shell's full name, as v++ --platform takes it
    interface_uuid      the shell that a hw xclbin must match, 32 hex digits; omitted when not known
    build               the toolchain. xrt: linked by v++, driven by XRT. f2_hdk: custom logic built with the AWS F2 kit
    newest_vitis        the last Vitis release that supports the shell; omitted while the newest release does
    compute_units       the largest number of compute units; omitted for XRT's limit of 128
    host_memory         true if kernels read and write the host's memory instead of the card's
    shell_module        the module of this project between the compute units and the shell; omitted where v++ connects them
    unverified          the fields of the file that no source and no card has confirmed
    [clock]             kernel_mhz: the default ap_clk; system_mhz: the shell's second kernel clock (ap_clk_2); scalable: true
                        if XRT sets the frequency of ap_clk when it loads an xclbin (UG1393, "Identifying Platform Clocks")
    [pcie]              link, and the rates of host transfers in GB/s: h2c_gb_s, c2h_gb_s, of all transfers of a direction
                        together; h2c_transfer_gb_s, c2h_transfer_gb_s, of one transfer of about 1 MB alone, omitted where it
                        is not known to be lower; both_gb_s: of both directions together, omitted where they do not
                        slow each other down; source, transfer_source: who published them, omitted where nobody has
    [[slr]]             the resources of each die that are available to kernels: lut, ff, dsp, bram36, uram
    [total]             resources of the whole card, for those that [[slr]] does not give; assumed to be spread evenly
    [[memory]]          tag (in MEM_TOPOLOGY), sp (in v++'s sp=), kind, base, size_mib, peak_gb_s, slr; read_gb_s, write_gb_s:
                        the published rates of large reads alone and of large writes alone, with their source, all omitted
                        where nobody has published them; count: that many equal channels without gaps, tagged <tag>[0] and so on

Each file names its sources. To add a platform, add a file. To add a way of making or driving bitstreams, add a member to Flow,
a folder in toolchains/, and a driver (host/driver.py).
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

from hypersonic.firmware.errors import PlatformError
from hypersonic.hls.near import did_you_mean
from hypersonic.hls.resources import KINDS, Amounts
from hypersonic.hls.sources import source_files

GIB = 1 << 30
MIB = 1 << 20

#: the directory of the platform files, which the wheel contains too
DIRECTORY = Path(__file__).resolve().parent / "platforms"

MAX_FILE_BYTES = 1 << 16

#: XRT's scheduler keeps compute units in a mask of 128 bits
XRT_COMPUTE_UNITS = 128

#: transfers that the host driver has in flight in each direction of a card's link: XDMA has two channels for each, and one
#: transfer does not fill the link
TRANSFERS_IN_FLIGHT = 2


class Flow(StrEnum):
    """The way in which a bitstream for a card is made and driven."""

    XRT = "xrt"  # linked by v++, driven through XRT
    F2_HDK = "f2_hdk"  # custom logic, built with Vivado and the AWS kit and driven through its registers


@dataclass(frozen=True)
class MemoryBank:
    """One memory that a kernel's master port can be connected to: a DIMM, or a pseudo channel of HBM."""

    tag: str  # its name in MEM_TOPOLOGY, at most 15 characters
    sp: str  # its name in v++'s sp= option
    kind: str  # DDR4 or HBM
    base_address: int
    size_bytes: int
    peak_gb_s: float
    slr: int  # the die that it is attached to
    read_gb_s: float = 0.0  # the published rate of large reads alone; 0 where there is none
    write_gb_s: float = 0.0  # that of large writes alone
    source: str = ""  # who published them


@dataclass(frozen=True)
class Platform:
    """A card with its shell.

    kernel_clock_mhz is the default frequency of ap_clk, system_clock_mhz that of the shell's second kernel clock (ap_clk_2).

    Attributes:
        slrs: the resources of each die.
        spread: the resources of which only the card's total is known; every die is assumed to hold an equal part.
    """

    name: str
    part: str
    vbnv: str
    flow: Flow
    kernel_clock_mhz: int
    system_clock_mhz: int
    scalable_clock: bool  # whether XRT sets the frequency of ap_clk when it loads an xclbin
    pcie: str
    h2c_gb_s: float  # the rate of all transfers from host to card together
    c2h_gb_s: float  # from card to host
    slrs: tuple[Amounts, ...]
    memory: tuple[MemoryBank, ...]
    spread: tuple[str, ...] = ()
    h2c_transfer_gb_s: float = 0.0  # of one transfer from host to card alone; 0 where it is not known to be lower
    c2h_transfer_gb_s: float = 0.0  # from card to host
    both_gb_s: float = 0.0  # of both directions together; 0 where they do not slow each other down
    pcie_source: str = ""  # who published the rates of all transfers together; empty where they are assumed
    transfer_source: str = ""  # who published those of one transfer
    interface_uuid: str = "0" * 32  # zeros when not known
    newest_vitis: str = ""  # the last Vitis release that supports it; empty while the newest does
    control_base: int = 0x1800000  # address of s_axi_control of the first compute unit
    compute_units: int = XRT_COMPUTE_UNITS  # the largest number of them
    host_memory: bool = False  # whether kernels read and write the host's memory instead of the card's
    shell_module: str = ""  # the module between the compute units and the shell; empty where v++ connects them
    unverified: tuple[str, ...] = ()  # fields of the file that no source and no card has confirmed


class _Files(Mapping[str, Platform]):
    """Every platform by its name; a platform's file is read when it is requested."""

    def __getitem__(self, name: str) -> Platform:
        if name not in _names():
            raise KeyError(name)
        return read_platform(DIRECTORY / f"{name}.toml")

    def __iter__(self) -> Iterator[str]:
        return iter(_names())

    def __len__(self) -> int:
        return len(_names())


PLATFORMS: Mapping[str, Platform] = _Files()


def find_platform(name: str) -> Platform:
    """The platform with that name. Raises PlatformError for an unknown one."""
    platform = PLATFORMS.get(name)
    if platform is None:
        hint = did_you_mean(name.lower(), PLATFORMS)
        raise PlatformError(f"platform is {name!r}, expected one of {', '.join(PLATFORMS)}{hint}")
    return platform


@cache
def _names() -> tuple[str, ...]:
    return tuple(file.stem for file in source_files(DIRECTORY, "*.toml"))


@cache
def read_platform(path: Path) -> Platform:
    """The platform that a file describes. Raises PlatformError, which names the file and the first field that is not valid."""
    table = _Table(_toml(path), path.name)
    table.check(_TOP, optional=_TOP_OPTIONAL)
    clock, pcie = table.table("clock", _CLOCK), table.table("pcie", _PCIE, _PCIE_OPTIONAL)
    slrs, spread = _slrs(table)
    if table["name"] != path.stem:
        raise PlatformError(f"{path.name}: name is {table['name']!r}, expected the file's name {path.stem!r}")
    _check_unverified(table)
    return Platform(
        name=table["name"], part=table["part"], vbnv=table.text("vbnv", r"\S{1,63}", "a name of at most 63 characters"),
        flow=Flow(table.text("build", "|".join(Flow), f"one of {', '.join(Flow)}")),
        kernel_clock_mhz=clock["kernel_mhz"], system_clock_mhz=clock["system_mhz"],
        scalable_clock=clock["scalable"],
        pcie=pcie["link"], h2c_gb_s=pcie["h2c_gb_s"], c2h_gb_s=pcie["c2h_gb_s"],
        slrs=slrs, memory=_memory(table, len(slrs)), spread=spread,
        h2c_transfer_gb_s=pcie.get("h2c_transfer_gb_s", 0.0), c2h_transfer_gb_s=pcie.get("c2h_transfer_gb_s", 0.0),
        both_gb_s=pcie.get("both_gb_s", 0.0), pcie_source=pcie.get("source", ""),
        transfer_source=pcie.get("transfer_source", ""),
        interface_uuid=table.text("interface_uuid", "[0-9a-f]{32}", "32 hexadecimal digits", "0" * 32),
        newest_vitis=table.text("newest_vitis", r"20\d\d\.[1-4]", "a release such as 2025.1", ""),
        control_base=table.get("control_base", 0x1800000),
        compute_units=table.get("compute_units", XRT_COMPUTE_UNITS),
        host_memory=table.get("host_memory", False),
        shell_module=table.text("shell_module", "[a-z][a-z0-9_]{0,62}", "the name of a module in firmware/rtl", ""),
        unverified=tuple(table["unverified"]),
    )  # fmt: skip


def _toml(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            text = file.read(MAX_FILE_BYTES + 1)
        if len(text) > MAX_FILE_BYTES:
            raise PlatformError(f"{path.name} is more than {MAX_FILE_BYTES} bytes")
        return tomllib.loads(text.decode())
    except OSError as error:
        raise PlatformError(f"{path.name} cannot be read: {error.strerror}") from error
    except ValueError as error:  # not UTF-8, or not TOML
        raise PlatformError(f"{path.name} is not TOML: {error}") from error


_TOP = {"name": str, "part": str, "vbnv": str, "build": str, "clock": dict, "pcie": dict, "slr": list, "memory": list,
        "unverified": list}  # fmt: skip
_TOP_OPTIONAL = {"interface_uuid": str, "newest_vitis": str, "control_base": int, "compute_units": int, "host_memory": bool,
                 "shell_module": str, "total": dict}  # fmt: skip
_CLOCK = {"kernel_mhz": int, "system_mhz": int, "scalable": bool}
_PCIE = {"link": str, "h2c_gb_s": float, "c2h_gb_s": float}
_PCIE_OPTIONAL = {"h2c_transfer_gb_s": float, "c2h_transfer_gb_s": float, "both_gb_s": float, "source": str,
                  "transfer_source": str}  # fmt: skip
_AMOUNTS = dict.fromkeys(KINDS, int)
_BANK = {"tag": str, "sp": str, "kind": str, "base": int, "size_mib": int, "peak_gb_s": float, "slr": int}
_BANK_OPTIONAL = {"count": int, "read_gb_s": float, "write_gb_s": float, "source": str}

_WORDS = {
    str: "text",
    bool: "true or false",
    int: "an integer of 0 or more",
    float: "a number above 0",
    list: "an array",
    dict: "a table",
}


@dataclass(frozen=True)
class _Table:
    """A table of a platform file.

    Attributes:
        where: the file and the table's place in it, for error messages.
    """

    values: dict[str, Any]
    where: str

    def __getitem__(self, key: str) -> Any:
        return self.values[key]

    def get(self, key: str, default: Any) -> Any:
        return self.values.get(key, default)

    def check(self, required: Mapping[str, type], optional: Mapping[str, type]) -> None:
        for key in required:
            if key not in self.values:
                raise PlatformError(f"{self.where}: {key} is missing, expected {_WORDS[required[key]]}")
        for key, value in self.values.items():
            wanted = {**required, **optional}.get(key)
            if wanted is None:
                raise PlatformError(f"{self.where}: unknown field {key!r}, expected {', '.join({**required, **optional})}")
            if not _is(value, wanted):
                raise PlatformError(f"{self.where}: {key} is {value!r:.80}, expected {_WORDS[wanted]}")

    def text(self, key: str, pattern: str, what: str, default: str = "") -> str:
        value: str = self.values.get(key, default)
        if key in self.values and not re.fullmatch(pattern, value):
            raise PlatformError(f"{self.where}: {key} is {value!r:.80}, expected {what}")
        return value

    def table(self, key: str, required: Mapping[str, type], optional: Mapping[str, type] | None = None) -> _Table:
        inner = _Table(self.values.get(key, {}), f"{self.where}: [{key}]")
        inner.check(required, optional or {})
        return inner

    def tables(self, key: str, required: Mapping[str, type], optional: Mapping[str, type]) -> list[_Table]:
        tables = [_Table(value, f"{self.where}: {key}[{number}]") for number, value in enumerate(self.values[key])]
        for inner in tables:
            if not isinstance(inner.values, dict):
                raise PlatformError(f"{inner.where} is {inner.values!r:.80}, expected a table")
            inner.check(required, optional)
        return tables


def _is(value: object, wanted: type) -> bool:
    """True if the value has that type and range. In TOML, true does not count as a number, and 14 is accepted for 14.0."""
    if wanted in (int, float):
        kinds = (int,) if wanted is int else (int, float)
        return isinstance(value, kinds) and not isinstance(value, bool) and (value > 0 if wanted is float else value >= 0)
    return isinstance(value, wanted)


def _slrs(table: _Table) -> tuple[tuple[Amounts, ...], tuple[str, ...]]:
    """The resources of each die, and the names of those that are equal parts of the card's total."""
    dies = table.tables("slr", {}, _AMOUNTS)
    total = table.table("total", {}, _AMOUNTS)
    if not dies:
        raise PlatformError(f"{table.where}: slr is empty, expected a [[slr]] for every die")
    for name in KINDS:
        mentions = sum(name in die.values for die in dies) + len(dies) * (name in total.values)
        if mentions != len(dies):
            raise PlatformError(f"{table.where}: {name} must be given in every [[slr]], or once in [total]")
    parts = {name: amount // len(dies) for name, amount in total.values.items()}
    return tuple(Amounts(**{**parts, **die.values}) for die in dies), tuple(parts)


def _memory(table: _Table, slrs: int) -> tuple[MemoryBank, ...]:
    banks = [bank for entry in table.tables("memory", _BANK, _BANK_OPTIONAL) for bank in _banks(entry, slrs)]
    end = 0
    for bank in banks:
        if bank.base_address < end:
            raise PlatformError(
                f"{table.where}: memory {bank.tag} begins at {bank.base_address:#x}, expected {end:#x} or above"
            )
        end = bank.base_address + bank.size_bytes
    return tuple(banks)


def _banks(entry: _Table, slrs: int) -> list[MemoryBank]:
    entry.text("kind", "DDR4|HBM", "DDR4 or HBM")
    entry.text("tag", r"\S{1,11}", "1 to 11 characters")
    if entry["slr"] >= slrs or not 1 <= entry.get("count", 1) <= 64 or not entry["size_mib"]:
        raise PlatformError(f"{entry.where}: expected slr below {slrs}, count of 1 to 64, size_mib above 0")
    for rate in ("read_gb_s", "write_gb_s"):
        if entry.get(rate, 0.0) > entry["peak_gb_s"]:
            raise PlatformError(f"{entry.where}: {rate} is {entry[rate]}, expected at most its peak of {entry['peak_gb_s']}")
    if len({"read_gb_s", "write_gb_s", "source"} & entry.values.keys()) not in (0, 3):
        raise PlatformError(f"{entry.where}: expected read_gb_s, write_gb_s and their source, or none of them")
    size = entry["size_mib"] * MIB
    return [
        MemoryBank(entry["tag"] + number, entry["sp"] + number, entry["kind"], entry["base"] + index * size, size,
                   entry["peak_gb_s"], entry["slr"], entry.get("read_gb_s", 0.0), entry.get("write_gb_s", 0.0),
                   entry.get("source", ""))
        for index, number in enumerate([f"[{i}]" for i in range(entry["count"])] if "count" in entry.values else [""])
    ]  # fmt: skip


def _check_unverified(table: _Table) -> None:
    """Raise PlatformError unless every name is a field of the file, such as pcie.h2c_gb_s, memory[0].peak_gb_s or total."""
    for name in table["unverified"]:
        value: Any = table.values
        for step in re.findall(r"[^.\[\]]+", str(name)):
            key = int(step) if isinstance(value, list) and step.isdecimal() else step
            try:
                value = value[key]
            except (KeyError, IndexError, TypeError):
                raise PlatformError(f"{table.where}: unverified names {name!r:.80}, which is not a field of the file") from None
