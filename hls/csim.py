# SPDX-License-Identifier: Apache-2.0
"""C simulation: hls4ml's C++ compiled by g++, the golden reference that every core equals integer by integer."""

from __future__ import annotations

import ctypes
import re
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.cache import cached
from hypersonic.hls.project import HlsProject
from hypersonic.hls.spec import SpecMismatchError
from hypersonic.hls.verilator import require, run

_BRIDGE = Path(__file__).resolve().parent / "csim_bridge.cpp"

#: C++17, because ap_types' headers predate C++20; their warnings are theirs
_FLAGS = (
    "-std=c++17",
    "-O2",
    "-fPIC",
    "-shared",
    "-fno-gnu-unique",
    "-fvisibility=hidden",
    "-w",
    "-Wl,-z,defs",
    "-Wl,-Bsymbolic",
)

#: an array of numbers in weights/*.h: its type, its name, how many, and the numbers
_CONSTANTS = re.compile(r"^(\w+) (\w+)\[(\d+)\] = \{([^{}]*)\};$", re.MULTILINE)


class CsimError(RuntimeError):
    """The compiled C++ could not be loaded or failed."""


def compile_csim(
    project: HlsProject, *, extra_sources: Sequence[Path] = (), defines: Sequence[str] = (), output: str = "csim.so"
) -> Path:
    """A shared library with `int hypersonic_csim(const int64_t *x_raw, int64_t *y_raw, size_t rows)`; kept by content hash.

    extra_sources: C++ compiled and linked into the same library. defines: NAME or NAME=value for all of it. The weights
    are inside, so the library stands alone. Raises ToolError when g++ is missing or fails.
    """
    firmware = project.hls / "firmware"
    macros = [
        f'-DHYPERSONIC_HEADER="{project.name}.h"',
        f"-DHYPERSONIC_TOP={project.name}",
        f"-DHYPERSONIC_INPUTS={len(project.inputs.tensors)}",
        f"-DHYPERSONIC_SIZES={','.join(str(tensor.size) for tensor in (*project.inputs.tensors, *project.outputs.tensors))}",
        *(f"-D{define}" for define in defines),
    ]
    sources = [firmware / f"{project.name}.cpp", _BRIDGE, *extra_sources]

    def build(directory: Path) -> None:
        require("g++")
        with tempfile.TemporaryDirectory() as scratch:
            copied = _with_plain_constants(firmware, Path(scratch) / "firmware")
            includes = [f"-I{copied}", f"-I{copied / 'ap_types'}"]
            read = [copied / file.name if file.parent == firmware else file.resolve() for file in sources]
            run(["g++", *_FLAGS, *macros, *includes, *read, "-o", output], directory)

    # the function that changes the text is an input like the text
    return cached("csim", [*_FLAGS, *macros, output, firmware, *sources, filled_at_start("t n[1] = {0};")], build) / output


def _with_plain_constants(firmware: Path, to: Path) -> Path:
    """A copy of hls4ml's C++ for the compiler."""
    shutil.copytree(firmware, to)
    for header in (to / "weights").glob("*.h"):
        header.write_text(filled_at_start(header.read_text()))
    return to


def filled_at_start(header: str) -> str:
    """hls4ml's weights/*.h with each array filled from doubles when the library is loaded, to the same values.

    g++ takes seconds for an ap_fixed array of some thousand initialisers and hours for a million; doubles cost it nothing.
    """
    return _CONSTANTS.sub(
        r"""static const double \2_values[\3] = {\4};
\1 \2[\3];
static const bool \2_filled = [] { for (int i = 0; i < \3; ++i) \2[i] = \2_values[i]; return true; }();""",
        header,
    )


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
            raise CsimError(f"model {self.project.name!r}: hypersonic_csim returned {status}, expected 0")
        return y
