# SPDX-License-Identifier: Apache-2.0
"""Assembly of an xclbin from kernels and an image, with the sections that `v++ --link` writes.

For the emulation targets the image is the simulator, a shared library, in the section BITSTREAM (where XRT's own emulation
keeps its simulator too), or an archive of the kernels' simulators (images.py). For `hw` it is the bitstream that Vivado wrote;
v++ links that xclbin itself, and this module only repacks one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import NamedTuple

from hypersonic.firmware.errors import LinkError
from hypersonic.firmware.kernel.vitis_xml import (
    COMPUTE_UNIT_RANGE,
    Instance,
    KernelDescription,
    describe_kernel,
)
from hypersonic.firmware.platform import Platform
from hypersonic.firmware.target import Target
from hypersonic.firmware.xclbin import sections as tables
from hypersonic.firmware.xclbin.connectivity import UnitPlacement, check_compute_units, place_kernels
from hypersonic.firmware.xclbin.container import Section, Xclbin, digest_entries
from hypersonic.firmware.xclbin.metadata import embedded_metadata
from hypersonic.firmware.xclbin.sections import Kind

__all__ = ["LinkedKernel", "assemble_kernels", "assemble_xclbin", "check_compute_units"]

_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_INTERRUPT_ENABLE = 1


@dataclass(frozen=True)
class LinkedKernel:
    """A kernel of an xclbin that is assembled.

    Attributes:
        weights: as for describe_kernel.
        digest: the kernel's identity without its weights (kernel/files.py); empty when it is not known, and the xclbin then
            does not name it.
    """

    name: str
    compute_units: int = 1
    weights: bool = False
    digest: str = ""


def assemble_xclbin(
    kernel_name: str, target: Target, platform: Platform, image: bytes, *,
    compute_units: int = 1, tools: Mapping[str, str] | None = None, weights: bool = False, digest: str = "",
) -> bytes:  # fmt: skip
    """The bytes of an xclbin with one kernel; see LinkedKernel and assemble_kernels for the arguments."""
    kernel = LinkedKernel(kernel_name, compute_units, weights, digest)
    return assemble_kernels([kernel], target, platform, image, tools=tools)


def assemble_kernels(
    linked: Sequence[LinkedKernel], target: Target, platform: Platform, image: bytes, *, tools: Mapping[str, str] | None = None
) -> bytes:
    """The bytes of an xclbin with compute units <kernel>_1 ... <kernel>_N of each kernel, each on the banks that vpp_config
    assigns to it.

    Equal arguments give equal bytes.

    Args:
        tools: name -> version of each tool that the image was made with.

    Raises:
        LinkError: For a name that is not an identifier, is too long or occurs twice, and for more units than the platform has
            memories for.
    """
    kernels = _describe(linked, platform)
    connected = _connections(kernels, platform)
    connections = [tables.Connection(to.argument, to.ip, bank) for to in connected for bank in to.banks]
    memories = _memories(platform, {connection.memory for connection in connections})
    groups = _groups(memories, connected)
    grouped = [*_grouped(connected, groups, len(memories)), *connections]
    digests = {kernel.name: kernel.digest for kernel in linked if kernel.digest}
    sections = (
        Section(Kind.EMBEDDED_METADATA, embedded_metadata(kernels, target, platform)),
        Section(Kind.MEM_TOPOLOGY, tables.encode_memories(memories)),
        Section(Kind.IP_LAYOUT, tables.encode_ips(_ips(kernels))),
        Section(Kind.CONNECTIVITY, tables.encode_connections(connections)),
        Section(Kind.CLOCK_FREQ_TOPOLOGY, tables.encode_clocks(_clocks(platform))),
        Section(Kind.GROUP_TOPOLOGY, tables.encode_memories([*memories, *groups.values()])),
        Section(Kind.GROUP_CONNECTIVITY, tables.encode_connections(grouped)),
        Section(Kind.BUILD_METADATA, _build_metadata(kernels, target, platform, tools or {})),
        *([Section(Kind.KEYVALUE_METADATA, tables.encode_key_values(digest_entries(digests)))] if digests else []),
        Section(Kind.BITSTREAM, image),
    )
    return Xclbin.create(target, platform.vbnv, sections, platform.interface_uuid).to_bytes()


def _describe(linked: Sequence[LinkedKernel], platform: Platform) -> list[KernelDescription]:
    """The kernels with their instances, whose addresses follow one another."""
    for kernel in linked:
        check_compute_units(platform, kernel.compute_units)
    check_compute_units(platform, sum(kernel.compute_units for kernel in linked))
    firsts = accumulate((kernel.compute_units for kernel in linked), initial=0)
    return [
        describe_kernel(kernel.name, _instances(kernel, platform, first), kernel.weights)
        for kernel, first in zip(linked, firsts, strict=False)
    ]


def _instances(kernel: LinkedKernel, platform: Platform, first: int) -> tuple[Instance, ...]:
    longest = f"{kernel.name}:{kernel.name}_{kernel.compute_units}"
    if not _IDENTIFIER.fullmatch(kernel.name) or len(longest) > 63:
        room = (61 - len(str(kernel.compute_units))) // 2
        raise LinkError(f"kernel name is {kernel.name!r}, expected an identifier of at most {room} characters")
    return tuple(
        Instance(f"{kernel.name}_{k + 1}", platform.control_base + (first + k) * COMPUTE_UNIT_RANGE)
        for k in range(kernel.compute_units)
    )


def _memories(platform: Platform, used: set[int]) -> tuple[tables.Memory, ...]:
    """The entries of MEM_TOPOLOGY. As v++ does, only the banks that a compute unit is connected to are marked used."""
    kinds = tables.MEMORY_KINDS
    return tuple(
        tables.Memory(kinds.index(bank.kind), index in used, bank.size_bytes >> 10, bank.base_address, bank.tag)
        for index, bank in enumerate(platform.memory)
    )


def _ips(kernels: Sequence[KernelDescription]) -> tuple[tables.Ip, ...]:
    """The entries of IP_LAYOUT, sorted by base address. XRT orders the units by their interrupt ids."""
    control = tables.AP_CTRL_CHAIN << 8 | _INTERRUPT_ENABLE
    units = [(kernel.name, unit) for kernel in kernels for unit in kernel.instances]
    return tuple(
        tables.Ip(tables.IP_KERNEL, control | number << 1, unit.base_address, f"{kernel}:{unit.name}")
        for number, (kernel, unit) in enumerate(units)
    )


class _Reach(NamedTuple):
    """The banks that a pointer argument reaches, as indices into Platform.memory."""

    argument: int
    ip: int
    banks: range


def _connections(kernels: Sequence[KernelDescription], platform: Platform) -> tuple[_Reach, ...]:
    """The banks of every pointer argument of every instance: all banks that its port reaches."""
    places = iter(enumerate(place_kernels(platform, kernels)))
    return tuple(
        reach for kernel in kernels for _ in kernel.instances for reach in _reaches(kernel, *next(places))
    )  # the places are in the order of the instances


def _reaches(kernel: KernelDescription, number: int, place: UnitPlacement) -> Iterator[_Reach]:
    banks = dict(place.ports)
    return (
        _Reach(argument.index, number, banks[argument.port]) for argument in kernel.arguments if argument.address_qualifier == 1
    )


def _groups(memories: Sequence[tables.Memory], connected: Sequence[_Reach]) -> dict[range, tables.Memory]:
    """The memory groups, by their banks. As xclbinutil does, adjacent banks that one argument reaches are entered as one more
    memory, and a buffer allocated in it may be in any of them."""
    several = dict.fromkeys(to.banks for to in connected if len(to.banks) > 1)
    return {banks: _group(memories, banks) for banks in several}


def _group(memories: Sequence[tables.Memory], banks: range) -> tables.Memory:
    size_kib = sum(memories[bank].size_kib for bank in banks)
    return replace(memories[banks.start], size_kib=size_kib, tag=f"MBG[{banks.start}:{banks[-1]}]")


def _grouped(connected: Sequence[_Reach], groups: Mapping[range, tables.Memory], first: int) -> Iterator[tables.Connection]:
    """The connections to memory groups.

    Args:
        first: index of the first group in GROUP_TOPOLOGY.
    """
    places = {banks: first + number for number, banks in enumerate(groups)}
    return (tables.Connection(to.argument, to.ip, places[to.banks]) for to in connected if to.banks in places)


def _clocks(platform: Platform) -> tuple[tables.Clock, ...]:
    return (
        tables.Clock(platform.kernel_clock_mhz, tables.CLOCK_KINDS.index("DATA"), "DATA_CLK"),
        tables.Clock(platform.system_clock_mhz, tables.CLOCK_KINDS.index("KERNEL"), "KERNEL_CLK"),
    )


def _build_metadata(
    kernels: Sequence[KernelDescription], target: Target, platform: Platform, tools: Mapping[str, str]
) -> bytes:
    """BUILD_METADATA: the tools and the kernels of the xclbin, in the structure that xclbinutil writes."""
    listed = [{"name": kernel.name, "instances": [unit.name for unit in kernel.instances]} for kernel in kernels]
    build = {
        "dsa": {"board_part": platform.part, "name": platform.vbnv},
        "xclbin": {
            "generated_by": {"name": "hypersonic", "tools": dict(sorted(tools.items()))},
            "user_regions": [{"kernels": listed}],
            "target": str(target),
        },
    }
    schema = {"major": "1", "minor": "0", "patch": "0"}
    return json.dumps({"schema_version": schema, "build_metadata": build}, indent=1).encode()
