# SPDX-License-Identifier: Apache-2.0
"""Links: where the symbolic links of a model's directory may lead, and how files are opened through them.

Links below a model repository belong to the operator and are followed: anywhere, or only to the places that --model-link-roots
names. All other models' files were uploaded by a load request, and no link may lead out of the model's directory there.

A file is opened in three steps, so that a link that is changed meanwhile cannot open another file: the path is resolved; the
result is checked and opened without following a link at its end; and the path that the kernel has for the open file is checked.
"""

from __future__ import annotations

import errno
import logging
import os
import stat
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import NamedTuple

from hypersonic.server.errors import ModelLoadError

_LOG = logging.getLogger(__name__)
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | os.O_NOFOLLOW
#: the most files of one model that are examined
_MAX_SEEN = 100_000


@dataclass(frozen=True)
class Links:
    """The rules for symbolic links.

    Attributes:
        repositories: absolute paths, as the operator named them.
        roots: directories into which links may lead, in addition to the repositories; () = anywhere.
    """

    repositories: tuple[Path, ...] = ()
    roots: tuple[Path, ...] = ()

    def uploaded(self, directory: Path) -> bool:
        """Return whether a directory is below none of the repositories, because a load request brought its files."""
        return bool(self.repositories) and not any(directory.is_relative_to(repository) for repository in self.repositories)

    def follow(self, path: Path, home: Path, what: str) -> Path:
        """Return the resolved path.

        Args:
            home: the directory that contains it, before links are followed.
            what: its name in errors.

        Raises:
            ModelLoadError: For a text that is not a path, a loop of links, and a path that leads where it may not.
        """
        try:
            resolved = path.resolve()
        except RuntimeError as error:  # Python before 3.13 raises this for a loop
            raise ModelLoadError(f"{what} is a loop of symbolic links") from error
        except ValueError as error:
            raise ModelLoadError(f"{what!r} is not a file name: {error}") from error
        if not path.is_relative_to(home) or ".." in path.relative_to(home).parts:
            raise ModelLoadError(f"{what} leads out of the model's directory")
        self._check(resolved, home, what)
        return resolved

    @contextmanager
    def opened(self, path: Path, home: Path, what: str) -> Iterator[BufferedReader]:
        """Open a regular file for reading.

        Raises ModelLoadError for a path that leads where it may not, and OSError, also for a file that is not regular: a FIFO
        would block its reader, and a device may be endless.
        """
        descriptor = _open(self.follow(path, home, what), what)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(errno.EINVAL, "not a regular file", what)
            self._check(Path(f"/proc/self/fd/{descriptor}").readlink(), home, what)
            with open(descriptor, "rb", closefd=False) as file:
                yield file
        finally:
            os.close(descriptor)

    def read(self, path: Path, home: Path, what: str, limit_bytes: int) -> bytes:
        """Return a regular file's bytes, at most `limit_bytes` + 1 of them. Raises as opened() does."""
        with self.opened(path, home, what) as file:
            return file.read(limit_bytes + 1)

    def _check(self, resolved: Path, home: Path, what: str) -> None:
        ours = any(home.is_relative_to(repository) for repository in self.repositories)
        if ours and not self.roots:
            return
        allowed = (*self.repositories, *self.roots) if ours else (home,)
        if not any(resolved.is_relative_to(directory.resolve()) for directory in allowed):
            out_of = "the model repositories and of every --model-link-roots" if ours else "the model's directory"
            _LOG.warning("%s leads to %s, which is out of %s", what, resolved, out_of)  # clients are not told the target
            raise ModelLoadError(f"{what} leads out of {out_of}")


def _open(path: Path, what: str) -> int:
    try:
        return os.open(path, _FLAGS)
    except OSError as error:  # clients are not told where links lead
        raise OSError(error.errno, error.strerror, what) from error


class Seen(NamedTuple):
    """A file or directory below a directory.

    Attributes:
        status: of a link's target, None if it does not exist.
    """

    path: str
    is_link: bool
    status: os.stat_result | None


def below(directory: Path, without: Collection[str] = ()) -> Iterator[Seen]:
    """Yield everything below a directory, at most 100 000 entries. Follows links, except to a directory above the link.

    Raises OSError. Names that begin with two dots are skipped too, because Kubernetes keeps the targets of a volume's links
    under such names.

    Args:
        without: names in the directory itself that are skipped.
    """
    top = directory.resolve()
    waiting = [(str(directory), frozenset(_place(path.stat()) for path in (top, *top.parents)))]
    count = 0
    while waiting:
        path, above = waiting.pop()
        for entry in _entries(path):
            if entry.name.startswith("..") or (path == str(directory) and entry.name in without):
                continue
            count += 1
            if count > _MAX_SEEN:
                return
            seen = Seen(entry.path, entry.is_symlink(), _status(entry))
            yield seen
            if seen.status is not None and stat.S_ISDIR(seen.status.st_mode):
                place = _place(seen.status)
                if place not in above:
                    waiting.append((entry.path, above | {place}))


def _place(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _entries(path: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(path) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return []  # removed meanwhile, or not readable: the code that needs it reports the reason


def _status(entry: os.DirEntry[str]) -> os.stat_result | None:
    try:
        return entry.stat()
    except OSError:
        return None


def check_links(model: Path, without: Collection[str], links: Links) -> dict[str, Path]:
    """Check every link at or below a model's directory whose target exists.

    Returns link -> resolved target; the link is named by its path below the repository.

    Raises ModelLoadError for a link that leads where it may not, and OSError.

    Args:
        without: names in the directory that are skipped.
    """
    repository = model.parent
    paths = [Path(seen.path) for seen in below(model, without) if seen.is_link and seen.status is not None]
    if model.is_symlink():
        paths.insert(0, model)
    names = {str(path.relative_to(repository)): path for path in paths}
    return {name: links.follow(path, repository, name) for name, path in names.items()}
