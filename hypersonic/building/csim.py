# SPDX-License-Identifier: Apache-2.0
"""Builds the golden reference of a model, which is hls4ml's C++, compiled. No kernel is built."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hypersonic.hls.build import convert_model, is_converted
from hypersonic.hls.core_kind import CoreKind
from hypersonic.hls.csim.compiled import compile_csim
from hypersonic.hls.errors import ConversionError
from hypersonic.hls.frontend.description import describe
from hypersonic.hls.project import HlsProject

Progress = Callable[[str], None]


def build_csim(model: str, progress: Progress = lambda _: None) -> tuple[HlsProject, Path]:
    """Convert a model and compile its C++; return the project and the library, for Csim(library, project).

    Raises ConversionError, ConversionFailedError, ToolError.

    Args:
        model: a zoo name or a path, as for build(). The C++ does not depend on the core, so an existing conversion for sw_emu
            or hw_emu is used.
        progress: called with one line per step.
    """
    description = describe(model)
    try:
        kind = CoreKind.CSIM if is_converted(description, CoreKind.CSIM) else description.core
        project, _ = convert_model(description, core=kind, progress=progress, keep_refused=True)
    except ConversionError:
        project, _ = convert_model(description, core=CoreKind.CSIM, progress=progress, keep_refused=True)
    if project.refused:
        raise ConversionError(project.refused)
    return project, compile_csim(project)
