# SPDX-License-Identifier: Apache-2.0
"""A core for benches: quick to build, its result known in one numpy expression, its timing like a real core's.

The result: y_raw[j] = (sum_i (i + 1) * x_raw[i] + j * x_raw[0]) modulo 2**width
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hypersonic.hls.core import RTL, Core
from hypersonic.hls.fixed import FixedPoint, Overflow
from hypersonic.hls.spec import TensorSpec

_LATENCY_CYCLES = 8


def write_bench_core(x: TensorSpec, y: TensorSpec, directory: Path, *, name: str = "bench", ii: int = 1) -> Core:
    """Write directory/<name>_core.sv. ii: clocks a row takes at the core's input, 1 or more."""
    directory.mkdir(parents=True, exist_ok=True)
    source = directory / f"{name}_core.sv"
    source.write_text(_text(x, y, f"{name}_core", ii))
    sources = (RTL / "axis_fifo.sv", source)
    return Core(name, "bench", source.stem, sources, x, y, ii, _LATENCY_CYCLES)


def bench_core_raw(x_raw: ArrayLike, y: TensorSpec) -> NDArray[np.int64]:
    """What the core computes: (rows, n_in) int64 -> (rows, y.size) int64, wrapped to y's type."""
    rows = np.asarray(x_raw, dtype=np.int64)
    weights = np.arange(1, rows.shape[1] + 1)
    total = (rows * weights).sum(axis=1)[:, None] + np.arange(y.size) * rows[:, :1]
    low: NDArray[np.int64] = total & ((1 << y.fixed.width) - 1)
    return np.where(low > y.fixed.max_raw, low - (1 << y.fixed.width), low) if y.fixed.signed else low


def bench_core_wire(x_wire: ArrayLike, x: TensorSpec, y: TensorSpec) -> NDArray[Any]:
    """The whole kernel around the core: wire numbers (rows, n_in) -> wire numbers (rows, n_out)."""
    with np.errstate(over="ignore"):
        return y.from_raw(bench_core_raw(x.to_raw(np.asarray(x_wire).reshape(-1, x.size)), y))


def bench_specs(
    n_in: int = 18, n_out: int = 1, width: int = 18, datatypes: tuple[str, str] = ("FP32", "FP32")
) -> tuple[TensorSpec, TensorSpec]:
    """Specs of a bench kernel: scales on every input, saturation in, wrapping out."""
    scales = tuple(i % 7 - 3 for i in range(n_in))
    x = TensorSpec("x", (n_in,), FixedPoint(width, width // 2, overflow=Overflow.SAT), datatypes[0], scales)
    return x, TensorSpec("y", (n_out,), FixedPoint(24, 12), datatypes[1], tuple(j % 3 - 1 for j in range(n_out)))


def _text(x: TensorSpec, y: TensorSpec, top: str, ii: int) -> str:
    n_in, w_in, n_out, w_out = x.size, x.fixed.width, y.size, y.fixed.width
    extend = "$signed" if x.fixed.signed else "$unsigned"
    element = [f"64'({extend}(s_axis_x_tdata[{w_in * i}+:{w_in}]))" for i in range(n_in)]
    terms = "\n".join(
        f"  wire [{w_out - 1}:0] sum_{i + 1} = sum_{i} + {w_out}'({value} * 64'd{i + 1});" for i, value in enumerate(element)
    )
    results = ",\n".join(f"      sum_{n_in} + {w_out}'({element[0]} * 64'd{j})" for j in reversed(range(n_out)))
    return f"""// SPDX-License-Identifier: Apache-2.0
`default_nettype none

module {top} (
    input  logic clk,
    input  logic rst_n,
    input  logic s_axis_x_tvalid,
    output logic s_axis_x_tready,
    input  logic [{n_in * w_in - 1}:0] s_axis_x_tdata,
    input  logic s_axis_x_tlast,
    output logic m_axis_y_tvalid,
    input  logic m_axis_y_tready,
    output logic [{n_out * w_out - 1}:0] m_axis_y_tdata,
    output logic m_axis_y_tlast
);

  localparam int STAGES = {_LATENCY_CYCLES - 2};
  localparam int WIDTH = {n_out * w_out + 1};

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
