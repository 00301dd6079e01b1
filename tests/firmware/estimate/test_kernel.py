# SPDX-License-Identifier: Apache-2.0
"""The cells that Yosys counts, the report made from them, and the stored report of FACILE."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest

from hypersonic.firmware.estimate import yosys
from hypersonic.firmware.estimate.__main__ import main
from hypersonic.firmware.estimate.cells import Cell, parse_blif
from hypersonic.firmware.estimate.kernel import (
    MAPPED_LUTS,
    GrowthError,
    ResourceReport,
    check_growth,
    estimate,
    estimate_shell,
    sources_key,
)
from hypersonic.firmware.estimate.logic_path import LogicPath, longest_paths, plain_name
from hypersonic.firmware.estimate.module_tree import Module, module_of
from hypersonic.firmware.estimate.report import check_known, make_estimates, report_build
from hypersonic.firmware.estimate.yosys import SynthesisError, ports, synthesise
from hypersonic.firmware.kernel.files import Kernel
from hypersonic.firmware.kernel.slices import SLICES
from hypersonic.firmware.kernel.write import write_kernel
from hypersonic.firmware.platform import find_platform
from hypersonic.firmware.pyosys import tool_version, yosys_argv
from hypersonic.hls.build import build_project
from hypersonic.hls.core import Core, Logic
from hypersonic.hls.core_kind import CoreKind
from hypersonic.hls.errors import ToolError
from hypersonic.hls.resources import Amounts
from hypersonic.hls.zoo import facile
from hypersonic.sim.bench_core import bench_rows, write_bench_core

U250 = find_platform("u250")
ZOO = Path(facile.__file__).parent

MAC = """\
module square #(parameter int WIDTH = 4) (input wire [WIDTH-1:0] a, output wire [2*WIDTH-1:0] y);
  assign y = a * a;
endmodule
module mac (input wire clk, input wire [15:0] a, b, input wire [7:0] s, output logic [31:0] p, output logic [7:0] q);
  logic [31:0] product;
  wire [7:0] t, u;
  always_ff @(posedge clk) begin
    product <= a * b;
    p <= product;
    q <= s + t + u;
    assert (p == p);
  end
  square u_low (.a(s[3:0]), .y(t));
  square u_high (.a(s[7:4]), .y(u));
endmodule
"""


@pytest.fixture(scope="module")
def mac(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rtl") / "mac.sv"
    path.write_text(MAC)
    return path


@pytest.mark.whole
def test_a_multiplier_becomes_a_dsp_and_modules_stay_apart(mac: Path) -> None:
    synthesis = synthesise("mac", [mac])
    assert synthesis.cells["mac"]["DSP48E2"] == 1
    assert synthesis.cells["mac"]["FDRE"] >= 8
    assert synthesis.cells["mac"]["square"] == 2
    assert synthesis.cpu_seconds > 0
    assert ".subckt DSP48E2" in synthesis.netlist()
    assert synthesise("mac", [mac]).directory == synthesis.directory


@pytest.mark.whole
def test_a_module_given_as_ports_alone_counts_elsewhere(mac: Path, tmp_path: Path) -> None:
    around = tmp_path / "around.sv"
    around.write_text(
        "module around (input wire [3:0] a, output wire [7:0] y);\n  square u_square (.a(a), .y(y));\nendmodule\n"
    )
    synthesis = synthesise("around", [around], [ports("square", [mac])])
    assert synthesis.cells["around"] == {"square": 1}
    assert "square" not in synthesis.cells


@pytest.mark.whole
def test_a_core_is_counted_and_timed_inside_its_shell(mac: Path, tmp_path: Path) -> None:
    row = write_bench_core(*bench_rows(1, 1), tmp_path / "bench").inputs
    core = Core("mac", CoreKind.DA, "mac", (mac,), row, row, 1, 2)
    shell = tmp_path / "around.sv"
    shell.write_text(
        "module around (input wire clk, input wire [31:0] x, output logic [39:0] y);\n  wire [39:0] inner;\n"
        "  always_ff @(posedge clk) y <= inner;\n"
        "  mac u_mac (.clk(clk), .a(x[15:0]), .b(x[31:16]), .s(x[7:0]), .p(inner[31:0]), .q(inner[39:32]));\nendmodule\n"
    )
    report = estimate(Kernel("around", "around", (mac, shell), (), core))
    assert {path: module.count for path, module in report.top.walk()} == {
        "around": 1, "around/mac": 1, "around/mac/square": 2,
    }  # fmt: skip
    assert (report.top.own.ff, report.top.total.dsp) == (40, 1)
    assert any(path.end.startswith("mac.") for path in report.paths)


@pytest.mark.whole
def test_a_core_too_large_for_yosys_counts_as_its_adders_say_and_is_not_read(tmp_path: Path) -> None:
    row = write_bench_core(*bench_rows(1, 1), tmp_path / "bench").inputs
    unread = tmp_path / "huge.sv"
    unread.write_text("this is no SystemVerilog")
    core = Core("huge", CoreKind.DA, "huge", (unread,), row, row, 1, 2, logic=Logic(MAPPED_LUTS + 1, 77))
    ports = ", ".join(f".{name}({name})" for name in ("clk", "rst_n"))
    shell = tmp_path / "around.sv"
    shell.write_text(
        f"module around (input wire clk, rst_n, output logic q, s);\n  wire y;\n"
        f"  always_ff @(posedge clk) begin q <= s ^ y; s <= q; end\n  huge u_huge ({ports}, .m_axis_y_tvalid(y));\nendmodule\n"
    )
    report = estimate(Kernel("around", "around", (unread, shell), (), core))
    inside = dict(report.top.walk())["around/huge"]
    assert inside.total == Amounts(lut=MAPPED_LUTS + 1, ff=77)
    assert "huge is too large for Yosys (over 150,000 LUTs)" in report.lines(U250)[3]
    assert report.paths, "those of the shell are still there"
    assert not any("huge" in path.end for path in report.paths)


@pytest.mark.parametrize(
    ("signal_name", "words"),
    [("SIGKILL", "Yosys was killed by the system, which had no memory left"), ("SIGXCPU", "Yosys was ended after 3600 s")],
)
def test_a_signal_that_ends_yosys_is_an_error_that_names_it(
    signal_name: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = f"import os, signal; os.kill(os.getpid(), signal.{signal_name})"
    monkeypatch.setattr(yosys, "yosys_argv", lambda _: [sys.executable, "-c", program])
    with pytest.raises(ToolError, match=words):
        yosys.run("script.ys", tmp_path)


def test_yosys_ends_when_it_has_used_its_processor_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "top.v").write_text("module top; endmodule\n")
    (tmp_path / "script.ys").write_text(f"read_verilog top.v\n{yosys.MAP.format(top='top')}\n" * 20)
    monkeypatch.setattr(yosys, "yosys_argv", lambda script: yosys_argv(script, 1))
    with pytest.raises(ToolError, match="after 3600 s of processor time"):
        yosys.run("script.ys", tmp_path)


def test_rtl_that_yosys_refuses_is_an_error_with_its_words(tmp_path: Path) -> None:
    (tmp_path / "bad.sv").write_text("module bad (input wire a);\n  nobody u_nobody (.a(a));\nendmodule\n")
    with pytest.raises(SynthesisError, match=r"Yosys refuses the RTL: Module `\\nobody' referenced in module `\\bad'"):
        synthesise("bad", [tmp_path / "bad.sv"])


def test_two_files_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SynthesisError, match="two source files of top have the same name"):
        synthesise("top", [tmp_path / "a.sv", tmp_path / "b" / "a.sv"])


CELLS = {
    "top": {"FDRE": 3, "LUT6": 1, "$paramod$0af1\\fifo": 2, "$paramod\\fifo\\WIDTH=s32'0011": 1, "CARRY4": 9},
    "$paramod$0af1\\fifo": {"RAMB18E2": 1, "LUT2": 4, "gray": 1},
    "$paramod\\fifo\\WIDTH=s32'0011": {"RAM32M16": 1, "INV": 1, "URAM288": 1},
    "gray": {"LUT1": 1, "DSP48E2": 1, "RAMB36E2": 1},
}


def test_instances_that_differ_in_parameters_alone_are_one_line() -> None:
    top = module_of("top", 1, CELLS)
    assert [(path, module.count) for path, module in top.walk()] == [("top", 1), ("top/fifo", 3), ("top/fifo/gray", 2)]
    assert top.own == Amounts(lut=1, ff=3)
    assert top.children[0].own == Amounts(lut=2 * 4 + 8 + 1, bram36=1, uram=1)
    assert top.total == Amounts(lut=1 + 17 + 2, ff=3, dsp=2, bram36=3, uram=1)


def test_a_cell_of_unknown_size_is_an_error_not_nothing() -> None:
    with pytest.raises(SynthesisError, match="Yosys used the cell PCIE40E4, whose size is not known"):
        module_of("top", 1, {"top": {"PCIE40E4": 1}})


def report(**luts: int) -> ResourceReport:
    children = tuple(Module(name, 1, Amounts(lut=count)) for name, count in luts.items())
    return ResourceReport(
        "k",
        "0.70",
        Module("k", 1, Amounts(ff=10), children),
        (LogicPath(7, 2, 3.1, "a_q", "b_q"), LogicPath(8, 0, 3.4, "a_q", "c.d_q")),
        12.0,
    )


def test_growth_names_the_module_that_grew_and_not_those_around_it() -> None:
    kept = json.loads(json.dumps(report(a=1000, b=1000).to_json()))
    check_growth(kept, report(a=1020, b=900))
    with pytest.raises(GrowthError, match=r"^k grew: k/a: LUT 1000 -> 1100; give the reason and write a new report"):
        check_growth(kept, report(a=1100, b=1000))


def test_a_module_that_was_not_there_is_growth_and_one_that_is_gone_is_not() -> None:
    kept = report(a=1000).to_json()
    check_growth(kept, replace(report(a=1000), top=replace(report().top, children=())))
    with pytest.raises(GrowthError, match="k/c is new: LUT 100"):
        check_growth(kept, report(a=1000, c=100))


def test_one_block_ram_or_dsp_more_is_growth() -> None:
    kept = report().to_json()
    for more in (Amounts(ff=10, dsp=1), Amounts(ff=10, bram36=0.5), Amounts(ff=10, uram=1)):
        with pytest.raises(GrowthError, match=r"k grew: k: (DSP48E2|RAMB36|URAM288) 0 -> "):
            check_growth(kept, replace(report(), top=replace(report().top, own=more)))


def test_a_few_cells_more_are_no_growth_and_another_yosys_is_said() -> None:
    kept = report(a=10).to_json() | {"tool": "0.69"}
    check_growth(kept, report(a=14))
    with pytest.raises(GrowthError, match=r"k grew \(Yosys was 0\.69, now is 0\.70\)"):
        check_growth(kept, report(a=15))


def test_the_table_says_the_share_of_a_die_and_the_limits() -> None:
    lines = report(a=24_500).lines(U250)
    assert lines[2].split() == ["a", "1", "24,500", "0", "0", "0", "0"]
    assert lines[3].split() == ["interconnect", "of", "v++,", "assumed", "10,000", "0", "0", "0", "0"]
    assert next(line for line in lines if line.startswith("share of it")).split()[3:5] == ["10", "%"]
    assert lines[-1] == "Yosys 0.70 took 12 s of processor time when this was first synthesised"
    assert lines[-4] == "deepest logic by a rule of thumb, as no wire is routed yet; a clock period is 3.33 ns"
    assert lines[-3:-1] == ["   3.10 ns   7 LUTs  2 carry  a_q -> b_q", "!  3.40 ns   8 LUTs  0 carry  a_q -> c.d_q"]
    assert any("only the card's total is known" in line for line in report(a=1).lines(find_platform("u55c")))
    assert Amounts(lut=34_500).percent_of(U250.slrs[0]) == {"lut": 10, "ff": 0, "dsp": 0, "bram36": 0, "uram": 0}


def longest_path(cells: Sequence[Cell]) -> LogicPath:
    return longest_paths(cells)[0]


def ff(name: str, d: str, q: str) -> Cell:
    return Cell("FDRE", {"C": "clk", "CE": "$true", "D": d, "Q": q, "R": "$false"}, {})


def test_the_longest_path_is_from_register_to_register() -> None:
    cells = [
        ff("a", "x", "a_q"),
        Cell("LUT2", {"I0": "a_q", "I1": "b_q", "O": "n1"}),
        Cell("LUT1", {"I0": "n1", "O": "n2"}),
        Cell("INV", {"I": "n2", "O": "n3"}),
        ff("b", "n3", "b_q"),
        Cell("LUT1", {"I0": "b_q", "O": "y"}),
    ]
    path = longest_path(cells)
    assert (path.luts, path.carries, path.estimated_ns, path.end) == (2, 0, 0.93, "b_q")
    assert path.start in {"a_q", "b_q"}


def test_a_carry_chain_adds_little_a_bit_and_a_false_loop_through_it_does_not_hang() -> None:
    def block(number: int, carry: str) -> Cell:
        bits = {f"S[{bit}]": f"s{number}{bit}" for bit in range(4)} | {f"O[{bit}]": f"o{number}{bit}" for bit in range(4)}
        return Cell("CARRY4", {"CI": carry, **bits, **{f"CO[{bit}]": f"c{number}{bit}" for bit in range(4)}})

    chain = [block(0, "$false"), block(1, "c03"), block(2, "c13"), ff("s", "x", "s00"), ff("o", "o23", "sum_q")]
    path = longest_path(chain)
    assert (path.luts, path.carries, path.end) == (0, 3, "sum_q")
    assert path.estimated_ns < longest_path([*chain, Cell("LUT1", {"I0": "o23", "O": "z"}), ff("z", "z", "z_q")]).estimated_ns
    looped = longest_path([*chain, Cell("LUT1", {"I0": "o00", "O": "s01"})])
    assert looped.luts == 1


def test_memories_and_multipliers_begin_and_end_paths() -> None:
    ram = Cell("RAMB18E2", {"CLKARDCLK": "clk", "ADDRARDADDR[0]": "address", "DOUTADOUT[0]": "word"})
    behind = Cell("LUT1", {"I0": "word", "O": "read"})
    assert longest_path([ram, behind, ff("w", "read", "w_q")]).start == "word"
    free = Cell("DSP48E2", {"CLK": "clk", "A[0]": "a_q", "P[0]": "p"}, {"AREG": 0, "BREG": 0, "MREG": 0, "PREG": 0})
    cut = replace(free, parameters={"AREG": 1, "BREG": 1, "MREG": 1, "PREG": 1})
    registers = [ff("a", "x", "a_q"), ff("p", "p", "p_q")]
    assert longest_path([free]).estimated_ns > 2 > longest_path([cut, *registers]).estimated_ns
    shallow = Cell("RAM32M16", {"WCLK": "clk", "ADDRA[0]": "a_q", "DOA[0]": "n", "DIA[0]": "x", "ADDRH[0]": "w_q"})
    assert longest_path([shallow, ff("a", "x", "a_q"), ff("n", "n", "n_q")]).luts == 1


def test_each_module_says_its_own_longest_path_once() -> None:
    cells = [
        ff("a", "x", "u_a.gen[0].a_q"),
        Cell("LUT1", {"I0": "u_a.gen[0].a_q", "O": "n1"}),
        ff("b", "n1", "u_b.b_q"),
        ff("c", "n1", "u_a.gen[1].a_q"),
        ff("d", "u_b.b_q", "u_c.d_q"),
    ]
    paths = [(path.luts, path.end) for path in longest_paths(cells)]
    assert paths == [(1, "u_b.b_q"), (1, "u_a.gen[1].a_q"), (0, "u_c.d_q")]
    assert len(longest_paths(cells, most=2)) == 2


def test_a_netlist_of_nothing_has_a_path_of_nothing() -> None:
    assert longest_paths([]) == ()
    assert LogicPath(0, 0, 0, "", "").fastest_mhz == 0


def test_blif_is_read_cell_by_cell_and_a_core_is_joined_by_its_ports() -> None:
    text = dedent("""\
        .model inner
        .inputs clk x
        .outputs y
        .names $false
        .names n y
        1 1
        .subckt LUT2 I0=x I1=$true O=n
        .param INIT 1000
        .subckt DSP48E2 A[0]=n P[0]=p
        .param AREG 00000000000000000000000000000001
        .end
    """)
    assert list(parse_blif(text, "core.", {"x": "outer_x", "y": "outer_y"})) == [
        Cell("BUF", {"I": "core.n", "O": "outer_y"}),
        Cell("LUT2", {"I0": "outer_x", "I1": "$true", "O": "core.n"}),
        Cell("DSP48E2", {"A[0]": "core.n", "P[0]": "core.p"}, {"AREG": 1}),
    ]


def test_names_are_told_without_the_synthesisers_marks() -> None:
    assert plain_name("u_a.state_q[3]") == "u_a.state_q[3]"
    assert plain_name("$flatten\\u_a.\\u_b.$abc$12$aiger$o5") == "u_a.u_b"


def test_a_directory_without_a_core_is_an_error_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 1
    assert "core.json" in capsys.readouterr().err


def test_memories_that_cannot_fit_are_refused_without_synthesis(tmp_path: Path) -> None:
    """25 million weights of 8 bits, as in ResNet-50: more than the block RAM of a U250."""
    core = write_bench_core(*bench_rows(18, 1), tmp_path)
    kernel = write_kernel(core, tmp_path / "kernel")
    weights = tmp_path / "weights.mem"
    weights.write_text("0" * 16 + "\n")
    os.truncate(weights, 17 * 25_000_000 // 8)
    for platform in (U250, find_platform("u55c")):
        built = check_known(replace(kernel, core=replace(core, memories=(weights,))), platform, 1)
        assert built
        assert "compute unit bench_1 does not fit" in built.misfit
        assert "RAMB36" in built.misfit
        assert built.lines[0].startswith("the core alone needs ")


@pytest.mark.whole
def test_the_estimate_of_a_kernel_with_registers_at_its_ports_includes_them(tmp_path: Path) -> None:
    core = write_bench_core(*bench_rows(2, 1), tmp_path / "core")
    plain, registered = (
        estimate(write_kernel(core, tmp_path / str(choice), port_registers=choice)).top.total for choice in (False, True)
    )
    assert registered.ff - plain.ff == SLICES.ff
    assert registered.lut - plain.lut == pytest.approx(SLICES.lut, rel=0.05)


@pytest.mark.whole
@pytest.mark.timeout(1800)  # minutes of Yosys when the sources have changed
def test_facile_takes_no_more_than_its_kept_report_says(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    """Equal sources give equal reports (held below), so a report of these very sources is not made again."""
    _, core = build_project("facile", tmp_path / "facile")
    assert core
    kernel = write_kernel(core, tmp_path / "kernel")
    kept = json.loads((ZOO / "resources.json").read_text())
    assert kept["tool"] == tool_version()
    assert kept["modules"]["facile/facile_core/facile_network"]["dsp"] == 0
    if kept["sources"] != sources_key(kernel):
        check_growth(kept, estimate(kernel))
        record_property("noteworthy", "FACILE's RTL has changed: write a new hls/zoo/facile/resources.json (hls/zoo/README.md)")


@pytest.mark.whole
def test_a_kernel_is_reported_for_the_units_that_fit_and_equal_sources_give_equal_reports(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    core = write_bench_core(*bench_rows(2, 1), tmp_path / "core")
    core.save(tmp_path / "core")
    kernel = write_kernel(core, tmp_path / "kernel")
    name, made = core.name, make_estimates([(kernel, 4)], U250)
    built = report_build(kernel, U250, 4, made)
    assert (built.misfit, built.lines[-1]) == ("", f"{name}_4: SLR3, m_axi_gmem0 on DDR[3], m_axi_gmem1 on DDR[3]")
    assert built.entries[name]["share_of_slr_percent"]["lut"] < 15
    assert "5 compute units do not fit u250" in report_build(kernel, U250, 5, made).misfit

    f2 = find_platform("aws_f2")
    on_f2 = report_build(kernel, f2, 2, make_estimates([(kernel, 2)], f2))
    rams = sum(child.total.bram36 for child in estimate_shell("f2_shell", 2).children)
    assert on_f2.entries[name]["f2_shell"]["bram36"] == rams > 0
    assert "and once, between 2 compute units and the shell, also by Yosys:" in on_f2.lines
    assert on_f2.lines[-2:] == [f"{name}_{k}: rows in host memory" for k in (1, 2)]

    assert main([str(tmp_path / "core"), "--write", str(tmp_path / "kept.json")]) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[:2] == [name, "1"]
    kept = json.loads((tmp_path / "kept.json").read_text())
    assert kept["modules"] == built.entries[name]["modules"]
    assert kept["sources"] == sources_key(kernel)
    own = next(source for source in kernel.sources if source.is_relative_to(tmp_path))
    own.write_text(own.read_text() + "\n")
    assert kept["sources"] != sources_key(kernel)
