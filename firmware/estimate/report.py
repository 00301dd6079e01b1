# SPDX-License-Identifier: Apache-2.0
"""The estimate of a kernel as `hypersonic build` reports it. An estimate that cannot be made never ends a build: the kernel
works without it, and the report says what is missing and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hypersonic.firmware.errors import FirmwareError, LinkError
from hypersonic.firmware.estimate.kernel import ResourceReport, estimate, estimate_shell, known_amounts, table
from hypersonic.firmware.estimate.module_tree import Module
from hypersonic.firmware.kernel.files import Kernel
from hypersonic.firmware.platform import Platform
from hypersonic.firmware.xclbin.connectivity import describe_places, place_units
from hypersonic.hls.errors import ToolError
from hypersonic.hls.resources import KINDS, LABELS, NOT_ESTIMATED, Amounts

#: characters of a reason that are kept in its line
_MOST = 400


@dataclass(frozen=True)
class Missing:
    """An estimate that could not be made.

    Attributes:
        what: the kernel or module.
        reason: why, in one line.
    """

    what: str
    reason: str

    @property
    def line(self) -> str:
        """The line for the user."""
        figures = ", ".join(LABELS[name] for name in KINDS)
        return f"{self.what}: no estimate of {figures} and of the deepest logic, because {self.reason}"


@dataclass(frozen=True)
class BuildReport:
    """The resources of a kernel as `hypersonic build` reports them.

    Attributes:
        lines: for the terminal.
        entries: for the manifests' reports, under "resources", by the kernel's name; without an estimate, the reason as
            NOT_ESTIMATED, and what is known of the core without Yosys.
        misfit: why the compute units do not fit the card; empty when they do.
    """

    lines: list[str]
    entries: dict[str, dict[str, Any]]
    misfit: str


@dataclass(frozen=True)
class Estimates:
    """The estimates of a build.

    Attributes:
        kernels: one compute unit of each, by the kernel's name.
        shell: the module between the compute units and the shell; None where v++ connects them.
    """

    kernels: Mapping[str, ResourceReport | Missing]
    shell: Module | Missing | None = None


def try_estimate(kernel: Kernel) -> ResourceReport | Missing:
    """The estimate of a kernel, or why there is none. Raises nothing."""
    try:
        return estimate(kernel)
    except Exception as error:  # noqa: BLE001 - an unforeseen netlist must not end a build either
        return Missing(kernel.name, _reason(error))


def make_estimates(kernels: Sequence[tuple[Kernel, int]], platform: Platform) -> Estimates:
    """Estimate kernels, each with its number of compute units. Raises nothing."""
    units = sum(count for _, count in kernels)
    shell = try_shell(platform.shell_module, units) if platform.shell_module else None
    return Estimates({kernel.name: try_estimate(kernel) for kernel, _ in kernels}, shell)


def no_estimates(kernels: Sequence[tuple[Kernel, int]], reason: str) -> Estimates:
    """The result for kernels when no estimate could be made.

    Args:
        reason: why, in one line.
    """
    return Estimates({kernel.name: Missing(kernel.name, reason) for kernel, _ in kernels})


def try_shell(module: str, compute_units: int) -> Module | Missing:
    """The estimate of the module between the units and the shell, or why there is none. Raises nothing."""
    try:
        return estimate_shell(module, compute_units)
    except Exception as error:  # noqa: BLE001 - as above
        return Missing(module, _reason(error))


def _reason(error: Exception) -> str:
    text = " ".join(str(error).split())
    named = text if text and isinstance(error, (FirmwareError, ToolError)) else f"{type(error).__name__}: {text}"
    return named if len(named) <= _MOST else f"{named[:_MOST]} .."


def report_build(kernel: Kernel, platform: Platform, compute_units: int, estimates: Estimates) -> BuildReport:
    """The estimate of one compute unit and the place of each unit.

    Without an estimate, each unit is placed by the amounts that are known without Yosys.
    """
    known, report = known_amounts(kernel.core), estimates.kernels[kernel.name]
    lines, around = [*lines_of(report, platform)], dict[str, Any]()
    if estimates.shell:
        lines_of_shell, around = _shell(estimates.shell, compute_units)
        lines += lines_of_shell
    unit = known if isinstance(report, Missing) else report.top.total
    places, misfit = _places(kernel, platform, compute_units, unit)
    return BuildReport([*lines, *places], {kernel.name: {**entry_of(report, platform, known), **around}}, misfit)


def check_known(kernel: Kernel, platform: Platform, compute_units: int = 1) -> BuildReport | None:
    """The report of a kernel that does not fit the card by what is known without Yosys; None for others. It takes no time."""
    known = known_amounts(kernel.core)
    misfit = _places(kernel, platform, compute_units, known)[1]
    if not misfit:
        return None
    needed = ", ".join(f"{known.text(kind)} {LABELS[kind]}" for kind in KINDS if getattr(known, kind))
    return BuildReport([f"the core alone needs {needed} (an estimate)", misfit], {}, misfit)


def lines_of(report: ResourceReport | Missing, platform: Platform) -> Sequence[str]:
    """The lines of an estimate for the terminal."""
    return [report.line] if isinstance(report, Missing) else report.lines(platform)


def entry_of(report: ResourceReport | Missing, platform: Platform, known: Amounts) -> dict[str, Any]:
    """The entry of an estimate in a manifest's report.

    Args:
        known: what is known of the core without Yosys.
    """
    if isinstance(report, Missing):
        return {NOT_ESTIMATED: report.reason, "platform": platform.name, "known": known.to_json()}
    share = report.top.total.percent_of(platform.slrs[0])
    return {**report.to_json(), "platform": platform.name, "share_of_slr_percent": share}


def _shell(shell: Module | Missing, compute_units: int) -> tuple[list[str], dict[str, Any]]:
    """The lines and the entry of the module between the compute units and the shell."""
    if isinstance(shell, Missing):
        return [shell.line], {}
    head = f"and once, between {compute_units} compute units and the shell, also by Yosys:"
    return [head, *table(shell)[1:]], {shell.name: shell.total.to_json()}


def _places(kernel: Kernel, platform: Platform, compute_units: int, unit: Amounts) -> tuple[list[str], str]:
    """A line on the place of each unit, and why the units do not fit; the latter is empty when they do."""
    try:
        return describe_places(platform, place_units(platform, kernel.units(compute_units), unit)), ""
    except LinkError as error:
        return [str(error)], str(error)
