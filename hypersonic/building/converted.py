# SPDX-License-Identifier: Apache-2.0
"""A converted model between the two halves of a build, and its datatypes on the wire."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hypersonic.building.request import Request
from hypersonic.firmware.kernel.files import Kernel
from hypersonic.hls.core import Core
from hypersonic.hls.project import HlsProject
from hypersonic.hls.row import Row


@dataclass(frozen=True)
class Converted:
    """A model that is ready to be linked.

    core, kernel: None for sw_emu. name: the model's name in the repository. digest: the kernel's, without its weights
    (firmware/kernel/files.py).
    """

    request: Request
    project: HlsProject
    core: Core | None
    kernel: Kernel | None
    name: str
    digest: str

    @property
    def weights(self) -> Path | None:
        """The file weights.bin of a kernel that loads its weights at run time; None for others."""
        return self.core.weights if self.core else None

    def with_report(self, entries: Mapping[str, Any]) -> Converted:
        """This model with more entries in its project's report."""
        return replace(self, project=replace(self.project, report={**self.project.report, **entries}))


def set_datatypes(rows: tuple[Row, Row], datatypes: tuple[str, str]) -> tuple[Row, Row]:
    """Return the inputs and outputs with other datatypes on the wire. The network itself does not change.

    rows: inputs and outputs. datatypes: for all inputs and for all outputs; "" keeps them. Raises SpecMismatchError for a
    datatype that does not fit a tensor.
    """
    x, y = (_set_datatype(row, datatype) for row, datatype in zip(rows, datatypes, strict=True))
    return x, y


def _set_datatype(row: Row, datatype: str) -> Row:
    return Row(tuple(
        replace(tensor, datatype=datatype, wire=None) if datatype not in ("", tensor.datatype) else tensor
        for tensor in row.tensors
    ))  # fmt: skip
