# SPDX-License-Identifier: Apache-2.0
"""Checks the request of a `hypersonic build`: whatever can be refused before the conversion is refused here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hypersonic.building.errors import BuildError
from hypersonic.building.fit.card import FitOptions
from hypersonic.firmware.platform import Platform, find_platform
from hypersonic.firmware.publish.repository import check_repository
from hypersonic.firmware.target import Target
from hypersonic.firmware.toolchains.known import find_toolchain
from hypersonic.firmware.toolchains.toolchain import CardOptions, Toolchain
from hypersonic.firmware.xclbin.connectivity import check_units
from hypersonic.hls.core_kind import CORE_CHOICES, CoreKind
from hypersonic.hls.frontend.description import ModelDescription, describe

__all__ = ["CARD_DEFAULTS", "CSIM", "HLS", "CardOptions", "Progress", "Request", "check_request", "naming"]

Progress = Callable[[str], None]

#: the manifest's `core` of a model that is computed by its C++, without a clock
CSIM = CoreKind.CSIM

#: the core that only Vitis HLS can generate
HLS = CoreKind.HLS

#: the options of a build for an emulated card
CARD_DEFAULTS = CardOptions()


@dataclass(frozen=True)
class Request:
    """A checked build request.

    Attributes:
        kind: how the network is computed, a CoreKind.
        toolchain: the tools for a card's build; None for emulation.
    """

    model: ModelDescription
    target: Target
    platform: Platform
    kind: str
    compute_units: int
    options: CardOptions
    toolchain: Toolchain | None
    progress: Progress

    @property
    def conversion(self) -> str:
        """The `core` for convert_model. Vitis HLS starts from the project that csim is compiled from."""
        return CSIM if self.kind == HLS else self.kind


def naming(model: str, tell: Progress) -> Progress:
    """Return a function that calls `tell` with the model's name before each line, for builds of several models."""
    return lambda line: tell(f"{model}: {line}")


def check_request(
    model: str, zoo_yaml: object, target: str, platform_name: str, core: str, compute_units: int, repository: Path,
    options: CardOptions, fit: FitOptions, progress: Progress,
) -> Request:  # fmt: skip
    """Check a build request. The arguments are build()'s; the model's YAML is checked last.

    Raises BuildError, DescriptionError, LinkError, MissingVendorError, PlatformError, PublishError.

    Args:
        zoo_yaml: the result of read_zoo_yaml(model).
    """
    wanted = _parse_target(target)
    platform = find_platform(platform_name)
    _check_core(core, wanted)
    check_units(platform, compute_units)
    check_repository(repository)
    toolchain = find_toolchain(platform, core, options) if wanted is Target.HW else None
    kind = CSIM if wanted is Target.SW_EMU else core
    _check_fit(fit, wanted, kind or CoreKind.RF)
    description = describe(model, zoo_yaml)
    kind = kind or description.core
    _check_fit(fit, wanted, kind)
    return Request(description, wanted, platform, kind, compute_units, options, toolchain, progress)


def _check_fit(fit: FitOptions, target: Target, kind: str) -> None:
    if fit.card and kind != CoreKind.RF:
        wanted = "target hw_emu" if target is Target.SW_EMU else "core rf"
        raise BuildError(f"--fit shares the multipliers of RTL: got target {target}, core {kind}; take {wanted}")


def _parse_target(name: str) -> Target:
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
