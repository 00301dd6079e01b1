# SPDX-License-Identifier: Apache-2.0
"""Checks the request of a `hypersonic build`: whatever can be refused before the conversion is refused here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hypersonic.building.errors import BuildError
from hypersonic.building.fit.card import FitOptions
from hypersonic.firmware.bitstream.afi import Bucket, check_bucket, require_bucket
from hypersonic.firmware.bitstream.errors import MissingVendorError
from hypersonic.firmware.bitstream.tools import BUILD_BYTES, Tools, find_tools
from hypersonic.firmware.f2.kit import Kit, find_kit
from hypersonic.firmware.platform import Flow, Image, Platform, find_platform
from hypersonic.firmware.publish.repository import check_repository
from hypersonic.firmware.target import Target
from hypersonic.firmware.xclbin.connectivity import check_units
from hypersonic.hls.core_kind import CORE_CHOICES, CoreKind
from hypersonic.hls.frontend.description import ModelDescription, describe

Progress = Callable[[str], None]

#: the manifest's `core` of a model that is computed by its C++, without a clock
CSIM = CoreKind.CSIM

#: the core that only Vitis HLS can generate
HLS = CoreKind.HLS


@dataclass(frozen=True)
class CardOptions:
    """Options of target hw only.

    kernel_mhz: the frequency of ap_clk in MHz; 0: the card's default. lower_clock: accept an xclbin whose clock place and route
    had to lower. afi_bucket: the S3 bucket for an image of aws_f1 or aws_f2. needed_bytes: free disk space that is required.
    """

    kernel_mhz: int = 0
    lower_clock: bool = False
    afi_bucket: str = ""
    needed_bytes: int = BUILD_BYTES


CARD_DEFAULTS = CardOptions()


@dataclass(frozen=True)
class Request:
    """A checked build request.

    kind: how the network is computed, a CoreKind. vendor: the tools for a card's build; None for emulation. kit: the AWS
    kit and the S3 bucket, which replace `vendor` for aws_f2.
    """

    model: ModelDescription
    target: Target
    platform: Platform
    kind: str
    compute_units: int
    options: CardOptions
    vendor: Tools | None
    kit: tuple[Kit, Bucket] | None
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

    zoo_yaml: the result of read_zoo_yaml(model). Raises BuildError, DescriptionError, LinkError, MissingVendorError,
    PlatformError, PublishError.
    """
    wanted = _parse_target(target)
    platform = find_platform(platform_name, retired_too=wanted is Target.HW)
    _check_core(core, wanted)
    check_units(platform, compute_units)
    check_repository(repository)
    is_card = wanted is Target.HW
    vendor = _find_vendor_tools(platform, core, options) if is_card and not is_f2(platform) else None
    kit = (
        find_f2_kit(platform, core or CoreKind.DA, options.kernel_mhz, options.afi_bucket)
        if is_card and is_f2(platform)
        else None
    )
    kind = CSIM if wanted is Target.SW_EMU else core
    _check_fit(fit, wanted, kind or CoreKind.RF)
    description = describe(model, zoo_yaml)
    kind = kind or description.core
    _check_fit(fit, wanted, kind)
    return Request(description, wanted, platform, kind, compute_units, options, vendor, kit, progress)


def is_f2(platform: Platform) -> bool:
    """Return whether builds for this card use the AWS development kit."""
    return platform.flow is Flow.F2_HDK


def find_f2_kit(platform: Platform, core: str, kernel_mhz: int, bucket: str) -> tuple[Kit, Bucket]:
    """Find the AWS kit and the S3 bucket of a build for an F2 card. Raises MissingVendorError if they cannot build it."""
    if not CoreKind(core).is_own_rtl:
        raise MissingVendorError(f"platform {platform.name} takes --core da or rf, not {core}: Vitis HLS has no target for it")
    if kernel_mhz not in (0, platform.kernel_clock_mhz):
        raise MissingVendorError(
            f"platform {platform.name}: --kernel-mhz is {kernel_mhz}, but the shell's one clock is "
            f"{platform.kernel_clock_mhz} MHz"
        )
    kit = find_kit(platform, image=True)
    return kit, require_bucket(platform, Bucket(bucket) if bucket else None)


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


def _find_vendor_tools(platform: Platform, core: str, options: CardOptions) -> Tools:
    """Find the vendor's tools for a card's build. Raises MissingVendorError, LinkError."""
    if platform.image is Image.AFI:
        check_bucket(platform, Bucket(options.afi_bucket) if options.afi_bucket else None)
    return find_tools(platform, hls=core == HLS)
