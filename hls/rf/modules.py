# SPDX-License-Identifier: Apache-2.0
"""The RTL modules of hls/rtl by name, and the files that each needs, found by what its text instantiates."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

from hypersonic.hls.core import AXIS_RTL, RF_RTL
from hypersonic.hls.sources import source_files

#: what may be the name of a module, before its parameters or an instance, or of a package
_USED = re.compile(r"\b(\w+)(?:::|\s+#\(|\s+u_\w+\s*\()")
_COMMENT = re.compile(r"//.*")


def is_package(file: Path) -> bool:
    """Return whether a file of RTL has a package, which tools read before the modules that use it, and not a module."""
    return file.match("*_pkg.sv")


def packages_first(files: Iterable[Path]) -> list[Path]:
    """Return the files with the packages before the modules, otherwise in their order."""
    return sorted(files, key=lambda file: not is_package(file))


def rtl_sources(module: str) -> tuple[Path, ...]:
    """Return the files of a module of hls/rtl in compile order: packages, then every module after those that it instantiates.

    Raises ValueError for an unknown module, and NoSourcesError if the folder has no modules at all.
    """
    files = {file.stem: file for folder in (AXIS_RTL, RF_RTL) for file in source_files(folder, "*.sv")}
    if module not in files or is_package(files[module]):
        known = ", ".join(name for name, file in files.items() if not is_package(file))
        raise ValueError(f"module {module!r} does not exist, expected one of {known}")
    return tuple(packages_first(dict.fromkeys(_with_parts(files[module], files))))


def _with_parts(file: Path, files: Mapping[str, Path]) -> Iterator[Path]:
    for name in _used_by(file):
        if name in files and name != file.stem:
            yield from _with_parts(files[name], files)
    yield file


@cache
def _used_by(file: Path) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_USED.findall(_COMMENT.sub("", file.read_text()))))


def sources_of(modules: Iterable[str]) -> tuple[Path, ...]:
    """Return the files of several modules, each once, every module after the ones that it instantiates."""
    return tuple(dict.fromkeys(file for module in modules for file in rtl_sources(module)))
