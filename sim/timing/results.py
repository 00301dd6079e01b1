# SPDX-License-Identifier: Apache-2.0
"""Reads the files that Yosys and nextpnr write. A change of this module makes all results new."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hypersonic.sim.timing.designs import INSTANCE, TOP


@dataclass(frozen=True)
class Counts:
    """The cells that a module takes on an ECP5, without its wrapper.

    Attributes:
        luts: cells of four inputs, with those of carry chains (two each) and of distributed RAM.
        block_rams: of 18 Kibit.
        largest_fan_out: inputs of cells, and outputs of the module, that the net with most of them drives; clocks do not count.
    """

    luts: int
    ffs: int
    block_rams: int
    multipliers: int
    largest_fan_out: int


@dataclass(frozen=True)
class Step:
    """A piece of the longest path: "logic" or "routing", with its delay in ns; for routing, the net and its fan-out."""

    kind: str
    ns: float
    net: str
    fan_out: int


@dataclass(frozen=True)
class Routed:
    """A routed design.

    Attributes:
        mhz: the proxy's clock: what nextpnr says of the slowest path between registers.
        path: that path.
        wires: (fan-out, nets, mean of their slowest sink's delay in ns) for each fan-out that occurs.
    """

    mhz: float
    path: tuple[Step, ...]
    wires: tuple[tuple[int, int, float], ...]


# ---------------------------------------------------------------- Yosys' netlist
#: cell -> LUTs that it takes; a distributed RAM of 16 words of four bits takes two slices
_LUTS = {"LUT4": 1, "CCU2C": 2, "TRELLIS_DPR16X4": 4}


def counted(modules: Mapping[str, Any]) -> Counts:
    """Count the design's cells, from the modules of Yosys' JSON in which it is still whole."""
    module = modules[modules[TOP]["cells"][INSTANCE]["type"]]
    cells = Counter(cell["type"] for cell in module["cells"].values())
    loads = fan_outs(module)
    return Counts(
        sum(n * cells[cell] for cell, n in _LUTS.items()), cells["TRELLIS_FF"],
        cells["DP16KD"] + cells["PDPW16KD"], cells["MULT18X18D"], max(loads.values(), default=0),
    )  # fmt: skip


def fan_outs(module: Mapping[str, Any]) -> dict[int, int]:
    """Net (its number in Yosys' JSON) -> loads: inputs of cells, clocks apart, and output ports."""
    loads = Counter[int](
        bit
        for cell in module["cells"].values()
        for port, bits in cell["connections"].items()
        if cell["port_directions"].get(port) == "input" and not _is_clock(port)
        for bit in bits
        if isinstance(bit, int)
    )
    loads.update(
        bit
        for port in module["ports"].values()
        if port["direction"] == "output"
        for bit in port["bits"]
        if isinstance(bit, int)
    )
    return dict(loads)


def _is_clock(port: str) -> bool:
    return port.startswith(("CLK", "WCK"))


# ---------------------------------------------------------------- nextpnr's results
_ARC = re.compile(r"\(INTERCONNECT (\S+)/(\w+) \S+/(?!CLK|WCK)\w+ \((\d+\.?\d*):")


def read_routed(report: Mapping[str, Any], netlist: Mapping[str, Any], delays: str) -> Routed:
    """Read a routing.

    Args:
        report: nextpnr's report.
        netlist: Yosys' JSON, for the fan-outs.
        delays: nextpnr's SDF.
    """
    (clock,) = report["fmax"].values()
    module = netlist["modules"][TOP]
    loads = fan_outs(module)
    by_name = {
        name: loads.get(net, 1) for entry_name, entry in module["netnames"].items() for name, net in _bits(entry_name, entry)
    }
    critical = next(path for path in report["critical_paths"] if path["from"] == path["to"])
    return Routed(clock["achieved"], tuple(_steps(critical["path"], by_name)), tuple(_wires(delays)))


def _bits(name: str, entry: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    bits = entry["bits"]
    offset = entry.get("offset", 0)
    for place, bit in enumerate(bits):
        if isinstance(bit, int):
            yield (name if len(bits) == 1 else f"{name}[{offset + place}]"), bit


def _steps(path: list[Mapping[str, Any]], by_name: Mapping[str, int]) -> Iterator[Step]:
    for piece in path:
        net = piece.get("net", "")
        yield Step(piece["type"], round(piece["delay"], 3), net, by_name.get(net, 1) if net else 0)


def _wires(delays: str) -> Iterator[tuple[int, int, float]]:
    """The wires by fan-out. An arc of SDF goes from a cell's output to an input of another."""
    slowest: dict[tuple[str, str], tuple[int, float]] = {}
    for cell, port, ps in _ARC.findall(delays):
        loads, most = slowest.get((cell, port), (0, 0.0))
        slowest[cell, port] = loads + 1, max(most, float(ps) / 1000)
    by_fan_out: dict[int, list[float]] = {}
    for loads, ns in slowest.values():
        if ns:  # otherwise the net stays inside a slice
            by_fan_out.setdefault(loads, []).append(ns)
    for loads, all_ns in sorted(by_fan_out.items()):
        yield loads, len(all_ns), round(sum(all_ns) / len(all_ns), 3)
