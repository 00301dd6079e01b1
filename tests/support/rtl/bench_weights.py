# SPDX-License-Identifier: Apache-2.0
"""A core for benches that takes its weights from memory, and its result in numpy.

It has two weight streams: the first is read once, the second over and over. Only the lowest lanes of 16 bits of each beat are
used, one lane for each element of a row. The beats of the first stream are folded into `scale`; each row folds the next
ROW_BEATS beats of the second stream into `offset`. The result is y_raw = x_raw * scale + offset, modulo 2**16, with

::

    fold(beats) = beats[0] * 3**(n - 1) + ... + beats[n - 1]
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.core import AXIS_RTL, Core, core_signals, module_header
from hypersonic.hls.core_kind import CoreKind
from hypersonic.hls.fixed import FixedPoint
from hypersonic.hls.row import Row
from hypersonic.hls.spec import TensorSpec
from hypersonic.hls.weight_stream import WEIGHT_BITS, WeightStream

#: beats of the second stream for each row
ROW_BEATS = 3

#: The stream read once is longer than one burst. The length of the repeated one is not a multiple of ROW_BEATS, so that
#: consecutive rows have different offsets.
STREAMS = (WeightStream(0, 70, False), WeightStream(128, 5, True))

_BEAT_BYTES = WEIGHT_BITS // 8


def write_bench_weights(
    directory: Path, *, name: str = "bench_weights", size: int = 4, streams: tuple[WeightStream, WeightStream] = STREAMS,
    seed: int = 1,
) -> Core:  # fmt: skip
    """Write directory/<name>_core.sv and weights.bin, and return the core. A row is `size` INT16 elements, in and out."""
    directory.mkdir(parents=True, exist_ok=True)
    x, y = (Row((TensorSpec(tensor, (size,), FixedPoint(16, 16), "INT16"),)) for tensor in ("x", "y"))
    source, weights = directory / f"{name}_core.sv", directory / "weights.bin"
    source.write_text(_text(source.stem, size, streams[0].beats))
    core = Core(
        name, CoreKind.BENCH, source.stem, (AXIS_RTL / "axis_fifo.sv", source), x, y, ROW_BEATS + 1, 4, weight_streams=streams
    )
    weights.write_bytes(bench_image(core, seed).tobytes())
    return replace(core, weights=weights)


def bench_image(core: Core, seed: int) -> NDArray[np.uint8]:
    """Return random weights for such a core: core.weight_beats beats of WEIGHT_BITS bits, as uint8."""
    return np.random.default_rng(seed).integers(0, 256, core.weight_beats * _BEAT_BYTES, dtype=np.uint8)


def bench_weights_rows(core: Core, image: NDArray[np.uint8], x: NDArray[np.int16], first: int = 0) -> NDArray[np.int16]:
    """Compute the core's outputs for x (rows, size). `first` is the number of rows since these weights were loaded."""
    lanes = image.view(np.uint16).reshape(-1, _BEAT_BYTES // 2)[:, : x.shape[1]]
    once, again = (lanes[stream.first : stream.first + stream.beats] for stream in core.weight_streams)
    taken = np.arange(first * ROW_BEATS, (first + len(x)) * ROW_BEATS) % len(again)
    offsets = [_fold(again[taken[ROW_BEATS * row : ROW_BEATS * (row + 1)]]) for row in range(len(x))]
    offset = np.array(offsets, dtype=np.uint16).reshape(x.shape)
    return (x.view(np.uint16) * _fold(once) + offset).view(np.int16)


def _fold(beats: NDArray[np.uint16]) -> NDArray[np.uint16]:
    folded = np.zeros(beats.shape[1], dtype=np.uint16)
    for beat in beats:
        folded = folded * np.uint16(3) + beat
    return folded


def _text(top: str, size: int, once_beats: int) -> str:
    return f"""// SPDX-License-Identifier: Apache-2.0
`default_nettype none

{module_header(top, core_signals(16 * size, 16 * size, weight_streams=2))}

  logic [31:0] once_q;
  logic [31:0] beats_q;
  logic        result_ready;
  logic [{16 * size - 1}:0] result;

  wire loaded = once_q == 32'd{once_beats};
  wire due = beats_q == 32'd{ROW_BEATS};
  wire once = s_axis_w_tvalid[0] && s_axis_w_tready[0];
  wire again = s_axis_w_tvalid[1] && s_axis_w_tready[1];
  wire take = s_axis_x_tvalid && s_axis_x_tready;

  assign s_axis_w_tready = {{loaded && !due, !loaded}};
  assign s_axis_x_tready = due && result_ready;

  always_ff @(posedge clk) begin
    once_q  <= once_q + 32'(once);
    beats_q <= take ? '0 : beats_q + 32'(again);
    if (!rst_n) begin
      once_q  <= '0;
      beats_q <= '0;
    end
  end

  for (genvar i = 0; i < {size}; i++) begin : gen_lane
    logic [15:0] scale_q;
    logic [15:0] offset_q;

    always_ff @(posedge clk) begin
      if (once) scale_q <= (once_q == '0 ? '0 : scale_q * 16'd3) + s_axis_w_tdata[16*i+:16];
      if (again) offset_q <= (beats_q == '0 ? '0 : offset_q * 16'd3) + s_axis_w_tdata[{WEIGHT_BITS}+16*i+:16];
    end
    assign result[16*i+:16] = s_axis_x_tdata[16*i+:16] * scale_q + offset_q;
  end

  axis_fifo #(
      .WIDTH({16 * size + 1}),
      .DEPTH(4)
  ) u_axis_fifo (
      .clk          (clk),
      .rst_n        (rst_n),
      .s_axis_tvalid(take),
      .s_axis_tready(result_ready),
      .s_axis_tdata ({{s_axis_x_tlast, result}}),
      .m_axis_tvalid(m_axis_y_tvalid),
      .m_axis_tready(m_axis_y_tready),
      .m_axis_tdata ({{m_axis_y_tlast, m_axis_y_tdata}})
  );

  wire unused = &{{1'b0, s_axis_w_tdata}};

endmodule

`default_nettype wire
"""
