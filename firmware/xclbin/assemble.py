# SPDX-License-Identifier: Apache-2.0
"""Assembly of an xclbin from a kernel and an image, with the sections that `v++ --link` writes.

For the emulation targets the image is the simulator, a shared library, in the section BITSTREAM (where XRT's own emulation
keeps its simulator too). For `hw` it is the bitstream that Vivado wrote; v++ links that xclbin itself, and this module is for
packing one again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
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
from hypersonic.firmware.xclbin.connectivity import assign_banks, check_compute_units
from hypersonic.firmware.xclbin.container import Section, Xclbin
from hypersonic.firmware.xclbin.metadata import embedded_metadata
from hypersonic.firmware.xclbin.sections import Kind

__all__ = ["assemble_xclbin", "check_compute_units"]

_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_INTERRUPT_ENABLE = 1


def assemble_xclbin(
    kernel_name: str, target: Target, platform: Platform, image: bytes, *,
    compute_units: int = 1, tools: Mapping[str, str] | None = None, weights: bool = False,
) -> bytes:  # fmt: skip
    """The bytes of an xclbin with compute units <kernel>_1 ... <kernel>_N, each on the banks that vpp_config assigns to it.

    tools: name -> version of each tool that the image was made with. weights: as for describe_kernel. Equal arguments give
    equal bytes. Raises LinkError for a name that is not an identifier or is too long, and for more units than the platform has
    memories for.
    """
    instances = _instances(kernel_name, platform, compute_units)
    kernel = describe_kernel(kernel_name, instances, weights)
    connected = _connections(kernel, platform)
    connections = [tables.Connection(to.argument, to.ip, bank) for to in connected for bank in to.banks]
    memories = _memories(platform, {connection.memory for connection in connections})
    groups = _groups(memories, connected)
    grouped = [*_grouped(connected, groups, len(memories)), *connections]
    sections = (
        Section(Kind.EMBEDDED_METADATA, embedded_metadata(kernel, target, platform)),
        Section(Kind.MEM_TOPOLOGY, tables.encode_memories(memories)),
        Section(Kind.IP_LAYOUT, tables.encode_ips(_ips(kernel))),
        Section(Kind.CONNECTIVITY, tables.encode_connections(connections)),
        Section(Kind.CLOCK_FREQ_TOPOLOGY, tables.encode_clocks(_clocks(platform))),
        Section(Kind.GROUP_TOPOLOGY, tables.encode_memories([*memories, *groups.values()])),
        Section(Kind.GROUP_CONNECTIVITY, tables.encode_connections(grouped)),
        Section(Kind.BUILD_METADATA, _build_metadata(kernel, target, platform, tools or {})),
        Section(Kind.BITSTREAM, image),
    )
    return Xclbin.create(target, platform.vbnv, sections, platform.interface_uuid).to_bytes()


def _instances(kernel_name: str, platform: Platform, compute_units: int) -> tuple[Instance, ...]:
    check_compute_units(compute_units)
    longest = f"{kernel_name}:{kernel_name}_{compute_units}"
    if not _IDENTIFIER.fullmatch(kernel_name) or len(longest) > 63:
        room = (61 - len(str(compute_units))) // 2
        raise LinkError(f"kernel name is {kernel_name!r}, expected an identifier of at most {room} characters")
    return tuple(
        Instance(f"{kernel_name}_{k + 1}", platform.control_base + k * COMPUTE_UNIT_RANGE) for k in range(compute_units)
    )


def _memories(platform: Platform, used: set[int]) -> tuple[tables.Memory, ...]:
    """The entries of MEM_TOPOLOGY. As v++ does, only the banks that a compute unit is connected to are marked used."""
    kinds = tables.MEMORY_KINDS
    return tuple(
        tables.Memory(kinds.index(bank.kind), index in used, bank.size_bytes >> 10, bank.base_address, bank.tag)
        for index, bank in enumerate(platform.memory)
    )


def _ips(kernel: KernelDescription) -> tuple[tables.Ip, ...]:
    """The entries of IP_LAYOUT, sorted by base address. XRT orders the units by their interrupt ids."""
    control = tables.AP_CTRL_CHAIN << 8 | _INTERRUPT_ENABLE
    return tuple(
        tables.Ip(tables.IP_KERNEL, control | number << 1, unit.base_address, f"{kernel.name}:{unit.name}")
        for number, unit in enumerate(kernel.instances)
    )


class _Reach(NamedTuple):
    """The banks that a pointer argument reaches, as indices into Platform.memory."""

    argument: int
    ip: int
    banks: range


def _connections(kernel: KernelDescription, platform: Platform) -> tuple[_Reach, ...]:
    """The banks of every pointer argument of every instance: all banks that its port reaches."""
    masters = [port.name for port in kernel.ports if port.mode == "master"]
    assigned = assign_banks(platform, len(kernel.instances), len(masters))
    return tuple(
        _Reach(argument.index, number, assigned[number][masters.index(argument.port)])
        for number in range(len(kernel.instances))
        for argument in kernel.arguments
        if argument.address_qualifier == 1
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
    """The connections to memory groups. first: index of the first group in GROUP_TOPOLOGY."""
    places = {banks: first + number for number, banks in enumerate(groups)}
    return (tables.Connection(to.argument, to.ip, places[to.banks]) for to in connected if to.banks in places)


def _clocks(platform: Platform) -> tuple[tables.Clock, ...]:
    return (
        tables.Clock(platform.kernel_clock_mhz, tables.CLOCK_KINDS.index("DATA"), "DATA_CLK"),
        tables.Clock(platform.system_clock_mhz, tables.CLOCK_KINDS.index("KERNEL"), "KERNEL_CLK"),
    )


def _build_metadata(kernel: KernelDescription, target: Target, platform: Platform, tools: Mapping[str, str]) -> bytes:
    """BUILD_METADATA: the tools and the kernels of the xclbin, in the structure that xclbinutil writes."""
    build = {
        "dsa": {"board_part": platform.part, "name": platform.vbnv},
        "xclbin": {
            "generated_by": {"name": "hypersonic", "tools": dict(sorted(tools.items()))},
            "user_regions": [{"kernels": [{"name": kernel.name, "instances": [unit.name for unit in kernel.instances]}]}],
            "target": str(target),
        },
    }
    schema = {"major": "1", "minor": "0", "patch": "0"}
    return json.dumps({"schema_version": schema, "build_metadata": build}, indent=1).encode()
