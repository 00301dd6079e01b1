# SPDX-License-Identifier: Apache-2.0
"""Errors of a full disk: which file found no space, from an exception or from the output of a tool."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import disk_usage

#: what tools print then, after the file or before it; some print no file
_SAID = re.compile(
    r"(?:(/[^:'\"\n]+): )?(?:No space left on device|Disk quota exceeded)(?:: '([^'\n]+)')?(?: -> '([^'\n]+)')?", re.IGNORECASE
)  # fmt: skip

#: with less on its disk, a tool that failed is taken to have found no space: Verilator does not say why it cannot write
_LEAST_BYTES = 1 << 20


@contextmanager
def naming(place: Path) -> Iterator[None]:
    """Give an OSError of the body the file or directory that is being written, where it has no file of its own."""
    try:
        yield
    except OSError as error:
        if error.errno and not error.filename:  # shutil's errors have no number, and name their files in their texts
            error.filename = str(place)
        raise


def full_place(output: str, *directories: Path) -> str | None:
    """Return the file for which a tool that failed found no space; None if that is not why.

    Args:
        output: what the tool printed.
        directories: where it wrote; the full one is returned if the output names no file.
    """
    found = list(_SAID.finditer(output))
    if named := [name for match in found for name in match.groups() if name]:
        return named[-1]
    short = [str(place) for place in directories if place.is_dir() and disk_usage(place).free < _LEAST_BYTES]
    return short[0] if short else str(directories[0]) if found else None
