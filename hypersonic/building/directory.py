# SPDX-License-Identifier: Apache-2.0
"""The files that `hypersonic build` leaves in --build-directory for people to see: HLS project, RTL core and kernel."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from hypersonic.building.errors import BuildError
from hypersonic.firmware.kernel.files import Kernel
from hypersonic.hls.project import HlsProject


def check_directory(directory: Path) -> None:
    """Raises BuildError rather than replace a directory that is no HLS project of ours."""
    if directory.exists() and not (directory / "project.json").is_file():
        raise BuildError(f"{directory} is there and holds no HLS project; give another --build-directory")


def leave(project: HlsProject, kernel: Kernel | None, directory: Path) -> None:
    """hls/ (open it with Vitis HLS), core/ (the network's RTL) and kernel/ (the top around it), replacing an older copy.

    Raises BuildError as check_directory.
    """
    check_directory(directory)
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{directory.name}-", dir=directory.parent) as scratch:
        fresh = Path(scratch) / "fresh"
        shutil.copytree(project.path, fresh)
        if kernel:
            (fresh / "kernel").mkdir()
            shutil.copyfile(kernel.top_file, fresh / "kernel" / kernel.top_file.name)
        _exchange(fresh, directory, Path(scratch))


def _exchange(fresh: Path, directory: Path, scratch: Path) -> None:
    """Put `fresh` in directory's place, whole at every moment; of several builds that do so at once the last one stays."""
    for attempt in itertools.count():
        with suppress(FileNotFoundError):
            directory.rename(scratch / f"old{attempt}")
        try:
            fresh.rename(directory)
        except OSError:
            if not directory.is_dir():
                raise
        else:
            return
