# SPDX-License-Identifier: Apache-2.0
"""Compilation of libtriton_fpga.so by g++, cached by content."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from hypersonic.hls import verilator
from hypersonic.hls.cache import cached
from hypersonic.installing import pip_install
from hypersonic.triton import tables
from hypersonic.triton.errors import BackendCompileError

CPP = Path(__file__).parent / "cpp"
LIBRARY_NAME = "libtriton_fpga.so"
#: Triton's name of the backend, and of its directory
BACKEND = "fpga"
#: the language, of every compilation and of the lint
STANDARD = "-std=c++17"
_FLAGS = (STANDARD, "-O2", "-g1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-fvisibility=hidden", "-pthread")
#: tritonserver closes the library of an unloaded backend, but a thread that a card's driver keeps may still return to it
_LINK = ("-shared", "-pthread", "-Wl,-z,nodelete")
_SYSTEM_INCLUDE = Path("/usr/include")


def sources() -> list[Path]:
    """Return the C++ files, in a fixed order."""
    return sorted(CPP.glob("*/*.cpp"))


def backend_library(
    flags: Sequence[str] = (), progress: Callable[[str], None] = lambda _: None, compiler: Sequence[str] = ("g++",)
) -> Path:
    """Return the library's path, and compile it first if it is not in the cache (about a minute).

    The symbols of Triton's API stay undefined: tritonserver defines them when it loads the library.

    Args:
        flags: further options of the compiler, such as a sanitizer's.
        progress: receives one line before a compilation.

    Raises:
        BackendCompileError: Without nlohmann-json's headers.
        MissingToolError: Without the compiler.
        ToolError: When the compiler fails.
    """

    def build(directory: Path) -> None:
        verilator.require(compiler[0])
        progress("compiling the backend for tritonserver, once for this version (about a minute)")
        compile_one = partial(_compile, directory, [*compiler, *_FLAGS, *flags, *include_options(directory)])
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            objects = list(pool.map(compile_one, sources()))
        exports = f"-Wl,--version-script={CPP / 'exports.map'}"
        verilator.run([*compiler, *_LINK, *flags, exports, "-o", directory / LIBRARY_NAME, *objects, "-ldl"], directory)
        for file in objects:
            file.unlink()

    parts = [platform.machine(), *compiler, *_FLAGS, *_LINK, *flags, *contents()]
    return cached("triton_fpga", parts, build) / LIBRARY_NAME


def contents() -> list[str | Path]:
    """Return what the C++ consists of, for the key of a cached build: its folder and the tables written from Python."""
    return [CPP, tables.causes(), tables.constants(), tables.digest_key(), tables.parameters()]


def include_options(directory: Path) -> list[str]:
    """Write the tables that the C++ includes into a directory, and return the compiler's options for all headers.

    Raises BackendCompileError.
    """
    tables.write(directory)
    return [f"-I{CPP}", f"-I{directory}", "-isystem", str(json_include())]


def json_include() -> Path:
    """Return the directory with nlohmann/json.hpp, of the package or of the system. Raises BackendCompileError."""
    spec = find_spec("nlohmann_json")
    found = [Path(place) / "include" for place in (spec.submodule_search_locations or [])] if spec is not None else []
    for directory in (*found, _SYSTEM_INCLUDE):
        if (directory / "nlohmann" / "json.hpp").is_file():
            return directory
    raise BackendCompileError(
        f"the header nlohmann/json.hpp is not installed: {pip_install('triton')}, or on Debian apt-get install "
        "nlohmann-json3-dev"
    )


def _compile(directory: Path, command: Sequence[str], source: Path) -> Path:
    target = directory / f"{source.parent.name}-{source.stem}.o"
    verilator.run([*command, "-c", source, "-o", target], directory)
    return target
