# SPDX-License-Identifier: Apache-2.0
"""Writes the files that `hypersonic build` leaves in --build-directory for users: HLS project, RTL core and kernel."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from hypersonic.building.converted import Converted
from hypersonic.building.errors import BuildError
from hypersonic.firmware.kernel.files import Kernel
from hypersonic.hls.disk import naming
from hypersonic.hls.project import HlsProject


def check_directory(directory: Path) -> None:
    """Raise BuildError if the directory exists and is not an HLS project of hypersonic, and so must not be replaced."""
    if directory.exists() and not (directory / "project.json").is_file():
        raise BuildError(f"{directory} exists and does not hold an HLS project; give another --build-directory")


def leave_all(models: Sequence[Converted], directory: Path | None) -> None:
    """Leave the files of each model in directory/<name>, or nothing without a directory. Raises BuildError as `leave` does."""
    for model in models if directory else ():
        assert directory
        leave(model.project, model.kernel, directory / model.project.name)


def leave(project: HlsProject, kernel: Kernel | None, directory: Path) -> None:
    """Write hls/ (for Vitis HLS), core/ (the network's RTL) and kernel/ (the top module around it) into `directory`.

    An older copy is replaced.

    Args:
        kernel: None if there is none (sw_emu).

    Raises:
        BuildError: As check_directory does.
    """
    check_directory(directory)
    directory.parent.mkdir(parents=True, exist_ok=True)
    parent = directory.parent
    with naming(directory), tempfile.TemporaryDirectory(prefix=f".{directory.name}-", dir=parent) as scratch:
        fresh = Path(scratch) / "fresh"
        shutil.copytree(project.path, fresh)
        if kernel:
            (fresh / "kernel").mkdir()
            shutil.copyfile(kernel.top_file, fresh / "kernel" / kernel.top_file.name)
        _exchange(fresh, directory, Path(scratch))


def _exchange(fresh: Path, directory: Path, scratch: Path) -> None:
    """Replace `directory` by `fresh`, never leaving it half written. If several builds do so at once, the last one stays."""
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
