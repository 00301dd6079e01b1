# SPDX-License-Identifier: Apache-2.0
"""Compiles hls4ml's C++ with g++ and runs it: the C simulation, whose integers every core must reproduce exactly.

The headers of ap_fixed and of the C++ library are precompiled: reading them takes about two seconds of the five to twelve in
which g++ compiles a small model.
"""

from __future__ import annotations

import ctypes
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.cache import cached
from hypersonic.hls.csim.source import prepare
from hypersonic.hls.project import HlsProject
from hypersonic.hls.spec import SpecMismatchError
from hypersonic.hls.verilator import require, run

_FOLDER = Path(__file__).resolve().parent
_BRIDGE = _FOLDER / "bridge.cpp"
_OURS = (_BRIDGE, _FOLDER / "compiled.py", _FOLDER / "source.py")

#: C++17, because ap_types' headers predate C++20; -w, because their warnings are not this project's to correct
_FLAGS = ("-std=c++17", "-fPIC", "-fno-gnu-unique", "-fvisibility=hidden", "-w")
_LINKED = ("-shared", "-pthread", "-Wl,-z,defs", "-Wl,-Bsymbolic")

_OBJECT, _STACK = "hypersonic_model.o", "hypersonic_stack.cpp"

#: stack for the frames of the C and C++ libraries and of the thread's start, in addition to those of hls4ml's functions
_STACK_MARGIN_BYTES = 256 << 10

_INCLUDED = (
    '"ap_fixed.h"', '"ap_int.h"', '"hls_stream.h"', "<pthread.h>", "<cstddef>", "<cstdint>", "<exception>", "<memory>",
    "<mutex>", "<tuple>", "<type_traits>", "<utility>", "<vector>",
)  # fmt: skip
_TEXT = "".join(f"#include {name}\n" for name in _INCLUDED)

#: g++ frees memory only above this many kB; the default is at most 128 MB, which the headers alone reach
_MEMORY = ("--param", "ggc-min-heapsize=524288")

_FAILURES = {
    1: "the top function read or wrote a different number of elements than the project has",
    2: "memory ran out",
    3: "a thread with the stack that hls4ml's functions need could not be started; give the process more memory",
}


class CsimError(RuntimeError):
    """The compiled C++ could not be loaded, or it failed."""


def compile_csim(
    project: HlsProject,
    *,
    extra_sources: Sequence[Path] = (),
    defines: Sequence[str] = (),
    output: str = "csim.so",
    optimisation: str = "-O2",
    rewrite: Callable[[Path], None] = prepare,
    rewriting: Sequence[Path] = (),
) -> Path:
    """Compile a shared library with `int hypersonic_csim(const int64_t *x_raw, int64_t *y_raw, size_t rows)`; return its path.

    The project may have either io_type.

    The library contains the weights and needs no other files. It is cached by content.

    Args:
        extra_sources: C++ files to compile into the same library.
        defines: NAME or NAME=value for all files.
        output: the library's file name.
        rewrite: changes, in place, the copy of firmware/ that is compiled.
        rewriting: the files that it depends on.

    Raises:
        MissingToolError: If g++ is not installed.
        ToolError: If it fails.
    """
    firmware = project.hls / "firmware"
    generating = [*_FLAGS, optimisation]
    flags = [
        *generating,
        f'-DHYPERSONIC_HEADER="{project.name}.h"',
        f"-DHYPERSONIC_TOP={project.name}",
        f"-DHYPERSONIC_INPUTS={len(project.inputs.tensors)}",
        f"-DHYPERSONIC_SIZES={','.join(str(tensor.size) for tensor in (*project.inputs.tensors, *project.outputs.tensors))}",
        *(f"-D{define}" for define in defines),
    ]
    others = [source.resolve() for source in extra_sources]
    # the code that rewrites the C++ is part of the key, like the C++ itself
    key: list[str | bytes | Path] = [*flags, firmware, *_OURS, *rewriting]

    def link(directory: Path) -> None:
        require("g++")
        compiled = cached("csim_object", key, lambda place: _compile(project.name, generating, flags, rewrite, firmware, place))
        objects = (compiled / _STACK, compiled / _OBJECT)
        with tempfile.TemporaryDirectory() as scratch:
            run(["g++", *flags, *_LINKED, *objects, *others, "-o", (directory / output).resolve()], Path(scratch))

    return cached("csim", [*key, *_LINKED, output, *others], link) / output


def _compile(
    name: str,
    generating: Sequence[str],
    flags: Sequence[str],
    rewrite: Callable[[Path], None],
    firmware: Path,
    directory: Path,
) -> None:
    """Compile model and bridge as one file, because they share headers and types; add the stack's size.

    The libraries of a project, csim.so and its simulator for sw_emu, are both linked from the result.

    Args:
        generating: the flags that say what code g++ generates.
        flags: these and all definitions.
    """
    with tempfile.TemporaryDirectory() as scratch:
        copied = shutil.copytree(firmware, Path(scratch) / "firmware")
        rewrite(copied)
        model = copied / "hypersonic_model.cpp"
        model.write_text(f'#include "{name}.cpp"\n#include "{_BRIDGE}"\n')
        options = [*flags, *precompiled(generating, copied / "ap_types"), "-I.", "-Iap_types", "-fstack-usage"]
        run(["g++", *options, "-c", model.name, "-o", directory.resolve() / _OBJECT], copied)
        stack_bytes = _frames_bytes((directory / _OBJECT).with_suffix(".su").read_text()) + _STACK_MARGIN_BYTES
    (directory / _STACK).write_text(f'extern "C" const unsigned long long hypersonic_stack_bytes = {stack_bytes};\n')


def _frames_bytes(stack_usage: str) -> int:
    """The sum of all stack frames that g++ -fstack-usage reports: no call needs more, since the functions do not recurse."""
    return sum(int(line.rsplit("\t", 2)[1]) for line in stack_usage.splitlines())


class Csim:
    """A loaded library of compile_csim(project). Any thread may call it, but only one at a time.

    Raises CsimError if the library cannot be loaded.
    """

    def __init__(self, library: Path, project: HlsProject) -> None:
        self.library = library
        self.project = project
        try:
            self._function = ctypes.CDLL(str(library)).hypersonic_csim
        except (OSError, AttributeError) as error:
            raise CsimError(f"{library} is not a csim library: {error}; build the model again") from error
        self._function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]

    def predict_raw(self, x_raw: NDArray[np.int64]) -> NDArray[np.int64]:
        """Compute rows.

        All are raw integers of the tensors' `fixed` types, tensor after tensor.

        Args:
            x_raw: (rows, inputs.size) int64 -> (rows, outputs.size) int64.

        Raises:
            SpecMismatchError: For a wrong shape.
            CsimError: If the C++ fails.
        """
        x = np.ascontiguousarray(x_raw, dtype=np.int64)
        if x.ndim != 2 or x.shape[1] != self.project.inputs.size:
            raise SpecMismatchError(
                f"model {self.project.name!r}: rows have shape {x.shape}, expected (rows, {self.project.inputs.size})"
            )
        y = np.zeros((len(x), self.project.outputs.size), dtype=np.int64)
        status = self._function(x.ctypes.data, y.ctypes.data, len(x))
        if status:
            reason = _FAILURES.get(status, f"hypersonic_csim returned {status}, expected 0")
            raise CsimError(f"model {self.project.name!r}: {reason}")
        return y


def precompiled(flags: Sequence[str], types: Path) -> list[str]:
    """Return g++'s options with which a compilation reads the headers precompiled; they are precompiled first, once.

    The compilation must name it too, with -I: g++ reads the headers themselves if the flags differ.

    Args:
        flags: those of the compilation that say what code g++ generates; -D may be left out.
        types: the directory with ap_types' headers; without it nothing is precompiled.

    Raises:
        ToolError: If g++ fails.
    """
    if not types.is_dir():
        return []

    def build(directory: Path) -> None:
        header = directory / "headers.h"
        header.write_text(_TEXT)
        run(["g++", *flags, f"-I{types.resolve()}", "-x", "c++-header", header, "-o", f"{header}.gch"], directory)

    return [*_MEMORY, "-include", str(cached("csim_headers", [*flags, _TEXT, types], build) / "headers.h")]
