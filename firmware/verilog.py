# SPDX-License-Identifier: Apache-2.0
"""Pieces of Verilog text, from which the generated modules are put together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def vector(bits: int) -> str:
    """The range of a declaration, followed by a space; empty for 1 bit. -1 means a vector of one bit, as AXI IDs are."""
    return "[0:0] " if bits == -1 else f"[{bits - 1}:0] " if bits > 1 else ""


def part(signal: str, start: int, bits: int, of_bits: int) -> str:
    """The part-select of `bits` bits from bit `start` of a signal that is `of_bits` wide."""
    return signal if bits == of_bits else f"{signal}[{start + bits - 1}:{start}]"


def connections(pairs: Iterable[tuple[str, str]]) -> str:
    """The named connections of an instance, one a line, from (port, signal) pairs."""
    return ",\n".join(f"      .{port}({signal})" for port, signal in pairs)


def instance(module: str, name: str, parameters: Mapping[str, str], pairs: Iterable[tuple[str, str]]) -> str:
    """An instance of a module, without a trailing newline.

    Args:
        pairs: (port, signal).
    """
    values = f" #(\n{connections(parameters.items())}\n  )" if parameters else ""
    return f"  {module}{values} {name} (\n{connections(pairs)}\n  );"


def stream_wires(name: str, bits: int) -> str:
    """The declarations of the wires <name>_{tvalid, tready, tdata, tlast} of a stream with `bits` bits per beat."""
    widths = {"tvalid": 1, "tready": 1, "tdata": bits, "tlast": 1}
    return "\n".join(f"  wire {vector(width)}{name}_{signal};" for signal, width in widths.items())


def stream_ports(port: str, name: str) -> list[tuple[str, str]]:
    """The (port, signal) pairs that connect the ports <port>_{tvalid, tready, tdata, tlast} to the stream `name`."""
    return [(f"{port}_{signal}", f"{name}_{signal}") for signal in ("tvalid", "tready", "tdata", "tlast")]
