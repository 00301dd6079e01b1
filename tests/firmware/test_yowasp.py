# SPDX-License-Identifier: Apache-2.0
"""A program of YoWASP is compiled once, into the cache."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hypersonic.firmware.yowasp import COMPILED, YOSYS
from hypersonic.hls.cache import cache_directory
from hypersonic.hls.child import python_environment


@pytest.mark.whole("firmware/yowasp.py", "requirements.lock")
def test_yosys_is_compiled_into_a_directory_that_no_later_run_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that has mapped the compiled program ends with SIGBUS if another one writes that file."""
    monkeypatch.setenv("HYPERSONIC_CACHE", str(cache_directory()))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "default"))
    compiled = YOSYS.compiled()
    files = {file: file.stat().st_mtime_ns for file in compiled.rglob("*") if file.is_file()}
    (tmp_path / "script.ys").write_text("read_verilog -sv top.v\n")
    (tmp_path / "top.v").write_text("module top; endmodule\n")
    environment = {**python_environment(), COMPILED: str(compiled)}
    subprocess.run(YOSYS.argv("-s", "script.ys"), env=environment, cwd=tmp_path, check=True, capture_output=True)
    assert files == {file: file.stat().st_mtime_ns for file in compiled.rglob("*") if file.is_file()} != {}
    assert not (tmp_path / "default").exists()
