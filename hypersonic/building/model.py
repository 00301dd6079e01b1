# SPDX-License-Identifier: Apache-2.0
"""Builds a trained model into an xclbin in a model repository.

::

    model --hls--> HLS project, core --firmware--> kernel --sim--> simulator --firmware--> xclbin --> repository

The result of every step is cached by the hash of its inputs, so repeating a build takes a second and does not load TensorFlow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from hypersonic.building.conversion import builds_of, convert
from hypersonic.building.directory import leave_all
from hypersonic.building.estimating import publish_estimated, refuse, unit_amounts
from hypersonic.building.fit.card import NO_FIT, FitOptions, show_fit
from hypersonic.building.host_models import KernelOptions, build_on_host, find_host_model
from hypersonic.building.linking import Linked, link, publish_models
from hypersonic.building.placing import placed
from hypersonic.building.preparing import prepared
from hypersonic.building.request import CARD_DEFAULTS, HLS, CardOptions, Progress, check_request
from hypersonic.firmware.estimate.report import check_known, report_build
from hypersonic.firmware.publish.repository import check_name
from hypersonic.firmware.target import Target
from hypersonic.hls.frontend.description import read_zoo_yaml
from hypersonic.hls.project import HlsProject


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
    on_project: Callable[[HlsProject], object] | None = None,
) -> Path:
    """Build `model`, publish it, and return the version's directory. If the newest version is the same build, return that.

    Two kinds of warnings always go to standard error: outputs that are far from the trained model's, and a version for another
    target that this build displaces.
    For hw, place and route take hours. They run in directory/bitstream (build/bitstream without a directory). If they are
    interrupted, the same call continues there. Missing vendor tools are reported before the model is read. A zoo model that has
    no kernel is published for one of the server's other backends.
    Raises BuildError for a build that is not possible on this machine, and ConversionError, KernelError, PlatformError,
    LinkError, ResourceError, PublishError, ToolError, VendorError.

    Args:
        model: a zoo name, or a path to a .keras, .h5 or .onnx file with a YAML beside it.
        target: sw_emu, hw_emu or hw.
        platform: the card's name.
        core: how the RTL computes the network: da, rf or hls; "" as the YAML's Strategy says. sw_emu always runs the C++.
        repository: the model repository.
        name: the model's name in the repository; "" the YAML's. The kernel always has the YAML's name.
        compute_units: instances of the kernel on the card.
        datatypes: of all inputs and of all outputs on the wire; "" as in the YAML.
        directory: where to leave the HLS project and the RTL for users, in directory/<name>; an older copy is replaced.
        options: options of target hw only.
        fit: the card whose resources an rf core should fill; by default none.
        progress: called with one line per step.
        on_resources: called with the lines of the resource estimate, which is also written into the manifest's report; for an
            emulated card this happens after the model is published. If no estimate can be made, a line gives the reason. None:
            no estimate is made, and any design can be emulated.
        on_gate: called with the comparison of the fixed-point network with the trained model, and with the results of a fit.
        on_project: called with the converted model, before its kernel is compiled; what it raises ends the build.
    """
    zoo_yaml = read_zoo_yaml(model)
    if host_model := find_host_model(model, zoo_yaml):
        return build_on_host(
            host_model, repository, KernelOptions(target, platform, core, compute_units, datatypes, name), progress
        )
    if name:
        check_name(name)
    request = check_request(model, zoo_yaml, target, platform, core, compute_units, repository, options, fit, progress)
    with prepared(request.target):
        converted = convert(
            request, card=fit.as_json(), datatypes=datatypes, name=name, directory=directory, on_gate=on_gate
        )  # fmt: skip
        project = converted.project
        if on_project:
            on_project(project)
        if "fit" in project.report:
            lines, units = show_fit(project.report, (directory or Path("build")) / f"{project.name}-fit.png", fit.network_gbps)
            on_gate("\n".join(lines))
            request = replace(request, compute_units=units if compute_units == 1 else compute_units)
            converted = replace(converted, request=request)
        (converted,) = placed([converted])
        leave_all([converted], directory)
        make: Callable[[], Linked] = partial(link, [converted], builds_of(directory), project.name, unit_amounts)
        kernel = converted.kernel
        if not (kernel and on_resources) or request.kind == HLS:
            return publish_models(repository, [converted], make, on_gate)[0]
        wanted = (kernel, request.platform, request.compute_units)
        if known := check_known(*wanted):
            refuse(known, converted, on_resources)
        report = partial(report_build, *wanted)
        return publish_estimated(repository, [converted], make, report, on_resources, on_gate)[0]
