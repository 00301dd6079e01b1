# SPDX-License-Identifier: Apache-2.0
"""The size of designs around cores, from which hls/bounded/need.py estimates the memory of the tools."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hypersonic.hls.bounded.need import Rtl, Share, Side
from hypersonic.hls.core import Core, Port


def size_of(name: str, cores: Sequence[Core], sources: Sequence[Path], *, kernel: bool = False) -> Rtl:
    """Return the size of a design.

    Args:
        name: for messages.
        sources: all of its SystemVerilog.
        kernel: it converts the rows.
    """
    lines = sum(source.read_bytes().count(b"\n") for source in dict.fromkeys(sources))
    layers = tuple(Share(*layer) for core in cores for layer in core.layers)
    inputs, outputs = (tuple(map(_side, ports)) for ports in ([core.x for core in cores], [core.y for core in cores]))
    converters = sum(side.elements for side in (*inputs, *outputs)) if kernel else 0
    return Rtl(name, lines, inputs, outputs, layers, converters)


def _side(port: Port) -> Side:
    return Side(max(port.lanes) if port.lanes else port.row.size, port.width)
