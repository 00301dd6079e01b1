# SPDX-License-Identifier: Apache-2.0
"""The conditions of a day: the card or the emulated one, the builds, and the record."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hypersonic.firmware.errors import LinkError
from hypersonic.firmware.platform import Flow, Platform
from hypersonic.firmware.publish.manifest import FILE_NAME, Manifest
from hypersonic.firmware.publish.repository import XCLBIN_NAME, versions
from hypersonic.firmware.target import Target
from hypersonic.firmware.xclbin.container import Xclbin
from hypersonic.first_day.errors import NoBuildError
from hypersonic.first_day.record import Record
from hypersonic.hls.frontend.description import describe
from hypersonic.host.sysfs import SYSFS

#: the model whose kernel copies rows, built as any other
LOOPBACK = str(Path(__file__).resolve().parent / "loopback" / "loopback.onnx")


@dataclass(frozen=True)
class Day:
    """The conditions under which the steps run.

    Attributes:
        rehearsal: emulated cards instead of a card.
        repository: with the builds of the loop-back kernel and of `model`.
        model: a zoo name, or a model file.
        rows: the rows of a model file, or None.
        card: the card's index.
        network_gbps: the server's network, in Gb/s, for predictions.
        root: of sysfs.
    """

    rehearsal: bool
    platform: Platform
    repository: Path
    model: str
    rows: Path | None
    card: int
    network_gbps: float
    record: Record
    root: Path = SYSFS

    @property
    def target(self) -> Target:
        """The target of the builds."""
        return Target.HW_EMU if self.rehearsal else Target.HW

    @property
    def timeout_ms(self) -> int:
        """The longest that a run may take. A simulation is slow."""
        return 600_000 if self.rehearsal else 10_000

    @property
    def where(self) -> str:
        """Where a measured rate comes from, in words."""
        return "of a simulation on this machine, not of a card" if self.rehearsal else "measured on this card"

    def predicted(self, what: str) -> str:
        """A prediction with its source, in words."""
        return f"predicted: {what}; source: firmware/platforms/{self.platform.name}.toml and the reports named there"


@dataclass(frozen=True)
class Built:
    """A published build."""

    manifest: Manifest
    xclbin: Path


def check_driven_by_xrt(platform: Platform) -> None:
    """Raise LinkError for a card that XRT does not drive."""
    if platform.flow is not Flow.XRT:
        raise LinkError(f"first-day needs a card that XRT drives, got {platform.name}: docs/aws.md says what to run there")


def kernel_mhz(day: Day, built: Built) -> float:
    """The clock of a build's kernels in MHz, for predictions; 0, the card's default, for an emulated card."""
    clocks = () if day.rehearsal else Xclbin.read(built.xclbin, image=False).clocks
    return next((float(clock.frequency_mhz) for clock in clocks if clock.kind == 1), 0.0)


def find_build(day: Day, model: str) -> Built:
    """The newest published build of a model. Raises NoBuildError if there is none for this day's target and platform."""
    name = describe(model).name
    place, target, platform = day.repository / name, day.target, day.platform.name
    make = "leave out --model-repository" if day.rehearsal else f"hypersonic first-day --build --platform {platform}"
    numbers = versions(day.repository, name)
    if not numbers:
        raise NoBuildError(f"{place} does not exist, expected the model built for target {target}: {make}")
    version = place / str(max(numbers))
    manifest = Manifest.read(version / FILE_NAME)
    if (manifest.target, manifest.platform) != (target, platform):
        raise NoBuildError(
            f"{version} is built for target {manifest.target} and platform {manifest.platform}, expected {target} and "
            f"{platform}: {make}, in a repository of its own"
        )
    return Built(manifest, version / XCLBIN_NAME)
