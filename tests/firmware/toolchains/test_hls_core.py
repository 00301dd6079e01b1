# SPDX-License-Identifier: Apache-2.0
"""The hls core, wrapped and run: Verilog in the form Vitis HLS writes for io_parallel stands for the tool's own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hypersonic.firmware.kernel.write import write_kernel
from hypersonic.firmware.toolchains.errors import MissingVendorError, StepError
from hypersonic.firmware.toolchains.vitis.hls_core import read_performance, read_ports, synthesise_hls_core, wrap
from hypersonic.firmware.toolchains.vitis.package_xo import package_steps
from hypersonic.firmware.toolchains.vitis.tools import Tools, find_tools
from hypersonic.hls import verilator
from hypersonic.hls.core import Core
from hypersonic.hls.fixed import FixedPoint
from hypersonic.hls.project import HlsProject
from hypersonic.hls.row import Row
from hypersonic.hls.rtl.simulate import RtlCore, Stalls
from hypersonic.hls.spec import TensorSpec
from tests.firmware.toolchains.conftest import U250, Vendor

X = TensorSpec("x", (2,), FixedPoint(8, 4))
Y = TensorSpec("y", (2,), FixedPoint(12, 6))

#: y0 = x0 + table[x1 & 3] two clocks after its row, y1 = x0 - x1 three clocks after; one row a clock
BLOCK = """\
`timescale 1 ns / 1 ps
(* CORE_GENERATION_INFO="net_net,hls_ip_2024_2,{HLS_INPUT_TYPE=cxx}" *)
module net (
        ap_clk,
        ap_rst,
        ap_start,
        ap_done,
        ap_idle,
        ap_ready,
        x_in,
        x_in_ap_vld,
        layer2_out_0,
        layer2_out_0_ap_vld,
        layer2_out_1,
        layer2_out_1_ap_vld
);
input   ap_clk;
input   ap_rst;
input   ap_start;
output   ap_done;
output   ap_idle;
output   ap_ready;
input  [15:0] x_in;
input   x_in_ap_vld;
output  [11:0] layer2_out_0;
output   layer2_out_0_ap_vld;
output  [11:0] layer2_out_1;
output   layer2_out_1_ap_vld;

wire ap_block = (ap_start == 1'b1) & (x_in_ap_vld == 1'b0);
reg [2:0] ap_enable_reg;
reg [11:0] sum_1, sum_2, difference_1, difference_2, difference_3;
wire [11:0] table_q;

net_table_ROM table_U (.address0(x_in[9:8]), .q0(table_q));

assign ap_ready = ap_start & ~ap_block;
assign ap_idle = ~ap_start & (ap_enable_reg == 3'b0);
assign ap_done = ap_enable_reg[2] & ~ap_block;
assign layer2_out_0 = sum_2;
assign layer2_out_0_ap_vld = ap_enable_reg[1] & ~ap_block;
assign layer2_out_1 = difference_3;
assign layer2_out_1_ap_vld = ap_enable_reg[2] & ~ap_block;

always @(posedge ap_clk) begin
  if (ap_rst) ap_enable_reg <= 3'b0;
  else if (~ap_block) ap_enable_reg <= {ap_enable_reg[1:0], ap_start};
  if (~ap_block) begin
    sum_1 <= {{4{x_in[7]}}, x_in[7:0]} + table_q;
    sum_2 <= sum_1;
    difference_1 <= {{4{x_in[7]}}, x_in[7:0]} - {{4{x_in[15]}}, x_in[15:8]};
    difference_2 <= difference_1;
    difference_3 <= difference_2;
  end
end
endmodule
"""
TABLE = """\
module net_table_ROM (address0, q0);
input [1:0] address0;
output [11:0] q0;
reg [11:0] ram [0:3];
initial begin
    $readmemh("./net_table_ROM.dat", ram);
end
assign q0 = ram[address0];
endmodule
"""
REPORT = """\
<profile><PerformanceEstimates><SummaryOfOverallLatency>
<Best-caseLatency>3</Best-caseLatency><Worst-caseLatency>3</Worst-caseLatency>
<Interval-min>1</Interval-min><Interval-max>1</Interval-max>
</SummaryOfOverallLatency></PerformanceEstimates></profile>
"""


def _write_solution(place: Path, block: str = BLOCK, report: str = REPORT) -> Path:
    """The files that Vitis HLS leaves below the project's directory."""
    synthesis = place / "net_prj" / "solution1" / "syn"
    (synthesis / "verilog").mkdir(parents=True)
    (synthesis / "report").mkdir()
    (synthesis / "verilog" / "net.v").write_text(block)
    (synthesis / "verilog" / "net_table_ROM.v").write_text(TABLE)
    (synthesis / "verilog" / "net_table_ROM.dat").write_text("000\n001\nfff\n123\n")
    (synthesis / "report" / "net_csynth.xml").write_text(report)
    return synthesis


@pytest.fixture
def project(tmp_path: Path) -> HlsProject:
    place = tmp_path / "project"
    (place / "hls" / "firmware").mkdir(parents=True)
    (place / "hls" / "firmware" / "net.cpp").write_text("void net() {}\n")
    (place / "hls" / "build_prj.tcl").write_text("source build_opt.tcl\n")
    (place / "hls" / "project.tcl").write_text('set project_name "net"\nset part "xcvu13p"\nset clock_period 5\n')
    return HlsProject(place, "net", Row((X,)), Row((Y,)), "xcvu13p", {})


def _wrap(project: HlsProject, tmp_path: Path, block: str = BLOCK, report: str = REPORT) -> Core:
    synthesis = _write_solution(tmp_path / "solution", block, report)
    return wrap(project, synthesis / "verilog", synthesis / "report" / "net_csynth.xml", tmp_path / "core")


def _expected(x: np.ndarray) -> np.ndarray:
    table = np.array([0, 1, -1, 0x123])
    y = np.stack([x[:, 0] + table[x[:, 1] & 3], x[:, 0] - x[:, 1]], axis=1)
    return (y + 2048) % 4096 - 2048


def test_the_wrapped_block_gives_its_results_under_any_stalls(project: HlsProject, tmp_path: Path) -> None:
    core = _wrap(project, tmp_path)
    assert (core.kind, core.ii, core.latency_cycles, core.top) == ("hls", 1, 6, "net_core")
    rows = np.random.default_rng(1).integers(-128, 128, (3000, 2))
    with RtlCore(core, optimisation="-O0") as rtl:
        for stalls in (Stalls(), Stalls(stall_in=100), Stalls(stall_out=128, seed=2), Stalls(60, 60, 3)):
            assert np.array_equal(rtl.predict_raw(rows, stalls), _expected(rows))
        rtl.predict_raw(rows)
        assert rtl.clocks <= len(rows) + core.latency_cycles + 4  # one row a clock
        rtl.predict_raw(rows, clock_limit=50)
        rtl.reset()  # with rows inside: none of them comes out of the next run
        assert np.array_equal(rtl.predict_raw(rows), _expected(rows))


#: inputs a (2 x 8 bits) and b (6 bits), outputs layer4_out (2 x 12 bits: a + b) and layer3_out (7 bits: -b), a clock later
SEVERAL = """\
module net (ap_clk, ap_rst, ap_start, ap_done, ap_idle, ap_ready, a, a_ap_vld, b, b_ap_vld,
  layer4_out_0, layer4_out_0_ap_vld, layer4_out_1, layer4_out_1_ap_vld, layer3_out, layer3_out_ap_vld);
input   ap_clk;
input   ap_rst;
input   ap_start;
output   ap_done;
output   ap_idle;
output   ap_ready;
input  [15:0] a;
input   a_ap_vld;
input  [5:0] b;
input   b_ap_vld;
output  [11:0] layer4_out_0;
output   layer4_out_0_ap_vld;
output  [11:0] layer4_out_1;
output   layer4_out_1_ap_vld;
output  [6:0] layer3_out;
output   layer3_out_ap_vld;
reg valid;
reg [11:0] sum_0, sum_1;
reg [6:0] minus;
wire take = ap_start & a_ap_vld & b_ap_vld;
assign {ap_ready, ap_idle, ap_done} = {take, ~ap_start, valid};
assign {layer4_out_0_ap_vld, layer4_out_1_ap_vld, layer3_out_ap_vld} = {3{valid}};
assign {layer4_out_0, layer4_out_1, layer3_out} = {sum_0, sum_1, minus};
always @(posedge ap_clk) begin
  valid <= take & ~ap_rst;
  sum_0 <= {{4{a[7]}}, a[7:0]} + {{6{b[5]}}, b};
  sum_1 <= {{4{a[15]}}, a[15:8]} + {{6{b[5]}}, b};
  minus <= -{b[5], b};
end
endmodule
"""


def test_a_block_with_several_tensors_is_wrapped_in_their_order(project: HlsProject, tmp_path: Path) -> None:
    inputs = Row((TensorSpec("a", (2,), FixedPoint(8, 4)), TensorSpec("b", (1,), FixedPoint(6, 3))))
    outputs = Row((TensorSpec("sum", (2,), FixedPoint(12, 6)), TensorSpec("minus", (1,), FixedPoint(7, 4))))
    core = _wrap(replace(project, inputs=inputs, outputs=outputs), tmp_path, SEVERAL, REPORT.replace(">3<", ">1<"))
    draw = np.random.default_rng(2)
    rows = np.concatenate([draw.integers(-128, 128, (500, 2)), draw.integers(-32, 32, (500, 1))], axis=1)
    expected = np.concatenate([rows[:, :2] + rows[:, 2:], -rows[:, 2:]], axis=1)
    with RtlCore(core, optimisation="-O0") as rtl:
        for stalls in (Stalls(), Stalls(60, 60, 3)):
            assert np.array_equal(rtl.predict_raw(rows, stalls), expected)
    kernel = write_kernel(core, tmp_path / "kernel")
    verilator.lint([*kernel.lint_waivers, *kernel.sources], kernel.top)


def test_a_kernel_around_it_lints_and_packages_with_names_of_its_own(project: HlsProject, tools: Tools, tmp_path: Path) -> None:
    kernel = write_kernel(_wrap(project, tmp_path), tmp_path / "kernel")
    verilator.lint([*kernel.lint_waivers, *kernel.sources], kernel.top)
    names = [source.name for source in kernel.sources]
    assert len(set(names)) == len(names)
    assert {"net.v", "net_hls.v", "net_table_ROM.v", "net_core.sv"} <= set(names)
    assert len(package_steps(tools, U250, kernel, tmp_path)) == 2


def test_vitis_hls_is_called_for_this_part_and_clock_and_once(vendor: Vendor, project: HlsProject, tmp_path: Path) -> None:
    _write_solution(vendor.place / "solution")
    tools = find_tools(U250, environment=vendor.environment, hls=True)
    for _ in range(2):
        core = synthesise_hls_core(project, U250, tools, tmp_path / "builds")
    assert vendor.calls() == [["vitis-run", "--mode", "hls", "--tcl", "build_prj.tcl"]]
    build = core.sources[-1].parents[1]
    assert (build / "project.tcl").read_text() == (f'set project_name "net"\nset part "{U250.part}"\nset clock_period 3.333\n')
    assert "    csim       0\n    synth      1\n" in (build / "build_opt.tcl").read_text()
    assert (project.hls / "project.tcl").read_text().endswith("set clock_period 5\n")


def test_vitis_hls_that_was_not_looked_for_is_missing(project: HlsProject, tools: Tools, tmp_path: Path) -> None:
    with pytest.raises(MissingVendorError, match="core hls needs vitis-run"):
        synthesise_hls_core(project, U250, tools, tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "x_in_ap_vld;",
            "x_in_TVALID;",
            "without x_in_ap_vld, x_in_TVALID_ap_vld; expected inputs and outputs with ap_vld",
        ),
        ("output   layer2_out_1_ap_vld;", "", "without layer2_out_1_ap_vld"),
        ("output  [11:0] layer2_out_1;", "output  [12:0] layer2_out_1;", "outputs of 12, 13 bits, the model 16 and 12, 12"),
        ("output   ap_ready;", "", "without ap_ready"),
        (
            "input  [15:0] x_in;",
            "input  [23:0] x_in;",
            "the block has inputs of 24 bits and outputs of 12, 12 bits, the model 16 and 12, 12; build the model again",
        ),
    ],
)
def test_a_block_that_is_not_as_expected_is_refused(
    project: HlsProject, tmp_path: Path, old: str, new: str, message: str
) -> None:
    assert old in BLOCK
    with pytest.raises(StepError, match=message):
        _wrap(project, tmp_path, BLOCK.replace(old, new))


def test_outputs_are_ordered_by_element_not_by_name(tmp_path: Path) -> None:
    ports = "".join(f"output [7:0] layer9_out_{n};\noutput layer9_out_{n}_ap_vld;\n" for n in (10, 2, 0, 1))
    control = "".join(f"input {name};\n" for name in ("ap_clk", "ap_rst", "ap_start", "ap_done", "ap_idle", "ap_ready"))
    (tmp_path / "net.v").write_text(f"{control}input [31:0] x;\ninput x_ap_vld;\n{ports}")
    assert read_ports(tmp_path / "net.v").outputs == tuple((f"layer9_out_{n}", 8) for n in (0, 1, 2, 10))


def test_a_single_output_may_have_no_number(tmp_path: Path) -> None:
    control = "".join(f"input {name};\n" for name in ("ap_clk", "ap_rst", "ap_start", "ap_done", "ap_idle", "ap_ready"))
    (tmp_path / "net.v").write_text(
        f"{control}input x;\ninput x_ap_vld;\noutput [31:0] layer13_out;\noutput layer13_out_ap_vld;\n"
    )
    ports = read_ports(tmp_path / "net.v")
    assert (ports.inputs, ports.outputs) == ((("x", 1),), (("layer13_out", 32),))


def test_a_rom_without_its_words_is_refused(project: HlsProject, tmp_path: Path) -> None:
    synthesis = _write_solution(tmp_path / "solution")
    (synthesis / "verilog" / "net_table_ROM.dat").write_text("000\n); $finish; //\n")
    with pytest.raises(StepError, match=r"net_table_ROM\.dat: 4 words, expected 1 to 65536 of hexadecimal"):
        wrap(project, synthesis / "verilog", synthesis / "report" / "net_csynth.xml", tmp_path / "core")


def test_an_interval_that_is_no_number_is_refused(project: HlsProject, tmp_path: Path) -> None:
    with pytest.raises(StepError, match="names no Interval-max and Worst-caseLatency"):
        _wrap(project, tmp_path, report=REPORT.replace("<Interval-max>1<", "<Interval-max>undef<"))
    (tmp_path / "csynth.xml").write_text(REPORT)
    assert read_performance(tmp_path / "csynth.xml") == (1, 3)
