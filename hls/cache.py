# SPDX-License-Identifier: Apache-2.0
"""Long builds, kept by the hash of what went into them: never by date, never half done."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path


class CacheError(RuntimeError):
    """The directory of kept builds cannot be written: which, why, and how to choose another."""


def cache_directory() -> Path:
    """$HYPERSONIC_CACHE, else $XDG_CACHE_HOME/hypersonic, else ~/.cache/hypersonic."""
    if named := os.environ.get("HYPERSONIC_CACHE"):
        return Path(named)
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "hypersonic"


def content_hash(parts: Iterable[str | bytes | Path]) -> str:
    """Hash of texts, bytes and files (a file counts by name and content, a directory by every file below it).

    Each part is framed by its length, so no two lists of parts share a hash by joining differently.
    """
    digest = hashlib.sha256()
    for part in parts:
        for piece in _pieces(part):
            digest.update(len(piece).to_bytes(8, "little"))
            digest.update(piece)
    return digest.hexdigest()[:32]


def _pieces(part: str | bytes | Path) -> Iterable[bytes]:
    if isinstance(part, Path):
        if not part.is_dir():
            return (part.name.encode(), part.read_bytes())
        files = sorted(file for file in part.rglob("*") if file.is_file())
        return [piece for file in files for piece in (str(file.relative_to(part)).encode(), file.read_bytes())]
    return (part.encode() if isinstance(part, str) else part,)


def cached(kind: str, parts: Iterable[str | bytes | Path], build: Callable[[Path], None]) -> Path:
    """The directory of the build whose inputs are `parts`; `build(directory)` fills it when it is not there yet.

    A build that raises leaves nothing behind; of two processes that build the same, the first to finish wins. Raises
    CacheError when the cache cannot be written.
    """
    place = _place(kind, parts)
    if place.is_dir():
        return place
    scratch = _scratch(place)
    try:
        build(scratch)
        try:
            scratch.rename(place)
        except OSError:
            if not place.is_dir():
                raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return place


def is_cached(kind: str, parts: Iterable[str | bytes | Path]) -> bool:
    """Whether `cached` would find it."""
    return _place(kind, parts).is_dir()


def _place(kind: str, parts: Iterable[str | bytes | Path]) -> Path:
    return cache_directory() / kind / content_hash(parts)


def _scratch(place: Path) -> Path:
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix=f".{place.name}-", dir=place.parent))
    except OSError as error:
        raise CacheError(
            f"builds are kept in {cache_directory()}, which cannot be written: {error.strerror}; set HYPERSONIC_CACHE to a "
            "directory that can"
        ) from error
