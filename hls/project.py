# SPDX-License-Identifier: Apache-2.0
"""An HLS project on disk: hls4ml's C++, and project.json, which describes it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypersonic.hls.errors import ProjectError
from hypersonic.hls.json_file import read_json
from hypersonic.hls.names import is_identifier
from hypersonic.hls.row import Row

_SCHEMA = 2


@dataclass(frozen=True)
class HlsProject:
    """A directory with project.json, hls/ (hls4ml's Vitis project) and core/ (SystemVerilog, when there is a core).

    Attributes:
        name: an identifier, the name of the kernel and the model.
        inputs, outputs: the tensors in the model's order, which is the order of the C++ function's arguments, inputs first.
        part: the AMD part that the HLS project is for.
        tools: the versions of the tools that wrote the project, by name.
        report: notes, and the figures of the gate (csim against the trained model) and of the core; why the gate refuses it.
        max_batch_size: the most rows in one request. Raises ProjectError for a name that is not an identifier.
    """

    path: Path
    name: str
    inputs: Row
    outputs: Row
    part: str
    tools: dict[str, str]
    report: dict[str, Any] = field(default_factory=dict)
    max_batch_size: int = 160_000

    def __post_init__(self) -> None:
        if not is_identifier(self.name):
            raise ProjectError(f"model name is {self.name!r}, expected a letter, then letters, digits and single underscores")

    @property
    def refused(self) -> str:
        """Why it is refused for what it computes, as a sentence; "" if it is not."""
        return str(self.report.get("refused", ""))

    @property
    def hls(self) -> Path:
        """The directory of hls4ml's Vitis project: build_prj.tcl, firmware/, the test bench."""
        return self.path / "hls"

    @property
    def core(self) -> Path:
        """The directory of the RTL core; it exists only if the project has one."""
        return self.path / "core"

    def save(self) -> None:
        """Write path/project.json."""
        value = {
            "schema": _SCHEMA,
            "name": self.name,
            "inputs": self.inputs.to_json(),
            "outputs": self.outputs.to_json(),
            "part": self.part,
            "tools": self.tools,
            "report": self.report,
            "max_batch_size": self.max_batch_size,
        }
        self.path.mkdir(parents=True, exist_ok=True)
        (self.path / "project.json").write_text(json.dumps(value, indent=1, sort_keys=True) + "\n")

    @classmethod
    def load(cls, path: Path) -> HlsProject:
        """Read path/project.json. Raises ProjectError when the file is missing, malformed or of another schema."""
        value = read_json(path / "project.json", _SCHEMA)
        try:
            return cls(
                path=path,
                name=value["name"],
                inputs=Row.from_json(value["inputs"]),
                outputs=Row.from_json(value["outputs"]),
                part=value["part"],
                tools=dict(value["tools"]),
                report=dict(value["report"]),
                max_batch_size=int(value["max_batch_size"]),
            )
        except KeyError as error:
            raise ProjectError(f"{path / 'project.json'}: the field {error} is missing; build the model again") from error
