# SPDX-License-Identifier: Apache-2.0
"""Words of Verilog, for the texts that are generated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def vector(bits: int) -> str:
    """A range and a blank; -1 marks a vector of one bit, which AXI IDs are."""
    return "[0:0] " if bits == -1 else f"[{bits - 1}:0] " if bits > 1 else ""


def part(signal: str, start: int, bits: int, of_bits: int) -> str:
    """`bits` bits of a signal of `of_bits` from `start` on."""
    return signal if bits == of_bits else f"{signal}[{start + bits - 1}:{start}]"


def connections(pairs: Iterable[tuple[str, str]]) -> str:
    return ",\n".join(f"      .{port}({signal})" for port, signal in pairs)


def instance(module: str, name: str, parameters: Mapping[str, str], pairs: Iterable[tuple[str, str]]) -> str:
    """An instance of a module, without a last newline."""
    values = f" #(\n{connections(parameters.items())}\n  )" if parameters else ""
    return f"  {module}{values} {name} (\n{connections(pairs)}\n  );"


def stream_wires(name: str, bits: int) -> str:
    """The wires <name>_{tvalid, tready, tdata, tlast} of a stream of `bits` bits a beat."""
    widths = {"tvalid": 1, "tready": 1, "tdata": bits, "tlast": 1}
    return "\n".join(f"  wire {vector(width)}{name}_{signal};" for signal, width in widths.items())


def stream_ports(port: str, name: str) -> list[tuple[str, str]]:
    """The ports <port>_{tvalid, ...} connected to the stream `name`."""
    return [(f"{port}_{signal}", f"{name}_{signal}") for signal in ("tvalid", "tready", "tdata", "tlast")]
