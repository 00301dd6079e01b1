# SPDX-License-Identifier: Apache-2.0
"""The cache of finished builds. The key is a hash of a build's inputs, never a date, and an unfinished build is never kept."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


class CacheError(RuntimeError):
    """The cache directory cannot be written, or its disk is full. The message says which, why, and how to choose another."""


def cache_directory() -> Path:
    """Return $HYPERSONIC_CACHE, or $XDG_CACHE_HOME/hypersonic, or ~/.cache/hypersonic, whichever is set first."""
    if named := os.environ.get("HYPERSONIC_CACHE"):
        return Path(named)
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "hypersonic"


def content_hash(parts: Iterable[str | bytes | Path]) -> str:
    """Return the first 32 hex digits of content_sha256."""
    return content_sha256(parts)[:32]


def content_sha256(parts: Iterable[str | bytes | Path]) -> str:
    """Return the 64 hex digits of SHA-256 over texts, bytes and files.

    A file is hashed by its name and content, a directory by the relative paths and contents of all files below it. The length
    of each piece is hashed before it, so two lists that differ only in where one part ends and the next begins differ.
    """
    digest = hashlib.sha256()
    for part in parts:
        for piece in _pieces(part):
            digest.update(len(piece).to_bytes(8, "little"))
            digest.update(piece)
    return digest.hexdigest()


def _pieces(part: str | bytes | Path) -> Iterable[bytes]:
    if isinstance(part, Path):
        if not part.is_dir():
            return (part.name.encode(), part.read_bytes())
        files = sorted(file for file in part.rglob("*") if file.is_file())
        return [piece for file in files for piece in (str(file.relative_to(part)).encode(), file.read_bytes())]
    return (part.encode() if isinstance(part, str) else part,)


def cached(kind: str, parts: Iterable[str | bytes | Path], build: Callable[[Path], None]) -> Path:
    """Return the directory of the build whose inputs are `parts`; call `build(directory)` to fill it if it does not exist yet.

    A build that raises leaves nothing behind. A caller waits for a build that another thread or process has started; on a file
    system without locks both build, and the first to finish wins. `build` must not request the same parts itself.

    Args:
        kind: a subdirectory of the cache.

    Raises:
        CacheError: When the cache cannot be written, and whatever `build` raises.
    """
    place = _place(kind, parts)
    if not place.is_dir():
        with _locked(place):
            if not place.is_dir():
                _fill(place, build)
    return place


def _fill(place: Path, build: Callable[[Path], None]) -> None:
    scratch = _scratch(place)
    try:
        build(scratch)
        try:
            scratch.rename(place)
        except OSError:
            if not place.is_dir():
                raise
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise CacheError(
                f"{error.filename or scratch}: {error.strerror}; free some space, or set HYPERSONIC_CACHE, where builds are "
                "kept, or TMPDIR to a directory with more"
            ) from error
        raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@contextmanager
def _locked(place: Path) -> Iterator[None]:
    """Keep others from building this place. The lock ends with the process, however it ends."""
    file = place.parent / f".{place.name}.lock"
    descriptor = _lock(file)
    try:
        yield
    finally:
        if descriptor is not None:
            with suppress(OSError):
                file.unlink()
            os.close(descriptor)


def _lock(file: Path) -> int | None:
    """Return the descriptor of the locked file, or None where files cannot be locked."""
    while True:
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(file, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o666)
        except OSError:
            return None  # making the directory for the build will raise the same error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), file.stat()):
                    return descriptor
        except OSError:
            os.close(descriptor)
            return None
        except BaseException:  # such as Ctrl-C while waiting
            os.close(descriptor)
            raise
        os.close(descriptor)  # the previous holder has removed this file: retry


def is_cached(kind: str, parts: Iterable[str | bytes | Path]) -> bool:
    """Return whether `cached` would find the build of these parts without building."""
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
