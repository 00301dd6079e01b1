# SPDX-License-Identifier: Apache-2.0
"""A model that has been converted and has a kernel, ready to be linked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hypersonic.building.request import Request
from hypersonic.firmware.kernel.files import Kernel
from hypersonic.hls.core import Core
from hypersonic.hls.project import HlsProject
from hypersonic.sim.card.simulator import software_digest


@dataclass(frozen=True)
class Converted:
    """A model that is ready to be linked.

    Attributes:
        core, kernel: None for sw_emu.
        name: the model's name in the repository.
    """

    request: Request
    project: HlsProject
    core: Core | None
    kernel: Kernel | None
    name: str

    @property
    def weights(self) -> Path | None:
        """The file weights.bin of a kernel that loads its weights at run time; None for others."""
        return self.core.weights if self.core else None

    @property
    def digest(self) -> str:
        """The kernel's digest, without its weights (firmware/kernel/files.py)."""
        return self.kernel.sha256 if self.kernel else software_digest(self.project)

    def with_report(self, entries: Mapping[str, Any]) -> Converted:
        """This model with more entries in its project's report."""
        return replace(self, project=replace(self.project, report={**self.project.report, **entries}))
