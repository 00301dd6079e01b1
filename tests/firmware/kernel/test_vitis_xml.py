# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypersonic.firmware.errors import XclbinError
from hypersonic.firmware.kernel.vitis_xml import (
    MAX_XML_BYTES,
    Argument,
    Instance,
    Port,
    describe_kernel,
    kernel_xml,
    parse_kernels,
)
from hypersonic.firmware.platform import find_platform
from hypersonic.firmware.target import Target
from hypersonic.firmware.xclbin.metadata import embedded_metadata

U250 = find_platform("u250")


def test_the_kernel_has_the_arguments_and_ports_the_rtl_has() -> None:
    kernel = describe_kernel("facile")
    assert [(argument.name, argument.offset, argument.size, argument.port) for argument in kernel.arguments] == [
        ("x", 0x10, 8, "m_axi_gmem0"),
        ("y", 0x1C, 8, "m_axi_gmem1"),
        ("rows", 0x28, 4, "s_axi_control"),
    ]
    assert [(port.name, port.mode, port.data_width) for port in kernel.ports] == [
        ("m_axi_gmem0", "master", 512),
        ("m_axi_gmem1", "master", 512),
        ("s_axi_control", "slave", 32),
    ]
    assert kernel.control_protocol == "ap_ctrl_chain"


def test_weights_are_a_fourth_argument_at_the_port_that_reads_the_rows() -> None:
    kernel = describe_kernel("facile", weights=True)
    assert kernel.arguments[:3] == describe_kernel("facile").arguments
    assert kernel.arguments[3:] == (Argument(3, "w", 1, "m_axi_gmem0", 0x30, 8, "void*"),)
    assert parse_kernels(kernel_xml(kernel)) == (kernel,)


def test_every_argument_lies_inside_the_control_port() -> None:
    """XRT refuses a kernel whose offset + size passes the slave port's range."""
    kernel = describe_kernel("facile")
    (control,) = [port for port in kernel.ports if port.mode == "slave"]
    assert all(argument.offset + argument.size <= control.range for argument in kernel.arguments)


def test_kernel_xml_reads_back_as_the_same_kernel() -> None:
    kernel = describe_kernel("facile")
    document = kernel_xml(kernel)
    assert parse_kernels(document) == (kernel,)
    root = ET.fromstring(document)
    assert (root.tag, root.get("versionMajor")) == ("root", "1")
    assert [child.tag for child in root[0]] == ["ports", "args"]


def test_embedded_metadata_reads_back_with_its_instances() -> None:
    kernel = describe_kernel("facile", (Instance("facile_1", 0x1800000), Instance("facile_2", 0x1810000)))
    assert parse_kernels(embedded_metadata([kernel], Target.HW_EMU, U250)) == (kernel,)


@pytest.mark.parametrize(("target", "spelling"), [(Target.SW_EMU, "csim"), (Target.HW_EMU, "hw_em"), (Target.HW, "bitstream")])
def test_the_core_names_its_target_as_vpp_does(target: Target, spelling: str) -> None:
    assert f'target="{spelling}"'.encode() in embedded_metadata([describe_kernel("facile")], target, U250)


def test_stream_ports_of_other_kernels_are_read() -> None:
    """v++ writes empty ranges for AXI4-Stream ports and has no addrRemap for free-running kernels."""
    document = b"""<project><platform><device><core><kernel name="k">
      <port name="out" mode="write_only" range="" dataWidth="32" portType="stream" base=""/>
      <arg name="out" addressQualifier="4" id="1" port="out" size="0x0" offset="0x0" hostSize="0x8" type="stream"/>
      <instance name="k_1"/></kernel></core></device></platform></project>"""
    (kernel,) = parse_kernels(document)
    assert kernel.ports == (Port("out", "write_only", 32, 0),)
    assert kernel.arguments == (Argument(1, "out", 4, "out", 0, 0, "stream"),)
    assert kernel.instances == (Instance("k_1", 0),)


BILLION_LAUGHS = b'<!DOCTYPE p [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]><project>&b;</project>'
EXTERNAL = b'<!DOCTYPE p SYSTEM "file:///etc/passwd"><project/>'


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (BILLION_LAUGHS, "declares a document type"),
        (EXTERNAL, "declares a document type"),
        (b"<project>", "is not XML"),
        (b"", "is not XML"),
        (b"\x00\x01\x02", "is not XML"),
        (b"<project>&undefined;</project>", "is not XML"),
        (b"<a>" * 40 + b"</a>" * 40, "nested deeper"),
        (b"<p>" + b" " * MAX_XML_BYTES + b"</p>", "expected at most"),
        (b"<kernel/>", "<kernel> has no attribute 'name'"),
        (b'<kernel name="k"><arg id="x" name="a"/></kernel>', "<arg id> is 'x', expected a number"),
        (b'<kernel name="k"><arg id="-1" name="a"/></kernel>', "expected a number"),
        (b'<kernel name="k"><arg id="0x10000000000000000" name="a"/></kernel>', "at most 64 bits"),
    ],
)
def test_hostile_metadata_is_refused(document: bytes, message: str) -> None:
    with pytest.raises(XclbinError, match=message):
        parse_kernels(document)


@given(st.binary(max_size=400))
def test_arbitrary_bytes_never_crash_the_reader(document: bytes) -> None:
    with contextlib.suppress(XclbinError):
        parse_kernels(document)
