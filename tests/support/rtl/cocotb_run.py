# SPDX-License-Identifier: Apache-2.0
"""Build a design with Verilator and run a cocotb bench on it in a process of its own. Every bench's pytest function calls it.

Verilator's runtime library takes longer to compile than most designs do and is the same for all of them. So it is compiled
once, cached, and linked to each build. Its headers are precompiled once. Most of what is left is the start of g++
and of cocotb, so all parameter sets of a bench are instances side by side in one build, and its tests run on each of them.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest import mock
from xml.etree import ElementTree as ET

import cocotb
from cocotb_tools.runner import Runner, get_runner

from hypersonic.hls import verilator
from hypersonic.hls.cache import cached

#: make variables; cocotb's own call of make reads them from the environment
_MAKEFLAGS = f"{verilator.MAKEFLAGS} OPT_FAST=-O0 OPT_SLOW=-O0 OPT_GLOBAL=-O1"

#: object files of Verilator's runtime library that cocotb needs in addition, named as in Verilator's own makefile
_RUN_TIME = ("verilated_dpi.o", "verilated_vpi.o")

#: environment variable with the names of the instances that a bench's tests run on, if the top has several
_INSTANCES = "HYPERSONIC_BENCH_INSTANCES"

#: pytest's rewriting of assertions, for messages that say what differed: for the benches only, and without pytest's plugins,
#: which would take half of a simulator's start-up time
_ASSERTIONS = {"COCOTB_REWRITE_ASSERTION_FILES": "test_*.py", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}

#: the first line of a file of Verilator's options
_PUBLIC = "`verilator_config\n"

_SIDE_BY_SIDE = """\
/* verilator lint_off PINMISSING */
/* verilator lint_off UNDRIVEN */
module side_by_side;
{instances}
endmodule
"""


class BenchError(AssertionError):
    """A design does not build, a cocotb test failed, or no test ran."""


#: a cocotb test: a coroutine that gets the design, or one of its instances
_Test = Callable[[Any], Coroutine[Any, Any, None]]


def bench_test(test: _Test) -> object:
    """Register a cocotb test: on the top, or on each of the instances that run_bench has put side by side."""
    return bench_test_on(*os.environ.get(_INSTANCES, "").split())(test)


def bench_test_on(*instances: str) -> Callable[[_Test], object]:
    """Return a decorator that registers a cocotb test on these instances, or on the top if there are none."""

    def register(test: _Test) -> object:
        if not instances:
            return cocotb.test()(test)

        async def on_instance(dut: Any, instance: str) -> None:
            await test(getattr(dut, instance))

        on_instance.__qualname__, on_instance.__module__ = test.__qualname__, test.__module__
        return cocotb.test()(cocotb.parametrize(instance=[cocotb.Param(name, name) for name in instances])(on_instance))

    return register


def run_bench(
    directory: Path,
    top: str | Mapping[str, str],
    sources: Sequence[Path],
    test_module: str,
    *,
    parameters: Mapping[str, object] | None = None,
    sets: Mapping[str, Mapping[str, object]] | None = None,
    waivers: Sequence[Path] = (),
) -> None:
    """Run every cocotb test of `test_module` on module `top`; the build and the results stay in `directory`.

    sets, instead of parameters, has several parameter sets by their names. The design has an instance of `top` for each, with
    that name and no connections, and the tests, which are marked with `bench_test`, run on one after the other. If
    `top` is a mapping, its keys are the names of the instances and its values their modules.
    waivers are Verilator configuration files. Raises BenchError with the names of the tests that failed and the end of the log,
    and ToolError if g++, make or perl is missing.
    """
    verilator.require("g++", "make", "perl")
    directory.mkdir(parents=True, exist_ok=True)
    kept = _run_time()
    link = f"VM_GLOBAL_FAST= VM_GLOBAL_SLOW= LOADLIBES={kept / 'run_time.a'}"
    instances = _instances(top, sets or {})
    public = directory / "public.vlt"
    modules = [top] if isinstance(top, str) else top.values()
    public.write_text(_PUBLIC + "".join(f'public_flat_rw -module "{module}" -var "*"\n' for module in modules))
    if not isinstance(top, str) or sets:
        sources = [*sources, directory / "side_by_side.sv"]
        sources[-1].write_text(_SIDE_BY_SIDE.format(instances="\n".join(f"  {text} ();" for text in instances.values())))
        top = "side_by_side"
    names = {_INSTANCES: " ".join(instances)}
    with mock.patch.dict(os.environ, {**_environment(link), **_ASSERTIONS, **names}):
        runner = get_runner("verilator")
        headers = ["-CFLAGS", f"-include {kept / verilator.HEADERS}"]
        _build(runner, directory, top, [*waivers, public, *sources], parameters or {}, headers)
        with suppress(SystemExit):  # raised by the runner when a test failed; the results say which
            runner.test(
                hdl_toplevel=top,
                test_module=test_module,
                build_dir=directory,
                test_dir=directory,
                seed=1,
                results_xml=str(directory / "results.xml"),
                log_file=directory / "test.log",
            )
    _check(directory / "results.xml", directory / "test.log")


def _instances(top: str | Mapping[str, str], sets: Mapping[str, Mapping[str, object]]) -> dict[str, str]:
    """Return the text of each instance by its name, without its ports."""
    if not isinstance(top, str):
        return {name: f"{module} {name}" for name, module in top.items()}
    values = {name: ", ".join(f".{key}({value})" for key, value in parameters.items()) for name, parameters in sets.items()}
    return {name: f"{top} #({text}) {name}" for name, text in values.items()}


def _check(results: Path, log: Path) -> None:
    if not results.is_file():
        raise BenchError(f"cocotb wrote no results\n{_tail(log)}")
    cases = list(ET.parse(results).getroot().iter("testcase"))
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
            # only the ports and parameters that a bench uses are public; the runner's --public-flat-rw makes twice the C++
            build_args=["-Wall", "--output-split", "0", "--no-public-flat-rw", *options],
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
        with mock.patch.dict(os.environ, _environment("--dry-run")):
            _build(get_runner("verilator"), scratch, "empty", [scratch / "empty.sv"], {})
        # -O0: a simulation of a bench is short, and most of it is Python
        verilator.run(["make", "-f", "Vtop.mk", *verilator.MAKEFLAGS.split(), "OPT_GLOBAL=-O0", *_RUN_TIME], scratch)
        verilator.run(["ar", "x", verilator.runtime_archive()], scratch)
        objects = sorted(scratch.glob("verilated*.o"))
        verilator.run(["ar", "rcs", directory / "run_time.a", *objects], scratch)
        log = (scratch / "build.log").read_text(errors="replace")
        included = ["verilated.h", "verilated_vpi.h"]
        verilator.precompile(directory / verilator.HEADERS, included, log, "/verilator.cpp", scratch)
        shutil.rmtree(scratch)

    parts = ["-O0", *_RUN_TIME, verilator.HEADERS, version("cocotb"), _MAKEFLAGS, *verilator.build_key()]
    return cached("cocotb_run_time", parts, build)
