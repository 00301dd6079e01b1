# SPDX-License-Identifier: Apache-2.0
"""`hypersonic build --target hw`: builds a card's xclbin from kernels and a platform, and reads the tools' reports.

::

    check_part --> package_xo --> synthesise --> implement --> digests
                              '-> link (where v++ does not divide the link into steps) -'

All files are in <directory>/<kernel>-<platform>-<hash>, where the hash is of everything that determines the result. A repeated
call continues where the last one stopped, and returns at once if that one was complete. If several kernels are linked
together, each is packaged in its own directory below the xclbin's directory, whose name begins with the given name.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from hypersonic.firmware.errors import LinkError
from hypersonic.firmware.kernel.vitis_xml import KernelDescription, describe_kernel
from hypersonic.firmware.platform import Platform
from hypersonic.firmware.target import Target
from hypersonic.firmware.toolchains.errors import StepError, TimingError
from hypersonic.firmware.toolchains.memories import check_memories, check_read
from hypersonic.firmware.toolchains.programs import check_space
from hypersonic.firmware.toolchains.steps import Progress, Step, locked, pending, run_step, write_whole
from hypersonic.firmware.toolchains.toolchain import Bitstream, CardOptions, KernelUnits
from hypersonic.firmware.toolchains.vitis.config import vpp_config
from hypersonic.firmware.toolchains.vitis.dies import SCRIPT, dies_tcl, hook_lines, without_slr
from hypersonic.firmware.toolchains.vitis.hls_core import synthesise_hls_core
from hypersonic.firmware.toolchains.vitis.link import (
    CONFIG,
    ONE_STEP,
    TEMP,
    TIMING_REPORTS,
    UTILISATION_REPORTS,
    keep_report,
    link_step,
    link_steps,
    refuse_steps,
)
from hypersonic.firmware.toolchains.vitis.package_xo import kernel_tcl, package_steps
from hypersonic.firmware.toolchains.vitis.reports import (
    Clock,
    Timing,
    manifest_report,
    read_clocks,
    read_kernel_utilisation,
    read_timing,
)
from hypersonic.firmware.toolchains.vitis.tools import Tools, find_tools
from hypersonic.firmware.xclbin.connectivity import place_kernels
from hypersonic.firmware.xclbin.container import Xclbin
from hypersonic.hls.cache import content_hash
from hypersonic.hls.core import Core
from hypersonic.hls.core_kind import CoreKind
from hypersonic.hls.project import HlsProject
from hypersonic.hls.resources import NOTHING

#: names in the xclbin of the shell clock that drives ap_clk
_KERNEL_CLOCKS = ("ulp_ucs_aclk_kernel_00", "clkwiz_kernel_clk_out1", "DATA_CLK")

#: the range of the shells' clock generators
MIN_KERNEL_MHZ, MAX_KERNEL_MHZ = 10, 650

#: per cent by which the achieved clock may be below the requested one, because clock generators have discrete steps
_CLOCK_STEP_PERCENT = 1.0


@dataclass(frozen=True)
class Vitis:
    """The Toolchain of cards with XRT: Vivado packages, v++ links, Vitis HLS generates a core."""

    platform: Platform
    tools: Tools
    options: CardOptions

    def synthesise(self, project: HlsProject, directory: Path, progress: Progress) -> Core:
        """Generate a core with Vitis HLS; see synthesise_hls_core."""
        return synthesise_hls_core(project, self.platform, self.tools, directory, progress)

    def link(self, name: str, kernels: Sequence[KernelUnits], directory: Path, progress: Progress) -> Bitstream:
        """Build an xclbin; see link_kernels."""
        return link_kernels(name, kernels, self.platform, self.tools, directory, self.options, progress)


def find_vitis(platform: Platform, core: str, options: CardOptions) -> Vitis:
    """Find the vendor's tools for a card with XRT; with Vitis HLS for core hls. Raises MissingVendorError, LinkError."""
    return Vitis(platform, find_tools(platform, hls=core == CoreKind.HLS), options)


def link_kernels(
    name: str,
    kernels: Sequence[KernelUnits],
    platform: Platform,
    tools: Tools,
    directory: Path,
    options: CardOptions,
    progress: Progress = lambda _: None,
    *,
    jobs: int = 0,
) -> Bitstream:
    """Build an xclbin below `directory`, or continue an interrupted build.

    Raises what Toolchain.link raises.

    Args:
        progress: called with each step and stage of v++.
        name: of the xclbin.
        jobs: number of parallel Vivado runs; 0: one for each processor.
    """
    if options.kernel_mhz and not MIN_KERNEL_MHZ <= options.kernel_mhz <= MAX_KERNEL_MHZ:
        raise LinkError(f"the kernel's clock is {options.kernel_mhz} MHz, expected {MIN_KERNEL_MHZ} to {MAX_KERNEL_MHZ}")
    for part in kernels:
        check_memories(part.kernel.core)
    descriptions = [part.kernel.units(part.compute_units) for part in kernels]
    places = without_slr(place_kernels(platform, descriptions, [part.unit or NOTHING for part in kernels]), kernels)
    config = vpp_config(platform, descriptions, places, vitis=tools.release, kernel_mhz=options.kernel_mhz)
    dies = dies_tcl(kernels)
    build = directory / _build_name(name, kernels, platform, tools, config + dies)
    with locked(build):
        if dies:
            write_whole(build / SCRIPT, dies)
        write_whole(build / CONFIG, config + (hook_lines(build / SCRIPT) if dies else ""))
        stages = partial(_stages, name, kernels, platform, tools, build, jobs or os.cpu_count() or 1)
        if any(pending(steps, place) for place, steps in stages()):
            check_space(build, options.needed_bytes)
        try:
            _run(stages(), build, progress)
        except StepError:
            if (build / ONE_STEP).exists() or not refuse_steps(build):
                raise
            (build / ONE_STEP).touch()
            progress(f"Vitis {tools.release} does not divide the link into steps: linking in one")
            _run(stages(), build, progress)
        xclbin = build / f"{name}.xclbin"
        _check_xclbin(xclbin, platform, descriptions)
        report = _read_reports(build, xclbin, platform, options)
        xclbin = _with_digests(xclbin, {part.kernel.name: part.kernel.sha256 for part in kernels})
    return Bitstream(xclbin, report, {"vitis": tools.release}, build)


def _run(stages: list[tuple[Path, list[Step]]], build: Path, progress: Progress) -> None:
    for place, steps in stages:
        for step in pending(steps, place):
            run_step(step, place, progress)
            check_read(build / TEMP)


def _stages(
    name: str, kernels: Sequence[KernelUnits], platform: Platform, tools: Tools, build: Path, jobs: int
) -> list[tuple[Path, list[Step]]]:
    """The steps with the directories that they run in. A single kernel is packaged in the build's own directory."""
    if len(kernels) == 1:
        packaged = package_steps(tools, platform, kernels[0].kernel, build)
        return [(build, [*packaged, *_link(tools, name, jobs, build)])]
    stages = list[tuple[Path, list[Step]]]()
    for part in kernels:
        place = build / part.kernel.name
        place.mkdir(exist_ok=True)
        check_part, *package = package_steps(tools, platform, part.kernel, place)
        stages.append((place, package if stages else [check_part, *package]))  # one check of the device is enough
    xos = [f"{part.kernel.name}/{part.kernel.name}.xo" for part in kernels]
    return [*stages, (build, _link(tools, name, jobs, build, xos))]


def _link(tools: Tools, name: str, jobs: int, build: Path, xos: Sequence[str] = ()) -> list[Step]:
    one = (build / ONE_STEP).exists()
    return [link_step(tools, name, jobs, xos)] if one else list(link_steps(tools, name, jobs, xos))


def _with_digests(linked: Path, digests: dict[str, str]) -> Path:
    """Write the linked xclbin with the digests of its kernels into the directory `marked` beside it, and return the path."""
    marked = linked.parent / "marked" / linked.name
    marked.parent.mkdir(exist_ok=True)
    write_whole(marked, Xclbin.read(linked).with_digests(digests).to_bytes())
    return marked


def _build_name(name: str, kernels: Sequence[KernelUnits], platform: Platform, tools: Tools, config: str) -> str:
    described = [describe_kernel(part.kernel.name, weights=part.kernel.core.takes_weights) for part in kernels]
    files = [file for part in kernels for file in (*part.kernel.sources, *part.kernel.core.memories)]
    digest = content_hash([config, *(kernel_tcl(kernel, platform, (), "") for kernel in described), tools.release, *files])
    return f"{name}-{platform.name}-{digest[:12]}"


def _check_xclbin(file: Path, platform: Platform, kernels: Sequence[KernelDescription]) -> None:
    """Check that v++ linked what was requested: target, shell, kernels, compute units, and the offset of each argument.

    Raises StepError, which names the difference; XclbinError when the file is not an xclbin.
    """
    xclbin = Xclbin.read(file)
    facts: list[tuple[str, Any, Any]] = [
        ("target", str(Target.HW), str(xclbin.target)),
        ("platform", platform.vbnv, xclbin.vbnv),
        ("kernels", sorted(kernel.name for kernel in kernels), sorted(kernel.name for kernel in xclbin.kernels)),
    ]
    for kernel in kernels:
        units, linked = [unit.name for unit in kernel.instances], xclbin.kernel(kernel.name)
        facts += [
            ("compute units", units, sorted(unit.name for unit in xclbin.units_of(kernel.name))),
            ("arguments", _arguments(kernel), _arguments(linked) if linked else []),
        ]
    for what, asked, got in facts:
        if asked != got:
            raise StepError(f"{file}: {what} is {got!r}, expected {asked!r}; v++ linked something else: remove {file.parent}")


def _arguments(kernel: KernelDescription) -> list[tuple[str, int, int, int]]:
    return [(argument.name, argument.offset, argument.size, argument.address_qualifier) for argument in kernel.arguments]


def _read_reports(build: Path, xclbin: Path, platform: Platform, options: CardOptions) -> dict[str, Any]:
    """Copy the tools' reports into the build's directory, check the timing, and return the manifest's report. Raises
    TimingError, ReportError, StepError."""
    timing = read_timing(keep_report(build, "timing.rpt", TIMING_REPORTS))
    used = read_kernel_utilisation(keep_report(build, "utilisation.rpt", UTILISATION_REPORTS))
    clocks = read_clocks(xclbin.with_suffix(".xclbin.info"))
    asked = options.kernel_mhz or platform.kernel_clock_mhz
    achieved = _kernel_clock_mhz(xclbin, clocks)
    check_timing(xclbin, timing, achieved, asked, lower_clock=options.lower_clock)
    # a clock other than the shell's default has a generator of its own, which the shell's figure does not describe
    return {"kernel_mhz": min(achieved or asked, asked), **manifest_report(timing, clocks, used)}


def _kernel_clock_mhz(file: Path, clocks: tuple[Clock, ...]) -> float:
    """The frequency of ap_clk: the shell's kernel clock, or the container's DATA_CLK if the info file names no kernel clock; 0
    when neither is known."""
    achieved = {clock.name: clock.achieved_mhz for clock in clocks}
    contained = {clock.name: float(clock.frequency_mhz) for clock in Xclbin.read(file).clocks}
    return next((source[name] for source in (achieved, contained) for name in _KERNEL_CLOCKS if name in source), 0.0)


def check_timing(xclbin: Path, timing: Timing, achieved_mhz: float, asked_mhz: int, *, lower_clock: bool) -> None:
    """Raises TimingError when the design misses hold, or when it misses setup or the requested clock and lower_clock does not
    allow that."""
    if timing.hold_whs_ns < 0:
        raise TimingError(
            f"{xclbin} misses hold by {-timing.hold_whs_ns:.3f} ns at {timing.hold_failing} endpoints, which a lower clock "
            "does not correct: ask for fewer compute units"
        )
    slowed = 0 < achieved_mhz < asked_mhz * (1 - _CLOCK_STEP_PERCENT / 100)
    missed = f"its setup slack is {timing.setup_wns_ns:.3f} ns ({timing.setup_failing} endpoints fail)"
    advice = "ask for a lower --kernel-mhz or fewer compute units"
    if slowed and not lower_clock:
        raise TimingError(
            f"{xclbin} runs at {achieved_mhz:g} MHz, asked for {asked_mhz}: v++ lowered the clock, {missed}; "
            f"accept that with --lower-clock, or {advice}"
        )
    if timing.setup_wns_ns < 0 and not slowed:
        raise TimingError(f"{xclbin} misses {asked_mhz} MHz: {missed}; {advice}")
