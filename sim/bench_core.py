# SPDX-License-Identifier: Apache-2.0
"""A core for benches that is quick to build, has the timing of a real core, and computes one numpy expression::

    y_raw[j] = (sum_i (i + 1) * x_raw[i] + j * x_raw[0]) modulo 2**width

i and j count the elements of all input and all output tensors; width is that of output element j.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hypersonic.hls.core import AXIS_RTL, Core, core_signals, module_header
from hypersonic.hls.core_kind import CoreKind
from hypersonic.hls.fixed import FixedPoint, Overflow, Rounding
from hypersonic.hls.row import Row
from hypersonic.hls.spec import TensorSpec

_LATENCY_CLOCKS = 8


def write_bench_core(x: Row, y: Row, directory: Path, *, name: str = "bench", ii: int = 1) -> Core:
    """Write directory/<name>_core.sv and return the core. ii is its initiation interval in clocks, 1 or more."""
    directory.mkdir(parents=True, exist_ok=True)
    source = directory / f"{name}_core.sv"
    source.write_text(_text(x, y, f"{name}_core", ii))
    sources = (AXIS_RTL / "axis_fifo.sv", source)
    return Core(name, CoreKind.BENCH, source.stem, sources, x, y, ii, _LATENCY_CLOCKS)


def bench_core_raw(x_raw: ArrayLike, y: Row) -> NDArray[np.int64]:
    """Compute the core's outputs as raw integers: (rows, n_in) int64 -> (rows, y.size) int64, wrapped to y's types."""
    rows = np.asarray(x_raw, dtype=np.int64)
    weights = np.arange(1, rows.shape[1] + 1)
    total = (rows * weights).sum(axis=1)[:, None] + np.arange(y.size) * rows[:, :1]
    parts = zip(y.tensors, y.split(total), strict=True)
    return np.concatenate([_wrap(part, tensor.fixed) for tensor, part in parts], axis=1)


def _wrap(values: NDArray[np.int64], fixed: FixedPoint) -> NDArray[np.int64]:
    low: NDArray[np.int64] = values & ((1 << fixed.width) - 1)
    return np.where(low > fixed.max_raw, low - (1 << fixed.width), low) if fixed.signed else low


def bench_core_wire(x_wires: Sequence[ArrayLike], x: Row, y: Row) -> tuple[NDArray[Any], ...]:
    """Compute the outputs of a whole kernel around the core, in wire numbers.

    Takes an array (rows, tensor.size) for each input tensor, in the tensor's datatype, and returns the same for the outputs.
    """
    with np.errstate(over="ignore"):
        return y.from_raw(bench_core_raw(x.to_raw(x_wires), y))


def bench_rows(
    n_in: int = 18, n_out: int = 1, width: int = 18, datatypes: tuple[str, str] = ("FP32", "FP32")
) -> tuple[Row, Row]:
    """Return the rows of a kernel with one input and one output.

    Every element has a scale; the input type saturates and the output type wraps. width is the input type's, in bits.
    """
    scales = tuple(i % 7 - 3 for i in range(n_in))
    x = TensorSpec("x", (n_in,), FixedPoint(width, width // 2, overflow=Overflow.SAT), datatypes[0], scales)
    y = TensorSpec("y", (n_out,), FixedPoint(24, 12), datatypes[1], tuple(j % 3 - 1 for j in range(n_out)))
    return Row((x,)), Row((y,))


def several_rows() -> tuple[Row, Row]:
    """Return rows of two inputs and of three outputs, each tensor with its own datatype and type; 29 and 11 bytes a row."""
    x = (
        TensorSpec("tracks", (3, 2), FixedPoint(18, 9, True, Rounding.RND_CONV, Overflow.SAT), "FP32", (1, -2, 0, 3, 0, -1)),
        TensorSpec("flags", (5,), FixedPoint(8, 4, False), "UINT8"),
    )
    y = (
        TensorSpec("mass", (3,), FixedPoint(24, 12), "FP16", (0, 2, -1)),
        TensorSpec("tag", (1,), FixedPoint(12, 7), "INT8"),
        TensorSpec("energy", (1,), FixedPoint(30, 20), "FP32"),
    )
    return Row(x), Row(y)


def _types(row: Row) -> list[FixedPoint]:
    """The type of every element."""
    return [tensor.fixed for tensor in row.tensors for _ in range(tensor.size)]


def _elements(row: Row) -> list[str]:
    """A SystemVerilog expression for every element of the input stream, extended to 64 bits."""
    types = _types(row)
    starts = accumulate((fixed.width for fixed in types[:-1]), initial=0)
    return [
        f"64'({'$signed' if fixed.signed else '$unsigned'}(s_axis_x_tdata[{start}+:{fixed.width}]))"
        for fixed, start in zip(types, starts, strict=True)
    ]


def _text(x: Row, y: Row, top: str, ii: int) -> str:
    outputs = _types(y)
    w_out = max(fixed.width for fixed in outputs)
    element = _elements(x)
    terms = "\n".join(
        f"  wire [{w_out - 1}:0] sum_{i + 1} = sum_{i} + {w_out}'({value} * 64'd{i + 1});" for i, value in enumerate(element)
    )
    results = ",\n".join(
        f"      {fixed.width}'(sum_{x.size} + {w_out}'({element[0]} * 64'd{j}))" for j, fixed in reversed([*enumerate(outputs)])
    )
    return f"""// SPDX-License-Identifier: Apache-2.0
`default_nettype none

{module_header(top, core_signals(x.raw_bits, y.raw_bits))}

  localparam int STAGES = {_LATENCY_CLOCKS - 2};
  localparam int WIDTH = {y.raw_bits + 1};

  wire [{w_out - 1}:0] sum_0 = '0;
{terms}
  wire [WIDTH-2:0] result = {{
{results}
  }};

  logic [31:0]      pause_q;
  logic [STAGES-1:0] valid_q;
  logic [WIDTH-1:0] stage_q [STAGES];
  logic             out_ready;

  wire enable = !valid_q[STAGES-1] || out_ready;
  wire take = s_axis_x_tvalid && s_axis_x_tready;
  assign s_axis_x_tready = enable && pause_q == '0;

  always_ff @(posedge clk) begin
    if (enable) begin
      stage_q[0] <= {{s_axis_x_tlast, result}};
      for (int i = 1; i < STAGES; i++) stage_q[i] <= stage_q[i-1];
      valid_q <= {{valid_q[STAGES-2:0], take}};
    end
    if (take) pause_q <= 32'd{ii - 1};
    else if (pause_q != '0) pause_q <= pause_q - 1'b1;
    if (!rst_n) begin
      valid_q <= '0;
      pause_q <= '0;
    end
  end

  axis_fifo #(
      .WIDTH(WIDTH),
      .DEPTH(4)
  ) u_axis_fifo (
      .clk          (clk),
      .rst_n        (rst_n),
      .s_axis_tvalid(valid_q[STAGES-1]),
      .s_axis_tready(out_ready),
      .s_axis_tdata (stage_q[STAGES-1]),
      .m_axis_tvalid(m_axis_y_tvalid),
      .m_axis_tready(m_axis_y_tready),
      .m_axis_tdata ({{m_axis_y_tlast, m_axis_y_tdata}})
  );

endmodule

`default_nettype wire
"""
