# SPDX-License-Identifier: Apache-2.0
"""The resources of several kernels in one xclbin, as `hypersonic build --together` reports them."""

from __future__ import annotations

from collections.abc import Sequence

from hypersonic.firmware.errors import LinkError
from hypersonic.firmware.estimate.kernel import ResourceReport, known_amounts
from hypersonic.firmware.estimate.module_tree import Module
from hypersonic.firmware.estimate.report import BuildReport, Estimates, Missing, entry_of, lines_of
from hypersonic.firmware.kernel.files import Kernel
from hypersonic.firmware.platform import Platform
from hypersonic.firmware.xclbin.connectivity import describe_places, place_kernels, shared_banks


def report_together(
    kernels: Sequence[tuple[Kernel, int]], platform: Platform, kernel_mhz: int, estimates: Estimates
) -> BuildReport:
    """The estimate of one compute unit of each kernel, the place of every unit, and the kernels that may miss the clock.

    For a kernel without an estimate, what is known without Yosys is placed.

    Args:
        kernels: each with its number of compute units.
        kernel_mhz: the clock of all of them; 0 means the platform's default.
    """
    known = {kernel.name: known_amounts(kernel.core) for kernel, _ in kernels}
    reports = {name: estimates.kernels[name] for name in known}
    lines = [line for name, report in reports.items() for line in ("", f"kernel {name}", *lines_of(report, platform))][1:]
    if estimates.shell:
        lines += ["", _shell(estimates.shell)]
    mapped = [report for report in reports.values() if isinstance(report, ResourceReport)]
    lines += ["", *_slow(mapped, platform, kernel_mhz)]
    amounts = [known[name] if isinstance(report, Missing) else report.top.total for name, report in reports.items()]
    entries = {name: entry_of(report, platform, known[name]) for name, report in reports.items()}
    try:
        places = place_kernels(platform, [kernel.units(units) for kernel, units in kernels], amounts)
    except LinkError as error:
        return BuildReport([*lines, str(error)], entries, str(error))
    return BuildReport([*lines, *describe_places(platform, places), *shared_banks(platform, places)], entries, "")


def check_known_together(kernels: Sequence[tuple[Kernel, int]], platform: Platform) -> BuildReport | None:
    """The report of kernels that do not fit the card by what is known without Yosys; None for others. It takes no time."""
    described = [kernel.units(units) for kernel, units in kernels]
    try:
        place_kernels(platform, described, [known_amounts(kernel.core) for kernel, _ in kernels])
    except LinkError as error:
        return BuildReport([str(error)], {}, str(error))
    return None


def _shell(shell: Module | Missing) -> str:
    if isinstance(shell, Missing):
        return shell.line
    return f"and once, between the compute units and the shell: {', '.join(shell.total.texts())}"


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
