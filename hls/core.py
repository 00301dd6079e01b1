# SPDX-License-Identifier: Apache-2.0
"""An RTL core: a network as SystemVerilog behind two streams."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from hypersonic.hls.project import ProjectError, read_json
from hypersonic.hls.row import Row

_SCHEMA = 2

#: the shared stream modules (axis_fifo, axis_skid, axis_free_running)
RTL = Path(__file__).resolve().parent / "rtl"


@dataclass(frozen=True)
class Core:
    """A SystemVerilog module with the ports

        clk, rst_n (synchronous, active low),
        s_axis_x_{tvalid, tready, tdata[inputs.raw_bits - 1 : 0], tlast},
        m_axis_y_{tvalid, tready, tdata[outputs.raw_bits - 1 : 0], tlast}

    One row per beat: the tensors one behind another, tensor 0 in the low bits, and in each its elements, element 0 in the low
    bits, each of its tensor's fixed.width; tlast travels with its row; any back-pressure; reset drops every row inside.

    kind: "da". top: the module's name. sources: in the order a compiler wants. ii: clocks per row without back-pressure.
    latency_cycles: from the clock edge that takes a row to the first one at which its result can be taken.
    """

    name: str
    kind: str
    top: str
    sources: tuple[Path, ...]
    inputs: Row
    outputs: Row
    ii: int
    latency_cycles: int

    def save(self, directory: Path) -> None:
        """Write directory/core.json; sources in `directory` or among the shared modules are named relative to those."""
        value = {
            "schema": _SCHEMA,
            "name": self.name,
            "kind": self.kind,
            "top": self.top,
            "sources": [_portable(source, directory) for source in self.sources],
            "inputs": self.inputs.to_json(),
            "outputs": self.outputs.to_json(),
            "ii": self.ii,
            "latency_cycles": self.latency_cycles,
        }
        (directory / "core.json").write_text(json.dumps(value, indent=1, sort_keys=True) + "\n")

    @classmethod
    def load(cls, directory: Path) -> Core:
        """Read directory/core.json. Raises ProjectError when it, or a source it names, is missing or malformed."""
        value = read_json(directory / "core.json", _SCHEMA)
        try:
            sources = tuple(_resolved(str(source), directory) for source in value["sources"])
            core = cls(
                name=value["name"],
                kind=value["kind"],
                top=value["top"],
                sources=sources,
                inputs=Row.from_json(value["inputs"]),
                outputs=Row.from_json(value["outputs"]),
                ii=int(value["ii"]),
                latency_cycles=int(value["latency_cycles"]),
            )
        except KeyError as error:
            raise ProjectError(f"{directory / 'core.json'}: the field {error} is missing; build the model again") from error
        for source in sources:
            if not source.is_file():
                raise ProjectError(f"{directory / 'core.json'} names {source}, which is not there; build the model again")
        return core


def _portable(source: Path, directory: Path) -> str:
    if source.parent.resolve() == RTL:
        return f"rtl/{source.name}"
    return str(source.resolve().relative_to(directory.resolve()))


def _resolved(source: str, directory: Path) -> Path:
    return RTL / source.removeprefix("rtl/") if source.startswith("rtl/") else directory / source
