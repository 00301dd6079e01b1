# SPDX-License-Identifier: Apache-2.0
"""The designs that are routed: the modules of the RTL with the parameters of modules.toml, and the wrapper around each.

The wrapper is the same for all. One pin feeds a shift register, which drives every input of the module; every output goes into
a register, and a pipelined tree of XORs folds these into one pin. So each path begins and ends at a register, and neither the
number of a module's ports nor the place of the pins matters.
"""

from __future__ import annotations

import random
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from hypersonic.firmware.errors import FirmwareError
from hypersonic.firmware.kernel.files import rtl_sources as shell_sources
from hypersonic.hls.cache import cached
from hypersonic.hls.core import Core
from hypersonic.hls.da import delay
from hypersonic.hls.rf.modules import rtl_sources
from hypersonic.sim.timing.cores import write_dense_core

_TABLE = Path(__file__).with_name("modules.toml")

#: the groups of modules.toml, in the order in which they are routed
GROUPS = ("shell", "da", "rf")

#: the wrapper's module, and the instance of the design in it
TOP, INSTANCE = "routed", "design"

_CLOCKS = ("clk", "ap_clk")


class DesignError(FirmwareError):
    """A design has no line in modules.toml, or its module has no clock or no output."""


@dataclass(frozen=True)
class Design:
    """A module with its parameters.

    Attributes:
        group: one of GROUPS.
        parameters: (name, text in SystemVerilog).
        memories: (name of a file, its text), which $readmemh reads.
    """

    name: str
    group: str
    module: str
    parameters: tuple[tuple[str, str], ...]
    memories: tuple[tuple[str, str], ...]

    @cached_property
    def sources(self) -> tuple[Path, ...]:
        """Its RTL, packages first, and the files that it includes."""
        if self.group == "shell":
            return shell_sources(self.module)
        return _dense_core().sources if self.module == "da_dense_core" else rtl_sources(self.module)

    @property
    def text(self) -> str:
        """The beginning of its instance: the module with its parameters."""
        given = ", ".join(f".{name}({value})" for name, value in self.parameters)
        return f"{self.module} #({given})" if given else self.module


def designs() -> tuple[Design, ...]:
    """All designs, in the order of modules.toml."""
    table = tomllib.loads(_TABLE.read_text())
    return tuple(_design(group, name, entry) for group in GROUPS for name, entry in table[group].items())


def find(name: str) -> Design:
    """The design with this name. Raises DesignError, which lists those there are."""
    known = {design.name: design for design in designs()}
    if name not in known:
        raise DesignError(f"no design {name!r} in {_TABLE.name}, expected one of {', '.join(known)}")
    return known[name]


def _design(group: str, name: str, entry: Mapping[str, Any]) -> Design:
    given: Mapping[str, Any] = entry.get("parameters", {})
    files = {key: value for key, value in given.items() if isinstance(value, dict) and "words" in value}
    return Design(
        name, group, entry.get("module", name),
        tuple((key, _literal(key, value)) for key, value in given.items()),
        tuple((f"{key}.mem", _contents(value["words"], value["bits"])) for key, value in files.items()),
    )  # fmt: skip


def _literal(name: str, value: int | str | Mapping[str, int]) -> str:
    if not isinstance(value, Mapping):
        return str(value)
    if bits := value.get("random_bits"):
        return f"{bits}'h{_contents(1, bits).strip()}"
    return f'"{name}.mem"'


def _contents(words: int, bits: int) -> str:
    """Words in hexadecimal, one a line: arbitrary, and the same each time."""
    numbers = random.Random(words)
    return "".join(f"{numbers.getrandbits(bits):x}\n" for _ in range(words))


@cache
def _dense_core() -> Core:
    def write(directory: Path) -> None:
        write_dense_core(directory)

    here = Path(__file__).with_name("cores.py")
    da = Path(delay.__file__).parent
    return Core.load(cached("timing_core", [here, da], write))


@dataclass(frozen=True)
class Ports:
    """A module's ports, without its clock.

    Attributes:
        inputs, outputs: (name, bits).
    """

    clock: str
    inputs: tuple[tuple[str, int], ...]
    outputs: tuple[tuple[str, int], ...]


def ports_of(module: Mapping[str, Any], name: str) -> Ports:
    """The ports of a module in Yosys' JSON. Raises DesignError."""
    found = {port: (entry["direction"], len(entry["bits"])) for port, entry in module["ports"].items()}
    clock = next((clock for clock in _CLOCKS if clock in found), None)
    ports = Ports(
        clock or "",
        tuple((port, bits) for port, (direction, bits) in found.items() if direction == "input" and port != clock),
        tuple((port, bits) for port, (direction, bits) in found.items() if direction == "output"),
    )
    if not ports.outputs:
        raise DesignError(f"module {name} has no output")
    return ports


def inside_text(design: Design) -> str:
    """A module around the design without connections, from which Yosys tells the design's ports."""
    return f"module {TOP};\n  (* keep *) {design.text} {INSTANCE} ();\nendmodule\n"


def wrapper_text(design: Design, ports: Ports) -> str:
    """The wrapper around the design in SystemVerilog."""
    bits_in, bits_out = (sum(bits for _, bits in side) for side in (ports.inputs, ports.outputs))
    clock = [(ports.clock, "clk")] if ports.clock else []
    pairs = [*clock, *_places(ports.inputs, "in_q"), *_places(ports.outputs, "out")]
    connected = ",\n".join(f"    .{port}({signal})" for port, signal in pairs)
    lines = [
        f"module {TOP} (input clk, input pin_in, output pin_out);",
        f"  logic [{bits_in}:0] in_q;",
        f"  always_ff @(posedge clk) in_q <= {{in_q[{bits_in - 1}:0], pin_in}};",
        f"  logic [{bits_out - 1}:0] out, level_0;",
        "  always_ff @(posedge clk) level_0 <= out;",
        f"  {design.text} {INSTANCE} (\n{connected}\n  );",
        *_folded(bits_out),
        "endmodule",
    ]
    return "\n".join(lines) + "\n"


def _places(side: Sequence[tuple[str, int]], vector: str) -> Iterator[tuple[str, str]]:
    first = 0
    for port, bits in side:
        yield port, f"{vector}[{first}+:{bits}]"
        first += bits


def _folded(bits: int) -> Iterator[str]:
    """Registered XORs of up to four bits each, level by level."""
    level = 0
    while bits > 1:
        fewer, level = -(-bits // 4), level + 1
        yield f"  logic [{fewer - 1}:0] level_{level};"
        yield "  always_ff @(posedge clk) begin"
        yield from (f"    level_{level}[{n}] <= ^level_{level - 1}[{min(4 * n + 3, bits - 1)}:{4 * n}];" for n in range(fewer))
        yield "  end"
        bits = fewer
    yield f"  assign pin_out = level_{level}[0];"
