# SPDX-License-Identifier: Apache-2.0
"""An xclbin as text, for `hypersonic inspect FILE.xclbin`."""

from __future__ import annotations

import json

from hypersonic.firmware.kernel.vitis_xml import KernelDescription
from hypersonic.firmware.xclbin.container import ComputeUnit, Xclbin
from hypersonic.firmware.xclbin.sections import MEMORY_KINDS, Kind, Memory

_PROTOCOLS = ("ap_ctrl_hs", "ap_ctrl_chain", "ap_ctrl_none")


def describe(xclbin: Xclbin) -> str:
    """Lines with the head, kernels, compute units, used memories, clocks, sections and build metadata; no trailing newline."""
    blocks = (
        _head(xclbin),
        [line for kernel in xclbin.kernels for line in _kernel(kernel, xclbin.kernel_digests.get(kernel.name, ""))],
        [_unit(unit, xclbin.group_memories) for unit in xclbin.compute_units],
        _shared(xclbin),
        [_memory(index, memory) for index, memory in enumerate(xclbin.group_memories) if memory.used],
        [f"clock          {clock.name} {clock.frequency_mhz} MHz" for clock in xclbin.clocks],
        [f"section        {section.kind_name:<20} {len(section.payload):>12} bytes" for section in xclbin.sections],
    )
    texts = ["\n".join(_printable(line) for line in block) for block in blocks if block]
    return "\n\n".join([*texts, *_build_metadata(xclbin)])


def _printable(line: str) -> str:
    """The line without unprintable characters: names come from the file, and must not move the cursor or begin a new line."""
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in line)


def _head(xclbin: Xclbin) -> list[str]:
    version = ".".join(str(part) for part in xclbin.version)
    return [
        f"uuid           {xclbin.uuid}",
        f"target         {xclbin.target} (mode {xclbin.mode})",
        f"platform       {xclbin.vbnv}",
        f"interface uuid {xclbin.interface_uuid}",
        f"version        {version}",
        f"signed         {'yes' if xclbin.signature else 'no'}",
    ]


def _kernel(kernel: KernelDescription, digest: str) -> list[str]:
    lines = [f"kernel         {kernel.name} ({kernel.control_protocol})"]
    lines += [f"  digest       {digest}"] if digest else []
    lines += [f"  port         {port.name} {port.mode} {port.data_width} bit" for port in kernel.ports]
    lines += [
        f"  argument {argument.index}   {argument.name} {argument.type} at {argument.offset:#04x} through {argument.port}"
        for argument in kernel.arguments
    ]
    return lines


def _unit(unit: ComputeUnit, memories: tuple[Memory, ...]) -> str:
    banks = ", ".join(f"argument {argument} on {memories[memory].tag}" for argument, memory in sorted(unit.memories.items()))
    protocol = _name(_PROTOCOLS, unit.control_protocol)
    return f"compute unit   {unit.name} at {unit.base_address:#x} ({protocol}): {banks or 'no memory'}"


def _shared(xclbin: Xclbin) -> list[str]:
    """A line for each bank that several compute units reach."""
    names: dict[int, list[str]] = {}
    for bank, unit in sorted({(connection.memory, connection.ip) for connection in xclbin.connections}):
        names.setdefault(bank, []).append(xclbin.ips[unit].name.partition(":")[2])
    return [
        f"shared bank    {xclbin.memories[bank].tag}: {', '.join(units)}" for bank, units in names.items() if len(units) > 1
    ]


def _memory(index: int, memory: Memory) -> str:
    kind = _name(MEMORY_KINDS, memory.kind)
    return f"memory {index:<7} {memory.tag} {kind} {memory.size_kib / (1 << 20):g} GiB at {memory.base_address:#x}"


def _name(names: tuple[str, ...] | list[str], number: int) -> str:
    return names[number] if number < len(names) else f"unknown {number}"


def _build_metadata(xclbin: Xclbin) -> list[str]:
    payload = xclbin.section(Kind.BUILD_METADATA)
    if payload is None:
        return []
    try:
        build = json.dumps(json.loads(payload.rstrip(b"\0")), indent=2)
    except (ValueError, RecursionError):
        build = f"not JSON ({len(payload)} bytes)"
    return [f"build metadata {build}"]
