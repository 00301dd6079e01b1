# SPDX-License-Identifier: Apache-2.0
"""The tables inside an xclbin: memories, IPs, their connections, clocks.

Source of the layouts: XRT's xrt/detail/xclbin.h (mem_topology, ip_layout, connectivity, clock_freq_topology), little endian;
xclbinutil's SectionKeyValueMetadata.cxx for the JSON of KEYVALUE_METADATA.
Every decoder takes the whole payload of a section and raises XclbinError when it is too short for the entries it counts.

To add a section: its number in Kind, a dataclass for an entry with `decode_` and `encode_` functions here, a property of Xclbin
(container.py) that decodes it, and its payload among the sections of assemble_xclbin (assemble.py).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from hypersonic.firmware.errors import XclbinError


class Kind(IntEnum):
    """The section kinds (axlf_section_kind in xclbin.h) that this project reads or writes."""

    BITSTREAM = 0
    EMBEDDED_METADATA = 2
    MEM_TOPOLOGY = 6
    CONNECTIVITY = 7
    IP_LAYOUT = 8
    CLOCK_FREQ_TOPOLOGY = 11
    BUILD_METADATA = 14
    KEYVALUE_METADATA = 15
    GROUP_TOPOLOGY = 26
    GROUP_CONNECTIVITY = 27


#: every kind that xclbin.h of XRT 2.25 defines, for display
KIND_NAMES = [
    "BITSTREAM",
    "CLEARING_BITSTREAM",
    "EMBEDDED_METADATA",
    "FIRMWARE",
    "DEBUG_DATA",
    "SCHED_FIRMWARE",
    "MEM_TOPOLOGY",
    "CONNECTIVITY",
    "IP_LAYOUT",
    "DEBUG_IP_LAYOUT",
    "DESIGN_CHECK_POINT",
    "CLOCK_FREQ_TOPOLOGY",
    "MCS",
    "BMC",
    "BUILD_METADATA",
    "KEYVALUE_METADATA",
    "USER_METADATA",
    "DNA_CERTIFICATE",
    "PDI",
    "BITSTREAM_PARTIAL_PDI",
    "PARTITION_METADATA",
    "EMULATION_DATA",
    "SYSTEM_METADATA",
    "SOFT_KERNEL",
    "ASK_FLASH",
    "AIE_METADATA",
    "GROUP_TOPOLOGY",
    "GROUP_CONNECTIVITY",
    "SMARTNIC",
    "AIE_RESOURCES",
    "OVERLAY",
    "VENDER_METADATA",
    "AIE_PARTITION",
    "IP_METADATA",
]

#: MEM_TYPE of xclbin.h
MEMORY_KINDS = [
    "DDR3",
    "DDR4",
    "DRAM",
    "STREAMING",
    "PREALLOCATED_GLOB",
    "ARE",
    "HBM",
    "BRAM",
    "URAM",
    "STREAMING_CONNECTION",
    "HOST",
    "PS_KERNEL",
]

#: the most bytes of KEYVALUE_METADATA that are read
MAX_KEY_VALUES_BYTES = 1 << 20

IP_KERNEL = 1
AP_CTRL_CHAIN = 1
CLOCK_KINDS = ("UNUSED", "DATA", "KERNEL", "SYSTEM")


@dataclass(frozen=True)
class Memory:
    """One entry of MEM_TOPOLOGY or GROUP_TOPOLOGY. Its index is the memory group that buffer objects are allocated in."""

    kind: int  # index into MEMORY_KINDS
    used: bool
    size_kib: int
    base_address: int
    tag: str


@dataclass(frozen=True)
class Ip:
    """One entry of IP_LAYOUT (ip_data). name is "kernel:compute_unit" where type is IP_KERNEL."""

    type: int
    properties: int
    base_address: int
    name: str

    @property
    def control_protocol(self) -> int:
        """The control protocol, bits 15:8 of the properties: 0 ap_ctrl_hs, 1 ap_ctrl_chain, 2 ap_ctrl_none."""
        return self.properties >> 8 & 0xFF


@dataclass(frozen=True)
class Connection:
    """One entry of CONNECTIVITY or GROUP_CONNECTIVITY: argument `argument` of the IP with index `ip` reaches the memory with
    index `memory`."""

    argument: int
    ip: int
    memory: int


@dataclass(frozen=True)
class Clock:
    """One entry of CLOCK_FREQ_TOPOLOGY."""

    frequency_mhz: int
    kind: int  # index into CLOCK_KINDS
    name: str


_MEMORY = struct.Struct("<BB6xQQ16s")
_IP = struct.Struct("<IIQ64s")
_CONNECTION = struct.Struct("<iii")
_CLOCK = struct.Struct("<HB5x128s")


def fixed_text(value: str, size: int, what: str) -> bytes:
    """The text as a C array of `size` bytes with its terminating NUL. Raises XclbinError when it does not fit."""
    encoded = value.encode()
    if len(encoded) >= size or b"\0" in encoded:
        raise XclbinError(f"{what} is {value!r} ({len(encoded)} bytes), expected at most {size - 1} bytes without NUL")
    return encoded.ljust(size, b"\0")


def text(value: bytes) -> str:
    """The text in a C array of characters, up to the terminating NUL if there is one."""
    return value.split(b"\0", 1)[0].decode(errors="replace")


def encode_memories(memories: Sequence[Memory]) -> bytes:
    """The payload of MEM_TOPOLOGY or GROUP_TOPOLOGY. Raises XclbinError for a tag longer than 15 bytes."""
    entries = (_MEMORY.pack(m.kind, m.used, m.size_kib, m.base_address, fixed_text(m.tag, 16, "memory tag")) for m in memories)
    return struct.pack("<i4x", len(memories)) + b"".join(entries)


def decode_memories(payload: bytes, what: str = "MEM_TOPOLOGY") -> tuple[Memory, ...]:
    """The entries of MEM_TOPOLOGY or GROUP_TOPOLOGY.

    Raises XclbinError.

    Args:
        what: the section's name, for the error.
    """
    return tuple(
        Memory(kind, bool(used), size_kib, base, text(tag))
        for kind, used, size_kib, base, tag in _entries(payload, "<i4x", _MEMORY, what)
    )


def encode_ips(ips: Sequence[Ip]) -> bytes:
    """The payload of IP_LAYOUT. Raises XclbinError for a name longer than 63 bytes."""
    entries = (_IP.pack(ip.type, ip.properties, ip.base_address, fixed_text(ip.name, 64, "IP name")) for ip in ips)
    return struct.pack("<i4x", len(ips)) + b"".join(entries)


def decode_ips(payload: bytes) -> tuple[Ip, ...]:
    """The entries of IP_LAYOUT. Raises XclbinError."""
    return tuple(
        Ip(type_, properties, base, text(name)) for type_, properties, base, name in _entries(payload, "<i4x", _IP, "IP_LAYOUT")
    )


def encode_connections(connections: Sequence[Connection]) -> bytes:
    """The payload of CONNECTIVITY or GROUP_CONNECTIVITY."""
    return struct.pack("<i", len(connections)) + b"".join(_CONNECTION.pack(c.argument, c.ip, c.memory) for c in connections)


def decode_connections(payload: bytes, what: str = "CONNECTIVITY") -> tuple[Connection, ...]:
    """The entries of CONNECTIVITY or GROUP_CONNECTIVITY, with the indices as they are in the file.

    Raises XclbinError.

    Args:
        what: the section's name, for the error.
    """
    return tuple(Connection(*entry) for entry in _entries(payload, "<i", _CONNECTION, what))


def encode_clocks(clocks: Sequence[Clock]) -> bytes:
    """The payload of CLOCK_FREQ_TOPOLOGY. Raises XclbinError for a name longer than 127 bytes."""
    entries = (_CLOCK.pack(c.frequency_mhz, c.kind, fixed_text(c.name, 128, "clock name")) for c in clocks)
    return struct.pack("<h", len(clocks)) + b"".join(entries)


def decode_clocks(payload: bytes) -> tuple[Clock, ...]:
    """The entries of CLOCK_FREQ_TOPOLOGY. Raises XclbinError."""
    entries = _entries(payload, "<h", _CLOCK, "CLOCK_FREQ_TOPOLOGY")
    return tuple(Clock(frequency, kind, text(name)) for frequency, kind, name in entries)


def encode_key_values(values: Mapping[str, str]) -> bytes:
    """The payload of KEYVALUE_METADATA, as xclbinutil --key-value USER:<key>:<value> writes it."""
    entries = [{"key": key, "value": value} for key, value in values.items()]
    return json.dumps({"key_values": entries}, separators=(",", ":")).encode() + b"\n"


def decode_key_values(payload: bytes) -> dict[str, str]:
    """The keys and values of KEYVALUE_METADATA. Raises XclbinError."""
    if len(payload) > MAX_KEY_VALUES_BYTES:
        raise XclbinError(f"section KEYVALUE_METADATA is {len(payload)} bytes, expected at most {MAX_KEY_VALUES_BYTES}")
    try:
        entries = json.loads(payload.rstrip(b"\0"))["key_values"] or []  # xclbinutil writes an empty list as ""
        return {str(entry["key"]): str(entry["value"]) for entry in entries}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise XclbinError(f"section KEYVALUE_METADATA is not a list of keys and values in JSON: {error}") from error


def _entries(payload: bytes, head: str, entry: struct.Struct, what: str) -> Iterator[tuple[Any, ...]]:
    """The fields of each entry after the count. The count is checked against the payload's size before any entry is read."""
    start = struct.calcsize(head)
    if len(payload) < start:
        raise XclbinError(f"section {what} is {len(payload)} bytes, expected at least {start}")
    (count,) = struct.unpack_from(head, payload)
    needed = start + count * entry.size
    if count < 0 or needed > len(payload):
        raise XclbinError(f"section {what} is {len(payload)} bytes and counts {count} entries, expected {needed} bytes")
    return entry.iter_unpack(memoryview(payload)[start:needed])
