# SPDX-License-Identifier: Apache-2.0
"""Pipelines without handshakes as one instance of a StreamBench: a wrapper adds streams, and many pipelines run side by side.

::

    s_axis --> [ lane 0 | lane 1 | ... ] --> m_axis      enable = the output is empty or is taken

A lane takes its part of s_axis_tdata and gives its part of m_axis_tdata `latency` enabled clocks later.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tests.support.rtl.stream_bench import Beat, Dut, Stalls, StreamBench

_WRAPPER = """\
module {name} (
    input logic clk, rst_n, s_axis_tvalid, s_axis_tlast, m_axis_tready, input logic [{x_bits}-1:0] s_axis_tdata,
    output logic s_axis_tready, m_axis_tvalid, m_axis_tlast, output logic [{y_bits}-1:0] m_axis_tdata
);
  logic [{latency}:0] valid, last;
  wire enable = !m_axis_tvalid || m_axis_tready;
  assign s_axis_tready = enable;
  assign {{valid[0], last[0]}} = {{s_axis_tvalid, s_axis_tlast}};
  assign {{m_axis_tvalid, m_axis_tlast}} = {{valid[{latency}], last[{latency}]}};
  always_ff @(posedge clk) begin
    if (enable) {{valid[{latency}:1], last[{latency}:1]}} <= {{valid[{latency}-1:0], last[{latency}-1:0]}};
    if (!rst_n) valid[{latency}:1] <= '0;
  end
{lanes}
endmodule
"""


def pipeline(
    name: str, latency: int, x_bits: int, y_widths: Sequence[int], lanes: Sequence[str], sources: Sequence[Path]
) -> Dut:
    """Return the instance of a module `name`, whose body is the instances `lanes`: SystemVerilog with ports clk and enable.

    Args:
        y_widths: the bits of the lanes' outputs, lane 0 lowest in m_axis_tdata.
        sources: the files of the lanes' modules.
    """
    y_bits = sum(y_widths)
    text = _WRAPPER.format(name=name, latency=latency, x_bits=x_bits, y_bits=y_bits, lanes="\n".join(lanes))
    return Dut(name, {}, {"s_axis": x_bits}, y_bits, source=text, sources=tuple(sources))


def packed(columns: ArrayLike, widths: Sequence[int]) -> list[int]:
    """Pack the low bits of each row's numbers into one integer: (rows, lanes) int64 -> integers, lane 0 lowest."""
    numbers = np.asarray(columns, dtype=np.int64)
    parts = (numbers[:, i, None] >> np.arange(width) & 1 for i, width in enumerate(widths))
    bits = np.concatenate([part.astype(np.uint8) for part in parts], axis=1)
    return [int.from_bytes(row.tobytes(), "little") for row in np.packbits(bits, axis=1, bitorder="little")]


class Difference(NamedTuple):
    """A wrong number: its row and lane, and the bits that came."""

    row: int
    lane: int
    got: int


def differences(bench: StreamBench, dut: Dut, x: Sequence[int], y: ArrayLike, widths: Sequence[int]) -> list[Difference]:
    """Send x under stalls. Return the numbers that differ from y, which is (rows, lanes) int64.

    Raises StreamError for a beat that is lost, doubled or changes while it waits.
    """
    beats = [Beat(value) for value in x]
    got = bench.run(dut, beats, results=len(beats), stalls=Stalls(25, 25)).beats
    lows = list(accumulate(widths[:-1], initial=0))
    wrong = []
    for row, (beat, expected) in enumerate(zip(got, packed(y, widths), strict=True)):
        if beat.data == expected:
            continue
        for lane, (low, width) in enumerate(zip(lows, widths, strict=True)):
            mask = (1 << width) - 1
            if (number := beat.data >> low & mask) != expected >> low & mask:
                wrong.append(Difference(row, lane, number))
    return wrong
