# SPDX-License-Identifier: Apache-2.0
"""The Amazon FPGA image of an xclbin for AWS F1, and the .awsxclbin that names it.

AWS ended the F1 instances on 20 December 2025, and such an image can no longer be run. The step is kept for users who keep
images for F1; the platform in service is aws_f2. It has been tested on files only, never against AWS.

Source: aws-fpga, branch master: create_vitis_afi.sh (manifest version 2, the tar, the sections), `aws ec2 create-fpga-image`.
"""

from __future__ import annotations

import hashlib
import io
import re
import tarfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

from hypersonic.firmware.bitstream.errors import MissingVendorError, StepError
from hypersonic.firmware.bitstream.steps import Product, Progress, Step, run_steps
from hypersonic.firmware.bitstream.tools import Tools
from hypersonic.firmware.platform import Platform
from hypersonic.firmware.xclbin import sections as tables
from hypersonic.firmware.xclbin.container import Section, Xclbin
from hypersonic.firmware.xclbin.sections import Kind

#: the versions of the last kit for F1 and of its only shell
HDK_VERSION, SHELL_VERSION = "1.4.24", "0x04261818"

#: the sections that describe the shell's partition, which do not apply to an image at AWS
_REMOVED = tuple(tables.KIND_NAMES.index(name) for name in ("PARTITION_METADATA", "SYSTEM_METADATA"))

_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_PREFIX = re.compile(r"[A-Za-z0-9!_.*'()/-]{1,200}")
_MAX_ANSWER_BYTES = 1 << 20


@dataclass(frozen=True)
class Bucket:
    """The S3 bucket from which AWS reads the design and to which it writes its logs. designs, logs: prefixes of the keys."""

    name: str
    designs: str = "dcp"
    logs: str = "logs"


def make_image(
    xclbin: Path, platform: Platform, tools: Tools, bucket: Bucket | None, build: Path, progress: Progress = lambda _: None
) -> tuple[Path, dict[str, str]]:
    """Upload the design and request its image. Returns the path of the .awsxclbin, and the image's ids under "afi" and "agfi".

    Raises MissingVendorError without a valid bucket, StepError when a call of AWS' command line fails, XclbinError.
    """
    checked = check_bucket(platform, bucket)
    if platform.retired:
        progress(f"note: {platform.retired}")
    name, stamp = xclbin.stem, time.strftime("%y_%m_%d-%H%M%S", time.gmtime(xclbin.stat().st_mtime))
    archive = build / f"{name}_{stamp}.tar"
    archive.write_bytes(design_archive(Xclbin.read(xclbin), stamp, tools.release))
    run_steps(image_steps(tools.aws, name, archive.name, checked), build, progress)
    image = read_image(build / "afi.txt")
    container = xclbin.with_suffix(".awsxclbin")
    container.write_bytes(awsxclbin(Xclbin.read(xclbin), image["agfi"]))
    return container, image


def is_bucket(bucket: Bucket) -> bool:
    """True if the bucket's name and the prefixes are valid for S3."""
    return bool(_BUCKET.fullmatch(bucket.name) and _PREFIX.fullmatch(bucket.designs) and _PREFIX.fullmatch(bucket.logs))


def require_bucket(platform: Platform, bucket: Bucket | None) -> Bucket:
    """The bucket. Raises MissingVendorError when it is None or its name is not valid."""
    if bucket is None:
        raise MissingVendorError(
            f"platform {platform.name}: AWS makes the FPGA image from a design in an S3 bucket: name yours with --afi-bucket"
        )
    if not is_bucket(bucket):
        raise MissingVendorError(f"platform {platform.name}: the bucket is {bucket.name!r}, expected the name of an S3 bucket")
    return bucket


def check_bucket(platform: Platform, bucket: Bucket | None) -> Bucket:
    """The bucket, for a retired platform. Raises MissingVendorError when it is None or its name is not valid; the message says
    that the platform is retired."""
    what = f"platform {platform.name} is retired: {platform.retired}"
    if bucket is None:
        raise MissingVendorError(
            f"{what}. Build for aws_f2 (docs/aws.md describes its state); to make an F1 image nevertheless, name an S3 bucket "
            "with --afi-bucket"
        )
    if not is_bucket(bucket):
        raise MissingVendorError(f"{what}. The bucket is {bucket.name!r}, expected the name of an S3 bucket")
    return bucket


def manifest_text(xclbin: Xclbin, design: bytes, stamp: str, release: str) -> str:
    """The manifest that AWS reads, version 2. stamp: %y_%m_%d-%H%M%S. Raises StepError when the xclbin lacks a clock."""
    clocks = {
        "a0": _clock_mhz(xclbin, "SYSTEM", ""), "b0": _clock_mhz(xclbin, "DATA", "DATA_CLK"),
        "c0": _clock_mhz(xclbin, "KERNEL", "KERNEL_CLK"),
    }  # fmt: skip
    fields = {
        "manifest_format_version": "2", "pci_vendor_id": "0x1D0F", "pci_device_id": "0xF010", "pci_subsystem_id": "0x1D51",
        "pci_subsystem_vendor_id": "0xFEDD", "dcp_hash": hashlib.sha256(design).hexdigest(), "shell_version": SHELL_VERSION,
        "dcp_file_name": f"{stamp}_SH_CL_routed.dcp", "hdk_version": HDK_VERSION, "tool_version": f"v{release}", "date": stamp,
        "clock_main_a0": clocks["a0"], "clock_extra_b0": clocks["b0"], "clock_extra_c0": clocks["c0"],
    }  # fmt: skip
    return "".join(f"{name}={value}\n" for name, value in fields.items())


def _clock_mhz(xclbin: Xclbin, kind: str, name: str) -> str:
    number = tables.CLOCK_KINDS.index(kind)
    named = next((clock for clock in xclbin.clocks if clock.kind == number and name in ("", clock.name)), None)
    if named is None:
        raise StepError(f"the xclbin has no {name or kind} clock, which the manifest for AWS must name")
    return str(named.frequency_mhz)


def design_archive(xclbin: Xclbin, stamp: str, release: str) -> bytes:
    """The tar archive for AWS: to_aws/<stamp>_SH_CL_routed.dcp (v++ stores the checkpoint in BITSTREAM) and the manifest."""
    files = {
        f"to_aws/{stamp}_SH_CL_routed.dcp": xclbin.bitstream,
        f"to_aws/{stamp}_manifest.txt": manifest_text(xclbin, xclbin.bitstream, stamp, release).encode(),
    }
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def image_steps(program: Path | None, name: str, archive: str, bucket: Bucket) -> tuple[Step, Step]:
    """The steps that upload the archive and request an image. AWS' answer is stored in afi.txt. program: AWS' command line."""
    aws, key = str(program or "aws"), f"{bucket.designs}/{archive}"
    return (
        Step(
            name="upload", title=f"uploading {archive} to s3://{bucket.name}", inputs=(archive,),
            argv=(aws, "s3", "cp", archive, f"s3://{bucket.name}/{key}"),
            products=(Product("partial/upload.txt", "upload.txt"),), tee="partial/upload.txt",
        ),
        Step(
            name="create_image", title="asking AWS for the FPGA image", inputs=(archive,),
            argv=(
                aws, "ec2", "create-fpga-image", "--name", name, "--description", f"{name} by hypersonic",
                "--input-storage-location", f"Bucket={bucket.name},Key={key}",
                "--logs-storage-location", f"Bucket={bucket.name},Key={bucket.logs}", "--output", "json",
            ),
            products=(Product("partial/afi.txt", "afi.txt"),), tee="partial/afi.txt",
        ),
    )  # fmt: skip


def read_image(file: Path) -> dict[str, str]:
    """The ids {"afi": ..., "agfi": ...} in the output of create-fpga-image. Raises StepError when it has none."""
    with file.open("rb") as stream:
        text = stream.read(_MAX_ANSWER_BYTES).decode(errors="replace")
    ids = {name: re.search(rf'"{name}-[0-9a-f]{{17}}"', text) for name in ("afi", "agfi")}
    if not all(ids.values()):
        raise StepError(f"{file}: AWS named no image, expected FpgaImageId and FpgaImageGlobalId; it said: {text[:200]!r}")
    return {name: match[0].strip('"') for name, match in ids.items() if match}


def awsxclbin(xclbin: Xclbin, agfi: str) -> bytes:
    """The container for F1, with the global image id in place of the bitstream and without the sections on the shell's
    partition."""
    kept = (section for section in xclbin.sections if section.kind not in _REMOVED)
    sections = tuple(
        Section(section.kind, agfi.encode(), section.name) if section.kind == Kind.BITSTREAM else section for section in kept
    )
    # xclbinutil's copy of the metadata and the signature belong to the old content
    return replace(xclbin, sections=sections, trailer=b"", signature=b"").to_bytes()
