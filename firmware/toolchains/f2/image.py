# SPDX-License-Identifier: Apache-2.0
"""The Amazon FPGA image of a design checkpoint: uploaded to S3, requested, and waited for.

Each call is tested with stand-ins of AWS' command line; none has been run against AWS. Source: aws-fpga (branch f2),
`aws ec2 create-fpga-image` and `describe-fpga-images`.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from hypersonic.firmware.platform import Platform
from hypersonic.firmware.toolchains.errors import MissingVendorError, StepError
from hypersonic.firmware.toolchains.steps import Product, Progress, Step

_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")

#: prefixes of the keys in the bucket: AWS reads the design from one and writes its logs to the other
_DESIGNS, _LOGS = "dcp", "logs"

_MAX_ANSWER_BYTES = 1 << 20
_POLL_S = 60
_ASK_TIMEOUT_S = 120


def check_bucket(platform: Platform, bucket: str) -> str:
    """The name of the S3 bucket. Raises MissingVendorError when it is empty or not valid."""
    if not bucket:
        raise MissingVendorError(
            f"platform {platform.name}: AWS makes the FPGA image from a design in an S3 bucket: name yours with --afi-bucket"
        )
    if not _BUCKET.fullmatch(bucket):
        raise MissingVendorError(f"platform {platform.name}: the bucket is {bucket!r}, expected the name of an S3 bucket")
    return bucket


def image_steps(program: Path, name: str, archive: str, bucket: str) -> tuple[Step, Step]:
    """The steps that upload the archive and request an image. AWS' answer is stored in afi.txt.

    Args:
        program: AWS' command line.
    """
    aws, key = str(program), f"{_DESIGNS}/{archive}"
    return (
        Step(
            name="upload", title=f"uploading {archive} to s3://{bucket}", inputs=(archive,),
            argv=(aws, "s3", "cp", archive, f"s3://{bucket}/{key}"),
            products=(Product("partial/upload.txt", "upload.txt"),), tee="partial/upload.txt",
        ),
        Step(
            name="create_image", title="asking AWS for the FPGA image", inputs=(archive,),
            argv=(
                aws, "ec2", "create-fpga-image", "--name", name, "--description", f"{name} by hypersonic",
                "--input-storage-location", f"Bucket={bucket},Key={key}",
                "--logs-storage-location", f"Bucket={bucket},Key={_LOGS}", "--output", "json",
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


def describe_command(aws: Path, afi: str) -> list[str]:
    """The command that asks AWS for the state of an image.

    Args:
        aws: AWS' command line.
    """
    return [str(aws), "ec2", "describe-fpga-images", "--fpga-image-ids", afi, "--output", "json"]


def wait_for_image(
    aws: Path, afi: str, progress: Progress = lambda _: None, sleep: Callable[[float], None] = time.sleep
) -> None:
    """Wait until AWS has made the image. Raises StepError when AWS cannot make it, with AWS' message, or does not answer."""
    told = ""
    while True:
        code, message = image_state(_ask(describe_command(aws, afi)))
        if code == "available":
            return
        if code != "pending":
            raise StepError(f"AWS did not make image {afi}: its state is {code}: {message or 'no message'}")
        if told != code:
            progress(f"AWS makes image {afi}; this may be interrupted, and the same command continues to wait")
            told = code
        sleep(_POLL_S)


def image_state(answer: str) -> tuple[str, str]:
    """(State.Code, State.Message) in the output of describe-fpga-images. Raises StepError when it is not such an answer."""
    try:
        state = json.loads(answer)["FpgaImages"][0]["State"]
        return str(state["Code"]), str(state.get("Message", ""))[:400]
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
        raise StepError(
            f"AWS' answer names no state of the image, expected FpgaImages[0].State.Code; it said: {answer[:200]!r}"
        ) from error


def _ask(argv: list[str]) -> str:
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_ASK_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise StepError(f"{' '.join(argv[:3])} does not run: {error}; the same command asks again") from error
    text = done.stdout[:_MAX_ANSWER_BYTES].decode(errors="replace")
    if done.returncode:
        raise StepError(f"{' '.join(argv[:3])} ended with {done.returncode}: {text.strip()[:300]}; the same command asks again")
    return text
