# SPDX-License-Identifier: Apache-2.0
"""An xclbin with several kernels on the emulated card: its archive of simulators, and the runs of all of them."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from hypersonic.firmware.platform import find_platform
from hypersonic.firmware.target import Target
from hypersonic.firmware.xclbin.assemble import LinkedKernel, assemble_kernels
from hypersonic.firmware.xclbin.images import pack_images

if TYPE_CHECKING:
    from tests.sim.conftest import CompileStub, Xrt

Write = Callable[[bytes], Path]


@pytest.fixture
def images(stub_image: bytes, compile_stub: CompileStub) -> dict[str, bytes]:
    return {"stub": stub_image, "twin": compile_stub('STUB_KERNEL="twin"')}


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """An xclbin with two units of kernel stub and one of kernel twin around a BITSTREAM; its path."""

    def write(bitstream: bytes) -> Path:
        path = tmp_path / "several.xclbin"
        kernels = [LinkedKernel("stub", 2), LinkedKernel("twin")]
        path.write_bytes(assemble_kernels(kernels, Target.HW_EMU, find_platform("u250"), bitstream))
        return path

    return write


def archive(*members: tuple[str, bytes], kind: bytes = tarfile.REGTYPE) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as out:
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.size, member.type = len(content) if kind == tarfile.REGTYPE else 0, kind
            out.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def test_units_of_two_kernels_run_at_once_on_one_card(xrt: Xrt, write: Write, images: dict[str, bytes]) -> None:
    device = xrt.device(write(pack_images(images)))
    outputs, runs = [], []
    for bank, name in enumerate(("stub:{stub_1}", "stub:{stub_2}", "twin:{twin_1}")):
        x, y = xrt.buffer(device, 64, bank), xrt.buffer(device, 64, bank)
        x.fill([bank + 1.0])
        runs.append(xrt.run(xrt.kernel(device, name), x, y, 1))
        outputs.append(y)
    for run in runs:
        xrt.start(run)
    assert [xrt.finish(run).name for run in runs] == ["COMPLETED"] * 3
    assert [y.floats(1)[0] for y in outputs] == [2.0, 4.0, 6.0]


def test_an_archive_that_is_damaged_or_lacks_a_kernel_is_refused_with_the_reason(
    xrt: Xrt, write: Write, images: dict[str, bytes], capfd: pytest.CaptureFixture[str]
) -> None:
    stub, twin = images["stub"], images["twin"]
    whole = archive(("stub.so", stub), ("twin.so", twin))
    head = 512 + -(-len(stub) // 512) * 512
    device = xrt.device()
    for bitstream, message in (
        (archive(("stub.so", stub)), "no simulator of kernel 'twin', it has those of stub"),
        (archive(("stub.so", twin), ("twin.so", stub)), "is of kernel 'stub', BITSTREAM simulates 'twin'"),
        (archive(("stub.so", stub), ("stub.so", stub)), f"at byte {head} there is a second stub.so"),
        (archive(("../stub.so", stub)), "at byte 0 there is no regular file KERNEL.so"),
        (archive(("stub.txt", stub)), "at byte 0 there is no regular file KERNEL.so"),
        (archive((".so", stub)), "at byte 0 there is no regular file KERNEL.so"),
        (archive(("stub.so", b""), kind=tarfile.SYMTYPE), "at byte 0 there is no regular file KERNEL.so"),
        (archive(("stub.so", b""), ("twin.so", twin)), "it is not an ELF file (0 bytes)"),
        (whole[:head], "it ends before its end mark"),
        (whole[: head + 600], "the size of twin.so is not a number, or is beyond the archive's end"),
        (whole[: head + 512 + len(twin)], "it ends before its end mark"),
        (whole[:head] + b"x" * 512, "there is no header, or one with a wrong checksum"),
        (whole[:head] + whole[head : head + 124] + b"77777777777\0" + whole[head + 136 :], "with a wrong checksum"),
        (whole[:124] + b"9" * 11 + whole[135:], "with a wrong checksum"),
    ):
        assert xrt.error("xrtDeviceLoadXclbinFile", device, bytes(write(bitstream))) == "EINVAL"
        assert message in capfd.readouterr().err, message


def test_no_change_of_an_archives_headers_ends_the_process(xrt: Xrt, write: Write, images: dict[str, bytes]) -> None:
    whole = bytearray(archive(("stub.so", images["stub"]), ("twin.so", images["twin"])))
    device, draw = xrt.device(), np.random.default_rng(20)
    for _ in range(60):
        changed = whole.copy()
        header = changed[:512]
        header[draw.integers(512)] = draw.integers(256)
        header[148:156] = b"%06o\0 " % sum((*header[:148], *b" " * 8, *header[156:]))
        changed[:512] = header
        xrt.xrtDeviceLoadXclbinFile(device, bytes(write(bytes(changed))))
