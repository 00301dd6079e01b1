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
from hypersonic.triton import tables
from hypersonic.triton.errors import BackendCompileError

CPP = Path(__file__).parent / "cpp"
LIBRARY_NAME = "libtriton_fpga.so"
#: Triton's name of the backend, and of its directory
BACKEND = "fpga"
_FLAGS = ("-std=c++17", "-O2", "-g1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-fvisibility=hidden", "-pthread")
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
    include = json_include()

    def build(directory: Path) -> None:
        verilator.require(compiler[0])
        progress("compiling the backend for tritonserver, once for this version (about a minute)")
        tables.write(directory)
        paths = (f"-I{CPP}", f"-I{directory}", "-isystem", str(include))
        compile_one = partial(_compile, directory, [*compiler, *_FLAGS, *flags, *paths])
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            objects = list(pool.map(compile_one, sources()))
        exports = f"-Wl,--version-script={CPP / 'exports.map'}"
        verilator.run(
            [*compiler, "-shared", "-pthread", *flags, exports, "-o", directory / LIBRARY_NAME, *objects, "-ldl"], directory
        )
        for file in objects:
            file.unlink()

    parts: list[str | bytes | Path] = [platform.machine(), *compiler, *_FLAGS, *flags, CPP, tables.causes(), tables.constants()]
    return cached("triton_fpga", parts, build) / LIBRARY_NAME


def json_include() -> Path:
    """Return the directory with nlohmann/json.hpp, of the package or of the system. Raises BackendCompileError."""
    spec = find_spec("nlohmann_json")
    found = [Path(place) / "include" for place in (spec.submodule_search_locations or [])] if spec is not None else []
    for directory in (*found, _SYSTEM_INCLUDE):
        if (directory / "nlohmann" / "json.hpp").is_file():
            return directory
    raise BackendCompileError(
        "the header nlohmann/json.hpp is not installed: pip install 'hypersonic[triton]', or on Debian apt-get install "
        "nlohmann-json3-dev"
    )


def _compile(directory: Path, command: Sequence[str], source: Path) -> Path:
    target = directory / f"{source.parent.name}-{source.stem}.o"
    verilator.run([*command, "-c", source, "-o", target], directory)
    return target
