# SPDX-License-Identifier: Apache-2.0
"""Finds this project's own source files by folder, and hashes them for the keys of cached builds."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from hypersonic.hls.cache import content_hash


class NoSourcesError(RuntimeError):
    """A folder of this project has none of the files that belong there. The message names the folder and the pattern."""

    exit_code = 1


def source_files(folder: Path, pattern: str) -> list[Path]:
    """Return the files of `folder` that match a glob pattern, sorted. Raises NoSourcesError if there are none."""
    files = sorted(file for file in folder.glob(pattern) if file.is_file())
    if not files:
        raise NoSourcesError(
            f"{folder} has no {pattern}, expected at least one: either the installation is incomplete, or the files have moved"
        )
    return files


@cache
def sources_hash(folder: Path, *without: str) -> str:
    """Return a hash of the names and contents of all files below `folder`, computed once per process.

    without: names of entries of `folder` to leave out. __pycache__ and hidden files are always left out. Raises NoSourcesError
    if there is no file.
    """
    files = {file.relative_to(folder): file for file in source_files(folder, "**/*")}
    ours = {name: file for name, file in files.items() if name.parts[0] not in without and not any(map(_foreign, name.parts))}
    return content_hash(piece for name in sorted(ours) for piece in (name.as_posix(), ours[name].read_bytes()))


def _foreign(part: str) -> bool:
    return part == "__pycache__" or part.startswith(".")
