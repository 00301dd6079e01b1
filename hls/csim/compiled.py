# SPDX-License-Identifier: Apache-2.0
"""C simulation: hls4ml's C++ compiled by g++, the golden reference that every core equals integer by integer."""

from __future__ import annotations

import ctypes
import shutil
import tempfile
from collections.abc import Sequence
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

#: C++17, because ap_types' headers predate C++20; their warnings are theirs
_FLAGS = ("-std=c++17", "-fPIC", "-fno-gnu-unique", "-fvisibility=hidden", "-w")
_LINKED = ("-shared", "-pthread", "-Wl,-z,defs", "-Wl,-Bsymbolic")

#: beside the frames of hls4ml's functions: the C++ and C libraries', and what a thread begins with
_STACK_MARGIN_BYTES = 256 << 10

_FAILURES = {
    1: "the top function took or gave another number of elements than the project has",
    2: "memory ran out",
    3: "there is no thread with the stack that hls4ml's functions need; give the process more memory",
}


class CsimError(RuntimeError):
    """The compiled C++ could not be loaded or failed."""


def compile_csim(
    project: HlsProject,
    *,
    extra_sources: Sequence[Path] = (),
    defines: Sequence[str] = (),
    output: str = "csim.so",
    optimisation: str = "-O2",
) -> Path:
    """A shared library with `int hypersonic_csim(const int64_t *x_raw, int64_t *y_raw, size_t rows)`; kept by content hash.

    extra_sources: C++ compiled and linked into the same library. defines: NAME or NAME=value for all of it. The weights
    are inside, so the library stands alone. Either io_type. Raises ToolError when g++ is missing or fails.
    """
    firmware = project.hls / "firmware"
    flags = [
        *_FLAGS,
        optimisation,
        f'-DHYPERSONIC_HEADER="{project.name}.h"',
        f"-DHYPERSONIC_TOP={project.name}",
        f"-DHYPERSONIC_INPUTS={len(project.inputs.tensors)}",
        f"-DHYPERSONIC_SIZES={','.join(str(tensor.size) for tensor in (*project.inputs.tensors, *project.outputs.tensors))}",
        *(f"-D{define}" for define in defines),
    ]
    others = [source.resolve() for source in extra_sources]

    def build(directory: Path) -> None:
        require("g++")
        with tempfile.TemporaryDirectory() as scratch:
            copied = shutil.copytree(firmware, Path(scratch) / "firmware")
            prepare(copied)
            _compile(project.name, flags, others, copied, (directory / output).resolve())

    # the code that changes the text is an input like the text
    return cached("csim", [*flags, *_LINKED, output, firmware, *_OURS, *others], build) / output


def _compile(name: str, flags: Sequence[str], others: Sequence[Path], firmware: Path, library: Path) -> None:
    """One file of model and bridge, because the headers cost more than a small network; then the stack that it needs."""
    includes = ("-I.", "-Iap_types")
    model, stack = firmware / "hypersonic_model.cpp", firmware / "hypersonic_stack.cpp"
    model.write_text(f'#include "{name}.cpp"\n#include "{_BRIDGE}"\n')
    run(["g++", *flags, *includes, "-fstack-usage", "-c", model.name], firmware)
    stack_bytes = _frames_bytes(model.with_suffix(".su").read_text()) + _STACK_MARGIN_BYTES
    stack.write_text(f'extern "C" const unsigned long long hypersonic_stack_bytes = {stack_bytes};\n')
    run(["g++", *flags, *includes, *_LINKED, stack.name, model.with_suffix(".o").name, *others, "-o", library], firmware)


def _frames_bytes(stack_usage: str) -> int:
    """What g++ -fstack-usage told of a file's functions, summed up: they do not recurse, so no call needs more."""
    return sum(int(line.rsplit("\t", 2)[1]) for line in stack_usage.splitlines())


class Csim:
    """The library of compile_csim(project); any thread may call it, one call at a time."""

    def __init__(self, library: Path, project: HlsProject) -> None:
        self.library = library
        self.project = project
        try:
            self._function = ctypes.CDLL(str(library)).hypersonic_csim
        except (OSError, AttributeError) as error:
            raise CsimError(f"{library} is no csim library: {error}; build the model again") from error
        self._function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]

    def predict_raw(self, x_raw: NDArray[np.int64]) -> NDArray[np.int64]:
        """x_raw: (rows, inputs.size) int64 -> (rows, outputs.size) int64, tensor by tensor: raw integers of its fixed.

        Raises SpecMismatchError for a wrong shape.
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
