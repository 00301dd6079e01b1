# SPDX-License-Identifier: Apache-2.0
"""The modules of hls/rtl by name: beside each lies <module>.f, the files it needs in compile order, itself last."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from hypersonic.hls.core import AXIS_RTL, RF_RTL
from hypersonic.hls.sources import source_files


def rtl_sources(module: str) -> tuple[Path, ...]:
    """The files of a module of hls/rtl. Raises ValueError for one that is not there, NoSourcesError where none is."""
    folder = AXIS_RTL if module.startswith("axis_") else RF_RTL
    listing = folder / f"{module}.f"
    if not listing.is_file():
        known = ", ".join(file.stem for file in source_files(folder, "*.f"))
        raise ValueError(f"module {module!r} is not one of {folder}, expected one of {known}")
    return tuple((folder / line).resolve() for line in listing.read_text().split())


def sources_of(modules: Iterable[str]) -> tuple[Path, ...]:
    """The files of several modules, each once, a module after those it is made of."""
    return tuple(dict.fromkeys(file for module in modules for file in rtl_sources(module)))
