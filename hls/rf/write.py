# SPDX-License-Identifier: Apache-2.0
"""Writes a Pipeline: <name>_core.sv, which connects the stages, the memory files they read, and core.json.

The top module's ports are those of Core; rf/top/ports.py handles rows that are too large for one beat. core.json has the cost
and the speed of each stage.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from hypersonic.hls.core import Core, core_signals, module_header
from hypersonic.hls.core_kind import CoreKind
from hypersonic.hls.network.base import Network
from hypersonic.hls.rf.cost import block_rams, ultra_rams
from hypersonic.hls.rf.modules import sources_of
from hypersonic.hls.rf.packages import constant
from hypersonic.hls.rf.plan import WHOLE_ROW_BITS, plan
from hypersonic.hls.rf.registry import stage_cost, stage_type
from hypersonic.hls.rf.stage import Memory, Pipeline, Stage, Stream, Value, is_whole, port_width, row_beats
from hypersonic.hls.rf.swap import swap_clocks
from hypersonic.hls.rf.timing import Clocks, busy, clocks
from hypersonic.hls.rf.top.ports import entrance, packets, way_out
from hypersonic.hls.rf.top.weights import feed_cells, feed_lines, loaded, streamed, weight_streams, write_weights
from hypersonic.hls.row import Row

_HEAD = """\
// SPDX-License-Identifier: Apache-2.0
//
// {name}: a network whose layers share their multipliers, written by hypersonic (hls/rf/write.py). A row every {ii} clocks,
// {latency} clocks from a row to its result. Weights and tables are read by $readmemh from the files beside this one.
`default_nettype none
"""

#: modules whose memories hold trained constants, unless these are read at run time
_TRAINED = ("rf_mac", "rf_depthwise", "rf_recurrent", "rf_embed", "rf_layernorm", "rf_map")


def write_rf_core(
    network: Network,
    name: str,
    inputs: Row,
    outputs: Row,
    directory: Path,
    whole_row_bits: int = WHOLE_ROW_BITS,
    cuts: Sequence[str] = (),
) -> tuple[Core, dict[str, Any]]:
    """Write <name>_core.sv, the files it reads and core.json into `directory`; return the core and its figures.

    Args:
        whole_row_bits: rows of up to this many bits are one beat at the ports.
        cuts: of a core over several dies, as in DiePlan.

    Raises:
        UnsupportedLayerError: With the layer's name.
    """
    pipeline = plan(network, whole_row_bits, cuts)
    timed = clocks(pipeline)
    top = f"{name}_core"
    directory.mkdir(parents=True, exist_ok=True)
    memories = {directory / _file(name, memory.file): memory for stage in pipeline.stages for memory in stage.memories}
    for file, memory in memories.items():
        file.write_text(memory.text())
    streams, weights = weight_streams(pipeline), directory / f"{name}_weights.bin"
    if streams:
        write_weights(pipeline, weights)
    (directory / f"{top}.sv").write_text(core_text(pipeline, name, timed))
    sources = (*module_files(pipeline), directory / f"{top}.sv")
    core = Core(
        name, CoreKind.RF, top, sources, inputs, outputs, ii=timed.ii, latency_cycles=timed.latency,
        x_lanes=port_lanes(pipeline.inputs, inputs), y_lanes=port_lanes(pipeline.outputs, outputs), memories=tuple(memories),
        weights=weights if streams else None, weight_streams=streams, cell_dies=cell_dies(pipeline),
    )  # fmt: skip
    core.save(directory)
    return core, figures(pipeline, timed)


def port_lanes(streams: tuple[Stream, ...], row: Row) -> tuple[int, ...]:
    """Return x_lanes or y_lanes of Core: lanes of each tensor, or () for rows of one beat.

    A stream's element is several elements of the row if the row has it as words (hls/plugin/words.py).
    """
    if is_whole(streams):
        return ()
    return tuple(stream.width // tensor.fixed.width for stream, tensor in zip(streams, row.tensors, strict=True))


def module_files(pipeline: Pipeline) -> tuple[Path, ...]:
    """Return the RTL files of the pipeline's modules, every module after the ones that it instantiates."""
    ends = ["axis_fifo"] + ["rf_fork"] * (len(pipeline.inputs) > 1)
    ends += ["axis_skid"] * any(stage.die for stage in pipeline.stages)
    ends += ["rf_weights"] * bool(loaded(pipeline)) + ["rf_lanes"] * bool(streamed(pipeline))
    return sources_of([*ends, *(stage.module for stage in pipeline.stages)])


def _file(core: str, file: str) -> str:
    """Return a file name that is unique among several cores, because a core's name does not contain two underscores in a
    row."""
    return f"{core}__{file}"


def core_text(pipeline: Pipeline, name: str, timed: Clocks) -> str:
    """Return the SystemVerilog text of module <name>_core."""
    x_bits, y_bits = port_width(pipeline.inputs), port_width(pipeline.outputs)
    rows = 1 << max(2, (timed.latency // timed.ii + 4).bit_length())
    lines = [
        *_HEAD.format(name=name, ii=timed.ii, latency=timed.latency).splitlines(),
        "",
        module_header(f"{name}_core", core_signals(x_bits, y_bits, len(weight_streams(pipeline)))),
        *_wires(pipeline),
        *packets(rows),
        *entrance(pipeline),
        *feed_lines(pipeline),
        *(line for stage in pipeline.stages for line in _instance(stage, name)),
        *_sinks(pipeline),
        *way_out(pipeline),
        "endmodule",
        "",
        "`default_nettype wire",
    ]
    return "\n".join(lines) + "\n"


def cell_dies(pipeline: Pipeline) -> tuple[tuple[str, int], ...]:
    """Return the instances in the module with the die of each, in their order; none for a core on one die."""
    if not any(stage.die for stage in pipeline.stages):
        return ()
    cells = {f"u_{stage.name}": stage.die for stage in pipeline.stages} | feed_cells(pipeline)
    return tuple(cells.items())


def _streams(pipeline: Pipeline) -> Iterator[Stream]:
    yield from pipeline.inputs
    for stage in pipeline.stages:
        yield from stage.outputs


def _wires(pipeline: Pipeline) -> Iterator[str]:
    for stream in _streams(pipeline):
        n = stream.name
        yield f"  logic {n}_tvalid, {n}_tready, {n}_tlast;"
        yield f"  logic [{stream.width - 1}:0] {n}_tdata;  // {stream.lanes} x {stream.precision}, {stream.beats} beats a row"


def _sinks(pipeline: Pipeline) -> Iterator[str]:
    """Yield the lines that accept streams without a reader, for example of an input that the network does not use."""
    read = {stream.name for stage in pipeline.stages for stream in stage.inputs} | {stream.name for stream in pipeline.outputs}
    for n in (stream.name for stream in _streams(pipeline) if stream.name not in read):
        yield f"  assign {n}_tready = 1'b1;"
        yield f"  wire unused_{n} = &{{1'b0, {n}_tvalid, {n}_tdata, {n}_tlast}};"


def _instance(stage: Stage, core: str) -> Iterator[str]:
    yield ""
    yield f"  // layer {stage.layer!a}"
    kind = stage_type(stage)
    if kind.text:
        yield from kind.text(stage)
        return
    yield f"  {stage.module} #("
    yield f"      {', '.join(_parameters(stage, core))}"
    yield f"  ) u_{stage.name} ("
    yield "      .clk(clk), .rst_n(rst_n),"
    prefixes = ("s_axis",) if len(stage.inputs) == 1 else ("s_axis_a", "s_axis_b")
    ports = [*zip(prefixes, stage.inputs, strict=True), ("m_axis", stage.outputs[0])]
    lines = [
        ", ".join(f".{prefix}_{signal}({stream.name}_{signal})" for signal in ("tvalid", "tready", "tdata", "tlast"))
        for prefix, stream in ports
    ]
    sides = ([("s_axis_w", "w")] if stage.feed else []) + ([("s_load", "load"), ("m_load", "next")] if stage.loaded else [])
    for port, wires in sides:
        lines.append(", ".join(f".{port}_{wire}({stage.name}_{wires}_{wire})" for wire in ("tvalid", "tready", "tdata")))
    yield ",\n".join(f"      {line}" for line in lines)
    yield "  );"


def _parameters(stage: Stage, core: str) -> Iterator[str]:
    """Yield the parameters as wide as the module declares them, so that no tool extends or truncates a number."""
    long = stage_type(stage).long
    for key, value in stage.parameters.items():
        yield f".{key}({_long(value) if key in long else _literal(key, value, core)})"


def _long(value: Value) -> str:
    return f"-64'sd{-int(value)}" if int(value) < 0 else f"64'd{value}"


def _literal(key: str, value: Value, core: str) -> str:
    if isinstance(value, str):
        return f'"{_file(core, value)}"' if value else '""'
    return constant(key, value)


def figures(pipeline: Pipeline, timed: Clocks) -> dict[str, Any]:
    """Return plain values for the project's report. Clocks are predictions; DSPs, block RAM and UltraRAM are estimates."""
    stages = [_stage(stage, timed) for stage in pipeline.stages]
    slowest = max(pipeline.stages, key=lambda stage: (stage.timing.ii, stage.multipliers), default=None)
    return {
        "kind": "rf",
        "ii": timed.ii,
        "latency_cycles": timed.latency,
        "multipliers": sum(stage.multipliers for stage in pipeline.stages),
        "multiplications": sum(stage.multiplications for stage in pipeline.stages),
        "memory_bits": sum(stage["memory_bits"] for stage in stages),
        "buffer_bits": sum(stage.ram_bits for stage in pipeline.stages),
        **{name: sum(stage[name] for stage in stages) for name in ("dsp48e2", "ramb36", "uram288", "dram_beats")},
        "swap_clocks": swap_clocks(pipeline),
        "fixed_layers": _fixed_layers(pipeline),
        "bottleneck": slowest.layer if slowest else "",
        "stages": stages,
        **({"hardware": [_hardware(stage) for stage in pipeline.stages]} if weight_streams(pipeline) else {}),
        "notes": list(pipeline.notes),
    }


def _hardware(stage: Stage) -> dict[str, Any]:
    """A stage without its name: module, parameters and a hash of its constants, to say in which layer two kernels differ."""
    files = {memory.file for memory in stage.memories}
    constants = sha256("".join(memory.text() for memory in stage.memories).encode()).hexdigest()[:16]
    parameters = {name: str(value) for name, value in stage.parameters.items() if value not in files}
    return {"layer": stage.layer, "module": stage.module, **parameters, **({"constants": constants} if files else {})}


def _fixed_layers(pipeline: Pipeline) -> list[str]:
    """Return the layers whose constants are part of the hardware, tables aside, if the core reads others at run time."""
    if not any(stage.feed for stage in pipeline.stages):
        return []
    return list(dict.fromkeys(stage.layer for stage in pipeline.stages if stage.module in _TRAINED and stage.memories))


def _stage(stage: Stage, timed: Clocks) -> dict[str, Any]:
    loaded = [stage.loaded] if stage.loaded else []
    return {
        "name": stage.name,
        "module": stage.module,
        "layer": stage.layer,
        "ii": stage.timing.ii,
        "first_out": int(timed.arrivals[stage.outputs[0].name][0]),
        "last_out": int(timed.arrivals[stage.outputs[0].name][-1]),
        "lanes": [stage.inputs[0].lanes, stage.outputs[0].lanes],
        "multipliers": stage.multipliers,
        "busy": round(busy(stage, timed.ii), 4),
        "busy_at_work": round(busy(stage, stage.timing.ii), 4),
        "memory_bits": sum(memory.bits for memory in (*stage.memories, *([stage.feed.words] if stage.feed else []), *loaded)),
        "buffer_bits": stage.ram_bits,
        **({"die": stage.die} if stage.die else {}),
        "ramb36": sum(
            block_rams(len(memory.words), memory.width) for memory in (*stage.memories, *loaded, *_loaded_words(stage))
        ),
        "uram288": _loaded_rams(stage),
        "dram_beats": row_beats(stage),
        "dsp48e2": round(stage_cost(stage).dsp),
    }


def _loaded_rams(stage: Stage) -> int:
    feed = stage.feed
    return ultra_rams(len(feed.words.words), feed.words.width) if feed and not feed.repeats and feed.ultra else 0


def _loaded_words(stage: Stage) -> list[Memory]:
    return [stage.feed.words] if stage.feed and not stage.feed.repeats and not stage.feed.ultra else []
