# SPDX-License-Identifier: Apache-2.0
"""The xclbin container (AXLF), as XRT reads it: `Xclbin.read(path)`, `Xclbin.create(...).to_bytes()`.

Source of the layout: XRT's xrt/detail/xclbin.h (struct axlf, axlf_header, axlf_section_header), little endian::

    0     magic "xclbin2\\0", signature length (-1: none), 28 x 0xFF, key block[256], unique id
    304   header: length, two timestamps, version, mode, action mask, interface uuid, platform VBNV[64], xclbin uuid, sections
    456   one section header of 40 bytes each: kind, name[16], offset, size
    ...   the sections, each at a multiple of 8

Every size, offset and count in a file is checked against the file's real size before it is used.
"""

from __future__ import annotations

import hashlib
import os
import re
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol

from hypersonic.firmware.errors import XclbinError
from hypersonic.firmware.kernel.vitis_xml import KernelDescription, parse_kernels
from hypersonic.firmware.target import Target
from hypersonic.firmware.xclbin import sections as tables
from hypersonic.firmware.xclbin.sections import Kind

__all__ = ["ComputeUnit", "Section", "Xclbin", "XclbinError"]

MAGIC = b"xclbin2\0"
#: XCLBIN_MAX_NUM_SECTION of xclbin.h
MAX_SECTIONS = 0x10000
#: larger than any existing bitstream; keeps a hostile file from filling the memory
MAX_FILE_BYTES = 2 << 30
#: the most bytes that are read of a file without its image
MAX_DESCRIPTION_BYTES = 256 << 20

_TOP = struct.Struct("<8si28s256sQ")
_HEADER = struct.Struct("<QQQHBBHH16s64s16s16sI4x")
_SECTION = struct.Struct("<I16s4xQQ")
_SECTIONS_START = _TOP.size + _HEADER.size
_NO_SIGNATURE = -1

#: the key of a kernel's digest in KEYVALUE_METADATA is this and the kernel's name
DIGEST_KEY = "hypersonic.kernel."
_DIGEST = re.compile(r"[0-9a-f]{64}")

#: XCLBIN_MODE -> Target; 0-3 are ways to load a real bitstream
_TARGETS = {0: Target.HW, 1: Target.HW, 2: Target.HW, 3: Target.HW, 4: Target.HW_EMU, 5: Target.SW_EMU, 6: Target.HW_EMU}
_MODES = {Target.HW: 0, Target.HW_EMU: 4, Target.SW_EMU: 5}


@dataclass(frozen=True)
class Section:
    """One section: its kind (axlf_section_kind), its bytes and its name, which is usually empty."""

    kind: int
    payload: bytes = field(repr=False)
    name: str = ""

    @property
    def kind_name(self) -> str:
        """The kind's name in xclbin.h without its suffix, such as MEM_TOPOLOGY; `kind N` for a number that is not known."""
        return tables.KIND_NAMES[self.kind] if self.kind < len(tables.KIND_NAMES) else f"kind {self.kind}"


@dataclass(frozen=True)
class ComputeUnit:
    """One instance of a kernel.

    Attributes:
        memories: argument index -> index into Xclbin.group_memories of the last memory that the argument reaches, as XRT
            chooses it: the group, where the argument reaches several memories.
        reach: argument index -> the indices of all memories it reaches.
    """

    name: str
    kernel: str
    base_address: int
    control_protocol: int
    memories: dict[int, int]
    reach: dict[int, frozenset[int]]


@dataclass(frozen=True)
class Xclbin:
    """The contents of an xclbin file. `read`, `parse` and `create` make one, and check it completely before they return it."""

    mode: int
    vbnv: str
    uuid: str  # 32 hex digits
    sections: tuple[Section, ...]
    interface_uuid: str = "0" * 32
    timestamp: int = 0
    feature_rom_timestamp: int = 0
    version: tuple[int, int, int] = (2, 13, 0)  # major, minor, patch
    action_mask: int = 0
    unique_id: int = 0
    debug_name: str = ""
    key_block: bytes = field(default=bytes(256), repr=False)
    trailer: bytes = field(default=b"", repr=False)  # xclbinutil's copy of the metadata, kept unchanged
    signature: bytes = field(default=b"", repr=False)  # PKCS7, after the image

    @classmethod
    def read(cls, path: Path, *, image: bool = True) -> Xclbin:
        """The xclbin in a file. Raises XclbinError, which names the file, when it is not a complete xclbin; OSError when it
        cannot be read.

        Args:
            image: as for read_open.
        """
        try:
            with path.open("rb") as file:
                return cls.read_open(file, image=image)
        except XclbinError as error:
            raise XclbinError(f"{path}: {error}") from error

    @classmethod
    def read_open(cls, file: BinaryIO, *, image: bool = True) -> Xclbin:
        """The xclbin in an open file. Its headers are read first, and the rest once all sizes in them are checked.

        Args:
            image: False leaves out the section BITSTREAM, which is most of the file and is then not read.

        Raises:
            XclbinError: When it is not one complete, consistent xclbin, or is too large.
            OSError: When it cannot be read.
        """
        size = os.fstat(file.fileno()).st_size
        if size > MAX_FILE_BYTES:
            raise XclbinError(f"{size} bytes, expected an xclbin of at most {MAX_FILE_BYTES}")
        xclbin = _parse(_FileBytes(file, size), image=image)
        _check(xclbin)
        return xclbin

    @classmethod
    def parse(cls, data: bytes) -> Xclbin:
        """The xclbin in the bytes of a whole file. Raises XclbinError unless they are one complete, consistent xclbin."""
        xclbin = _parse(data, image=True)
        _check(xclbin)
        return xclbin

    @classmethod
    def create(cls, target: Target, vbnv: str, sections: Iterable[Section], interface_uuid: str = "0" * 32) -> Xclbin:
        """A new xclbin. Its uuid, unique id and timestamp are a hash of the content, so equal inputs give equal bytes.

        The timestamp is not a date: loaders compare it and the unique id with those of the image on the card, to find out
        whether this one is new.

        Args:
            interface_uuid: 32 hex digits.

        Raises:
            XclbinError: When the sections are not consistent.
        """
        blank = cls(_MODES[target], vbnv, "0" * 32, tuple(sections), interface_uuid)
        digest = hashlib.sha256(blank.to_bytes()).digest()
        stamp = int.from_bytes(digest[16:24], "little")
        xclbin = replace(blank, uuid=digest[:16].hex(), unique_id=stamp, timestamp=stamp & 0x7FFFFFFF)
        _check(xclbin)
        return xclbin

    def to_bytes(self) -> bytes:
        """The bytes of the file; `parse` of them gives an equal Xclbin."""
        offset = _align(_SECTIONS_START + len(self.sections) * _SECTION.size)
        heads, body = [], bytearray()
        for section in self.sections:
            name = tables.fixed_text(section.name, 16, "section name")
            heads.append(_SECTION.pack(section.kind, name, offset + len(body), len(section.payload)))
            body += section.payload.ljust(_align(len(section.payload)), b"\0")
        body += self.trailer
        top = _TOP.pack(MAGIC, len(self.signature) or _NO_SIGNATURE, b"\xff" * 28, self.key_block, self.unique_id)
        image = top + self._header(offset + len(body)) + b"".join(heads)
        return image.ljust(offset, b"\0") + bytes(body) + self.signature

    def _header(self, length: int) -> bytes:
        major, minor, patch = self.version
        return _HEADER.pack(
            length, self.timestamp, self.feature_rom_timestamp, patch, major, minor, self.mode, self.action_mask,
            bytes.fromhex(self.interface_uuid), tables.fixed_text(self.vbnv, 64, "platform VBNV"), bytes.fromhex(self.uuid),
            tables.fixed_text(self.debug_name, 16, "debug name"), len(self.sections),
        )  # fmt: skip

    def section(self, kind: int) -> bytes | None:
        """The payload of the first section of that kind; None when there is none."""
        return next((section.payload for section in self.sections if section.kind == kind), None)

    @property
    def target(self) -> Target:
        """The target that the mode stands for (XCLBIN_MODE)."""
        return _TARGETS[self.mode]

    @property
    def bitstream(self) -> bytes:
        """The BITSTREAM section: the FPGA's configuration, or the simulator for the emulation targets; empty without one."""
        return self.section(Kind.BITSTREAM) or b""

    @cached_property
    def memories(self) -> tuple[tables.Memory, ...]:
        """The entries of MEM_TOPOLOGY; empty without that section."""
        payload = self.section(Kind.MEM_TOPOLOGY)
        return tables.decode_memories(payload) if payload is not None else ()

    @cached_property
    def group_memories(self) -> tuple[tables.Memory, ...]:
        """The entries of GROUP_TOPOLOGY, or of MEM_TOPOLOGY where there is none. XRT's memory groups are indices into them."""
        payload = self.section(Kind.GROUP_TOPOLOGY)
        return tables.decode_memories(payload, "GROUP_TOPOLOGY") if payload is not None else self.memories

    @cached_property
    def ips(self) -> tuple[tables.Ip, ...]:
        """The entries of IP_LAYOUT; empty without that section."""
        payload = self.section(Kind.IP_LAYOUT)
        return tables.decode_ips(payload) if payload is not None else ()

    @cached_property
    def connections(self) -> tuple[tables.Connection, ...]:
        """The entries of CONNECTIVITY, whose memories are indices into `memories`; empty without that section."""
        payload = self.section(Kind.CONNECTIVITY)
        return tables.decode_connections(payload) if payload is not None else ()

    @cached_property
    def group_connections(self) -> tuple[tables.Connection, ...]:
        """The entries of GROUP_CONNECTIVITY, or of CONNECTIVITY where there is none."""
        payload = self.section(Kind.GROUP_CONNECTIVITY)
        return tables.decode_connections(payload, "GROUP_CONNECTIVITY") if payload is not None else self.connections

    @cached_property
    def clocks(self) -> tuple[tables.Clock, ...]:
        """The entries of CLOCK_FREQ_TOPOLOGY; empty without that section."""
        payload = self.section(Kind.CLOCK_FREQ_TOPOLOGY)
        return tables.decode_clocks(payload) if payload is not None else ()

    @property
    def kernel_clock_mhz(self) -> int:
        """The frequency of the kernels' clock ap_clk; 0 if it has none."""
        data = tables.CLOCK_KINDS.index("DATA")
        return next((clock.frequency_mhz for clock in self.clocks if clock.kind == data), 0)

    @cached_property
    def kernels(self) -> tuple[KernelDescription, ...]:
        """The kernels in EMBEDDED_METADATA; empty without that section."""
        payload = self.section(Kind.EMBEDDED_METADATA)
        return parse_kernels(payload) if payload is not None else ()

    def kernel(self, name: str) -> KernelDescription | None:
        """The kernel with that name; None when the xclbin does not have it."""
        return next((kernel for kernel in self.kernels if kernel.name == name), None)

    def units_of(self, kernel: str) -> tuple[ComputeUnit, ...]:
        """The compute units of one kernel, in the order of IP_LAYOUT."""
        return tuple(unit for unit in self.compute_units if unit.kernel == kernel)

    @cached_property
    def key_values(self) -> Mapping[str, str]:
        """The entries of KEYVALUE_METADATA; empty without that section."""
        payload = self.section(Kind.KEYVALUE_METADATA)
        return tables.decode_key_values(payload) if payload is not None else {}

    @cached_property
    def kernel_digests(self) -> Mapping[str, str]:
        """Kernel name -> its digest (kernel/files.py), 64 hex digits. A kernel whose digest is not known is not in it."""
        return {key.removeprefix(DIGEST_KEY): value for key, value in self.key_values.items() if key.startswith(DIGEST_KEY)}

    def with_digests(self, digests: Mapping[str, str]) -> Xclbin:
        """This xclbin with digests of its kernels in KEYVALUE_METADATA, where other entries are kept.

        The uuid stays; xclbinutil's copy of the metadata and the signature, which belong to the old content, are left out.
        """
        section = Section(Kind.KEYVALUE_METADATA, tables.encode_key_values({**self.key_values, **digest_entries(digests)}))
        kept = tuple(other for other in self.sections if other.kind != Kind.KEYVALUE_METADATA)
        xclbin = replace(self, sections=(*kept, section), trailer=b"", signature=b"")
        _check(xclbin)
        return xclbin

    @cached_property
    def compute_units(self) -> tuple[ComputeUnit, ...]:
        """Every kernel instance of IP_LAYOUT, with its memories from GROUP_CONNECTIVITY."""
        reach: dict[int, dict[int, set[int]]] = {}
        for connection in self.group_connections:
            reach.setdefault(connection.ip, {}).setdefault(connection.argument, set()).add(connection.memory)
        units = ((index, ip) for index, ip in enumerate(self.ips) if ip.type == tables.IP_KERNEL)
        return tuple(_compute_unit(ip, reach.get(index, {})) for index, ip in units)


def digest_entries(digests: Mapping[str, str]) -> dict[str, str]:
    """The entries of KEYVALUE_METADATA for digests of kernels by their names."""
    return {f"{DIGEST_KEY}{kernel}": digest for kernel, digest in digests.items()}


def _compute_unit(ip: tables.Ip, reach: dict[int, set[int]]) -> ComputeUnit:
    kernel, _, name = ip.name.partition(":")
    memories = {argument: max(there) for argument, there in reach.items()}
    frozen = {argument: frozenset(there) for argument, there in reach.items()}
    return ComputeUnit(name, kernel, ip.base_address, ip.control_protocol, memories, frozen)


def _align(size: int) -> int:
    return -(-size // 8) * 8


class _Bytes(Protocol):
    """The bytes of a file, which may be read only as they are needed."""

    def __len__(self) -> int: ...

    def __getitem__(self, part: slice, /) -> bytes: ...


class _FileBytes:
    """The bytes of an open file."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file, self._size = file, size

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, part: slice, /) -> bytes:
        start, stop, _ = part.indices(self._size)
        self._file.seek(start)
        data = self._file.read(stop - start)
        if len(data) != stop - start:
            raise XclbinError(f"the file has fewer than its {self._size} bytes: it is being written")
        return data


def _parse(data: _Bytes, *, image: bool) -> Xclbin:
    """Parse a file.

    Args:
        image: False leaves out the section BITSTREAM.
    """
    if len(data) < _SECTIONS_START:
        raise XclbinError(f"the file is {len(data)} bytes, expected at least {_SECTIONS_START}: truncated, or not an xclbin")
    magic, signature_length, _, key_block, unique_id = _TOP.unpack(data[: _TOP.size])
    if magic != MAGIC:
        raise XclbinError(f"the file starts with {magic!r}, expected {MAGIC!r}: not an xclbin")
    header = _HEADER.unpack(data[_TOP.size : _SECTIONS_START])
    length, timestamp, rom, patch, major, minor, mode, mask, interface, vbnv, uuid, debug, count = header
    whole = length + max(signature_length, 0)
    if whole != len(data):
        cause = "truncated" if whole > len(data) else "there are bytes after the image"
        raise XclbinError(f"the file is {len(data)} bytes, its header says {whole}: {cause}")
    if mode not in _TARGETS:
        raise XclbinError(f"mode is {mode}, expected one of {sorted(_TARGETS)}")
    if count > MAX_SECTIONS or _SECTIONS_START + count * _SECTION.size > length:
        raise XclbinError(f"the header counts {count} sections, the file of {length} bytes has no room for them")
    heads, end = _parse_heads(data, length, count)
    chosen = [head for head in heads if image or head.kind != Kind.BITSTREAM]
    described = sum(head.size for head in chosen) + len(data) - end
    if not image and described > MAX_DESCRIPTION_BYTES:
        raise XclbinError(f"{described} bytes beside the image, expected at most {MAX_DESCRIPTION_BYTES}")
    sections = tuple(Section(head.kind, data[head.offset : head.offset + head.size], head.name) for head in chosen)
    return Xclbin(
        mode=mode, vbnv=tables.text(vbnv), uuid=uuid.hex(), sections=sections, interface_uuid=interface.hex(),
        timestamp=timestamp, feature_rom_timestamp=rom, version=(major, minor, patch), action_mask=mask, unique_id=unique_id,
        debug_name=tables.text(debug), key_block=key_block, trailer=data[end:length], signature=data[length:],
    )  # fmt: skip


class _Head(NamedTuple):
    """Where a section is in the file."""

    kind: int
    name: str
    offset: int
    size: int


def _parse_heads(data: _Bytes, length: int, count: int) -> tuple[list[_Head], int]:
    """The headers of the sections, and the offset at which the last one's padding ends."""
    table = data[_SECTIONS_START : _SECTIONS_START + count * _SECTION.size]
    heads = []
    end = _align(_SECTIONS_START + count * _SECTION.size)
    taken = 0
    for index, (kind, name, offset, size) in enumerate(_SECTION.iter_unpack(table)):
        taken += size
        if size and not _SECTIONS_START + count * _SECTION.size <= offset <= length - size:
            raise XclbinError(f"section {index} (kind {kind}) is {size} bytes at {offset}, outside the file of {length} bytes")
        if taken > length:
            raise XclbinError(f"the first {index + 1} sections are {taken} bytes, more than the file of {length}: they overlap")
        heads.append(_Head(kind, tables.text(name), offset if size else 0, size))
        end = max(end, _align(offset + size) if size else 0)
    return heads, min(end, length)


def _check(xclbin: Xclbin) -> None:
    """Decode every table once, so that no property raises later, and check the indices and names in them."""
    for ip in xclbin.ips:
        if ip.type == tables.IP_KERNEL and not all(ip.name.partition(":")[::2]):
            raise XclbinError(f"IP_LAYOUT names a kernel {ip.name!r}, expected kernel:compute_unit")
    _check_connections("CONNECTIVITY", xclbin.connections, len(xclbin.ips), len(xclbin.memories))
    _check_connections("GROUP_CONNECTIVITY", xclbin.group_connections, len(xclbin.ips), len(xclbin.group_memories))
    known = {kernel.name for kernel in xclbin.kernels}
    for unit in xclbin.compute_units:
        if unit.kernel not in known:
            raise XclbinError(f"compute unit {unit.name} has kernel {unit.kernel!r}, EMBEDDED_METADATA has {sorted(known)}")
    if len(known) != len(xclbin.kernels):
        raise XclbinError(
            f"EMBEDDED_METADATA has {len(xclbin.kernels)} kernels with the names {sorted(known)}, expected each once"
        )
    for kernel, digest in xclbin.kernel_digests.items():
        if kernel not in known or not _DIGEST.fullmatch(digest):
            raise XclbinError(
                f"KEYVALUE_METADATA has the digest {digest[:80]!r} of kernel {kernel[:80]!r}, expected 64 hexadecimal digits "
                f"and one of the kernels {sorted(known)}"
            )
    _ = xclbin.clocks


def _check_connections(what: str, connections: Iterable[tables.Connection], ips: int, memories: int) -> None:
    for connection in connections:
        if not (0 <= connection.ip < ips and 0 <= connection.memory < memories and connection.argument >= 0):
            raise XclbinError(f"{what} has {connection}, but there are {ips} IPs and {memories} memories")
