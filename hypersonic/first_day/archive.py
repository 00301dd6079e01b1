# SPDX-License-Identifier: Apache-2.0
"""The archive of a day: one .tar.gz without secrets, to send along with a report."""

from __future__ import annotations

import gzip
import io
import json
import os
import platform
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path

import numpy as np

import hypersonic
from hypersonic.first_day.cleaning import clean_data, cleaner
from hypersonic.first_day.day import Day
from hypersonic.host.devices import find_xrt

#: the most characters of one file, of which the last are kept
MOST_CHARACTERS = 4 << 20


def write_archive(day: Day, file: Path, environment: Mapping[str, str] = os.environ) -> None:
    """Write the archive. Raises OSError.

    Args:
        environment: the variables whose values are removed.
    """
    clean = cleaner(environment)
    with file.open("wb") as plain, gzip.GzipFile("", "wb", fileobj=plain, mtime=0) as packed, tarfile.open(
        fileobj=packed, mode="w"
    ) as archive:  # fmt: skip
        for name, content in _files(day):
            text = content if isinstance(content, str) else json.dumps(clean_data(content, clean), indent=2) + "\n"
            data = clean(text)[-MOST_CHARACTERS:].encode() if isinstance(content, str) else text.encode()
            member = tarfile.TarInfo(f"first-day/{name}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))


def versions_of(day: Day) -> dict[str, str | None]:
    """The versions of what a day runs on."""
    xrt = find_xrt(day.root)
    return {
        "hypersonic": hypersonic.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "linux": platform.release(),
        "machine": platform.machine(),
        "xrt": xrt.version,
        "driver": xrt.driver,
    }


def _files(day: Day) -> Iterator[tuple[str, object]]:
    steps = [{**asdict(result), "as_expected": result.as_expected} for result in day.record.results]
    for step in steps:
        del step["lines"]  # they are a file of their own
    yield "summary.json", {"versions": versions_of(day), "target": day.target, "platform": day.platform.name, "steps": steps}
    for number, result in enumerate(day.record.results, 1):
        yield f"steps/{number}-{result.step}.txt", "\n".join([*result.lines, ""])
    yield from day.record.files.items()
