# SPDX-License-Identifier: Apache-2.0
"""Source files of our own: found by folder, and hashed for the keys of kept builds."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from hypersonic.hls.cache import content_hash


class NoSourcesError(RuntimeError):
    """A folder of ours holds none of the files that belong there: which folder, which files."""

    exit_code = 1


def source_files(folder: Path, pattern: str) -> list[Path]:
    """The files of `folder` of this glob pattern, sorted. Raises NoSourcesError when there are none."""
    files = sorted(file for file in folder.glob(pattern) if file.is_file())
    if not files:
        raise NoSourcesError(
            f"{folder} has no {pattern}, expected at least one: either the installation is incomplete, or the files have moved"
        )
    return files


@cache
def sources_hash(folder: Path, *without: str) -> str:
    """Hash of the names and contents of all files below `folder`, worked out once in a process.

    without: folders in it that are left out; so are __pycache__ and what is hidden. Raises NoSourcesError when there is no
    file.
    """
    files = {file.relative_to(folder): file for file in source_files(folder, "**/*")}
    ours = {name: file for name, file in files.items() if name.parts[0] not in without and not any(map(_foreign, name.parts))}
    return content_hash(piece for name in sorted(ours) for piece in (name.as_posix(), ours[name].read_bytes()))


def _foreign(part: str) -> bool:
    return part == "__pycache__" or part.startswith(".")
