# SPDX-License-Identifier: Apache-2.0
"""The first half of a build: from a checked request to the model's project, core and kernel."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypersonic.building.converted import Converted
from hypersonic.building.datatypes import set_datatypes
from hypersonic.building.directory import check_directory
from hypersonic.building.request import HLS, Progress, Request
from hypersonic.firmware.kernel.write import keep_kernel
from hypersonic.firmware.target import Target
from hypersonic.firmware.toolchains.toolchain import SynthesisesCores
from hypersonic.hls.build import convert_model
from hypersonic.hls.closeness.comparison import rounding_text
from hypersonic.hls.core import Core
from hypersonic.hls.project import HlsProject
from hypersonic.sim.card.known import emulation_of


def convert(
    request: Request, *, card: str, datatypes: tuple[str, str], name: str, directory: Path | None, on_gate: Progress
) -> Converted:
    """Convert the request's model and write its kernel, without the registers that a plan may add (placing.py).

    Raises what build() raises. The other arguments are build()'s.

    Args:
        card: the card to fill (--fit) as JSON, or empty.
    """
    project, core = _set_datatypes(
        *convert_model(request.model, core=request.conversion, card=card, progress=request.progress), datatypes
    )
    _tell(project.report.get("gate"), on_gate)
    if line := describe_weights(project.report, core):
        on_gate(line)
    if request.kind == HLS and isinstance(request.toolchain, SynthesisesCores):
        core = request.toolchain.synthesise(project, builds_of(directory), request.progress)
    if directory:
        check_directory(directory / project.name)
    kernel = keep_kernel(core) if core else None
    if kernel and request.target is Target.HW_EMU:
        # here, because the steps before the simulator take minutes for a large one
        emulation_of(request.platform, request.target).check(kernel)
    return Converted(request, project, core, kernel, name or project.name)


def builds_of(directory: Path | None) -> Path:
    """The directory in which place and route runs, below the build directory."""
    return (directory or Path("build")) / "bitstream"


def _tell(gate: Mapping[str, Any] | None, on_gate: Progress) -> None:
    """Report the comparison with the trained model. Its warnings go to standard error, even with --quiet."""
    if gate is None:
        return
    on_gate(describe_gate(gate))
    for warning in gate["warnings"]:
        sys.stderr.write(f"hypersonic: WARNING: {warning}\n")


def describe_gate(figures: Mapping[str, Any]) -> str:
    """Return the accuracy gate's figures as one line.

    Args:
        figures: "gate" of a project's or manifest's report.
    """
    given = {name: figures.get(name) for name in ("tolerance", "quantised_tolerance")}
    judged = ", ".join(f"{name} {_tolerances(value)}" for name, value in given.items() if value is not None)
    worst = figures["max_abs_difference"]
    rounding = rounding_text(worst, figures["quantised_max_abs_difference"])
    part = f"; {rounding}" if rounding else ""
    return (
        f"accuracy: {figures['rows']:,} rows ({figures['source']}) against the trained model: {figures['fraction_exact']:.2%} "
        f"of the outputs exact, worst difference {worst:g}{part}, {judged or 'no tolerance is given'}"
    )


def _tolerances(tolerance: float | Mapping[str, float]) -> str:
    """Describe the tolerance, which is one for all outputs or one for each."""
    each = tolerance.items() if isinstance(tolerance, Mapping) else [("", tolerance)]
    return ", ".join(f"{name} {value:g}".strip() for name, value in each)


def _set_datatypes(project: HlsProject, rtl: Core | None, datatypes: tuple[str, str]) -> tuple[HlsProject, Core | None]:
    x, y = set_datatypes((project.inputs, project.outputs), datatypes)
    return replace(project, inputs=x, outputs=y), replace(rtl, inputs=x, outputs=y) if rtl else None


def describe_weights(report: Mapping[str, Any], core: Core | None) -> str:
    """Return a line about the weights of a core that reads them at run time; empty for another core.

    Args:
        report: of the project.
    """
    figures = report.get("core")
    if core is None or not core.takes_weights or not figures:
        return ""
    most = "at most " if any(stream.repeats for stream in core.weight_streams) else ""
    fixed = ", ".join(map(repr, figures["fixed_layers"]))
    equal = f"; constants of {fixed} are part of the kernel, so models that share it must have equal ones" if fixed else ""
    return (
        f"weights: {core.weight_beats * 64:,} bytes in weights.bin; a run after one with other weights takes {most}"
        f"{figures['swap_clocks']:,} clocks longer (predicted){equal}"
    )
