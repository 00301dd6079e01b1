# SPDX-License-Identifier: Apache-2.0
"""`hypersonic build A B C --together NAME`: builds several models into one xclbin, and publishes it for each of them.

Everything that can be refused is refused before the long steps: names and numbers before the conversion, sizes before the
simulators or place and route.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from hypersonic.building.conversion import builds_of, convert
from hypersonic.building.directory import leave_all
from hypersonic.building.errors import BuildError
from hypersonic.building.estimating import publish_estimated, refuse, unit_amounts
from hypersonic.building.fit.card import NO_FIT, FitOptions
from hypersonic.building.fit.together import draw_shares, share_card, share_lines
from hypersonic.building.host_models import OnHostError, find_host_model
from hypersonic.building.linking import Linked, kernels_of, link, publish_models
from hypersonic.building.names import check_names, model_name
from hypersonic.building.placing import placed
from hypersonic.building.preparing import prepared
from hypersonic.building.request import CARD_DEFAULTS, HLS, CardOptions, Progress, Request, check_request, naming
from hypersonic.firmware.estimate.together import check_known_together, report_together
from hypersonic.firmware.kernel.vitis_xml import describe_units
from hypersonic.firmware.platform import find_platform
from hypersonic.firmware.publish.repository import check_name
from hypersonic.firmware.target import Target
from hypersonic.firmware.xclbin.connectivity import place_kernels, shared_banks
from hypersonic.hls.build import convert_model
from hypersonic.hls.core_kind import CoreKind
from hypersonic.hls.frontend.description import read_zoo_yaml
from hypersonic.hls.rf.fit.exchange import fit_from_json
from hypersonic.hls.rf.fit.share import wanted_hz


def build_together(
    models: Sequence[str],
    name: str,
    target: str = Target.HW_EMU,
    *,
    platform: str = "u250",
    core: str = "",
    repository: Path = Path("models"),
    compute_units: int = 1,
    units: Mapping[str, int] | None = None,
    datatypes: tuple[str, str] = ("", ""),
    directory: Path | None = None,
    options: CardOptions = CARD_DEFAULTS,
    fit: FitOptions = NO_FIT,
    rates: Mapping[str, float] | None = None,
    progress: Progress = lambda _: None,
    on_resources: Callable[[list[str]], None] | None = None,
    on_gate: Progress = lambda _: None,
) -> list[Path]:
    """Build the models into one xclbin, publish it for each, and return the versions' directories in the same order.

    Raises what build() raises. Errors on names and sizes name the models.

    The other arguments are build()'s, and apply to every model: core and datatypes are each model's own where they are empty.

    Args:
        models: zoo names or paths, as for build().
        name: of the xclbin in directory/bitstream.
        units: model -> compute units, for those that need another number than compute_units.
        fit, rates: the card to share, and the requested rates, model -> inferences per second; the models then have rf cores,
            and the fit chooses their numbers of units.
    """
    check_name(name)
    check_rates(models, fit, rates or {})
    core = core or CoreKind.RF if fit.card else core
    requests = _requests(models, target, platform, core, compute_units, units or {}, repository, options, fit, progress)
    notes, cards = _check_plan(models, requests), [""] * len(models)
    if fit.card and rates:
        picture = (directory or Path("build")) / f"{name}-fit.png"
        requests, cards = _share(requests, fit, [rates[model_name(model)] for model in models], picture, on_gate)
        notes = _check_plan(models, requests)
    for line in notes:
        on_gate(f"note: {line}")
    with prepared(requests[0].target):
        converted = [
            convert(
                request, card=card, datatypes=datatypes, name="", directory=directory,
                on_gate=naming(request.model.name, on_gate),
            )
            for request, card in zip(requests, cards, strict=True)
        ]  # fmt: skip
        converted = placed(converted)
        leave_all(converted, directory)
        make: Callable[[], Linked] = partial(link, converted, builds_of(directory), name, unit_amounts)
        if not on_resources or any(not model.kernel or model.request.kind == HLS for model in converted):
            return publish_models(repository, converted, make, on_gate)
        wanted = (kernels_of(converted), requests[0].platform)
        if known := check_known_together(*wanted):
            refuse(known, converted[0], on_resources)
        report = partial(report_together, *wanted, options.kernel_mhz)
        return publish_estimated(repository, converted, make, report, on_resources, on_gate)


def _requests(
    models: Sequence[str], target: str, platform: str, core: str, compute_units: int, units: Mapping[str, int],
    repository: Path, options: CardOptions, fit: FitOptions, progress: Progress,
) -> list[Request]:  # fmt: skip
    """The checked request of each model. Raises OnHostError for a model without a kernel, and what check_request raises."""
    names = [model_name(model) for model in models]
    check_names("--units", units, names)
    described = [read_zoo_yaml(model) for model in models]
    for model, value in zip(models, described, strict=True):
        if host := find_host_model(model, value):
            raise OnHostError(f"{host.line}; it has no kernel for --together: leave {model} out")
    requests = [
        check_request(model, value, target, platform, core, 1, repository, options, fit, progress)
        for model, value in zip(models, described, strict=True)
    ]
    return [
        replace(request, compute_units=units.get(name, compute_units)) for name, request in zip(names, requests, strict=True)
    ]


def check_rates(models: Sequence[str], fit: FitOptions, rates: Mapping[str, float]) -> None:
    """Raise BuildError if a fit of several models lacks the rate of one of them, or if rates are given without a fit."""
    names = [model_name(model) for model in models]
    check_names("--rates", rates, names)
    if rates and not fit.card:
        raise BuildError("--rates shares a card between models: name it with --fit, such as --fit u250")
    if fit.card and (missing := [name for name in names if name not in rates]):
        raise BuildError(
            f"--fit {fit.card} shares the card between {', '.join(names)}: got no rate of {', '.join(missing)}; give "
            f"inferences per second, such as --rates {','.join(f'{name}=5000' for name in names)}"
        )


def _share(
    requests: Sequence[Request], fit: FitOptions, rates_hz: Sequence[float], picture: Path, on_gate: Progress
) -> tuple[list[Request], list[str]]:
    """Share the card between the models; return the requests with their units, and the cards for the conversions."""
    fits = []
    for request, rate in zip(requests, rates_hz, strict=True):
        card = fit.as_json(rate)
        project, _ = convert_model(request.model, core=request.conversion, card=card, progress=request.progress)
        fits.append(fit_from_json(project.report["fit"]))
    shared = share_card(find_platform(fit.card), fits, rates_hz)
    draw_shares(shared, picture)
    on_gate("\n".join([*share_lines(shared), f"picture: {picture}"]))
    chosen = shared.chosen
    cards = [fit.as_json(wanted_hz(chosen.factor, rate)) for rate in rates_hz]
    units = [point.units for point in chosen.points]
    return [replace(request, compute_units=count) for request, count in zip(requests, units, strict=True)], cards


def _check_plan(models: Sequence[str], requests: Sequence[Request]) -> list[str]:
    """Check names and ports of all kernels; return a line for each bank that several units share.

    Raises BuildError for two models with one kernel's name, and LinkError for more ports than the memories support.
    """
    kernels = [request.model.name for request in requests]
    for kernel in kernels:
        if len(same := [model for model, other in zip(models, kernels, strict=True) if other == kernel]) > 1:
            raise BuildError(
                f"the models {' and '.join(same)} both have the kernel {kernel}, expected a name for each in one xclbin: give "
                "one another name in its YAML"
            )
    platform = requests[0].platform
    described = [describe_units(request.model.name, request.compute_units) for request in requests]
    return shared_banks(platform, place_kernels(platform, described))
