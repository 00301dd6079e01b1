# SPDX-License-Identifier: Apache-2.0
"""The list of what Vivado refuses or takes otherwise: each example is refused here or by Verilator, and our RTL has none."""

from __future__ import annotations

from pathlib import Path

import pytest

from hypersonic.sim import lint, vivado

BODY = """\
module example (input logic clk, input logic a, input logic b, output logic y);
{body}
endmodule
"""
PLAIN = """\
module example (input wire clk, input wire a, input wire b, output wire y);
{body}
endmodule
"""


@pytest.mark.parametrize("trap", vivado.TRAPS, ids=lambda trap: f"{trap.name}: {trap.example[:20]}")
def test_the_example_of_each_construct_is_refused(trap: vivado.Trap, tmp_path: Path) -> None:
    file = tmp_path / ("example.v" if trap.only == ".v" else "example.sv")
    file.write_text((PLAIN if trap.only == ".v" else BODY).format(body=trap.example))
    if trap.found:
        assert any(trap.name in text and trap.source in text for text in vivado.found_in(file))
    else:
        assert f"%Warning-{trap.by}" in lint.lint(file, ())


@pytest.mark.parametrize(
    "body",
    [
        "always_ff @(posedge clk) y <= a & b;",
        "logic [3:0] words[4]; initial for (int i = 0; i < 4; i++) words[i] = 4'd3; assign y = words[a][b];",
        'logic [3:0] words[4]; initial $readmemh("words.hex", words); assign y = words[a][b];',
        "if (1) begin : g_one logic q; assign q = a; end assign y = g_one.q;",
        "always_comb begin y = b; unique case (a) 1'b1: y = a; default: ; endcase end",
        "function automatic logic f(logic p); logic q = p; return q; endfunction assign y = f(a);",
        "always_comb begin automatic logic q = a; y = q & b; end",
        'localparam S = "a"; if (S == "b") begin : g_check $error("S is %s", S); end assign y = some_pkg::A;',
        'if (1) begin : g_one  // a comment\n logic q; $error("never"); end assign y =  // another\n g_one.q;',
    ],
)
def test_what_our_rtl_may_contain_is_not_refused(body: str, tmp_path: Path) -> None:
    file = tmp_path / "example.sv"
    file.write_text(BODY.format(body=body))
    assert list(vivado.found_in(file)) == []


def test_our_rtl_and_generated_kernels_have_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert vivado.main() == 0
    assert capsys.readouterr().out.startswith("ok     nothing in ")


def test_the_command_names_the_file_the_line_and_the_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "late.sv"
    file.write_text("module late (input logic clk, a, output logic y);\n  always_ff @(posedge clk) y <= #1 a;\nendmodule\n")
    monkeypatch.setattr(lint, "modules", lambda: [file])
    assert vivado.main() == 1
    assert capsys.readouterr().out.startswith(f"{file}:2: delay in a process: ")
