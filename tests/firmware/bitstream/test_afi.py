# SPDX-License-Identifier: Apache-2.0
"""The image for AWS F1, against files: AWS retired F1, and a stand-in answers for its command line (see conftest.py)."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from hypersonic.firmware.bitstream.afi import Bucket, awsxclbin, check_bucket, design_archive, manifest_text, read_image
from hypersonic.firmware.bitstream.build import BitstreamOptions, build_bitstream
from hypersonic.firmware.bitstream.errors import MissingVendorError, StepError
from hypersonic.firmware.bitstream.tools import find_tools
from hypersonic.firmware.kernel.files import Kernel
from hypersonic.firmware.platform import find_platform
from hypersonic.firmware.target import Target
from hypersonic.firmware.xclbin import sections as tables
from hypersonic.firmware.xclbin.assemble import assemble_xclbin
from hypersonic.firmware.xclbin.container import Section, Xclbin
from hypersonic.firmware.xclbin.sections import Kind
from tests.firmware.bitstream.conftest import Vendor

F1 = find_platform("aws_f1", retired_too=True)
BUCKET = Bucket("physics-images")
SYSTEM = tables.Clock(250, tables.CLOCK_KINDS.index("SYSTEM"), "clk_main_a0")


def _linked(kernel: str = "facile") -> Xclbin:
    """An xclbin as v++ links one for F1: with the shell's own clock and the partition's sections."""
    xclbin = Xclbin.parse(assemble_xclbin(kernel, Target.HW, F1, b"checkpoint"))
    clocks = tables.encode_clocks([*xclbin.clocks, SYSTEM])
    sections = [
        Section(section.kind, clocks, section.name) if section.kind == Kind.CLOCK_FREQ_TOPOLOGY else section
        for section in xclbin.sections
    ]
    shell = [Section(tables.KIND_NAMES.index(name), b"{}") for name in ("PARTITION_METADATA", "SYSTEM_METADATA")]
    return replace(xclbin, sections=(*sections, *shell), trailer=b"XCLBIN_MIRROR_DATA_START{}XCLBIN_MIRROR_DATA_END")


def test_the_manifest_is_the_one_aws_documents() -> None:
    assert manifest_text(_linked(), b"checkpoint", "26_11_21-120000", "2021.2") == (
        "manifest_format_version=2\n"
        "pci_vendor_id=0x1D0F\n"
        "pci_device_id=0xF010\n"
        "pci_subsystem_id=0x1D51\n"
        "pci_subsystem_vendor_id=0xFEDD\n"
        f"dcp_hash={hashlib.sha256(b'checkpoint').hexdigest()}\n"
        "shell_version=0x04261818\n"
        "dcp_file_name=26_11_21-120000_SH_CL_routed.dcp\n"
        "hdk_version=1.4.24\n"
        "tool_version=v2021.2\n"
        "date=26_11_21-120000\n"
        "clock_main_a0=250\n"
        "clock_extra_b0=250\n"
        "clock_extra_c0=500\n"
    )


def test_an_xclbin_without_the_shells_clock_makes_no_manifest() -> None:
    with pytest.raises(StepError, match="has no SYSTEM clock"):
        manifest_text(Xclbin.parse(assemble_xclbin("facile", Target.HW, F1, b"")), b"", "26_11_21-120000", "2021.2")


def test_the_archive_holds_the_checkpoint_and_its_manifest() -> None:
    packed = design_archive(_linked(), "26_11_21-120000", "2021.2")
    assert packed == design_archive(_linked(), "26_11_21-120000", "2021.2")
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        files = {entry.name: archive.extractfile(entry).read() for entry in archive}  # type: ignore[union-attr] # None only for a folder
    assert list(files) == ["to_aws/26_11_21-120000_SH_CL_routed.dcp", "to_aws/26_11_21-120000_manifest.txt"]
    assert files["to_aws/26_11_21-120000_SH_CL_routed.dcp"] == b"checkpoint"


def test_the_awsxclbin_has_the_image_for_a_bitstream_and_nothing_of_the_partition() -> None:
    linked = _linked()
    container = Xclbin.parse(awsxclbin(linked, "agfi-0fedcba9876543210"))
    assert container.bitstream == b"agfi-0fedcba9876543210"
    kinds = [section.kind_name for section in container.sections]
    assert kinds == [s.kind_name for s in linked.sections if s.kind_name not in ("PARTITION_METADATA", "SYSTEM_METADATA")]
    assert (container.uuid, container.compute_units, container.trailer) == (linked.uuid, linked.compute_units, b"")


@pytest.mark.parametrize(
    "answer", ["", "An error occurred (UnauthorizedOperation)", '{"FpgaImageId": "afi-0123456789abcdef0"}']
)
def test_an_answer_without_an_image_is_refused(tmp_path: Path, answer: str) -> None:
    (tmp_path / "afi.txt").write_text(answer)
    with pytest.raises(StepError, match="AWS named no image, expected FpgaImageId and FpgaImageGlobalId"):
        read_image(tmp_path / "afi.txt")


@pytest.mark.parametrize(
    "bucket", [Bucket("No_Such"), Bucket("a"), Bucket("ok-name", designs="a,Key=b"), Bucket("ok", logs="")]
)
def test_a_bucket_that_is_none_is_refused(bucket: Bucket) -> None:
    with pytest.raises(MissingVendorError, match="expected the name of an S3 bucket"):
        check_bucket(F1, bucket)


def test_an_f1_build_goes_on_to_the_image(
    vendor: Vendor, kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    linked = vendor.place / "linked.xclbin"
    linked.write_bytes(_linked(kernel.name).to_bytes())
    info = (vendor.place / "xclbin.info").read_text()
    (vendor.place / "xclbin.info").write_text(info.replace("Freq:  300 MHz", "Freq:  250 MHz"))
    monkeypatch.setenv("PATH", f"{vendor.environment['PATH']}{os.pathsep}{os.environ['PATH']}")
    tools = find_tools(F1, environment=vendor.environment)
    told: list[str] = []
    asked = BitstreamOptions(bucket=BUCKET, jobs=1, needed_bytes=0)
    build = [build_bitstream(kernel, F1, tools, tmp_path / "builds", asked, told.append) for _ in range(2)]
    assert build[0] == build[1]
    assert build[0].report["afi"] == {"afi": "afi-0123456789abcdef0", "agfi": "agfi-0fedcba9876543210"}
    assert Xclbin.read(build[0].xclbin).bitstream == b"agfi-0fedcba9876543210"
    assert build[0].xclbin.name == "bench.awsxclbin"
    (archive,) = build[0].build.glob("bench_*.tar")
    assert [call for call in vendor.calls() if call[0] == "aws"] == [
        ["aws", "s3", "cp", archive.name, f"s3://physics-images/dcp/{archive.name}"],
        [
            "aws", "ec2", "create-fpga-image", "--name", "bench", "--description", "bench by hypersonic",
            "--input-storage-location", f"Bucket=physics-images,Key=dcp/{archive.name}",
            "--logs-storage-location", "Bucket=physics-images,Key=logs", "--output", "json",
        ],
    ]  # fmt: skip
    assert told[-1].startswith("note: AWS ended the F1 instances on 20 December 2025")
