# SPDX-License-Identifier: Apache-2.0
"""`hypersonic build --target hw --platform aws_f2`: from a kernel to custom logic, a checkpoint and an Amazon FPGA image.

    write_cl --> build_dcp --> upload --> create_image --> [AWS makes the image] --> the container that names it

All files are in <directory>/<kernel>-aws_f2-<hash>. Like the builds of other platforms, an interrupted build can be continued
(steps.py). Each call is tested with stand-ins of the tools; none has been run with the kit or against AWS.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypersonic.firmware.bitstream.afi import Bucket, image_steps, read_image, require_bucket
from hypersonic.firmware.bitstream.errors import StepError, TimingError
from hypersonic.firmware.bitstream.memories import check_memories
from hypersonic.firmware.bitstream.steps import Product, Progress, Step, locked, pending, run_steps
from hypersonic.firmware.bitstream.tools import BUILD_BYTES, check_space
from hypersonic.firmware.f2.custom_logic import CL, wrapper_text, write_cl
from hypersonic.firmware.f2.design import F2Design, assemble_f2_xclbin
from hypersonic.firmware.f2.kit import SHELL_MODE, Kit
from hypersonic.firmware.platform import Platform
from hypersonic.firmware.target import Target
from hypersonic.hls.cache import content_hash

#: the tag in the names of the kit's files
TAG = "hypersonic"

_SCRIPTS = f"{CL}/build/scripts"
_SLACK = re.compile(r"Slack \((?:MET|VIOLATED)\)\s*:\s*(-?\d+\.\d+)ns")
_MOST_BYTES = 1 << 22
_POLL_S = 60
_ASK_TIMEOUT_S = 120


@dataclass(frozen=True)
class F2Build:
    """The result of a build. report and tools are fields of the manifest. build: the directory with logs and reports."""

    xclbin: bytes
    report: dict[str, Any]
    tools: dict[str, str]
    build: Path


def build_f2(
    design: F2Design, platform: Platform, kit: Kit, bucket: Bucket | None, directory: Path,
    progress: Progress = lambda _: None, *, needed_bytes: int = BUILD_BYTES, sleep: Callable[[float], None] = time.sleep,
) -> F2Build:  # fmt: skip
    """Build an image below `directory`, or continue an interrupted build. Waits until AWS has made the image, which takes from
    half an hour to hours; the same call may be repeated.

    needed_bytes: disk space that must be free. sleep: waits between two questions to AWS, in seconds. Raises MissingVendorError
    without a bucket or disk space, before anything runs; StepError when a tool fails; TimingError for a missed clock.
    """
    checked = require_bucket(platform, bucket)
    for kernel, _ in design.kernels:
        check_memories(kernel.core)
    digest = content_hash([kit.version, kit.release, wrapper_text(), *design.sources, *design.memories])
    build = directory / f"{design.name[:64]}-{platform.name}-{digest[:12]}"
    with locked(build):
        inputs = write_cl(design, kit, build)
        dcp = checkpoint_step(kit, build, inputs)
        if pending([dcp], build):
            check_space(build, needed_bytes)
        run_steps([dcp], build, progress)
        slack_ns = check_timing(build, platform)
        run_steps(image_steps(kit.aws, design.name[:64], dcp.products[0].kept, checked), build, progress)
        image = read_image(build / "afi.txt")
        wait_for_image(kit.aws or Path("aws"), image["afi"], progress, sleep)
    tools = {"vivado": kit.release, "aws-fpga": kit.version}
    report = {"kernel_mhz": platform.kernel_clock_mhz, "timing": {"setup_wns_ns": slack_ns}, "afi": image}
    return F2Build(assemble_f2_xclbin(design, Target.HW, platform, image["agfi"].encode(), tools), report, tools, build)


def checkpoint_step(kit: Kit, build: Path, inputs: list[str]) -> Step:
    """The step of synthesis, place and route: the kit's own script, run in the CL's build/scripts with CL_DIR set."""
    archive = f"{CL}/build/checkpoints/{TAG}.Developer_CL.tar"
    return Step(
        name="build_dcp", title="building the design checkpoint with the AWS kit, hours", inputs=tuple(inputs),
        argv=(
            "env", "-C", _SCRIPTS, f"CL_DIR={build.absolute() / CL}", str(kit.python), "aws_build_dcp_from_cl.py",
            "--cl", CL, "--mode", SHELL_MODE, "--flow", "BuildAll", "--tag", TAG,
        ),
        products=(Product(archive, f"{build.name}.tar"),), key=(kit.version, kit.release),
    )  # fmt: skip


def check_timing(build: Path, platform: Platform) -> float:
    """The least setup slack after routing, in ns. Raises TimingError when the checkpoint misses the shell's clock, because the
    kit packs such a checkpoint too; StepError when there is no report."""
    report = build / CL / "build" / "reports" / f"{CL}.{TAG}.post_route_timing.rpt"
    try:
        with report.open() as file:
            slacks = [float(slack) for slack in _SLACK.findall(file.read(_MOST_BYTES))]
    except (OSError, ValueError) as error:
        raise StepError(f"{report} cannot be read: {error}; remove {build} and build again") from error
    if not slacks:
        raise StepError(f"{report} names no slack, expected lines with `Slack (MET)`; remove {build} and build again")
    violated = build / CL / "build" / "checkpoints" / f"{CL}.{TAG}.post_route.VIOLATED.dcp"
    if violated.exists() or min(slacks) < 0:
        missed = f"its least setup slack is {min(slacks):.3f} ns" if min(slacks) < 0 else "it misses hold"
        raise TimingError(
            f"{build / CL} misses the shell's {platform.kernel_clock_mhz} MHz: {missed}; "
            "ask for fewer compute units or a smaller model"
        )
    return min(slacks)


def describe_command(aws: Path, afi: str) -> list[str]:
    """The command that asks AWS for the state of an image. aws: AWS' command line."""
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
    text = done.stdout[:_MOST_BYTES].decode(errors="replace")
    if done.returncode:
        raise StepError(f"{' '.join(argv[:3])} ended with {done.returncode}: {text.strip()[:300]}; the same command asks again")
    return text
