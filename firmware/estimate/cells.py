# SPDX-License-Identifier: Apache-2.0
"""The cells of a mapped netlist and the nets between them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

#: cells that take no LUT of their own
_ABSORBED = frozenset({"BUF", "INV"})

CONSTANTS = frozenset({"$false", "$true", "$undef"})

_OUTPUT = re.compile(r"(Q|O|DO|P|PCOUT|CASDO|DOUT|word)(?![A-Z]*(EN|MODE))\w*(\[\d+\])?$")
_CLOCK = re.compile(r"(W?CLK\w*|C|G|clk)$")


@dataclass(frozen=True)
class Cell:
    """One .subckt of a netlist."""

    type: str
    ports: dict[str, str]  # port with its bit, such as S[0] -> net
    parameters: dict[str, int] = field(default_factory=dict)
    name: str = ""  # empty where the netlist does not give it


def parse_blif(text: str, prefix: str = "", ports: Mapping[str, str] | None = None) -> Iterator[Cell]:
    """The cells of a flat netlist.

    Aliases of nets (.names) are returned as cells of type "BUF" with the ports I and O.

    Args:
        prefix: put before the name of every net, except those in `ports`, which are renamed by it.
    """
    outside = ports or {}
    pending: tuple[str, dict[str, str], dict[str, int], str] | None = None
    for line in text.splitlines():
        word, _, rest = line.partition(" ")
        if word == ".param" and pending:
            name, _, value = rest.partition(" ")
            if name in {"AREG", "BREG", "MREG", "PREG"}:
                pending[2][name] = int(value.strip('"'), 2)
            continue
        if word == ".cname" and pending:
            pending = (*pending[:3], rest)
        if word not in {".subckt", ".gate", ".names"}:
            continue
        if pending:
            yield Cell(*pending)
            pending = None
        nets = rest.split()
        if word == ".names":
            if len(nets) == 2:
                source, target = (outside.get(net, prefix + net) for net in nets)
                pending = ("BUF", {"I": source, "O": target}, {}, "")
            continue
        pairs = (pin.partition("=") for pin in nets[1:])
        pending = (
            nets[0],
            {pin: net if net[0] == "$" and net in CONSTANTS else outside.get(net, prefix + net) for pin, _, net in pairs},
            {},
            "",
        )
    if pending:
        yield Cell(*pending)


def outputs_and_inputs(cell: Cell) -> tuple[list[str], list[str]]:
    """The nets that a cell drives, and the nets that it reads apart from clocks. Constants are neither."""
    pins = [(pin, net) for pin, net in cell.ports.items() if net not in CONSTANTS]
    out = [net for pin, net in pins if _OUTPUT.match(pin)]
    return out, [net for pin, net in pins if net not in out and not _CLOCK.match(pin)]


def fan_outs(cells: Iterable[Cell]) -> dict[str, int]:
    """Net -> the number of inputs that it drives, clocks apart. An alias or an inverter, which the cells behind it absorb, has
    those of its own net."""
    loads, source = Counter[str](), dict[str, str]()
    for cell in cells:
        out, into = outputs_and_inputs(cell)
        if cell.type in _ABSORBED and out and into:
            source[out[0]] = into[0]
        else:
            loads.update(into)
    for net in source:
        loads[_origin(net, source)] += loads.pop(net, 0)
    return dict(loads) | {net: loads[_origin(net, source)] for net in source}


def _origin(net: str, source: Mapping[str, str]) -> str:
    while net in source:
        net = source[net]
    return net
