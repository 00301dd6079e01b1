# SPDX-License-Identifier: Apache-2.0
"""Finds the models of a repository that have the same kernel, and the versions whose xclbin is one file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from hypersonic.firmware.errors import ManifestError
from hypersonic.firmware.publish.content import digest
from hypersonic.firmware.publish.manifest import FILE_NAME, Manifest
from hypersonic.firmware.publish.repository import XCLBIN_NAME, versions
from hypersonic.firmware.target import Target


@dataclass(frozen=True)
class Sharer:
    """A published version of a model. version: its directory."""

    version: Path
    manifest: Manifest

    @cached_property
    def xclbin(self) -> bytes:
        """The bytes of its xclbin. Raises OSError."""
        return (self.version / XCLBIN_NAME).read_bytes()


def find_sharers(repository: Path, target: Target, platform: str, kernel: str, kernel_sha256: str) -> list[Sharer]:
    """The published versions, newest of each model first, whose kernel has this name and digest. A version that cannot be read
    or whose xclbin is damaged is left out."""
    wanted = (target, platform, kernel, kernel_sha256)
    return [
        sharer
        for sharer in _published(repository)
        if (sharer.manifest.target, sharer.manifest.platform, sharer.manifest.kernel, sharer.manifest.kernel_sha256) == wanted
        and digest(sharer.version / XCLBIN_NAME)[1] == sharer.manifest.sha256
    ]


def _published(repository: Path) -> Iterator[Sharer]:
    models = sorted(path.name for path in repository.iterdir()) if repository.is_dir() else []
    for model in (name for name in models if not name.startswith(".")):
        for number in reversed(versions(repository, model)):
            place = repository / model / str(number)
            if not all((place / name).is_file() for name in (FILE_NAME, XCLBIN_NAME)):
                continue
            try:
                yield Sharer(place, Manifest.read(place / FILE_NAME))
            except (ManifestError, OSError):
                continue


def same_file(xclbin: Path) -> list[str]:
    """The versions, as <model>/<version>, of the repository that a published xclbin is in whose xclbin is the same file."""
    repository = xclbin.absolute().parent.parent.parent
    if xclbin.name != XCLBIN_NAME or not repository.is_dir():
        return []
    return [
        f"{sharer.version.parent.name}/{sharer.version.name}"
        for sharer in _published(repository)
        if (sharer.version / XCLBIN_NAME).samefile(xclbin)
    ]
