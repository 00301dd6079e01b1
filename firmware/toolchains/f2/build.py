# SPDX-License-Identifier: Apache-2.0
"""`hypersonic build --target hw --platform aws_f2`: from a kernel to custom logic, a checkpoint and an Amazon FPGA image.

::

    write_cl --> build_dcp --> upload --> create_image --> [AWS makes the image] --> the container that names it

All files are in <directory>/<kernel>-aws_f2-<hash>. Like the builds of other platforms, an interrupted build can be continued
(steps.py). Each call is tested with stand-ins of the tools; none has been run with the kit or against AWS.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hypersonic.firmware.f2.design import F2Design, assemble_f2_xclbin, write_f2_kernels
from hypersonic.firmware.platform import Platform
from hypersonic.firmware.target import Target
from hypersonic.firmware.toolchains.errors import MissingVendorError, StepError, TimingError
from hypersonic.firmware.toolchains.f2.custom_logic import CL, wrapper_text, write_cl
from hypersonic.firmware.toolchains.f2.image import check_bucket, image_steps, read_image, wait_for_image
from hypersonic.firmware.toolchains.f2.kit import SHELL_MODE, Kit, find_kit
from hypersonic.firmware.toolchains.memories import check_memories
from hypersonic.firmware.toolchains.programs import BUILD_BYTES, check_space
from hypersonic.firmware.toolchains.steps import Product, Progress, Step, locked, pending, run_steps
from hypersonic.firmware.toolchains.toolchain import Bitstream, CardOptions, KernelUnits
from hypersonic.hls.cache import content_hash
from hypersonic.hls.core_kind import CoreKind

#: the tag in the names of the kit's files
TAG = "hypersonic"

_SCRIPTS = f"{CL}/build/scripts"
_SLACK = re.compile(r"Slack \((?:MET|VIOLATED)\)\s*:\s*(-?\d+\.\d+)ns")
_MOST_BYTES = 1 << 22


@dataclass(frozen=True)
class F2:
    """The Toolchain of AWS F2: the kit builds a checkpoint, from which AWS makes an image.

    Attributes:
        bucket: in S3.
    """

    platform: Platform
    kit: Kit
    bucket: str
    options: CardOptions

    def link(self, name: str, kernels: Sequence[KernelUnits], directory: Path, progress: Progress) -> Bitstream:
        """Build an image and the xclbin that names it; see build_f2."""
        with tempfile.TemporaryDirectory() as scratch:
            design = write_f2_kernels([(part.kernel, part.compute_units) for part in kernels], Path(scratch))
            return build_f2(
                name, design, self.platform, self.kit, self.bucket, directory, progress, needed_bytes=self.options.needed_bytes
            )


def find_f2(platform: Platform, core: str, options: CardOptions) -> F2:
    """Find the AWS kit for an F2 card. Raises MissingVendorError when it, the bucket, the core or the clock is not suitable."""
    if core and not CoreKind(core).is_own_rtl:
        raise MissingVendorError(f"platform {platform.name} takes --core da or rf, not {core}: Vitis HLS has no target for it")
    if options.kernel_mhz not in (0, platform.kernel_clock_mhz):
        raise MissingVendorError(
            f"platform {platform.name}: --kernel-mhz is {options.kernel_mhz}, but the shell's one clock is "
            f"{platform.kernel_clock_mhz} MHz"
        )
    kit = find_kit(platform)
    return F2(platform, kit, check_bucket(platform, options.afi_bucket), options)


def build_f2(
    name: str, design: F2Design, platform: Platform, kit: Kit, bucket: str, directory: Path,
    progress: Progress = lambda _: None, *, needed_bytes: int = BUILD_BYTES, sleep: Callable[[float], None] = time.sleep,
) -> Bitstream:  # fmt: skip
    """Build an image below `directory`, or continue an interrupted build. Waits until AWS has made the image, which takes from
    half an hour to hours; the same call may be repeated.

    Args:
        name: of the xclbin and the image.
        needed_bytes: disk space that must be free.
        sleep: waits between two questions to AWS, in seconds.

    Raises:
        MissingVendorError: Without disk space, before anything runs.
        StepError: When a tool fails.
        TimingError: For a missed clock.
    """
    for kernel, _ in design.kernels:
        check_memories(kernel.core)
    digest = content_hash([kit.version, kit.release, wrapper_text(), *design.sources, *design.memories])
    build = directory / f"{name[:64]}-{platform.name}-{digest[:12]}"
    with locked(build):
        inputs = write_cl(design, kit, build)
        dcp = checkpoint_step(kit, build, inputs)
        if pending([dcp], build):
            check_space(build, needed_bytes)
        run_steps([dcp], build, progress)
        slack_ns = check_timing(build, platform)
        run_steps(image_steps(kit.aws, name[:64], dcp.products[0].kept, bucket), build, progress)
        image = read_image(build / "afi.txt")
        wait_for_image(kit.aws, image["afi"], progress, sleep)
        tools = {"vivado": kit.release, "aws-fpga": kit.version}
        xclbin = build / f"{name[:64]}.xclbin"
        xclbin.write_bytes(assemble_f2_xclbin(design, Target.HW, platform, image["agfi"].encode(), tools))
    report = {"kernel_mhz": platform.kernel_clock_mhz, "timing": {"setup_wns_ns": slack_ns}, "afi": image}
    return Bitstream(xclbin, report, tools, build)


def checkpoint_step(kit: Kit, build: Path, inputs: list[str]) -> Step:
    """The step of synthesis, place and route: the kit's own script, run in the CL's build/scripts with CL_DIR set.

    The checkpoints and reports of an earlier run are removed first, so that check_timing does not judge this run by them.
    """
    archive = f"{CL}/build/checkpoints/{TAG}.Developer_CL.tar"
    return Step(
        name="build_dcp", title="building the design checkpoint with the AWS kit, hours", inputs=tuple(inputs),
        argv=(
            "env", "-C", _SCRIPTS, f"CL_DIR={build.absolute() / CL}", str(kit.python), "aws_build_dcp_from_cl.py",
            "--cl", CL, "--mode", SHELL_MODE, "--flow", "BuildAll", "--tag", TAG,
        ),
        products=(Product(archive, f"{build.name}.tar"),), key=(kit.version, kit.release),
        clears=(f"{CL}/build/checkpoints", f"{CL}/build/reports"),
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
