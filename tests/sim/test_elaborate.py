# SPDX-License-Identifier: Apache-2.0
"""The second front end: it elaborates every module, proof and generated top, and refuses what is not SystemVerilog."""

from __future__ import annotations

from pathlib import Path

import pytest

from hypersonic.firmware.formal import prove
from hypersonic.sim import elaborate, lint

PORTS = Path(__file__).resolve().parents[1] / "f2" / "cl_ports.vh"


def test_everything_elaborates_without_an_error() -> None:
    results = dict(elaborate.results(PORTS))
    assert {name: trouble for name, trouble in results.items() if trouble} == {}
    assert {str(file.relative_to(lint.ROOT)) for file in lint.modules()} <= set(results)
    assert {f"proof {name}" for name in prove.proofs()} <= set(results)
    assert "cl_hypersonic with cl_ports.vh" in results


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("assign b = a + c;", "use of undeclared identifier 'c'"),
        ("wire before = a;", "expected a declaration name"),  # a keyword, which Yosys takes for a name
        ("assign b = c; wire c = a;", "identifier 'c' used before its declaration"),
        ("none u_none (.a);", "unknown module 'none'"),
    ],
)
def test_what_the_standard_does_not_allow_is_an_error(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "bad name.sv"
    file.write_text(f"module top (input logic a, output logic b);\n{text}\nendmodule\n")
    assert said in elaborate.errors([file], "top")


def test_a_file_that_is_missing_is_an_error(tmp_path: Path) -> None:
    assert elaborate.errors([tmp_path / "none.sv"], "none") == "slang does not read the files of none\n"


def test_the_command_prints_a_line_for_each_design_and_fails_with_the_first_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(elaborate, "results", lambda _: iter([("good", ""), ("bad", "bad.sv:1: error: no\n")]))
    assert elaborate.main([]) == 1
    assert capsys.readouterr().out == "ok     good\nFAILED bad\nbad.sv:1: error: no\n"
