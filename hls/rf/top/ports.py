# SPDX-License-Identifier: Apache-2.0
"""The ports of a core's top module: the conversion of rows at the ports to the pipeline's streams, and back.

A small row is one beat with all its tensors side by side. A large row is sent tensor after tensor, each in beats of its own
number of elements; the port is as wide as the widest beat. At the ports, tlast marks the end of a packet of rows. It is sampled
with a row's last beat and bypasses the pipeline in a FIFO of one bit per row, because inside the core tlast ends a row.
"""

from __future__ import annotations

from collections.abc import Iterator

from hypersonic.hls.rf.stage import Pipeline, Stream, is_whole, port_beats, port_width


def packets(rows: int) -> Iterator[str]:
    """Yield the lines of the FIFO for the ends of packets, with room for `rows` rows.

    Its input is valid with the last beat of a row (`row_ends`).
    """
    yield from _PACKETS.format(rows=rows).splitlines()


_PACKETS = """
  // ends of packets, which bypass the pipeline
  logic row_ends, packet_s_tready, packet_m_tvalid, packet_m_tready, packet_m_tlast;
  axis_fifo #(
      .WIDTH(1),
      .DEPTH({rows})
  ) u_packets (
      .clk(clk),
      .rst_n(rst_n),
      .s_axis_tvalid(s_axis_x_tvalid && s_axis_x_tready && row_ends),
      .s_axis_tready(packet_s_tready),
      .s_axis_tdata(s_axis_x_tlast),
      .m_axis_tvalid(packet_m_tvalid),
      .m_axis_tready(packet_m_tready),
      .m_axis_tdata(packet_m_tlast)
  );
"""


def entrance(pipeline: Pipeline) -> Iterator[str]:
    """Yield the lines from the port to the input streams; a beat is accepted only if the FIFO of packets' ends has room."""
    yield from _whole_entrance(pipeline.inputs) if is_whole(pipeline.inputs) else _beats_entrance(pipeline.inputs)


def _whole_entrance(streams: tuple[Stream, ...]) -> Iterator[str]:
    names, at, row, last = [stream.name for stream in streams], 0, "s_axis_x", "1'b1"
    yield "  assign row_ends = 1'b1;"
    if len(names) == 1:
        yield f"  assign {names[0]}_tvalid = s_axis_x_tvalid && packet_s_tready;"
        yield f"  assign s_axis_x_tready = {names[0]}_tready && packet_s_tready;"
    else:
        row, last = "row", "row_tlast"
        yield "  logic row_tready, row_tlast;"
        yield f"  logic [{port_width(streams) - 1}:0] row_tdata;"
        yield from fork(
            "entrance", ("s_axis_x_tvalid && packet_s_tready", "row_tready", "s_axis_x_tdata", "1'b1"), row, streams
        )
        yield "  assign s_axis_x_tready = row_tready && packet_s_tready;"
    for stream, n in zip(streams, names, strict=True):
        yield f"  assign {n}_tdata = {row}_tdata[{at} +: {stream.width}];"
        yield f"  assign {n}_tlast = {last};"
        at += stream.width


def _beats_entrance(streams: tuple[Stream, ...]) -> Iterator[str]:
    total, at, turns = port_beats(streams), 0, []
    bits = max(1, (total - 1).bit_length())
    yield f"  logic [{bits - 1}:0] beat_q;  // index of the beat in its row"
    yield f"  assign row_ends = beat_q == {bits}'d{total - 1};"
    yield "  always_ff @(posedge clk) begin"
    yield "    if (s_axis_x_tvalid && s_axis_x_tready) beat_q <= row_ends ? '0 : beat_q + 1'b1;"
    yield "    if (!rst_n) beat_q <= '0;"
    yield "  end"
    for stream in streams:
        n, end = stream.name, at + stream.beats
        bounds = [f"beat_q >= {bits}'d{at}"] if at else []
        bounds += [f"beat_q < {bits}'d{end}"] if end < total else []
        turn = " && ".join(bounds) or "1'b1"
        yield f"  wire {n}_turn = {turn};"
        yield f"  assign {n}_tdata = s_axis_x_tdata[{stream.width - 1}:0];"
        yield f"  assign {n}_tlast = beat_q == {bits}'d{end - 1};"
        yield f"  assign {n}_tvalid = s_axis_x_tvalid && packet_s_tready && {n}_turn;"
        turns.append(f"({n}_turn && {n}_tready)")
        at = end
    yield f"  assign s_axis_x_tready = packet_s_tready && ({' || '.join(turns)});"


def fork(name: str, source: tuple[str, str, str, str], prefix: str, streams: tuple[Stream, ...]) -> Iterator[str]:
    """Yield the lines of an rf_fork.

    Args:
        name: of the instance, after `u_`.
        source: tvalid, tready, tdata and tlast.
        prefix: of the common tdata and tlast at its output.
        streams: the outputs, which have handshakes of their own.
    """

    def bits(signal: str) -> str:
        return "{" + ", ".join(f"{stream.name}_{signal}" for stream in reversed(streams)) + "}"

    tvalid, tready, tdata, tlast = source
    yield f"  rf_fork #(.WIDTH($bits({prefix}_tdata)), .COUNT({len(streams)})) u_{name} ("
    yield f"      .clk(clk), .rst_n(rst_n), .s_axis_tvalid({tvalid}), .s_axis_tready({tready}), .s_axis_tdata({tdata}),"
    yield f"      .s_axis_tlast({tlast}), .m_axis_tvalid({bits('tvalid')}), .m_axis_tready({bits('tready')}),"
    yield f"      .m_axis_tdata({prefix}_tdata), .m_axis_tlast({prefix}_tlast)"
    yield "  );"


def way_out(pipeline: Pipeline) -> Iterator[str]:
    """Yield the lines from the output streams to the port; tlast is set on the last beat of a packet's last row."""
    names = [stream.name for stream in pipeline.outputs]
    valid = " && ".join(f"{n}_tvalid" for n in names)
    yield f"  assign m_axis_y_tdata = {{{', '.join(f'{n}_tdata' for n in reversed(names))}}};"
    # the first beats of a long row leave before its last input beat, and with it the packet's bit, arrives: only the last waits
    yield f"  assign m_axis_y_tvalid = (packet_m_tvalid || !{names[0]}_tlast) && {valid};"
    yield f"  assign m_axis_y_tlast = packet_m_tlast && {names[0]}_tlast;"
    yield f"  assign packet_m_tready = m_axis_y_tvalid && m_axis_y_tready && {names[0]}_tlast;"
    for n in names:
        yield f"  assign {n}_tready = m_axis_y_tvalid && m_axis_y_tready;"
    others = [f"{n}_tlast" for n in names[1:]]
    if others:
        yield f"  wire unused = &{{1'b0, {', '.join(others)}}};"
