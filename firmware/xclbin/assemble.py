# SPDX-License-Identifier: Apache-2.0
"""A kernel and an image -> an xclbin, as `v++ --link` lays it out.

For the emulation targets the image is the simulator, a shared library, in BITSTREAM (where XRT keeps its own). For `hw`
it is the bitstream Vivado wrote; v++ links its own xclbin there, and this function serves to pack one again.
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
    """The bytes of an xclbin with compute units <kernel>_1 ... <kernel>_N, each on the banks that vpp_config gives it.

    tools: name -> version of what the image was made with. weights: describe_kernel's. Equal arguments give equal bytes.
    Raises LinkError for a name that is no identifier or does not fit, or more units than there are memories to give.
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
    """Only the banks some compute unit is connected to are marked used, as v++ does."""
    kinds = tables.MEMORY_KINDS
    return tuple(
        tables.Memory(kinds.index(bank.kind), index in used, bank.size_bytes >> 10, bank.base_address, bank.tag)
        for index, bank in enumerate(platform.memory)
    )


def _ips(kernel: KernelDescription) -> tuple[tables.Ip, ...]:
    """Sorted by base address; the interrupt id gives XRT the order of the units."""
    control = tables.AP_CTRL_CHAIN << 8 | _INTERRUPT_ENABLE
    return tuple(
        tables.Ip(tables.IP_KERNEL, control | number << 1, unit.base_address, f"{kernel.name}:{unit.name}")
        for number, unit in enumerate(kernel.instances)
    )


class _Reach(NamedTuple):
    """The banks that a pointer argument reaches, as indices of the platform's memory."""

    argument: int
    ip: int
    banks: range


def _connections(kernel: KernelDescription, platform: Platform) -> tuple[_Reach, ...]:
    """Every pointer argument to all banks its port reaches."""
    masters = [port.name for port in kernel.ports if port.mode == "master"]
    assigned = assign_banks(platform, len(kernel.instances), len(masters))
    return tuple(
        _Reach(argument.index, number, assigned[number][masters.index(argument.port)])
        for number in range(len(kernel.instances))
        for argument in kernel.arguments
        if argument.address_qualifier == 1
    )


def _groups(memories: Sequence[tables.Memory], connected: Sequence[_Reach]) -> dict[range, tables.Memory]:
    """What xclbinutil makes of neighbours that one argument reaches: one memory more, in which a buffer may lie anywhere."""
    several = dict.fromkeys(to.banks for to in connected if len(to.banks) > 1)
    return {banks: _group(memories, banks) for banks in several}


def _group(memories: Sequence[tables.Memory], banks: range) -> tables.Memory:
    size_kib = sum(memories[bank].size_kib for bank in banks)
    return replace(memories[banks.start], size_kib=size_kib, tag=f"MBG[{banks.start}:{banks[-1]}]")


def _grouped(connected: Sequence[_Reach], groups: Mapping[range, tables.Memory], first: int) -> Iterator[tables.Connection]:
    """first: how many memories stand before the groups in GROUP_TOPOLOGY."""
    places = {banks: first + number for number, banks in enumerate(groups)}
    return (tables.Connection(to.argument, to.ip, places[to.banks]) for to in connected if to.banks in places)


def _clocks(platform: Platform) -> tuple[tables.Clock, ...]:
    return (
        tables.Clock(platform.kernel_clock_mhz, tables.CLOCK_KINDS.index("DATA"), "DATA_CLK"),
        tables.Clock(platform.system_clock_mhz, tables.CLOCK_KINDS.index("KERNEL"), "KERNEL_CLK"),
    )


def _build_metadata(kernel: KernelDescription, target: Target, platform: Platform, tools: Mapping[str, str]) -> bytes:
    """BUILD_METADATA: who made the xclbin and of what, in xclbinutil's outline."""
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
