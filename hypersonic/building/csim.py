# SPDX-License-Identifier: Apache-2.0
"""The golden reference of a model: its C++, converted and compiled, without a kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from hypersonic.hls.build import convert_model, is_converted
from hypersonic.hls.core_kind import CoreKind
from hypersonic.hls.csim.compiled import compile_csim
from hypersonic.hls.errors import ConversionError
from hypersonic.hls.frontend.description import describe
from hypersonic.hls.project import HlsProject
from hypersonic.hls.row import Row

Progress = Callable[[str], None]


def build_csim(model: str, progress: Progress = lambda _: None) -> tuple[HlsProject, Path]:
    """Convert a model and compile hls4ml's C++ of it, the golden reference, with which Csim(library, project) computes.

    model: as for build(). The C++ is the same whatever core computes the model, so the conversion that sw_emu or hw_emu was
    built from serves as well. Raises ConversionError, ConversionFailedError, ToolError.
    """
    description = describe(model)
    try:
        kind = CoreKind.CSIM if is_converted(description, CoreKind.CSIM) else description.core
        project, _ = convert_model(description, core=kind, progress=progress)
    except ConversionError:
        project, _ = convert_model(description, core=CoreKind.CSIM, progress=progress)
    return project, compile_csim(project)


def set_datatypes(rows: tuple[Row, Row], datatypes: tuple[str, str]) -> tuple[Row, Row]:
    """Inputs and outputs of the same network on other wires, "" = as they are: nothing of it is converted again.

    Raises SpecMismatchError.
    """
    x, y = (_set_datatype(row, datatype) for row, datatype in zip(rows, datatypes, strict=True))
    return x, y


def _set_datatype(row: Row, datatype: str) -> Row:
    return Row(tuple(
        replace(tensor, datatype=datatype, wire=None) if datatype not in ("", tensor.datatype) else tensor
        for tensor in row.tensors
    ))  # fmt: skip
