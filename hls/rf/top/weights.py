# SPDX-License-Identifier: Apache-2.0
"""Weights that are read at run time through the core's weight streams (hls/core.py), and the file that holds them.

::

    stream 0       of all these stages, one after another: the biases, then the weights if they are loaded into the core
    other streams  one for each stage whose weights stay in the card's memory: its words, repeated for ever

A short stream that repeats is in the file several times, so that the port can request whole bursts.

A word that is loaded takes whole beats, low bits first. Of words that repeat, several narrow ones share a beat, as many as make
a vector's words end with a beat; a wide word takes several beats.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from math import ceil
from pathlib import Path

import numpy as np

from hypersonic.hls.rf.stage import Feed, Pipeline, Stage, clocks_a_word, copies, feed_beats, words_a_beat
from hypersonic.hls.rf.top.crossing import crossing, crossing_cells
from hypersonic.hls.weight_stream import WEIGHT_BITS, WeightStream

#: alignment of streams in beats (4 KiB), so that bursts from the card's memory are not split
_ALIGNED_BEATS = 64

#: words that are converted to bits at a time, which bounds memory
_WORDS_AT_ONCE = 4096


def loaded(pipeline: Pipeline) -> list[tuple[Stage, Feed]]:
    """Return what stream 0 loads, in the order of the chain: for each stage its biases (Stage.loaded), then its weights."""
    chain: list[tuple[Stage, Feed]] = []
    for stage in pipeline.stages:
        chain += [(stage, Feed(stage.loaded, repeats=False))] if stage.loaded else []
        chain += [(stage, stage.feed)] if stage.feed and not stage.feed.repeats else []
    return chain


def streamed(pipeline: Pipeline) -> list[tuple[Stage, Feed]]:
    """Return the stages of the other streams, whose weights are read for every vector."""
    return [(stage, stage.feed) for stage in pipeline.stages if stage.feed and stage.feed.repeats]


def _feeds(pipeline: Pipeline) -> list[list[Feed]]:
    """Return the feeds of each stream, in order."""
    chain = [feed for _, feed in loaded(pipeline)]
    return [*([chain] if chain else []), *([feed] for _, feed in streamed(pipeline))]


def weight_streams(pipeline: Pipeline) -> tuple[WeightStream, ...]:
    """Return the core's weight streams with their positions in the file."""
    streams, at = [], 0
    for feeds in _feeds(pipeline):
        beats = sum(copies(feed) * feed_beats(feed) for feed in feeds)
        streams.append(WeightStream(at, beats, feeds[0].repeats))
        at += ceil(beats / _ALIGNED_BEATS) * _ALIGNED_BEATS
    return tuple(streams)


def write_weights(pipeline: Pipeline, file: Path) -> None:
    """Write the weights' file: little-endian beats, with zeros between the streams."""
    with file.open("wb") as out:
        for stream, feeds in zip(weight_streams(pipeline), _feeds(pipeline), strict=True):
            out.write(bytes(stream.first * WEIGHT_BITS // 8 - out.tell()))
            for feed in feeds:
                for _ in range(copies(feed)):
                    out.writelines(_beats(feed))


def _beats(feed: Feed) -> Iterator[bytes]:
    """Yield the bytes of the feed's words in chunks."""
    memory, together = feed.words, words_a_beat(feed)
    step = max(1, _WORDS_AT_ONCE // together) * together
    for at in range(0, len(memory.words), step):
        bits = memory.bits_of(memory.words[at : at + step])
        beats = bits.reshape(len(bits) // together, together * memory.width)
        padded = np.zeros((len(beats), clocks_a_word(beats.shape[1]) * WEIGHT_BITS), dtype=np.uint8)
        padded[:, : beats.shape[1]] = beats
        yield np.packbits(padded, axis=1, bitorder="little").tobytes()


# ---------------------------------------------------------------- SystemVerilog
def feed_cells(pipeline: Pipeline) -> dict[str, int]:
    """Return the instances that feed_lines makes, with the die of each."""
    cells, die = dict[str, int](), 0
    for k, (stage, feed) in enumerate(loaded(pipeline)):
        cells |= crossing_cells(f"load_{k}_far", die, stage.die)
        cells |= {f"u_{stage.name}_weights": stage.die} if feed is stage.feed else {}
        die = stage.die
    for stage, _ in streamed(pipeline):
        cells |= crossing_cells(f"{stage.name}_far", 0, stage.die) | {f"u_{stage.name}_beats": stage.die}
    return cells


def feed_lines(pipeline: Pipeline) -> Iterator[str]:
    """Yield the lines from the ports to <stage>_w_{tvalid,tready,tdata} of every stage with a feed."""
    chain = loaded(pipeline)
    for stage, feed in ((stage, stage.feed) for stage in pipeline.stages if stage.feed):
        n = stage.name
        yield f"  logic {n}_w_tvalid, {n}_w_tready;"
        yield f"  logic [{feed.words.width - 1}:0] {n}_w_tdata;"
    if chain:
        yield from _chain(chain)
    for index, (stage, feed) in enumerate(streamed(pipeline), start=bool(chain)):
        yield from _stream(index, stage, feed)


def _chain(chain: list[tuple[Stage, Feed]]) -> Iterator[str]:
    last = len(chain)
    yield ""
    yield "  // biases and weights that are loaded"
    for k in range(last + 1):
        yield f"  logic load_{k}_tvalid, load_{k}_tready;"
        yield f"  logic [{WEIGHT_BITS - 1}:0] load_{k}_tdata;"
    # link k is load_k where it enters its stage, and load_k_far where it leaves another die
    dies = [0, *(stage.die for stage, _ in chain)]
    far = [f"load_{k}_far" if die > before else f"load_{k}" for k, (before, die) in enumerate(pairwise(dies))]
    far.append(f"load_{last}")
    yield f"  assign {far[0]}_tvalid = s_axis_w_tvalid[0];"
    yield f"  assign s_axis_w_tready[0] = {far[0]}_tready;"
    yield f"  assign {far[0]}_tdata = s_axis_w_tdata[{WEIGHT_BITS - 1}:0];"
    for k, (before, die) in enumerate(pairwise(dies)):
        if die > before:
            yield f"  logic load_{k}_far_tvalid, load_{k}_far_tready;"
            yield f"  logic [{WEIGHT_BITS - 1}:0] load_{k}_far_tdata;"
            yield from crossing(f"load_{k}_far", WEIGHT_BITS, f"load_{k}_far", f"load_{k}", die - before)
    for k, (stage, feed) in enumerate(chain):
        if feed is not stage.feed:
            yield from _passed(stage.name, f"load_{k}", far[k + 1])
            continue
        n, size = stage.name, f".WIDTH({feed.words.width}), .DEPTH({len(feed.words.words)})"
        style = "" if feed.ultra else ', .RAM_STYLE("auto")'
        yield f"  rf_weights #({size}, .LOAD_WIDTH({WEIGHT_BITS}){style}) u_{n}_weights ("
        yield "      .clk(clk), .rst_n(rst_n),"
        for side, link in (("s", f"load_{k}"), ("m", far[k + 1])):
            yield "      " + " ".join(f".{side}_load_{wire}({link}_{wire})," for wire in ("tvalid", "tready", "tdata"))
        yield f"      .m_axis_tvalid({n}_w_tvalid), .m_axis_tready({n}_w_tready), .m_axis_tdata({n}_w_tdata)"
        yield "  );"
    yield f"  assign load_{last}_tready = 1'b1;"
    yield f"  wire unused_load = &{{1'b0, load_{last}_tvalid, load_{last}_tdata}};"


def _passed(name: str, link_in: str, link_out: str) -> Iterator[str]:
    """Yield the lines that connect a link of the chain to the stage's own load ports, and these to the next link."""
    for side, link, into in (("load", link_in, True), ("next", link_out, False)):
        yield f"  logic {name}_{side}_tvalid, {name}_{side}_tready;"
        yield f"  logic [{WEIGHT_BITS - 1}:0] {name}_{side}_tdata;"
        for wire in ("tvalid", "tdata"):
            to, given = (f"{name}_{side}_{wire}", f"{link}_{wire}")[:: 1 if into else -1]
            yield f"  assign {to} = {given};"
        to, given = (f"{link}_tready", f"{name}_{side}_tready")[:: 1 if into else -1]
        yield f"  assign {to} = {given};"


def _stream(index: int, stage: Stage, feed: Feed) -> Iterator[str]:
    n, width, count = stage.name, feed.words.width, clocks_a_word(feed.words.width)
    together = words_a_beat(feed)
    size = width if count == 1 else WEIGHT_BITS
    used, gathered = together * size, count * size
    valid, ready = f"s_axis_w_tvalid[{index}]", f"s_axis_w_tready[{index}]"
    data = f"s_axis_w_tdata[{index * WEIGHT_BITS} +: {used}]"
    yield ""
    yield f"  // layer {stage.layer!a}: weights from the card's memory"
    if stage.die:
        for end in ("far", "near"):
            yield f"  logic {n}_{end}_tvalid, {n}_{end}_tready;"
            yield f"  logic [{used - 1}:0] {n}_{end}_tdata;"
        yield f"  assign {n}_far_tvalid = {valid};"
        yield f"  assign {ready} = {n}_far_tready;"
        yield f"  assign {n}_far_tdata = {data};"
        yield from crossing(f"{n}_far", used, f"{n}_far", f"{n}_near", stage.die)
        valid, ready, data = (f"{n}_near_{wire}" for wire in ("tvalid", "tready", "tdata"))
    yield f"  logic {n}_beat_tlast;"
    yield f"  logic [{gathered - 1}:0] {n}_beat_tdata;"
    yield f"  rf_lanes #(.IN_LANES({together}), .OUT_LANES({count}), .WIDTH({size})) u_{n}_beats ("
    yield "      .clk(clk), .rst_n(rst_n), .s_axis_tlast(1'b0),"
    yield f"      .s_axis_tvalid({valid}), .s_axis_tready({ready}), .s_axis_tdata({data}),"
    yield f"      .m_axis_tvalid({n}_w_tvalid), .m_axis_tready({n}_w_tready), .m_axis_tdata({n}_beat_tdata),"
    yield f"      .m_axis_tlast({n}_beat_tlast)"
    yield "  );"
    yield f"  assign {n}_w_tdata = {n}_beat_tdata[{width - 1}:0];"
    rest = [f"{n}_beat_tlast"]
    rest += [f"{n}_beat_tdata[{gathered - 1}:{width}]"] if gathered > width else []
    rest += [f"s_axis_w_tdata[{index * WEIGHT_BITS + used} +: {WEIGHT_BITS - used}]"] if used < WEIGHT_BITS else []
    yield f"  wire unused_{n}_beat = &{{1'b0, {', '.join(rest)}}};"
