# SPDX-License-Identifier: Apache-2.0
"""The parser that PYNQ needs for an xclbin: the dictionaries ip_dict, mem_dict and clock_dict, from the xclbin's tables.

Their keys are those of PYNQ 3.0.1's xclbin parser, so that existing programs can use them. The registers are CTRL and the
arguments, and for kernels of this project also their status registers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypersonic.firmware.kernel.registers import ADDRESS_RANGE, REGISTERS, Register
from hypersonic.firmware.kernel.vitis_xml import VLNV, Argument, KernelDescription
from hypersonic.firmware.xclbin.container import ComputeUnit, Xclbin
from hypersonic.firmware.xclbin.sections import CLOCK_KINDS, MEMORY_KINDS, Clock, Memory

#: addressQualifier of the arguments that are passed through s_axi_control
_SCALAR, _GLOBAL_MEMORY = 0, 1
_STREAMING = frozenset(MEMORY_KINDS.index(kind) for kind in ("STREAMING", "STREAMING_CONNECTION"))
_CONTROL_BITS = {
    "AP_START": (0, "read-write", "start a run"),
    "AP_DONE": (1, "read-only", "a run is done"),
    "AP_IDLE": (2, "read-only", "no run is in flight"),
    "AP_READY": (3, "read-only", "a run was accepted"),
    "AP_CONTINUE": (4, "read-write", "acknowledge a done run"),
}


class Metadata:
    """The parser object of an Overlay. The properties that only boards have (GPIO, interrupts, hierarchies) are empty."""

    def __init__(self, path: Path) -> None:
        """Raises XclbinError, which names the file, when it is not a complete xclbin; OSError when it cannot be read."""
        self.path = path
        self.contents = Xclbin.read(path)
        self.ip_dict = _ips(self.contents)
        self.mem_dict = {memory.tag: _memory(index, memory) for index, memory in enumerate(self.contents.memories)}
        self.clock_dict = _clocks(self.contents.clocks)
        self.gpio_dict: dict[str, Any] = {}
        self.interrupt_controllers: dict[str, Any] = {}
        self.interrupt_pins: dict[str, Any] = {}
        self.hierarchy_dict: dict[str, Any] = {}
        self.systemgraph = None


def _ips(contents: Xclbin) -> dict[str, Any]:
    kernels = {kernel.name: kernel for kernel in contents.kernels}
    units = sorted(contents.compute_units, key=lambda unit: unit.base_address)
    entries = ((index, unit, kernels[unit.kernel]) for index, unit in enumerate(units))
    return {unit.name: _ip(contents, index, unit, kernel) for index, unit, kernel in sorted(entries, key=lambda e: e[1].name)}


def _ip(contents: Xclbin, index: int, unit: ComputeUnit, kernel: KernelDescription) -> dict[str, Any]:
    return {
        "phys_addr": unit.base_address, "addr_range": _address_range(kernel), "type": _vlnv(kernel), "fullpath": unit.name,
        "hw_control_protocol": kernel.control_protocol, "registers": _registers(contents, unit, kernel), "streams": {},
        "mem_id": None, "state": None, "interrupts": {}, "gpio": {}, "xclbin_uuid": contents.uuid,
        "cu_name": f"{kernel.name}:{unit.name}", "cu_index": index, "index": index,
    }  # fmt: skip


def _vlnv(kernel: KernelDescription) -> str:
    return kernel.vlnv or f"xrt:kernel:{kernel.name}:1.0"


def is_ours(kernel: KernelDescription) -> bool:
    """True if the kernel has the status registers of firmware/kernel/registers.py."""
    return kernel.vlnv.startswith(f"{VLNV}:")


def _address_range(kernel: KernelDescription) -> int:
    ranges = [port.range for port in kernel.ports if port.mode == "slave"]
    return max(ranges, default=ADDRESS_RANGE)


def _registers(contents: Xclbin, unit: ComputeUnit, kernel: KernelDescription) -> dict[str, Any]:
    registers: dict[str, Any] = {}
    if kernel.control_protocol in {"ap_ctrl_hs", "ap_ctrl_chain"}:
        registers["CTRL"] = _control()
    for argument in kernel.arguments:
        if argument.address_qualifier in {_SCALAR, _GLOBAL_MEMORY}:
            registers[argument.name] = _argument(contents, unit, argument)
    if is_ours(kernel):
        registers |= {register.name: _status(register) for register in REGISTERS if register.access == "R"}
    return registers


def _control() -> dict[str, Any]:
    fields = {
        name: {"access": access, "bit_offset": bit, "bit_width": 1, "description": text}
        for name, (bit, access, text) in _CONTROL_BITS.items()
    }
    return _register(0, 32, "read-write", "block control") | {"type": "uint", "fields": fields}


def _argument(contents: Xclbin, unit: ComputeUnit, argument: Argument) -> dict[str, Any]:
    entry = _register(argument.offset, 8 * argument.size, "read-write", f"argument {argument.index}")
    entry |= {"type": argument.type, "id": argument.index, "host_size": argument.size}
    entry["pointer"] = argument.address_qualifier == _GLOBAL_MEMORY
    banks = _banks(contents, unit, argument)
    return entry | {"banks": banks, **({"memory": banks[-1]} if banks else {})}


def _banks(contents: Xclbin, unit: ComputeUnit, argument: Argument) -> tuple[str, ...]:
    """The tags of the memories that the argument reaches; empty where the xclbin does not list them."""
    names = [ip.name for ip in contents.ips]
    reached = (c for c in contents.connections if c.argument == argument.index and names[c.ip] == f"{unit.kernel}:{unit.name}")
    return tuple(contents.memories[connection.memory].tag for connection in reached)


def _status(register: Register) -> dict[str, Any]:
    return _register(register.offset, 32 * register.words, "read-only", register.text) | {"type": "uint"}


def _register(offset: int, size_bits: int, access: str, description: str) -> dict[str, Any]:
    return {"address_offset": offset, "access": access, "size": size_bits, "description": description, "id": None}


def _memory(index: int, memory: Memory) -> dict[str, Any]:
    kind = MEMORY_KINDS[memory.kind] if memory.kind < len(MEMORY_KINDS) else f"kind {memory.kind}"
    return {
        "raw_type": memory.kind, "used": int(memory.used), "base_address": memory.base_address, "type": kind, "idx": index,
        "size": memory.size_kib * 1024, "streaming": memory.kind in _STREAMING, "tag": memory.tag,
    }  # fmt: skip


def _clocks(clocks: tuple[Clock, ...]) -> dict[str, Any]:
    """clock0 and so on, by kind as PYNQ sorts them."""
    known = sorted((clock for clock in clocks if clock.kind < len(CLOCK_KINDS)), key=lambda clock: clock.kind)
    return {
        f"clock{index}": {"name": clock.name, "frequency": clock.frequency_mhz, "type": CLOCK_KINDS[clock.kind]}
        for index, clock in enumerate(known)
    }
