# SPDX-License-Identifier: Apache-2.0
"""The `hls` core: the Verilog that Vitis HLS generates from an HLS project, wrapped in the two streams that every core has.

::

    project --vitis-run--> Verilog, report --> <name>_hls.v and the rest, <name>_core.sv around them --> Core

For the io_parallel top of hls4ml, Vitis HLS generates a block with the protocol ap_ctrl_hs. Each input tensor has one wide port
with ap_vld; each output tensor has one port with ap_vld for each element. This was checked against published Verilog of hls4ml
projects with one input and one output tensor. The tool itself has not been run for this project.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from hypersonic.firmware.kernel.files import rtl_sources
from hypersonic.firmware.platform import Platform
from hypersonic.firmware.toolchains.errors import MissingVendorError, StepError
from hypersonic.firmware.toolchains.steps import Product, Progress, Step, locked, run_steps, write_whole
from hypersonic.firmware.toolchains.vitis.reports import read_text
from hypersonic.firmware.toolchains.vitis.tools import Tools
from hypersonic.hls.cache import content_hash
from hypersonic.hls.core import AXIS_RTL, Core, core_signals, module_header
from hypersonic.hls.core_kind import CoreKind
from hypersonic.hls.project import HlsProject

#: the options of hls4ml's build_prj.tcl
_BUILD_OPTIONS = {"reset": 1, "csim": 0, "synth": 1, "cosim": 0, "validation": 0, "export": 0, "vsynth": 0, "fifo_opt": 0}

#: the ports of the block-level protocol; all other ports are data
_CONTROL = {"ap_clk", "ap_rst", "ap_start", "ap_done", "ap_idle", "ap_ready"}

#: clocks that axis_skid and axis_fifo add
_STREAM_CYCLES = 3
_MAX_DEPTH = 4096
_MAX_ROM_WORDS = 1 << 16


@dataclass(frozen=True)
class HlsPorts:
    """The data ports of the block, as (name, bits): one input for each tensor, one output for each element of each tensor."""

    inputs: tuple[tuple[str, int], ...]
    outputs: tuple[tuple[str, int], ...]


def synthesise_hls_core(
    project: HlsProject, platform: Platform, tools: Tools, directory: Path, progress: Progress = lambda _: None
) -> Core:
    """Run Vitis HLS below `directory` unless its results are there, and wrap the generated block as a core.

    Raises MissingVendorError when `tools` has no vitis-run, StepError when the tool fails or its output does not fit the model.
    """
    if tools.hls is None:
        raise MissingVendorError("core hls needs vitis-run: find the tools with hls=True")
    key = content_hash([project.hls, platform.part, str(platform.kernel_clock_mhz), tools.release])
    build = directory / f"{project.name}-hls-{key[:12]}"
    with locked(build):
        run_steps([hls_step(project, platform, tools, build)], build, progress)
        return wrap(project, build / _verilog(project.name), build / "csynth.xml", build / "core")


def _verilog(name: str) -> str:
    return f"{name}_prj/solution1/syn/verilog"


def hls_step(project: HlsProject, platform: Platform, tools: Tools, build: Path) -> Step:
    """Copy the HLS project into `build`, set this platform's part and clock, and return the step that runs Vitis HLS on it."""
    shutil.copytree(project.hls, build, dirs_exist_ok=True)
    options = "".join(f"    {name:<10} {value}\n" for name, value in _BUILD_OPTIONS.items())
    write_whole(build / "build_opt.tcl", f"array set opt {{\n{options}}}\n")
    settings = (build / "project.tcl").read_text()
    for name, value in (("part", f'"{platform.part}"'), ("clock_period", f"{1000 / platform.kernel_clock_mhz:.3f}")):
        settings = re.sub(rf"(?m)^set {name} .*$", f"set {name} {value}", settings)
    write_whole(build / "project.tcl", settings)
    sources = sorted(str(file.relative_to(build)) for file in (build / "firmware").rglob("*") if file.is_file())
    report = f"{project.name}_prj/solution1/syn/report/{project.name}_csynth.xml"
    return Step(
        "hls", f"Vitis HLS: synthesis of {project.name}", (str(tools.hls), "--mode", "hls", "--tcl", "build_prj.tcl"),
        ("build_prj.tcl", "build_opt.tcl", "project.tcl", *sources), (Product(report, "csynth.xml"),), (tools.release,),
        leaves=_verilog(project.name),
    )  # fmt: skip


def wrap(project: HlsProject, verilog: Path, report: Path, directory: Path) -> Core:
    """Wrap the generated block as a core in `directory`, whose contents are replaced.

    Args:
        verilog: the directory with the block's Verilog.
        report: csynth.xml.

    Raises:
        StepError: When ports or report do not fit the model.
    """
    name = project.name
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    block = directory / f"{name}_hls.v"  # renamed, because the kernel's top module has the model's name
    ports = read_ports(verilog / f"{name}.v")
    _check_ports(project, ports, verilog)
    copied = [_copy(file, block if file.name == f"{name}.v" else directory / file.name, name) for file in _modules(verilog)]
    ii, latency = read_performance(report)
    depth = min(_MAX_DEPTH, 1 << max(1, (latency // ii + 4).bit_length()))
    top = directory / f"{name}_core.sv"
    top.write_text(core_text(name, ports, depth))
    sources = (AXIS_RTL / "axis_skid.sv", *rtl_sources("axis_ap_ctrl"), *copied, top)
    unique = tuple(dict.fromkeys(source.resolve() for source in sources))
    return Core(name, CoreKind.HLS, top.stem, unique, project.inputs, project.outputs, ii, latency + _STREAM_CYCLES)


def _modules(verilog: Path) -> list[Path]:
    return sorted(verilog.glob("*.v"))


def _copy(file: Path, target: Path, name: str) -> Path:
    """Copy a file with the block renamed and the contents of its ROMs written into it, so that no tool has to find their files.

    `timescale is removed: the project's own modules have none, and the block contains no delays.
    """
    text = re.sub(rf"(?m)^(\s*module\s+){name}(\s*[(#])", rf"\1{name}_hls\2", read_text(file))
    text = re.sub(r"(?m)^\s*`timescale .*$", "", text)
    target.write_text(re.sub(r'\$readmemh\s*\(\s*"([^"]+)"\s*,\s*(\w+)[^)]*\)\s*;', lambda match: _words(file, match), text))
    return target


def _words(file: Path, match: re.Match[str]) -> str:
    words = read_text(file.parent / Path(match[1]).name).split()
    if not words or len(words) > _MAX_ROM_WORDS or not all(re.fullmatch(r"[0-9a-fA-F]{1,64}", word) for word in words):
        raise StepError(
            f"{file.parent / Path(match[1]).name}: {len(words)} words, expected 1 to {_MAX_ROM_WORDS} of hexadecimal"
        )
    return " ".join(["begin", *(f"{match[2]}[{index}] = 'h{word};" for index, word in enumerate(words)), "end"])


def read_ports(top: Path) -> HlsPorts:
    """The data ports of the block's Verilog. Raises StepError when they are not those of an io_parallel block."""
    declared = re.findall(r"(?m)^\s*(input|output)\s+(?:wire\s+|reg\s+)?(?:\[(\d{1,6}):0\]\s*)?(\w+)\s*;", read_text(top))
    bits = {name: int(high or 0) + 1 for _, high, name in declared}
    data = [(way, name) for way, _, name in declared if name not in _CONTROL and not name.endswith("_ap_vld")]
    inputs = [name for way, name in data if way == "input"]
    outputs = _by_element([name for way, name in data if way == "output"])
    missing = sorted(_CONTROL - bits.keys()) + [f"{name}_ap_vld" for _, name in data if f"{name}_ap_vld" not in bits]
    if not inputs or not outputs or missing:
        raise StepError(
            f"{top}: inputs {_brief(inputs)}, outputs {_brief(outputs)}, without {_brief(missing) or 'nothing'}; expected "
            "inputs and outputs with ap_vld, as hls4ml generates for io_parallel: set io_type to io_parallel"
        )
    return HlsPorts(tuple((name, bits[name]) for name in inputs), tuple((name, bits[name]) for name in outputs))


def _by_element(names: list[str]) -> list[str]:
    """The names with tensors in the order of their declaration and the elements of each sorted by number, so that layer2_out_10
    follows layer2_out_9."""
    tensors: dict[str, list[tuple[int, str]]] = {}
    for name in names:
        tensor, _, number = name.rpartition("_")
        element = (tensor, int(number)) if number.isdecimal() else (name, 0)
        tensors.setdefault(element[0], []).append((element[1], name))
    return [name for elements in tensors.values() for _, name in sorted(elements)]


def _brief(names: Iterable[str]) -> str:
    return ", ".join(names)[:200]


def _check_ports(project: HlsProject, ports: HlsPorts, verilog: Path) -> None:
    x, y = project.inputs.tensors, project.outputs.tensors
    wanted = [t.size * t.fixed.width for t in x], [t.fixed.width for t in y for _ in range(t.size)]
    there = [bits for _, bits in ports.inputs], [bits for _, bits in ports.outputs]
    if wanted != there:
        raise StepError(
            f"{verilog}: the block has inputs of {_brief(map(str, there[0]))} bits and outputs of {_brief(map(str, there[1]))} "
            f"bits, the model {_brief(map(str, wanted[0]))} and {_brief(map(str, wanted[1]))}; build the model again"
        )


def read_performance(report: Path) -> tuple[int, int]:
    """(interval, latency) in clocks, from a csynth.xml. Raises StepError when the report has none, as for loops without a fixed
    bound."""
    text = read_text(report)
    matches = [re.search(rf"<{name}>\s*(\d{{1,9}})\s*</{name}>", text) for name in ("Interval-max", "Worst-caseLatency")]
    if matches[0] is None or matches[1] is None:
        raise StepError(f"{report} names no Interval-max and Worst-caseLatency: the model's interval is not a fixed number")
    return max(1, int(matches[0][1])), max(1, int(matches[1][1]))


def core_text(name: str, ports: HlsPorts, depth: int) -> str:
    """The text of the module <name>_core, the block between two streams.

    Args:
        depth: rows in its output FIFO.
    """
    count, lane = len(ports.outputs), max(bits for _, bits in ports.outputs)  # axis_ap_ctrl has lanes of one width
    x_bits, y_bits = (sum(bits for _, bits in side) for side in (ports.inputs, ports.outputs))
    starts = accumulate((bits for _, bits in ports.inputs[:-1]), initial=0)
    inputs = "".join(
        f",\n      .{port}(row_tdata[{start}+:{bits}]),\n      .{port}_ap_vld(ap_start)"
        for (port, bits), start in zip(ports.inputs, starts, strict=True)
    )
    outputs = "".join(
        f",\n      .{port}(result_tdata[{index * lane}+:{bits}]),\n      .{port}_ap_vld(result_tvalid[{index}])"
        for index, (port, bits) in enumerate(ports.outputs)
    )
    results = ", ".join(f"lane_tdata[{index * lane}+:{bits}]" for index, (_, bits) in reversed([*enumerate(ports.outputs)]))
    above = [(index * lane + bits, lane - bits) for index, (_, bits) in enumerate(ports.outputs) if bits < lane]
    padding = "".join(
        f"  assign result_tdata[{start}+:{bits}] = '0;\n  wire [{bits - 1}:0] unused_{start} = lane_tdata[{start}+:{bits}];\n"
        for start, bits in above
    )
    return f"""// SPDX-License-Identifier: Apache-2.0
//
// {name}_core: module {name}_hls, written by Vitis HLS, as a stream. Written by hypersonic, do not edit.
`default_nettype none

{module_header(f"{name}_core", core_signals(x_bits, y_bits))}
  logic row_tvalid, row_tready, row_tlast;
  logic [{x_bits - 1}:0] row_tdata;
  logic ap_start, ap_ready, unused_done, unused_idle;
  logic [{count - 1}:0] result_tvalid;
  logic [{count * lane - 1}:0] result_tdata, lane_tdata;

  axis_skid #(
      .WIDTH({x_bits + 1})
  ) u_axis_skid (
      .clk(clk),
      .rst_n(rst_n),
      .s_axis_tvalid(s_axis_x_tvalid),
      .s_axis_tready(s_axis_x_tready),
      .s_axis_tdata({{s_axis_x_tlast, s_axis_x_tdata}}),
      .m_axis_tvalid(row_tvalid),
      .m_axis_tready(row_tready),
      .m_axis_tdata({{row_tlast, row_tdata}})
  );

  {name}_hls u_{name}_hls (
      .ap_clk(clk),
      .ap_rst(!rst_n),
      .ap_start(ap_start),
      .ap_done(unused_done),
      .ap_idle(unused_idle),
      .ap_ready(ap_ready){inputs}{outputs}
  );
{padding}  assign m_axis_y_tdata = {{{results}}};

  axis_ap_ctrl #(
      .WIDTH({lane}),
      .OUTPUTS({count}),
      .DEPTH({depth})
  ) u_axis_ap_ctrl (
      .clk(clk),
      .rst_n(rst_n),
      .s_axis_tvalid(row_tvalid),
      .s_axis_tready(row_tready),
      .s_axis_tlast(row_tlast),
      .ap_start(ap_start),
      .ap_ready(ap_ready),
      .result_tvalid(result_tvalid),
      .result_tdata(result_tdata),
      .m_axis_tvalid(m_axis_y_tvalid),
      .m_axis_tready(m_axis_y_tready),
      .m_axis_tdata(lane_tdata),
      .m_axis_tlast(m_axis_y_tlast)
  );
endmodule

`default_nettype wire
"""
