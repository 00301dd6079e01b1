# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
import os
import re
import struct
import tracemalloc
import zlib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypersonic.firmware.errors import XclbinError
from hypersonic.firmware.platform import find_platform
from hypersonic.firmware.target import Target
from hypersonic.firmware.xclbin import sections as tables
from hypersonic.firmware.xclbin.assemble import assemble_xclbin
from hypersonic.firmware.xclbin.container import Section, Xclbin
from hypersonic.firmware.xclbin.describe import describe
from hypersonic.firmware.xclbin.sections import Clock, Connection, Ip, Kind, Memory
from hypersonic.host.device import without_image

U250 = find_platform("u250")
IMAGE = assemble_xclbin("facile", Target.HW_EMU, U250, bytes(range(256)) * 3, compute_units=2, tools={"hls4ml": "1.3.0"})


def test_a_written_xclbin_reads_back_and_writes_the_same_bytes() -> None:
    assert Xclbin.parse(IMAGE).to_bytes() == IMAGE


def test_fields_stand_where_xrts_header_puts_them() -> None:
    """Offsets by hand from xclbin.h: struct axlf 496 bytes with one section header of 40, axlf_header 152 at 304."""
    xclbin = Xclbin.parse(IMAGE)
    assert IMAGE[:8] == b"xclbin2\0"
    assert struct.unpack_from("<i", IMAGE, 8) == (-1,)
    assert IMAGE[12:40] == b"\xff" * 28
    assert struct.unpack_from("<Q", IMAGE, 304) == (len(IMAGE),)
    assert struct.unpack_from("<H", IMAGE, 332) == (4,)
    assert IMAGE[336:352].hex() == U250.interface_uuid
    assert IMAGE[352:416].rstrip(b"\0").decode() == U250.vbnv
    assert IMAGE[416:432].hex() == xclbin.uuid
    assert struct.unpack_from("<I", IMAGE, 448) == (9,)
    for index in range(9):
        assert struct.unpack_from("<Q", IMAGE, 456 + 40 * index + 24)[0] % 8 == 0


def test_the_views_give_what_was_linked() -> None:
    xclbin = Xclbin.parse(IMAGE)
    assert (xclbin.target, xclbin.vbnv, [kernel.name for kernel in xclbin.kernels]) == (Target.HW_EMU, U250.vbnv, ["facile"])
    assert xclbin.memories[1] == Memory(1, True, 16 << 20, 0x5000000000, "bank1")
    assert xclbin.compute_units[1].memories == {0: 1, 1: 1}
    assert xclbin.clocks == (Clock(300, 1, "DATA_CLK"), Clock(500, 2, "KERNEL_CLK"))
    assert xclbin.bitstream == bytes(range(256)) * 3


@pytest.mark.parametrize(("target", "mode"), [(Target.HW, 0), (Target.HW_EMU, 4), (Target.SW_EMU, 5)])
def test_the_mode_tells_the_target(target: Target, mode: int) -> None:
    xclbin = Xclbin.parse(assemble_xclbin("facile", target, U250, b""))
    assert (xclbin.mode, xclbin.target) == (mode, target)


def test_timestamps_and_uuid_come_from_the_content() -> None:
    first, second = (Xclbin.create(Target.HW, "card", [Section(Kind.BITSTREAM, payload)]) for payload in (b"a", b"b"))
    assert first != second
    assert first.unique_id != second.unique_id
    assert first == Xclbin.create(Target.HW, "card", [Section(Kind.BITSTREAM, b"a")])


def test_a_signature_and_xclbinutils_mirror_are_kept() -> None:
    mirror = b"XCLBIN_MIRROR_DATA_START{}XCLBIN_MIRROR_DATA_END"
    signed = replace(Xclbin.parse(IMAGE), trailer=mirror, signature=b"PKCS7 bytes")
    data = signed.to_bytes()
    assert struct.unpack_from("<i", data, 8) == (11,)
    assert struct.unpack_from("<Q", data, 304) == (len(data) - 11,)
    assert Xclbin.parse(data) == signed


@pytest.mark.parametrize("length", [*range(0, 460, 23), 455, 456, 500, 815, 816, 2000, len(IMAGE) - 8, len(IMAGE) - 1])
def test_a_truncated_file_is_refused(length: int) -> None:
    with pytest.raises(XclbinError, match="the file"):
        Xclbin.parse(IMAGE[:length])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x7fELF" + bytes(2000),
        b"PK\x03\x04" + bytes(2000),
        zlib.compress(bytes(10)) * 100,
        b"xclbin1\0" + IMAGE[8:],
        b"{}" * 900,
    ],
    ids=["empty", "ELF", "zip", "zlib", "xclbin1", "JSON"],
)
def test_a_foreign_file_is_refused(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.xclbin"
    path.write_bytes(data)
    with pytest.raises(XclbinError, match=r"model\.xclbin: the file (starts with|is \d+ bytes)"):
        Xclbin.read(path)


def test_a_file_without_its_image_is_read_in_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "model.xclbin"
    image = Section(Kind.BITSTREAM, bytes(32 << 20))
    path.write_bytes(
        Xclbin.create(Target.HW, "card", [Section(Kind.MEM_TOPOLOGY, tables.encode_memories([])), image]).to_bytes()
    )
    tracemalloc.start()
    try:
        described = Xclbin.read(path, image=False)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    whole = Xclbin.read(path)
    assert described == replace(whole, sections=whole.sections[:1])
    assert len(whole.bitstream) == 32 << 20
    assert peak_bytes < 1 << 20


def test_a_file_that_is_too_large_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "model.xclbin"
    path.write_bytes(IMAGE)
    os.truncate(path, 6 << 30)
    for image in (True, False):
        with pytest.raises(XclbinError, match=r"model\.xclbin: 6442450944 bytes, expected an xclbin of at most 2147483648"):
            Xclbin.read(path, image=image)


def test_a_large_file_whose_header_is_wrong_is_refused_before_the_rest_is_read(tmp_path: Path) -> None:
    path = tmp_path / "model.xclbin"
    path.write_bytes(IMAGE)
    os.truncate(path, 1 << 30)
    tracemalloc.start()
    try:
        with pytest.raises(XclbinError, match="there are bytes after the image"):
            Xclbin.read(path)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 1 << 20


def test_what_a_file_has_beside_its_image_is_limited(tmp_path: Path) -> None:
    """A sparse file with a trailer of 257 MiB."""
    path = tmp_path / "model.xclbin"
    size = len(IMAGE) + (257 << 20)
    path.write_bytes(_patched(304, "<Q", size))
    os.truncate(path, size)
    with pytest.raises(XclbinError, match=r"\d+ bytes beside the image, expected at most 268435456"):
        Xclbin.read(path, image=False)


def test_a_file_that_shrinks_while_it_is_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.xclbin"
    path.write_bytes(IMAGE)

    class Shrinking(io.FileIO):
        def seek(self, offset: int, whence: int = 0, /) -> int:
            os.truncate(path, 100)
            return super().seek(offset, whence)

    with Shrinking(path) as file, pytest.raises(XclbinError, match=r"fewer than its .* bytes: it is being written"):
        Xclbin.read_open(file)


def test_bytes_after_the_image_are_refused() -> None:
    with pytest.raises(XclbinError, match="there are bytes after the image"):
        Xclbin.parse(IMAGE + b"more")


def _patched(offset: int, layout: str, *values: int) -> bytes:
    data = bytearray(IMAGE)
    struct.pack_into(layout, data, offset, *values)
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (_patched(332, "<H", 7), "mode is 7"),
        (_patched(448, "<I", 0x10001), "counts 65537 sections"),
        (_patched(448, "<I", 0xFFFF), "counts 65535 sections"),
        (_patched(456 + 24, "<QQ", 1 << 40, 100), "outside the file"),
        (_patched(456 + 24, "<QQ", 900, 1 << 63), "outside the file"),
        (_patched(456 + 24, "<QQ", 0, 100), "outside the file"),
        (_patched(8, "<i", 5), "truncated"),
        (_patched(304, "<Q", 1 << 62), "truncated"),
    ],
)
def test_a_header_that_lies_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(XclbinError, match=message):
        Xclbin.parse(data)


def test_sections_that_overlap_are_refused_before_they_fill_the_memory() -> None:
    data = bytearray(IMAGE)
    for index in range(9):
        struct.pack_into("<QQ", data, 456 + 40 * index + 24, 824, len(IMAGE) - 824)
    with pytest.raises(XclbinError, match="they overlap"):
        Xclbin.parse(bytes(data))


METADATA = Xclbin.parse(IMAGE).section(Kind.EMBEDDED_METADATA) or b""
MEMORY = Memory(1, True, 1024, 0, "bank0")
UNIT = Ip(tables.IP_KERNEL, 1 << 8, 0, "facile:facile_1")


def _create(memories: list[Memory], ips: list[Ip], connections: list[Connection]) -> Xclbin:
    sections = [
        Section(Kind.EMBEDDED_METADATA, METADATA),
        Section(Kind.MEM_TOPOLOGY, tables.encode_memories(memories)),
        Section(Kind.IP_LAYOUT, tables.encode_ips(ips)),
        Section(Kind.CONNECTIVITY, tables.encode_connections(connections)),
    ]
    return Xclbin.create(Target.HW, "card", sections)


@pytest.mark.parametrize("connection", [Connection(0, 0, 1), Connection(0, 1, 0), Connection(0, 0, -1), Connection(-1, 0, 0)])
def test_a_connection_to_what_is_not_there_is_refused(connection: Connection) -> None:
    with pytest.raises(XclbinError, match=r"CONNECTIVITY has .* but there are 1 IPs and 1 memories"):
        _create([MEMORY], [UNIT], [connection])


@pytest.mark.parametrize("name", ["facile", "facile:", ":facile_1", ""])
def test_a_kernel_instance_without_both_names_is_refused(name: str) -> None:
    with pytest.raises(XclbinError, match="expected kernel:compute_unit"):
        _create([], [replace(UNIT, name=name)], [])


def test_an_instance_of_an_unknown_kernel_is_refused() -> None:
    with pytest.raises(XclbinError, match="has kernel 'jet', EMBEDDED_METADATA has"):
        _create([], [replace(UNIT, name="jet:jet_1")], [])


@pytest.mark.parametrize(
    "kind", [Kind.MEM_TOPOLOGY, Kind.IP_LAYOUT, Kind.CONNECTIVITY, Kind.CLOCK_FREQ_TOPOLOGY, Kind.GROUP_TOPOLOGY]
)
@pytest.mark.parametrize(
    "payload", [b"", b"\x01", b"\x05\x00\x00\x00" * 3, b"\xff" * 200], ids=["empty", "cut", "few", "negative"]
)
def test_a_table_shorter_than_it_counts_is_refused(kind: Kind, payload: bytes) -> None:
    with pytest.raises(XclbinError, match=f"section {kind.name} is {len(payload)} bytes"):
        Xclbin.create(Target.HW, "card", [Section(kind, payload)])


def test_text_that_does_not_fit_its_field_is_refused() -> None:
    with pytest.raises(XclbinError, match=r"memory tag is .* expected at most 15 bytes"):
        tables.encode_memories([replace(MEMORY, tag="x" * 16)])


@settings(max_examples=300)
@given(
    st.lists(st.tuples(st.integers(0, len(IMAGE) - 1), st.integers(0, 255)), max_size=8),
    st.integers(0, len(IMAGE)),
    st.booleans(),
)
def test_a_mutated_file_is_read_or_refused_and_nothing_else(edits: list[tuple[int, int]], cut: int, truncate: bool) -> None:
    data = bytearray(IMAGE[:cut] if truncate else IMAGE)
    for position, value in edits:
        if position < len(data):
            data[position] = value
    _read_or_refuse(bytes(data))


@settings(max_examples=300)
@given(st.integers(304, 456 + 9 * 40 - 8), st.integers(0, (1 << 64) - 1))
def test_any_number_anywhere_in_the_headers_is_read_or_refused(offset: int, value: int) -> None:
    _read_or_refuse(_patched(offset, "<Q", value))


def _read_or_refuse(data: bytes) -> None:
    """Also: an open file gives the same as its bytes, with the image or without."""
    try:
        xclbin = Xclbin.parse(data)
    except XclbinError as error:
        for image in (True, False):
            with pytest.raises(XclbinError, match=re.escape(str(error))):
                _read_open(data, image=image)
        return
    assert _read_open(data, image=True) == xclbin
    assert _read_open(data, image=False) == without_image(xclbin)
    assert describe(xclbin)
    assert xclbin.target in Target


def _read_open(data: bytes, *, image: bool) -> Xclbin:
    with os.fdopen(os.memfd_create("model.xclbin"), "w+b") as file:
        file.write(data)
        file.flush()
        return Xclbin.read_open(file, image=image)


words = st.text(st.characters(codec="ascii", exclude_characters="\0"), max_size=15)
memories = st.builds(Memory, st.integers(0, 11), st.booleans(), st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), words)
clocks = st.builds(Clock, st.integers(0, 2**16 - 1), st.integers(0, 3), words)


@given(st.lists(memories, max_size=40), st.lists(clocks, max_size=6), st.binary(max_size=100), words)
def test_any_tables_survive_the_round_trip(banks: list[Memory], rates: list[Clock], image: bytes, vbnv: str) -> None:
    sections = [
        Section(Kind.MEM_TOPOLOGY, tables.encode_memories(banks)),
        Section(Kind.CLOCK_FREQ_TOPOLOGY, tables.encode_clocks(rates)),
        Section(Kind.BITSTREAM, image, "stage2"),
    ]
    written = Xclbin.create(Target.SW_EMU, vbnv, sections)
    read = Xclbin.parse(written.to_bytes())
    assert read == written
    assert (read.memories, read.clocks, read.bitstream) == (tuple(banks), tuple(rates), image)


def test_inspect_shows_what_is_inside() -> None:
    text = describe(Xclbin.parse(IMAGE))
    for line in (
        f"uuid           {Xclbin.parse(IMAGE).uuid}",
        "target         hw_emu (mode 4)",
        "kernel         facile (ap_ctrl_chain)",
        "  argument 2   rows uint at 0x28 through s_axi_control",
        "compute unit   facile_2 at 0x1810000 (ap_ctrl_chain): argument 0 on bank1, argument 1 on bank1",
        "memory 0       bank0 DDR4 16 GiB at 0x4000000000",
        "clock          DATA_CLK 300 MHz",
        "section        BITSTREAM                     768 bytes",
    ):
        assert line in text.splitlines()


def test_inspect_takes_build_metadata_that_is_no_json() -> None:
    xclbin = Xclbin.create(Target.HW, "card", [Section(Kind.BUILD_METADATA, b"[" * 100_000), Section(99, b"")])
    assert "build metadata not JSON (100000 bytes)" in describe(xclbin)
    assert "kind 99" in describe(xclbin)


def test_inspect_prints_no_control_characters_of_the_file() -> None:
    clock = Clock(300, 1, "\x1b[2J\nuuid           forged")
    text = describe(Xclbin.create(Target.HW, "card", [Section(Kind.CLOCK_FREQ_TOPOLOGY, tables.encode_clocks([clock]))]))
    assert "\x1b" not in text
    assert len([line for line in text.splitlines() if line.startswith("uuid")]) == 1
