# SPDX-License-Identifier: Apache-2.0
"""The resources of several kernels in one xclbin, as `hypersonic build --together` reports them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hypersonic.firmware.errors import LinkError
from hypersonic.firmware.estimate.kernel import BuildReport, ResourceReport, estimate, estimate_f2_shell
from hypersonic.firmware.estimate.module_tree import memory_resources
from hypersonic.firmware.kernel.files import Kernel
from hypersonic.firmware.kernel.vitis_xml import Instance, KernelDescription, describe_kernel
from hypersonic.firmware.platform import Flow, Platform
from hypersonic.firmware.xclbin.connectivity import describe_places, place_kernels, shared_banks


def report_together(
    kernels: Sequence[tuple[Kernel, int]],
    platform: Platform,
    kernel_mhz: int = 0,
    progress: Callable[[str], None] = lambda _: None,
) -> BuildReport:
    """The estimate of one compute unit of each kernel, the place of every unit, and the kernels that may miss the clock.

    kernels: each with its number of compute units. kernel_mhz: the clock of all of them; 0 means the platform's default. The
    result's entry has the entry of each kernel by its name. If the memories alone do not fit the card, nothing is synthesised.
    Raises like estimate.
    """
    described = [_describe(kernel, units) for kernel, units in kernels]
    try:
        place_kernels(platform, described, [memory_resources(kernel.core.memories) for kernel, _ in kernels])
        reports = [estimate(kernel, progress) for kernel, _ in kernels]
        lines = [line for report in reports for line in ("", f"kernel {report.kernel}", *report.lines(platform))][1:]
        if platform.flow is Flow.F2_HDK:
            shell = estimate_f2_shell(sum(units for _, units in kernels)).total
            lines += ["", f"and once, between the compute units and the AWS shell: {', '.join(shell.texts())}"]
        lines += ["", *_slow(reports, platform, kernel_mhz)]
        places = place_kernels(platform, described, [report.top.total for report in reports])
    except LinkError as error:
        return BuildReport([str(error)], {}, str(error))
    entries = {report.kernel: _entry(report, platform) for report in reports}
    return BuildReport([*lines, *describe_places(platform, places), *shared_banks(platform, places)], entries, "")


def _describe(kernel: Kernel, units: int) -> KernelDescription:
    instances = [Instance(f"{kernel.name}_{k + 1}", 0) for k in range(units)]
    return describe_kernel(kernel.name, instances, kernel.core.takes_weights)


def _entry(report: ResourceReport, platform: Platform) -> dict[str, Any]:
    share = report.top.total.percent_of(platform.slrs[0])
    return {**report.to_json(), "platform": platform.name, "share_of_slr_percent": share}


def _slow(reports: Sequence[ResourceReport], platform: Platform, kernel_mhz: int) -> list[str]:
    """A line for each kernel whose deepest logic may miss the clock that all kernels share."""
    mhz = kernel_mhz or platform.kernel_clock_mhz
    deepest = {report.kernel: max((path.estimated_ns for path in report.paths), default=0.0) for report in reports}
    return [
        f"{name} may miss the clock of {mhz} MHz: its deepest logic takes {nanoseconds:.2f} ns by a rule of thumb, a period is "
        f"{1000 / mhz:.2f} ns"
        for name, nanoseconds in deepest.items()
        if nanoseconds > 1000 / mhz
    ]
