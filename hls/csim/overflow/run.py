# SPDX-License-Identifier: Apache-2.0
"""Compiles a project with counting numbers, computes rows, and says what did not fit into each layer's variables."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.csim.compiled import Csim, compile_csim
from hypersonic.hls.csim.overflow.figures import NumberType, Overflows, VariableCounts
from hypersonic.hls.csim.overflow.patch import COUNTED
from hypersonic.hls.csim.overflow.source import ROWS, Names, Typedef, fixed_text, integer_type, names_of, rewrite
from hypersonic.hls.errors import MissingToolError, ToolError, ToolResourceError
from hypersonic.hls.project import HlsProject

_OURS = (COUNTED, ROWS, *(Path(__file__).with_name(name) for name in ("patch.py", "source.py")))

#: the numbers that rows.h writes for each variable: seven of the type, and of VariableCounts from `given` on
_NUMBERS = 19

#: ap_q_mode and ap_o_mode of ap_decl.h
_ROUNDINGS = ("AP_RND", "AP_RND_ZERO", "AP_RND_MIN_INF", "AP_RND_INF", "AP_RND_CONV", "AP_TRN", "AP_TRN_ZERO")
_OVERFLOWS = ("AP_SAT", "AP_SAT_ZERO", "AP_SAT_SYM", "AP_WRAP", "AP_WRAP_SM")

#: the counts are in static variables of a library, which a process loads once
_ONE_AT_A_TIME = Lock()


def compile_counting(project: HlsProject, *, optimisation: str = "-O1", shared: bool = False) -> Path:
    """Compile the project's C++ with counting numbers; return the library, cached by content like csim's.

    Args:
        shared: see source.rewrite.

    Raises:
        UnknownTypesError: If the C++ is not hls4ml 1.3.0's.
        MissingToolError: Without g++.
        ToolError: If it fails.
    """
    return compile_csim(
        project,
        output=f"overflow{'_shared' * shared}.so",
        defines=["HYPERSONIC_SHARED"] * shared,  # part of the cache's key
        optimisation=optimisation,
        rewrite=lambda firmware: rewrite(firmware, project.name, shared=shared),
        rewriting=_OURS,
    )


@dataclass(frozen=True)
class Counting:
    """A compiled library that counts.

    Attributes:
        shared: typedefs of the same text share a number, because the C++ does not compile otherwise.
    """

    library: Path
    shared: bool


def find_overflows(project: HlsProject, x_raw: NDArray[np.int64], compiled: Counting | None = None) -> Overflows:
    """Compute rows and return what each variable of each layer was given, and what did not fit.

    Raises what compile_counting and predict_raw raise.

    Args:
        x_raw: as Csim.predict_raw takes it, (rows, inputs.size) int64.
        compiled: compile_for_counts(project), if the caller has it already.
    """
    return answers_and_overflows(project, x_raw, compiled)[1]


def answers_and_overflows(
    project: HlsProject, x_raw: NDArray[np.int64], compiled: Counting | None = None
) -> tuple[NDArray[np.int64], Overflows]:
    """Do as find_overflows, and return the answers too, (rows, outputs.size) int64, which equal csim's."""
    made = compiled or compile_for_counts(project)
    csim = Csim(made.library, project)
    names = names_of(project.hls / "firmware", project.name, len(project.inputs.tensors), shared=made.shared)
    library = ctypes.CDLL(str(csim.library))
    library.hypersonic_overflow_begin.restype = None
    with _ONE_AT_A_TIME:
        csim.predict_raw(np.zeros((1, project.inputs.size), np.int64))  # fills the tables
        library.hypersonic_overflow_begin()
        y_raw = csim.predict_raw(x_raw)
        cells = _cells(library)
    found = sorted(_counts(cells, names), key=lambda pair: pair[0])
    return y_raw, Overflows(project.name, len(x_raw), tuple(counts for _, counts in found))


def compile_for_counts(project: HlsProject) -> Counting:
    """Compile what find_overflows needs. Raises as compile_counting does."""
    try:
        return Counting(compile_counting(project), shared=False)
    except (MissingToolError, ToolResourceError):
        raise
    except ToolError:
        return Counting(compile_counting(project, shared=True), shared=True)


def _cells(library: ctypes.CDLL) -> NDArray[np.float64]:
    """(variables, _NUMBERS)"""
    read = library.hypersonic_overflow_cells
    read.argtypes, read.restype = [ctypes.c_void_p, ctypes.c_size_t], ctypes.c_size_t
    cells = np.zeros((read(None, 0), _NUMBERS))
    read(cells.ctypes.data, len(cells))
    return cells


def _counts(cells: NDArray[np.float64], names: Names) -> Iterator[tuple[tuple[int, int], VariableCounts]]:
    """Yield the place in a table and the counts of each cell with values."""
    for cell in cells:
        number, constant, tag, width, integer, signed, rounding, overflow, given, *counts = (int(n) for n in cell[:15])
        kind = NumberType(width, integer, bool(signed), "" if rounding < 0 else _ROUNDINGS[rounding], _OVERFLOWS[overflow])
        typedef = names.typedefs[tag - 1] if tag else None
        layer = names.layers[number - 1] if number else _users(typedef)
        if given or any(counts):
            ends = (float(end) for end in cell[15:])
            place = names.layers.index(layer) if layer in names.layers else -1
            variable = _variable(layer, kind, typedef, names)
            yield (place, tag), VariableCounts(layer, variable, kind, bool(constant), given, *counts, *ends)


def _users(typedef: Typedef | None) -> str:
    """The layers of a constant that was converted before the first row, which are several if they share its type."""
    return ", ".join(dict.fromkeys(layer for layer, _ in typedef.uses)) if typedef else ""


def _variable(layer: str, kind: NumberType, typedef: Typedef | None, names: Names) -> str:
    if typedef:
        return typedef.use_in(layer) or typedef.name
    if not kind.rounding:
        same = [each for each in names.typedefs if integer_type(fixed_text(each.text)) == (kind.signed, kind.width)]
        found = dict.fromkeys(use for each in same if (use := each.use_in(layer)))
        return ", ".join(found) or str(kind)
    return str(kind)
