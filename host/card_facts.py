# SPDX-License-Identifier: Apache-2.0
"""The state of a card, its shell and its xclbin, from XRT's files in sysfs. A fact is absent where its file is absent.

::

    <sysfs>/module/xocl/version                             the driver: 2.16.204,<hash>
    <sysfs>/bus/pci/devices/<address>/
        ready, dev_offline                                  0x1 once the shell answers; 1 while the card is being reset
        rom*/VBNV                                           the platform
        interface_uuids                                     one uuid of 32 hex digits on each line, which an xclbin must match
        xclbinuuid                                          one line for each loaded xclbin, or zeros
        kds_custat_raw                                      [slot,]index,kernel:unit,0xaddress,0xstatus,runs
        kdsstat                                             ... "client pid:", then one process id on each line
        memstat_raw                                         bytes, buffers and 0 for each memory bank, then other lines
        icap*/clock_freqs                                   one frequency in MHz on each line: data, kernel, system
        link_speed, link_width                              generation and lanes of PCI Express

Source: XRT's kernel driver, xocl/userpf/xocl_sysfs.c, xocl/subdev/icap.c and feature_rom.c, common/drv/kds_core.c. This has not
been used on a card yet: the tests use a directory tree written after those sources.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from hypersonic.host import sysfs

_UUID = re.compile(r"[0-9a-f]{32}")
_UNIT = re.compile(r"(?:\d{1,4},)?\d{1,6},(\w{1,64}):(\w{1,64}),(0x[0-9a-f]{1,16}),(0x[0-9a-f]{1,8}),(\d{1,20})")
_BANK = re.compile(r"(\d{1,15}) (\d{1,9})(?: \d{1,20})?")
_PROCESS = re.compile(r"\d{1,10}")
_PLATFORM = re.compile(r"[\w.:-]{1,64}")
_VERSION = re.compile(r"(\d{1,4}\.\d{1,4}\.\d{1,6})(?:,\w*)?")
_CLOCKS = ("data", "kernel", "system")
_MOST_MHZ = 2000


@dataclass(frozen=True)
class UnitFacts:
    """A compute unit of the loaded xclbin.

    Attributes:
        runs: the number of runs by all processes since it was loaded.
    """

    kernel: str
    name: str
    runs: int


@dataclass(frozen=True)
class CardFacts:
    """The state of one card; None or empty where a fact is not known.

    Attributes:
        address: PCI address.
        present: False when the card is gone from the bus. The uuids have 32 hex digits.
        clocks_mhz: the clocks data (ap_clk), kernel (ap_clk_2) and system.
    """

    address: str
    present: bool = True
    ready: bool = False
    offline: bool = False
    platform: str | None = None
    interface_uuids: tuple[str, ...] = ()
    xclbin_uuids: tuple[str, ...] = ()
    compute_units: tuple[UnitFacts, ...] = ()
    clocks_mhz: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    process_ids: tuple[int, ...] = ()
    memory_used_bytes: int | None = None
    buffers: int | None = None
    pcie_generation: int | None = None
    pcie_lanes: int | None = None


def driver_version(root: Path = sysfs.SYSFS) -> str | None:
    """The version of the loaded kernel module xocl, such as 2.16.204; None when it is not loaded."""
    match = _VERSION.fullmatch(sysfs.text(root / "module" / sysfs.DRIVER / "version", root) or "")
    return match[1] if match else None


def read_facts(address: str, root: Path = sysfs.SYSFS) -> CardFacts:
    """The state of the card at that PCI address. Never raises: a fact that cannot be read is absent."""
    directory = sysfs.card_directory(address, root)
    if directory is None:
        return CardFacts(address, present=False)
    used_bytes, buffers = _memory(directory)
    return CardFacts(
        address,
        ready=sysfs.is_ready(directory),
        offline=bool(sysfs.number(directory / "dev_offline", directory)),
        platform=_platform(directory),
        interface_uuids=_uuids(directory, "interface_uuids"),
        xclbin_uuids=_uuids(directory, "xclbinuuid"),
        compute_units=_compute_units(directory),
        clocks_mhz=_clocks(directory),
        process_ids=_processes(directory),
        memory_used_bytes=used_bytes,
        buffers=buffers,
        pcie_generation=sysfs.number(directory / "link_speed", directory),
        pcie_lanes=sysfs.number(directory / "link_width", directory),
    )


def _lines(directory: Path, name: str) -> list[str]:
    page = sysfs.text(directory / name, directory, sysfs.PAGE_BYTES) or ""
    return [line.strip(" \t\0") for line in page.splitlines()]


def _platform(directory: Path) -> str | None:
    platforms = (sysfs.text(rom / "VBNV", directory) or "" for rom in sysfs.below(directory, "", "rom"))
    return next((name for name in platforms if _PLATFORM.fullmatch(name)), None)


def _uuids(directory: Path, name: str) -> tuple[str, ...]:
    lines = (line.lower().replace("-", "") for line in _lines(directory, name))
    return tuple(uuid for uuid in lines if _UUID.fullmatch(uuid) and uuid.strip("0"))


def _compute_units(directory: Path) -> tuple[UnitFacts, ...]:
    matches = map(_UNIT.fullmatch, _lines(directory, "kds_custat_raw"))
    return tuple(UnitFacts(match[1], match[2], int(match[5])) for match in matches if match)


def _clocks(directory: Path) -> Mapping[str, int]:
    for icap in sysfs.below(directory, "", "icap"):
        lines = (sysfs.text(icap / "clock_freqs", directory, sysfs.PAGE_BYTES) or "").split()
        values = {name: int(line) for name, line in zip(_CLOCKS, lines, strict=False) if line.isdecimal() and len(line) <= 4}
        if clocks := {name: mhz for name, mhz in values.items() if 0 < mhz <= _MOST_MHZ}:
            return clocks
    return MappingProxyType({})


def _processes(directory: Path) -> tuple[int, ...]:
    lines = _lines(directory, "kdsstat")
    after = lines[lines.index("client pid:") + 1 :] if "client pid:" in lines else []
    return tuple(sorted({int(line) for line in after if _PROCESS.fullmatch(line)}))


def _memory(directory: Path) -> tuple[int | None, int | None]:
    """The bytes and the number of buffers in use on all banks; None for both when not known."""
    banks: list[tuple[int, int]] = []
    for line in _lines(directory, "memstat_raw"):
        match = _BANK.fullmatch(line)
        if match is None:  # after the banks, the driver lists the same buffers by kind
            break
        banks.append((int(match[1]), int(match[2])))
    return (sum(size for size, _ in banks), sum(count for _, count in banks)) if banks else (None, None)
