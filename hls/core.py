# SPDX-License-Identifier: Apache-2.0
"""An RTL core: a network as a SystemVerilog module with an input stream and an output stream."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from hypersonic.hls.core_kind import CoreKind
from hypersonic.hls.errors import ProjectError
from hypersonic.hls.json_file import read_json
from hypersonic.hls.row import Row
from hypersonic.hls.weight_stream import WEIGHT_BITS, WeightStream

_SCHEMA = 7

#: the shared stream modules (axis_fifo, axis_skid, axis_free_running)
RTL = Path(__file__).resolve().parent / "rtl"
AXIS_RTL = RTL / "axis"
RF_RTL = RTL / "rf"


@dataclass(frozen=True)
class Port:
    """How the rows of one side are divided into beats of a core's input or output stream.

    Attributes:
        lanes: elements in a beat, for each tensor, a divisor of its size. The tensors follow one another, each in size / lanes
            beats. An empty tuple means one beat per row: the tensors are concatenated, tensor 0 in the low bits. Within a beat,
            elements are packed without padding, element 0 in the low bits, each as wide as its tensor's fixed.width. Raises
            ProjectError for lanes that do not divide the sizes.
    """

    row: Row
    lanes: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        sizes = [tensor.size for tensor in self.row.tensors]
        if self.lanes and (
            len(self.lanes) != len(sizes)
            or any(lanes < 1 or size % lanes for lanes, size in zip(self.lanes, sizes, strict=True))
        ):
            raise ProjectError(
                f"lanes are {self.lanes}, expected a divisor of each tensor's size {sizes}; build the model again"
            )

    @property
    def width(self) -> int:
        """Bits of tdata: the whole row's, or those of the tensor whose beats are widest."""
        if not self.lanes:
            return self.row.raw_bits
        return max(lanes * tensor.fixed.width for lanes, tensor in zip(self.lanes, self.row.tensors, strict=True))

    @property
    def tensor_beats(self) -> tuple[int, ...]:
        """The number of beats of each tensor; (1,) where a whole row is one beat."""
        if not self.lanes:
            return (1,)
        return tuple(tensor.size // lanes for lanes, tensor in zip(self.lanes, self.row.tensors, strict=True))

    @property
    def beats(self) -> int:
        """The number of beats of one row."""
        return sum(self.tensor_beats)


class Logic(NamedTuple):
    """An upper bound of a core's logic, counted from its arithmetic: one LUT per adder bit, and single register bits."""

    luts: int
    registers: int


class Operations(NamedTuple):
    """A layer in a core made of adders.

    Attributes:
        kind: its class.
        nodes: operations that it adds to those of the layers before it.
    """

    layer: str
    kind: str
    nodes: int


class Signal(NamedTuple):
    """A port of a module.

    Attributes:
        direction: "input" or "output", seen from the module.
        bits: a vector's width; None for a scalar.
    """

    name: str
    direction: str
    bits: int | None = None


def core_signals(x_bits: int, y_bits: int, weight_streams: int = 0) -> tuple[Signal, ...]:
    """Return the ports of a core's module, in order.

    The weight streams share one set of ports: stream k has bit k of tvalid and tready, and the bits from k * WEIGHT_BITS of
    tdata.

    Args:
        x_bits, y_bits: widths of the two streams' tdata. rst_n is synchronous and active low.
    """
    k = weight_streams
    weights = (
        Signal("s_axis_w_tvalid", "input", k),
        Signal("s_axis_w_tready", "output", k),
        Signal("s_axis_w_tdata", "input", k * WEIGHT_BITS),
    )
    return (
        Signal("clk", "input"),
        Signal("rst_n", "input"),
        *(weights if k else ()),
        Signal("s_axis_x_tvalid", "input"),
        Signal("s_axis_x_tready", "output"),
        Signal("s_axis_x_tdata", "input", x_bits),
        Signal("s_axis_x_tlast", "input"),
        Signal("m_axis_y_tvalid", "output"),
        Signal("m_axis_y_tready", "input"),
        Signal("m_axis_y_tdata", "output", y_bits),
        Signal("m_axis_y_tlast", "output"),
    )


def declare(signals: Iterable[Signal]) -> str:
    """Return SystemVerilog declarations of the ports, one per line, separated by commas, without a final newline."""
    ranges = {signal: "" if signal.bits is None else f"[{signal.bits - 1}:0] " for signal in signals}
    return ",\n".join(f"    {signal.direction:<6} logic {range_}{signal.name}" for signal, range_ in ranges.items())


def module_header(name: str, signals: Iterable[Signal]) -> str:
    """Return a module's header, from `module` to the semicolon after its ports, without a final newline."""
    return f"module {name} (\n{declare(signals)}\n);"


@dataclass(frozen=True)
class Core:
    """A SystemVerilog module with the ports of core_signals: rows in on s_axis_x, results out on m_axis_y, weights on s_axis_w.

    A row is one beat or several (see Port). tlast marks the last beat of a packet of rows, and each result has its row's
    tlast. Back-pressure is allowed at any time. A reset drops every row inside the core, and the weights it has received.

    Attributes:
        top: the module's name.
        sources: the SystemVerilog files, in compilation order.
        ii: initiation interval, clocks per row without back-pressure.
        latency_cycles: clocks from the edge that takes a row to the first edge at which its result can be taken.
        x_lanes, y_lanes: `lanes` of the two ports (see Port).
        memories: files that the sources read with $readmemh, by their base names (with Verilator, from the directory that
            +memories=DIR names).
        weights: the file of the weights that are streamed in at run time; None without weight streams.
        weight_streams: the part of that file that each stream takes; stream k is at bits k * WEIGHT_BITS of s_axis_w_tdata.
            Rows wait until their weights have arrived.
        logic: an upper bound, for a core made of adders alone; None where only synthesis can tell.
        layers: the operations of each layer, for a core made of adders alone.
        cell_dies: the instances in the top module with the die of each, counted from the one with the kernel's shell, for a
            core that is laid out over several dies; empty otherwise.
    """

    name: str
    kind: CoreKind
    top: str
    sources: tuple[Path, ...]
    inputs: Row
    outputs: Row
    ii: int
    latency_cycles: int
    x_lanes: tuple[int, ...] = ()
    y_lanes: tuple[int, ...] = ()
    memories: tuple[Path, ...] = ()
    weights: Path | None = None
    weight_streams: tuple[WeightStream, ...] = ()
    logic: Logic | None = None
    layers: tuple[Operations, ...] = ()
    cell_dies: tuple[tuple[str, int], ...] = ()

    @property
    def takes_weights(self) -> bool:
        """True if the core has weight streams, and therefore a weights file."""
        return bool(self.weight_streams)

    @property
    def weight_beats(self) -> int:
        """Length of the weights file in beats of WEIGHT_BITS; 0 if there is no such file."""
        return max((stream.first + stream.beats for stream in self.weight_streams), default=0)

    @property
    def signals(self) -> tuple[Signal, ...]:
        """The module's ports, in order (see core_signals)."""
        return core_signals(self.x.width, self.y.width, len(self.weight_streams))

    @property
    def x(self) -> Port:
        """The port that takes rows."""
        return Port(self.inputs, self.x_lanes)

    @property
    def y(self) -> Port:
        """The port that gives results."""
        return Port(self.outputs, self.y_lanes)

    def save(self, directory: Path) -> None:
        """Write directory/core.json. Files in `directory` or among the shared modules (RTL) are named relative to those."""
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
            "x_lanes": self.x_lanes,
            "y_lanes": self.y_lanes,
            "memories": [_portable(file, directory) for file in self.memories],
            "weights": _portable(self.weights, directory) if self.weights else "",
            "weight_streams": [[stream.first, stream.beats, stream.repeats] for stream in self.weight_streams],
            "logic": self.logic,
            "layers": self.layers,
            "cell_dies": self.cell_dies,
        }
        (directory / "core.json").write_text(json.dumps(value, indent=1, sort_keys=True) + "\n")

    @classmethod
    def load(cls, directory: Path) -> Core:
        """Read directory/core.json. Raises ProjectError when it is missing or malformed, or a file that it names is missing."""
        value = read_json(directory / "core.json", _SCHEMA)
        try:
            sources = tuple(_resolved(str(source), directory) for source in value["sources"])
            core = cls(
                name=value["name"],
                kind=_kind(value["kind"], directory),
                top=value["top"],
                sources=sources,
                inputs=Row.from_json(value["inputs"]),
                outputs=Row.from_json(value["outputs"]),
                ii=int(value["ii"]),
                latency_cycles=int(value["latency_cycles"]),
                x_lanes=tuple(map(int, value["x_lanes"])),
                y_lanes=tuple(map(int, value["y_lanes"])),
                memories=tuple(_resolved(str(file), directory) for file in value["memories"]),
                weights=_resolved(str(value["weights"]), directory) if value["weights"] else None,
                weight_streams=tuple(
                    WeightStream(int(first), int(beats), bool(r)) for first, beats, r in value["weight_streams"]
                ),
                logic=Logic(*map(int, value["logic"])) if value["logic"] else None,
                layers=tuple(Operations(str(layer), str(kind), int(nodes)) for layer, kind, nodes in value["layers"]),
                cell_dies=tuple((str(cell), int(die)) for cell, die in value["cell_dies"]),
            )
        except KeyError as error:
            raise ProjectError(f"{directory / 'core.json'}: the field {error} is missing; build the model again") from error
        for file in (*sources, *core.memories, *([core.weights] if core.weights else [])):
            if not file.is_file():
                raise ProjectError(f"{directory / 'core.json'} names {file}, which is not there; build the model again")
        return core


def _kind(text: object, directory: Path) -> CoreKind:
    if text not in list(CoreKind):
        raise ProjectError(
            f"{directory / 'core.json'}: kind is {text!r}, expected one of {', '.join(CoreKind)}; build the model again"
        )
    return CoreKind(str(text))


def _portable(source: Path, directory: Path) -> str:
    if source.resolve().is_relative_to(RTL):
        return f"rtl/{source.resolve().relative_to(RTL).as_posix()}"
    return str(source.resolve().relative_to(directory.resolve()))


def _resolved(source: str, directory: Path) -> Path:
    return RTL / source.removeprefix("rtl/") if source.startswith("rtl/") else directory / source
