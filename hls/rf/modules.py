# SPDX-License-Identifier: Apache-2.0
"""The RTL modules of hls/rtl by name. <module>.f lists the files that a module needs in compile order, its own file last."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from hypersonic.hls.core import AXIS_RTL, RF_RTL
from hypersonic.hls.sources import source_files


def is_package(file: Path) -> bool:
    """Return whether a file of RTL has a package, which tools read before the modules that use it, and not a module."""
    return file.match("*_pkg.sv")


def packages_first(files: Iterable[Path]) -> list[Path]:
    """Return the files with the packages before the modules, otherwise in their order."""
    return sorted(files, key=lambda file: not is_package(file))


def rtl_sources(module: str) -> tuple[Path, ...]:
    """Return the files of a module of hls/rtl, in compile order.

    Raises ValueError for an unknown module, and NoSourcesError if the folder has no modules at all.
    """
    listings = {file.stem: file for folder in (AXIS_RTL, RF_RTL) for file in source_files(folder, "*.f")}
    if module not in listings:
        raise ValueError(f"module {module!r} does not exist, expected one of {', '.join(listings)}")
    return tuple((listings[module].parent / line).resolve() for line in listings[module].read_text().split())


def sources_of(modules: Iterable[str]) -> tuple[Path, ...]:
    """Return the files of several modules, each once, every module after the ones that it instantiates."""
    return tuple(dict.fromkeys(file for module in modules for file in rtl_sources(module)))
