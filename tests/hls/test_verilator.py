# SPDX-License-Identifier: Apache-2.0
"""Shared libraries of Verilated designs."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

import pytest

from hypersonic.hls import verilator

TOP = "module top (input logic [7:0] x, output logic [7:0] y);\n  assign y = x + 8'd{step};\nendmodule\n"
HARNESS = """\
#include "Vtop.h"
extern "C" __attribute__((visibility("default"))) int step(int x) {
    Vtop top;
    top.x = x;
    top.eval();
    return top.y;
}
double sc_time_stamp() { return 0; }
"""


def test_verilators_runtime_is_compiled_once_for_all_libraries_also_where_paths_have_spaces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HYPERSONIC_CACHE", str(tmp_path / "a cache"))
    archives = []
    for step in (1, 2):
        directory = tmp_path / f"step {step}"
        directory.mkdir()
        (directory / "top.sv").write_text(TOP.format(step=step))
        (directory / "harness.cpp").write_text(HARNESS)
        built = verilator.shared_library(
            directory, sources=[directory / "top.sv"], top="top", harness=[directory / "harness.cpp"], output="top.so"
        )
        assert ctypes.CDLL(str(built)).step(40) == 40 + step
        assert not list((directory / "obj").glob("verilated*.o"))
        (archive,) = (tmp_path / "a cache" / "runtime").rglob("*.a")
        archives.append(archive.stat().st_mtime_ns)
    assert archives[0] == archives[1]


@pytest.mark.parametrize(
    ("level", "split"),
    [
        ("-O1", "0"),
        ("-O0", "1"),
        pytest.param("-O0", "0", marks=pytest.mark.whole),
        pytest.param("-O1", "1", marks=pytest.mark.whole),
    ],
)
def test_every_file_of_a_library_reads_the_precompiled_headers(tmp_path: Path, level: str, split: str) -> None:
    (tmp_path / "top.sv").write_text(TOP.format(step=1))
    (tmp_path / "harness.cpp").write_text(HARNESS)
    argv = ["--top-module", "top", "--prefix", "Vtop", "-o", "top.so", "--output-split", split, "top.sv", "harness.cpp"]
    log = verilator.build_library(argv, tmp_path, f"OPT_FAST={level} OPT_SLOW={level} OPT_GLOBAL=-O1", ["-H"])
    compiled = re.findall(r" -c .*\.cpp$", log, re.MULTILINE)
    marks = re.findall(r"^([!x]) .*\.gch$", log, re.MULTILINE)  # g++ -H marks a valid one with !, another one with x
    assert len(compiled) == 2 if split == "0" else len(compiled) > 3, log
    assert marks == ["!"] * len(compiled), log
