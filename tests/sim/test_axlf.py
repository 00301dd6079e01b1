# SPDX-License-Identifier: Apache-2.0
"""Xclbins that are damaged, for another machine, or of another build give an error and nothing worse, for any contents."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hypersonic.firmware.platform import find_platform
from hypersonic.firmware.target import Target
from hypersonic.firmware.xclbin.assemble import assemble_xclbin
from hypersonic.firmware.xclbin.container import Xclbin

if TYPE_CHECKING:
    from tests.sim.conftest import CompileStub, WriteXclbin, Xrt

HEADERS, HEADER_BYTES = 456, 40

Refused = Callable[[bytes], str]


@pytest.fixture
def whole(write_xclbin: WriteXclbin) -> bytes:
    return write_xclbin().read_bytes()


@pytest.fixture
def refused(xrt: Xrt, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Refused:
    """Load these bytes on a new card, which must refuse them. Returns the library's message."""
    device = xrt.device()
    path = tmp_path / "damaged.xclbin"

    def load(content: bytes) -> str:
        path.write_bytes(content)
        assert xrt.error("xrtDeviceLoadXclbinFile", device, bytes(path)) in {"EINVAL", "ENOTSUP"}
        return capfd.readouterr().err

    return load


def section(whole: bytes, kind: int) -> int:
    """Where the header of the section of that kind is."""
    count = struct.unpack_from("<I", whole, 304 + 28 + 4 + 16 + 64 + 32)[0]
    headers = (HEADERS + i * HEADER_BYTES for i in range(count))
    return next(at for at in headers if struct.unpack_from("<I", whole, at)[0] == kind)


def patch(whole: bytes, offset: int, layout: str, value: int) -> bytes:
    changed = bytearray(whole)
    struct.pack_into(layout, changed, offset, value)
    return bytes(changed)


def test_a_file_that_is_no_xclbin_is_refused(refused: Refused) -> None:
    for content in (b"", b"xclbin2\0", b"#!/bin/sh\n" * 100, bytes(5000)):
        assert "does not begin with xclbin2" in refused(content)


def test_a_truncated_file_is_refused_wherever_it_is_cut(refused: Refused, whole: bytes) -> None:
    for size in (456, 457, 700, 1000, 2000, len(whole) // 2, len(whole) - 1):
        assert refused(whole[:size]).startswith("[XRT] ERROR: Invalid xclbin: ")


def test_lengths_that_leave_the_file_are_refused(refused: Refused, whole: bytes) -> None:
    bitstream, topology = section(whole, 0), section(whole, 26)
    payload = struct.unpack_from("<Q", whole, topology + 24)[0]
    for changed in (
        patch(whole, bitstream + 24, "<Q", (1 << 64) - 8),
        patch(whole, bitstream + 32, "<Q", (1 << 64) - 1),
        patch(whole, 304 + 28 + 4 + 16 + 64 + 32, "<I", 0xFFFFFFFF),
        patch(whole, 304 + 28 + 4 + 16 + 64 + 32, "<I", 65000),
        patch(whole, payload, "<i", -1),
        patch(whole, payload, "<i", 1 << 30),
        patch(whole, payload + 8 + 8, "<Q", (1 << 64) - 1),
    ):
        assert refused(changed).startswith("[XRT] ERROR: Invalid xclbin: ")


def test_a_missing_section_is_named(refused: Refused, whole: bytes) -> None:
    for kind, name in ((0, "BITSTREAM"), (2, "EMBEDDED_METADATA"), (8, "IP_LAYOUT")):
        changed = patch(whole, section(whole, kind), "<I", 4711)
        assert f"it has no section {name}" in refused(changed)


def test_memory_and_connections_stand_in_for_missing_groups(xrt: Xrt, whole: bytes, tmp_path: Path) -> None:
    changed = patch(patch(whole, section(whole, 26), "<I", 4711), section(whole, 27), "<I", 4711)
    path = tmp_path / "old.xclbin"
    path.write_bytes(changed)
    kernel = xrt.kernel(xrt.device(path), "stub")
    assert xrt.xrtKernelArgGroupId(kernel, 1) == 0


def test_metadata_that_is_no_xml_is_refused(refused: Refused, whole: bytes) -> None:
    header = section(whole, 2)
    start, size = struct.unpack_from("<QQ", whole, header + 24)
    xml = whole[start : start + size]
    for bad in (b"<kernel a", b"<kernel a>", b'<kernel name="stub', b"<kernel name=stub>", b"<kernel>", b"<!-- ", b"<?xml "):
        changed = whole[:start] + bad.ljust(size, b" ")[:size] + whole[start + size :]
        assert "EMBEDDED_METADATA" in refused(changed)
    for old, new in ((b'offset="0x10"', b'offset="0x0f"'), (b'size="0x8"', b'size="0x9"'), (b'id="0"', b'id="A"')):
        assert old in xml
        broken = xml.replace(old, new).ljust(size, b" ")
        assert "EMBEDDED_METADATA" in refused(whole[:start] + broken + whole[start + size :])


def test_a_simulator_that_is_none_is_refused(
    refused: Refused, write_xclbin: WriteXclbin, stub_image: bytes, compile_stub: CompileStub
) -> None:
    program = patch(stub_image, 16, "<H", 2)
    other_machine = patch(stub_image, 18, "<H", 40)
    for image, message in (
        (b"agfi-0123456789abcdef0", "it is not an ELF file"),
        (b"\x7fELF" + bytes(100), "it is not a 64-bit shared library"),
        (stub_image[:3000], "it is truncated"),
        (patch(stub_image, 32, "<Q", 1 << 63), "it is truncated"),
        (program, "it is not a 64-bit shared library"),
        (other_machine, "BITSTREAM is not a simulator for this machine"),
        (compile_stub("STUB_ABI=99"), "it was built for device model ABI 99, expected 2; build the model again"),
        (compile_stub("hypersonic_device_model=something_else"), "it does not export hypersonic_device_model"),
    ):
        assert message in refused(write_xclbin(image).read_bytes())


def test_a_simulator_of_another_kernel_or_target_is_refused(refused: Refused, write_xclbin: WriteXclbin) -> None:
    other = write_xclbin(kernel="other")
    assert "compute unit other_1 is of kernel 'other', BITSTREAM simulates 'stub'" in refused(other.read_bytes())
    software = write_xclbin(target=Target.SW_EMU)
    assert "it is a hw_emu simulator in a sw_emu xclbin" in refused(software.read_bytes())
    card = write_xclbin(target=Target.HW)
    assert "was built for a card (target hw)" in refused(card.read_bytes())


def test_a_kernel_of_another_control_protocol_is_refused(refused: Refused, whole: bytes) -> None:
    (start,) = struct.unpack_from("<Q", whole, section(whole, 8) + 24)
    assert "runs ap_ctrl_chain (1) only" in refused(patch(whole, start + 8 + 5, "<B", 0))


def test_a_refused_xclbin_leaves_the_loaded_one_at_work(
    xrt: Xrt, write_xclbin: WriteXclbin, whole: bytes, tmp_path: Path
) -> None:
    good = write_xclbin()
    device = xrt.device(good)
    bad = tmp_path / "bad.xclbin"
    bad.write_bytes(whole[:1000])
    assert xrt.error("xrtDeviceLoadXclbinFile", device, bytes(bad)) == "EINVAL"
    assert bytes(xrt.uuid(device)).hex() == Xclbin.read(good).uuid


def test_no_change_of_bytes_ends_the_process(xrt: Xrt, tmp_path: Path, stub_image: bytes) -> None:
    """Everything but the simulator itself, which is code and believed once it loads."""
    whole = assemble_xclbin("stub", Target.HW_EMU, find_platform("u250"), stub_image)
    end = struct.unpack_from("<Q", whole, section(whole, 0) + 24)[0]
    device = xrt.device()
    path = tmp_path / "fuzzed.xclbin"
    draw = random.Random(20261121)
    for _ in range(400):
        changed = bytearray(whole)
        for _ in range(draw.randint(1, 4)):
            at = draw.randrange(end)
            changed[at] = draw.choice((0, 0xFF, 0x7F, 0x80, draw.randrange(256)))
        path.write_bytes(changed)
        xrt.xrtDeviceLoadXclbinFile(device, bytes(path))
