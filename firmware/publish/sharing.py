# SPDX-License-Identifier: Apache-2.0
"""Finds the models of a repository that have the same kernel, and the versions whose xclbin is one file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from hypersonic.firmware.errors import ManifestError
from hypersonic.firmware.publish.content import digest
from hypersonic.firmware.publish.manifest import FILE_NAME, Manifest
from hypersonic.firmware.publish.repository import XCLBIN_NAME, versions
from hypersonic.firmware.target import Target


@dataclass(frozen=True)
class Sharer:
    """A published version of a model.

    Attributes:
        version: its directory.
    """

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


def why_not_shared(repository: Path, target: Target, platform: str, kernel: str, report: Mapping[str, Any]) -> str:
    """Return a sentence on a published model with a kernel of the same layers, and on the difference between the two kernels.

    Args:
        kernel, report: the kernel's name and the project's report. "" if no such model is published, or no difference is known.
    """
    own = report.get("core", {}).get("hardware")
    for sharer in _published(repository) if own else ():
        manifest = sharer.manifest
        other = manifest.report.get("core", {}).get("hardware")
        if (manifest.target, manifest.platform) != (target, platform) or not other:
            continue
        if [stage["module"] for stage in own] != [stage["module"] for stage in other]:
            continue
        if difference := _difference(own, other, kernel, manifest):
            return f"does not share the kernel of {manifest.model}: {difference}"
    return ""


def _difference(
    own: Sequence[Mapping[str, str]], other: Sequence[Mapping[str, str]], kernel: str, manifest: Manifest
) -> str:  # fmt: skip
    for one, two in zip(own, other, strict=True):
        for key in sorted((one.keys() | two.keys()) - {"layer"}):
            if one.get(key) == two.get(key):
                continue
            if key == "constants":
                return f"the constants of layer {one['layer']!r} are part of the kernel, and other ones than there"
            return f"in layer {one['layer']!r}, {key} is {one.get(key, 'not set')}, and {two.get(key, 'not set')} there"
    if kernel != manifest.kernel:
        return f"name in the YAML is {kernel}, and {manifest.kernel} there"
    return ""


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
    """The versions, as <model>/<version>, that share this published xclbin as one file, in the repository that it is in."""
    repository = xclbin.absolute().parent.parent.parent
    if xclbin.name != XCLBIN_NAME or not repository.is_dir():
        return []
    return [
        f"{sharer.version.parent.name}/{sharer.version.name}"
        for sharer in _published(repository)
        if (sharer.version / XCLBIN_NAME).samefile(xclbin)
    ]
