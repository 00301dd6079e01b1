# SPDX-License-Identifier: Apache-2.0
"""A real F2 card's side of the driver, over files: sysfs, BAR0, pagemap, AWS' commands. No card is here."""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
import pytest

from hypersonic.firmware.f2 import registers as f2
from hypersonic.firmware.f2.design import assemble_f2_xclbin
from hypersonic.firmware.kernel import registers
from hypersonic.firmware.platform import find_platform
from hypersonic.firmware.target import Target
from hypersonic.firmware.xclbin.container import Xclbin
from hypersonic.host.devices import devices, devices_as_data
from hypersonic.host.errors import (
    BufferObjectError,
    DeviceBusyError,
    DeviceClosedError,
    DeviceError,
    DeviceLostError,
    DeviceNotFoundError,
    LibraryNotFoundError,
    XclbinMismatchError,
)
from hypersonic.host.f2 import image
from hypersonic.host.f2.access import Identity, Memory, read_identity
from hypersonic.host.f2.bar import BarAccess, card_addresses
from hypersonic.host.f2.driver import open_bar
from hypersonic.host.f2.pinned import PinnedMemory
from hypersonic.host.f2.unit import Run, Unit

if TYPE_CHECKING:
    from tests.f2.conftest import Built

ADDRESS, AGFI = "0000:34:00.0", "agfi-0123456789abcdef0"
PAGE = 1 << 21


@pytest.fixture
def sysfs(tmp_path: Path) -> Path:
    """One card without an image, and a device that is none."""
    for address, vendor, device in ((ADDRESS, "0x1d0f", "0x9048"), ("0000:00:03.0", "0x1d0f", "0xec20")):
        entry = tmp_path / "bus" / "pci" / "devices" / address
        entry.mkdir(parents=True)
        (entry / "vendor").write_text(f"{vendor}\n")
        (entry / "device").write_text(f"{device}\n")
        (entry / "config").write_bytes(bytes(64))
        (entry / "resource0").touch()
        os.truncate(entry / "resource0", f2.WINDOW_BYTES)
    return tmp_path


def _entry(sysfs: Path) -> Path:
    return sysfs / "bus" / "pci" / "devices" / ADDRESS


def _put_identity(sysfs: Path, uuid: str, units: int = 2, magic: int = f2.MAGIC_VALUE, version: int = f2.MAP_VERSION) -> None:
    words = {f2.MAGIC: magic, f2.VERSION: version, f2.COMPUTE_UNITS: units}
    words |= {f2.UUID + 4 * place: word for place, word in enumerate(f2.uuid_words(uuid))}
    with (_entry(sysfs) / "resource0").open("r+b") as file:
        for offset, value in words.items():
            file.seek(f2.IDENTITY + offset)
            file.write(value.to_bytes(4, "little"))
        for unit in range(units):
            file.seek(unit * f2.UNIT_STRIDE + registers.CONTROL)
            file.write(registers.AP_IDLE.to_bytes(4, "little"))


def test_cards_are_found_by_their_ids(sysfs: Path, tmp_path: Path) -> None:
    assert card_addresses(sysfs) == (ADDRESS,)
    (_entry(sysfs) / "device").write_text("0xf010\n")
    assert card_addresses(sysfs) == (ADDRESS,)
    (_entry(sysfs) / "device").write_text("nonsense")
    assert card_addresses(sysfs) == ()
    assert card_addresses(tmp_path / "none") == ()


def test_the_cards_are_listed_with_what_sysfs_tells(sysfs: Path) -> None:
    entry = _entry(sysfs)
    for name, value in (("current_link_speed", "16.0 GT/s PCIe"), ("current_link_width", "8"), ("numa_node", "-1")):
        (entry / name).write_text(f"{value}\n")
    shown = devices(sysfs)
    assert f"F2 card 0  at {ADDRESS}\n" in shown
    assert "no image on it that registers as ours" in shown
    assert "16.0 GT/s PCIe x8" in shown
    assert "no card is bound to its driver" not in shown
    (entry / "device").write_text("0xf010\n")
    (entry / "iommu_group").mkdir()
    (entry / "iommu_group" / "type").write_text("DMA-FQ\n")
    (card,) = devices_as_data(sysfs)["f2_cards"]
    assert (card["index"], card["address"], card["device_id"], card["link_lanes"]) == (0, ADDRESS, "0xf010", 8)
    assert card["status"] == "not usable: the IOMMU before it translates (DMA-FQ); boot with iommu=pt"
    (entry / "iommu_group" / "type").write_text("identity\n")
    (card,) = devices_as_data(sysfs)["f2_cards"]
    assert card["status"].startswith("ready: an image of this project is on it")


def test_registers_are_words_of_bar0_and_the_card_may_master_the_bus(sysfs: Path) -> None:
    card = BarAccess(ADDRESS, sysfs)
    card.write(0x1_0010, 0x12345678)
    assert card.read(0x1_0010) == 0x12345678
    assert (_entry(sysfs) / "resource0").read_bytes()[0x1_0010:0x1_0014] == b"\x78\x56\x34\x12"
    config = _entry(sysfs) / "config"
    assert config.read_bytes()[4:6] == b"\x02\x00"
    card.enable()
    assert config.read_bytes()[4:6] == b"\x06\x00"
    card.pause()
    card.close()
    card.close()
    assert config.read_bytes()[4:6] == b"\x02\x00"  # a run that hangs reaches no memory any more
    for access in (lambda: card.read(0), lambda: card.write(0, 1)):
        with pytest.raises(DeviceClosedError, match=r"card 0000:34:00\.0 is closed"):
            access()


def test_a_card_has_one_user_at_a_time(sysfs: Path) -> None:
    card = BarAccess(ADDRESS, sysfs)
    with pytest.raises(DeviceBusyError, match=r"0000:34:00\.0 is used by another process"):
        BarAccess(ADDRESS, sysfs)
    card.close()
    BarAccess(ADDRESS, sysfs).close()


def test_what_is_no_card_is_refused(sysfs: Path) -> None:
    with pytest.raises(DeviceNotFoundError, match=r"'\.\./x' is not a PCI address"):
        BarAccess("../x", sysfs)
    with pytest.raises(DeviceNotFoundError, match="no card at 0000:35"):
        BarAccess("0000:35:00.0", sysfs)
    os.truncate(_entry(sysfs) / "resource0", 4096)
    with pytest.raises(DeviceError, match=r"BAR0 of 0000:34:00\.0 is not 64 MiB"):
        BarAccess(ADDRESS, sysfs)
    os.truncate(_entry(sysfs) / "resource0", f2.WINDOW_BYTES)
    BarAccess(ADDRESS, sysfs).close()  # what failed has given everything back


@pytest.mark.parametrize(("kind", "refused"), [("DMA", True), ("DMA-FQ", True), ("identity", False)])
def test_an_iommu_that_translates_is_refused(sysfs: Path, kind: str, refused: bool) -> None:
    (_entry(sysfs) / "iommu_group").mkdir()
    (_entry(sysfs) / "iommu_group" / "type").write_text(f"{kind}\n")
    if refused:
        with pytest.raises(DeviceError, match=f"behind an IOMMU that translates \\({kind}\\).*boot with iommu=pt"):
            BarAccess(ADDRESS, sysfs)
    else:
        BarAccess(ADDRESS, sysfs).close()


def test_the_identity_block_is_read(sysfs: Path) -> None:
    uuid = "00112233445566778899aabbccddeeff"
    _put_identity(sysfs, uuid, units=3)
    card = BarAccess(ADDRESS, sysfs)
    assert read_identity(card, "the card") == Identity(3, uuid)
    card.close()


@pytest.mark.parametrize(
    ("magic", "version", "error", "message"),
    [
        (0xFFFFFFFF, f2.MAP_VERSION, DeviceLostError, "reads all ones: it is gone"),
        (0, f2.MAP_VERSION, XclbinMismatchError, "has other custom logic on it: MAGIC is 0x00000000"),
        (f2.MAGIC_VALUE, 0x10000, XclbinMismatchError, "has registers of version 0x00010000"),
    ],
)
def test_what_is_not_our_logic_is_told_apart(
    sysfs: Path, magic: int, version: int, error: type[DeviceError], message: str
) -> None:  # fmt: skip
    _put_identity(sysfs, "0" * 32, magic=magic, version=version)
    card = BarAccess(ADDRESS, sysfs)
    with pytest.raises(error, match=message):
        read_identity(card, "the card")
    card.close()


class Pages:
    """Ordinary pages in place of huge ones, and a pagemap that shows them at chosen physical addresses."""

    def __init__(self, directory: Path, frames: list[int], flags: int = 1 << 63) -> None:
        self.pagemap, self.frames, self._flags = directory / "pagemap", frames, flags
        self.pagemap.touch()
        self.asked: list[tuple[int, int]] = []
        self.refused: set[int] = set()

    def map(self, size_bytes: int, shift: int) -> mmap.mmap:
        self.asked.append((size_bytes, shift))
        if shift in self.refused:
            raise OSError(12, "Cannot allocate memory")
        mapped = mmap.mmap(-1, size_bytes)
        begin = np.frombuffer(mapped, dtype=np.uint8).ctypes.data
        with self.pagemap.open("r+b") as file:
            for place, frame in enumerate(self.frames[: -(-size_bytes >> shift)]):
                file.seek((begin + place * (1 << shift)) // 4096 * 8)
                file.write((self._flags | frame).to_bytes(8, "little"))
        return mapped


def _memory(pages: Pages) -> PinnedMemory:
    return PinnedMemory(pages.pagemap, pages.map)


def test_a_buffer_is_one_huge_page_at_its_physical_address(tmp_path: Path) -> None:
    pages = Pages(tmp_path, [0x12345 * 512])
    memory = _memory(pages).allocate(5000)
    assert memory.address == 0x12345 * PAGE
    assert memory.array.shape == (5000,)
    assert pages.asked == [(PAGE, 21)]


def test_a_larger_buffer_is_neighbouring_pages_or_one_of_a_gibibyte(tmp_path: Path) -> None:
    near = Pages(tmp_path, [512, 1024, 1536])
    assert _memory(near).allocate(2 * PAGE + 1).address == PAGE
    assert near.asked == [(3 * PAGE, 21)]
    far = Pages(tmp_path, [512, 5120, 1536])
    assert _memory(far).allocate(2 * PAGE + 1).address == PAGE
    assert far.asked == [(3 * PAGE, 21), (1 << 30, 30)]
    far.refused = {30}
    with pytest.raises(BufferObjectError, match=r"are not contiguous.*hugepagesz=1G.*ask for a smaller slot_rows"):
        _memory(far).allocate(2 * PAGE + 1)


def test_missing_huge_pages_are_told_with_what_to_do(tmp_path: Path) -> None:
    pages = Pages(tmp_path, [])
    pages.refused = {21}
    with pytest.raises(BufferObjectError, match=r"2097152 bytes of huge pages of 2 MiB are not to be had.*vm\.nr_hugepages=N"):
        _memory(pages).allocate(100)


def test_hidden_physical_addresses_are_told_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(BufferObjectError, match="lacks CAP_SYS_ADMIN"):
        _memory(Pages(tmp_path, [0])).allocate(100)
    with pytest.raises(BufferObjectError, match="as absent"):
        _memory(Pages(tmp_path, [512], flags=0)).allocate(100)
    with pytest.raises(BufferObjectError, match="cannot be read"):
        PinnedMemory(tmp_path / "none", Pages(tmp_path, [512]).map).allocate(100)


def test_buffers_are_locked_and_given_back(sysfs: Path, tmp_path: Path) -> None:
    card = BarAccess(ADDRESS, sysfs, _memory(Pages(tmp_path, [512])))
    memory = card.allocate(4096)
    memory.array[:] = 7
    card.free(memory)
    assert (memory.array == 7).all()  # a view that is still there shows its pages
    card.close()


@pytest.fixture
def aws(sysfs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """aws(name, shell script): a command of AWS' tools."""
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}/usr/bin{os.pathsep}/bin")
    (tmp_path / "bin").mkdir()

    def write(name: str, script: str) -> None:
        file = tmp_path / "bin" / name
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(file.stat().st_mode | stat.S_IXUSR)

    return write


LOADED = f"""echo "$@" >> "$0.calls"
echo 'AFI          0       {AGFI}  loaded            0        ok               0       0x10212415'
echo 'AFIDEVICE    0       0x1d0f      0xf010      {ADDRESS}'"""


def test_an_image_is_loaded_with_awss_command(aws: Callable[[str, str], None], tmp_path: Path) -> None:
    aws("fpga-load-local-image", LOADED)
    assert image.load(0, AGFI) == ADDRESS
    assert (tmp_path / "bin" / "fpga-load-local-image.calls").read_text() == f"-S 0 -I {AGFI}\n"
    with pytest.raises(DeviceError, match="image is 'afi-1; rm', expected agfi- and 17"):
        image.load(0, "afi-1; rm")


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo 'AFI 0 none load-failed 7 afi-power-violation 17 0x10212415'", "said none load-failed afi-power-violation"),
        ("echo Error: not root; exit 5", "ended with 5: Error: not root; it needs root"),
        ("true", "said nothing"),
        (LOADED.splitlines()[1], "names no card in slot 0"),
    ],
)
def test_an_image_that_does_not_load_is_told(aws: Callable[[str, str], None], script: str, message: str) -> None:
    aws("fpga-load-local-image", script)
    with pytest.raises(DeviceError, match=message):
        image.load(0, AGFI)


def test_missing_tools_are_told_with_what_to_do(aws: Callable[[str, str], None]) -> None:
    with pytest.raises(LibraryNotFoundError, match=r"fpga-describe-local-image-slots is not on PATH.*sdk_setup\.sh"):
        image.slots()


@pytest.fixture
def contents(built: Built) -> Xclbin:
    """The files that a build for a card publishes."""
    return Xclbin.parse(assemble_f2_xclbin(built.design, Target.HW, find_platform("aws_f2"), AGFI.encode()))


def test_a_card_with_this_very_image_is_used_as_it_is(sysfs: Path, contents: Xclbin, built: Built) -> None:
    _put_identity(sysfs, contents.uuid)
    card = open_bar(0, contents, sysfs)  # no tool is on PATH
    assert (_entry(sysfs) / "config").read_bytes()[4:6] == b"\x06\x00"
    card.close()
    with pytest.raises(DeviceNotFoundError, match="F2 card 1 cannot be opened: there is no such card \\(0000:34"):
        open_bar(1, contents, sysfs)
    with pytest.raises(DeviceError, match="for target hw_emu, expected hw"):
        open_bar(0, Xclbin.read(built.xclbin), sysfs)


@pytest.mark.parametrize("why", ["another image", "a run hangs"])
def test_a_card_with_another_image_or_a_hung_run_gets_it_loaded(
    sysfs: Path, contents: Xclbin, aws: Callable[[str, str], None], tmp_path: Path, why: str
) -> None:
    _put_identity(sysfs, contents.uuid if why == "a run hangs" else "0" * 32)
    with (_entry(sysfs) / "resource0").open("r+b") as file:
        file.write((0 if why == "a run hangs" else registers.AP_IDLE).to_bytes(4, "little"))
    aws("fpga-describe-local-image-slots", f"echo 'AFIDEVICE    0       0x1d0f      0x9048      {ADDRESS}'")
    aws("fpga-load-local-image", LOADED)
    open_bar(0, contents, sysfs).close()
    assert (tmp_path / "bin" / "fpga-load-local-image.calls").read_text() == f"-S 0 -I {AGFI}\n"


class Gone:
    """A card that has left the bus."""

    def read(self, offset: int) -> int:
        return 0xFFFFFFFF

    def write(self, offset: int, value: int) -> None: ...

    def pause(self) -> None: ...

    def allocate(self, size_bytes: int) -> Memory:
        raise BufferObjectError("none")

    def free(self, memory: Memory) -> None: ...

    def close(self) -> None: ...


def test_a_card_that_leaves_the_bus_is_lost() -> None:
    unit = Unit(Gone(), Lock(), 0, "bench_1", 3, np.zeros(1, np.uint32))
    with pytest.raises(DeviceLostError, match="bench_1 reads all ones: the card is gone"):
        unit.start(Run([0, 0, 1]))
