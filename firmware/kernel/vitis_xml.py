# SPDX-License-Identifier: Apache-2.0
"""The description of a kernel in Vitis' XML: kernel.xml in a .xo, EMBEDDED_METADATA in an xclbin.

Sources of the formats: UG1702 (kernel.xml), XRT's xclbin parser (project/platform/device/core/kernel). The reader treats its
input as hostile: size and depth are bounded, and a document type is refused, so that no entity can be expanded or fetched.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass
from xml.parsers import expat

from hypersonic.firmware.errors import XclbinError
from hypersonic.firmware.kernel.registers import ADDRESS_RANGE, ROWS, W, X, Y

MAX_XML_BYTES = 4 << 20
MAX_XML_DEPTH = 32
#: bytes of the shell's address space for each compute unit
COMPUTE_UNIT_RANGE = 0x10000
#: vendor and library of every kernel of this project
VLNV = "hypersonic:kernel"


@dataclass(frozen=True)
class Port:
    """One bus interface of the kernel."""

    name: str
    mode: str  # master or slave
    data_width: int  # bits
    range: int  # bytes of address space that it can reach (master) or that it decodes (slave)


@dataclass(frozen=True)
class Argument:
    """One argument of the kernel.

    Attributes:
        index: its number for xrtRunSetArg.
    """

    index: int
    name: str
    address_qualifier: int  # 0 scalar, 1 global memory, 4 stream
    port: str
    offset: int  # in s_axi_control
    size: int  # bytes
    type: str


@dataclass(frozen=True)
class Instance:
    """One compute unit.

    Attributes:
        base_address: of its s_axi_control.
    """

    name: str
    base_address: int


@dataclass(frozen=True)
class KernelDescription:
    """The properties of a kernel that host and linker need: protocol, ports, arguments and instances.

    Attributes:
        port_registers: whether its AXI masters have registers (slices.py); kernel.xml does not say it.
    """

    name: str
    control_protocol: str
    ports: tuple[Port, ...]
    arguments: tuple[Argument, ...]
    instances: tuple[Instance, ...] = ()
    vlnv: str = ""  # vendor:library:name:version
    port_registers: bool = False


def describe_kernel(name: str, instances: Sequence[Instance] = (), weights: bool = False) -> KernelDescription:
    """The description of a kernel of this project: x through m_axi_gmem0, y through m_axi_gmem1, rows as a scalar, protocol
    ap_ctrl_chain.

    Args:
        weights: whether the core reads weights from memory; the kernel then has an argument w with their address, which is read
            through m_axi_gmem0 too.
    """
    everywhere = 0xFFFFFFFFFFFFFFFF
    ports = (
        Port("m_axi_gmem0", "master", 512, everywhere),
        Port("m_axi_gmem1", "master", 512, everywhere),
        Port("s_axi_control", "slave", 32, ADDRESS_RANGE),
    )
    arguments = (
        Argument(0, "x", 1, "m_axi_gmem0", X, 8, "void*"),
        Argument(1, "y", 1, "m_axi_gmem1", Y, 8, "void*"),
        Argument(2, "rows", 0, "s_axi_control", ROWS, 4, "uint"),
        *([Argument(3, "w", 1, "m_axi_gmem0", W, 8, "void*")] if weights else []),
    )
    return KernelDescription(name, "ap_ctrl_chain", ports, arguments, tuple(instances), f"{VLNV}:{name}:1.0")


def describe_units(name: str, compute_units: int, weights: bool = False) -> KernelDescription:
    """The kernel with its instances <name>_1 and so on. Their addresses are 0, because v++ assigns them."""
    return describe_kernel(name, [Instance(f"{name}_{k + 1}", 0) for k in range(compute_units)], weights)


def kernel_xml(kernel: KernelDescription) -> bytes:
    """The text of kernel.xml for the kernel's .xo.

    Sources: UG1702, "RTL Kernel XML File"; hwControlProtocol: XD099 (Vitis tutorials), "Manually Creating the Kernel XML File".
    """
    root = ET.Element("root", versionMajor="1", versionMinor="6")
    element = ET.SubElement(root, "kernel", _kernel_attributes(kernel))
    ET.SubElement(element, "ports").extend(_ports(kernel))
    ET.SubElement(element, "args").extend(_arguments(kernel))
    return document(root)


def metadata_element(kernel: KernelDescription) -> ET.Element:
    """The element <kernel> of EMBEDDED_METADATA, with the kernel's instances."""
    element = ET.Element("kernel", _kernel_attributes(kernel))
    for children in (_ports(kernel), _arguments(kernel), _instances(kernel)):
        element.extend(children)
    return element


def _kernel_attributes(kernel: KernelDescription) -> dict[str, str]:
    return {
        "name": kernel.name, "language": "ip_c", "vlnv": kernel.vlnv, "attributes": "",
        "preferredWorkGroupSizeMultiple": "0", "workGroupSize": "1", "interrupt": "true",
        "hwControlProtocol": kernel.control_protocol,
    }  # fmt: skip


def _ports(kernel: KernelDescription) -> list[ET.Element]:
    return [
        ET.Element(
            "port", name=port.name, mode=port.mode, range=f"{port.range:#X}".replace("X", "x"),
            dataWidth=str(port.data_width), portType="addressable", base="0x0",
        )
        for port in kernel.ports
    ]  # fmt: skip


def _arguments(kernel: KernelDescription) -> list[ET.Element]:
    return [
        ET.Element(
            "arg", name=argument.name, addressQualifier=str(argument.address_qualifier), id=str(argument.index),
            port=argument.port, size=f"{argument.size:#x}", offset=f"{argument.offset:#x}", hostOffset="0x0",
            hostSize=f"{argument.size:#x}", type=argument.type,
        )
        for argument in kernel.arguments
    ]  # fmt: skip


def _instances(kernel: KernelDescription) -> list[ET.Element]:
    control = next((port.name for port in kernel.ports if port.mode == "slave"), "")
    elements = []
    for instance in kernel.instances:
        element = ET.Element("instance", name=instance.name)
        ET.SubElement(element, "addrRemap", base=f"{instance.base_address:#x}", range=f"{COMPUTE_UNIT_RANGE:#x}", port=control)
        elements.append(element)
    return elements


def document(root: ET.Element) -> bytes:
    """The indented text of a document, in UTF-8 with an XML declaration."""
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'.encode()


def parse_kernels(document: bytes) -> tuple[KernelDescription, ...]:
    """The kernels in the text of an EMBEDDED_METADATA section or a kernel.xml, in document order. Raises XclbinError when the
    text is not XML or lacks an attribute."""
    return tuple(_kernel(element) for element in _parse(document).iter("kernel"))


def _kernel(element: ET.Element) -> KernelDescription:
    return KernelDescription(
        name=_attribute(element, "name"),
        control_protocol=element.get("hwControlProtocol", "ap_ctrl_hs"),
        ports=tuple(
            Port(_attribute(port, "name"), port.get("mode", ""), _number(port, "dataWidth"), _number(port, "range"))
            for port in element.iter("port")
        ),
        arguments=tuple(
            Argument(
                _number(arg, "id"), _attribute(arg, "name"), _number(arg, "addressQualifier"), arg.get("port", ""),
                _number(arg, "offset"), _number(arg, "size"), arg.get("type", ""),
            )
            for arg in element.iter("arg")
        ),
        instances=tuple(
            Instance(_attribute(instance, "name"), next((_number(remap, "base") for remap in instance.iter("addrRemap")), 0))
            for instance in element.iter("instance")
        ),
        vlnv=element.get("vlnv", ""),
    )  # fmt: skip


def _attribute(element: ET.Element, name: str) -> str:
    value = element.get(name)
    if value is None:
        raise XclbinError(f"kernel metadata: <{element.tag}> has no attribute {name!r}")
    return value


def _number(element: ET.Element, name: str) -> int:
    """A decimal or 0x number. An empty text counts as 0: v++ writes it for stream ports."""
    value = element.get(name, "")
    try:
        number = int(value, 0) if value else 0
    except ValueError:
        number = -1
    if not 0 <= number < 1 << 64:
        raise XclbinError(f"kernel metadata: <{element.tag} {name}> is {value[:40]!r}, expected a number of at most 64 bits")
    return number


def _parse(document: bytes) -> ET.Element:
    """The element tree of a document without a document type, of at most MAX_XML_BYTES and MAX_XML_DEPTH levels."""
    document = document.rstrip(b"\0")
    if len(document) > MAX_XML_BYTES:
        raise XclbinError(f"kernel metadata is {len(document)} bytes, expected at most {MAX_XML_BYTES}")
    builder = ET.TreeBuilder()
    depth = 0

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > MAX_XML_DEPTH:
            raise XclbinError(f"kernel metadata is nested deeper than {MAX_XML_DEPTH} elements")
        builder.start(tag, attributes)

    def end(tag: str) -> None:
        nonlocal depth
        depth -= 1
        builder.end(tag)

    parser = expat.ParserCreate("UTF-8")
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.StartDoctypeDeclHandler = _refuse_doctype
    try:
        parser.Parse(document, True)
    except expat.ExpatError as error:
        raise XclbinError(f"kernel metadata is not XML: {error}") from error
    return builder.close()


def _refuse_doctype(name: str, *_: object) -> None:
    raise XclbinError(f"kernel metadata declares a document type ({name[:40]!r}), which is not accepted")
