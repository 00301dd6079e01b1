# SPDX-License-Identifier: Apache-2.0
"""Packaging of a kernel as kernel.xo: the files that Vivado reads (RTL, kernel.xml, kernel.tcl) and the call of package_xo.tcl.

This module does not repeat the kernel's ports, arguments and addresses: it takes them from firmware/kernel/files.py,
vitis_xml.py and registers.py, and writes them as Tcl data.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from hypersonic.firmware.kernel import registers
from hypersonic.firmware.kernel.files import MAX_BURST_BEATS, OUTSTANDING, PORTS, Kernel
from hypersonic.firmware.kernel.registers import Register
from hypersonic.firmware.kernel.vitis_xml import Argument, KernelDescription, describe_kernel, kernel_xml
from hypersonic.firmware.platform import Platform
from hypersonic.firmware.toolchains.errors import VendorError
from hypersonic.firmware.toolchains.memories import check_memories
from hypersonic.firmware.toolchains.steps import Product, Step, write_whole
from hypersonic.firmware.toolchains.vitis.tools import Tools

HERE = Path(__file__).resolve().parent

CLOCK, RESET, INTERRUPT = "ap_clk", "ap_rst_n", "interrupt"

#: this project's name of a register -> Vitis' name of it
_VITIS_NAMES = {"CONTROL": "CTRL", "GIE": "GIER", "IER": "IP_IER", "ISR": "IP_ISR"}
_ACCESS = {"RW": "read-write", "R": "read-only"}


def package_steps(tools: Tools, platform: Platform, kernel: Kernel, build: Path) -> tuple[Step, ...]:
    """Write the files that Vivado reads into `build`, and return the steps that check the device and make <kernel>.xo.

    Raises VendorError for sources with the same name, and for a memory file that is missing.
    """
    check_memories(kernel.core)
    staged = _stage_sources([*kernel.sources, *kernel.core.memories], build)
    sources, memories = staged[: len(kernel.sources)], staged[len(kernel.sources) :]
    description = describe_kernel(kernel.name, weights=kernel.core.takes_weights)
    write_whole(build / "kernel.xml", kernel_xml(description).decode())
    write_whole(build / "kernel.tcl", kernel_tcl(description, platform, sources, f"partial/{kernel.name}.xo", memories))
    for name in ("package_xo.tcl", "check_part.tcl", "check_part.v"):
        write_whole(build / name, (HERE / name).read_text())
    return (_check_part(tools, platform), _package(tools, kernel.name, staged))


def _check_part(tools: Tools, platform: Platform) -> Step:
    product = "partial/part_checked"
    return Step(
        name="check_part", title=f"checking that Vivado {tools.release} has {platform.part} and a licence for it",
        argv=(*_vivado(tools), "-source", "check_part.tcl", "-tclargs", platform.part, product),
        inputs=("check_part.tcl", "check_part.v"), products=(Product(product, "part_checked"),), key=(tools.release,),
    )  # fmt: skip


def _package(tools: Tools, name: str, sources: Sequence[str]) -> Step:
    return Step(
        name="package_xo", title=f"packaging kernel {name}", argv=(*_vivado(tools), "-source", "package_xo.tcl"),
        inputs=("package_xo.tcl", "kernel.tcl", "kernel.xml", *sources),
        products=(Product(f"partial/{name}.xo", f"{name}.xo"),), key=(tools.release,),
    )  # fmt: skip


def _vivado(tools: Tools) -> tuple[str, ...]:
    return (str(tools.vivado), "-mode", "batch", "-nojournal", "-nolog", "-notrace")


def _stage_sources(sources: Sequence[Path], build: Path) -> tuple[str, ...]:
    """Copy the sources to build/rtl, and return their paths relative to `build`. One directory holds them all, so that Vivado
    finds included files."""
    place = build / "rtl"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    for source in sources:
        if (place / source.name).exists():
            raise VendorError(f"two files of the kernel are called {source.name}; give the model another name")
        shutil.copyfile(source, place / source.name)
    return tuple(f"rtl/{source.name}" for source in sources)


def kernel_tcl(
    description: KernelDescription, platform: Platform, sources: Sequence[str], xo: str, memories: Sequence[str] = ()
) -> str:
    """The text of kernel.tcl: the properties of the kernel that package_xo.tcl uses, as Tcl variables. Paths are relative to
    the file."""
    control = next(port.name for port in description.ports if port.mode == "slave")
    lines = [
        "# SPDX-License-Identifier: Apache-2.0",
        f"# Kernel {description.name} for package_xo.tcl: written by hypersonic, do not edit.",
        _set("kernel", description.name),
        _set("part", platform.part),
        _set("protocol", description.control_protocol),
        _set("xo", xo),
        _set("clock", CLOCK),
        _set("reset", RESET),
        _set("interrupt", INTERRUPT),
        _set("control", control),
        _set("address_range", f"{registers.ADDRESS_RANGE}"),
        _set_list("sources", [tcl_word(source) for source in sources]),
        "# what $readmemh reads",
        _set_list("memories", [tcl_word(memory) for memory in memories]),
        "# name, READ_WRITE_MODE, ports, other parameters and their values",
        _set_list("interfaces", [_interface(port.name) for port in description.ports]),
        "# name, offset, bits, access, text, the interface it points through, fields (name, bit, text)",
        _set_list("registers", [_register(register, description.arguments) for register in _there(description.arguments)]),
    ]
    return "\n".join(lines) + "\n"


def _set(name: str, value: str) -> str:
    return f"set {name} {tcl_word(value)}"


def _set_list(name: str, items: Iterable[str]) -> str:
    """A Tcl command that sets a list, with one item on each line."""
    return "\n".join([f"set {name} {{", *(f"  {item}" for item in items), "}"])


def tcl_word(text: str) -> str:
    """`text` as one word of Tcl, in braces so that nothing in it is substituted. Raises VendorError for braces, backslashes and
    unprintable characters."""
    if any(character in "{}\\" or not character.isprintable() for character in text):
        raise VendorError(f"{text[:80]!r} cannot be handed to Tcl, expected printable text without braces and backslashes")
    return f"{{{text}}}"


def _tcl_list(items: Iterable[str]) -> str:
    return f"{{{' '.join(items)}}}"


def _interface(name: str) -> str:
    ports = [port for _, port, _ in PORTS if port.startswith(f"{name}_")]
    mode = _mode(name, ports)
    limits = [f"{parameter} {value}" for parameter, value in _limits(mode).items()]
    return _tcl_list([tcl_word(name), tcl_word(mode), _tcl_list(ports), _tcl_list(limits)])


def _limits(mode: str) -> dict[str, int]:
    """The longest burst of a master, and the most that are in flight, on which the interconnect that v++ makes relies."""
    if not mode:
        return {}
    reads, writes = (0 if mode == other else OUTSTANDING for other in ("WRITE_ONLY", "READ_ONLY"))
    return {"MAX_BURST_LENGTH": MAX_BURST_BEATS, "NUM_READ_OUTSTANDING": reads, "NUM_WRITE_OUTSTANDING": writes}


def _mode(name: str, ports: Sequence[str]) -> str:
    """The READ_WRITE_MODE of a master; empty for the slave, which has both directions and needs no mode."""
    channels = {port.removeprefix(f"{name}_")[:2] for port in ports}
    if name.startswith("s_"):
        return ""
    return {(True, False): "READ_ONLY", (False, True): "WRITE_ONLY"}.get(("ar" in channels, "aw" in channels), "READ_WRITE")


def _there(arguments: Sequence[Argument]) -> list[Register]:
    """The registers of a kernel with these arguments: W is left out if there is no argument w."""
    offsets = {argument.offset for argument in arguments}
    return [register for register in registers.REGISTERS if register.offset != registers.W or registers.W in offsets]


def _register(register: Register, arguments: Sequence[Argument]) -> str:
    """A register as a Tcl list. An argument's register has the argument's name and, for a pointer, its port."""
    argument = next((argument for argument in arguments if argument.offset == register.offset), None)
    name = argument.name if argument else _VITIS_NAMES.get(register.name, register.name)
    pointer = argument.port if argument and argument.address_qualifier == 1 else ""
    fields = [_tcl_list([tcl_word(bit.name.upper()), str(bit.bit), tcl_word(bit.text)]) for bit in register.bits]
    return _tcl_list(
        [
            tcl_word(name), f"0x{register.offset:03x}", str(32 * register.words), _ACCESS[register.access],
            tcl_word(register.text), tcl_word(pointer), _tcl_list(fields),
        ]
    )  # fmt: skip
