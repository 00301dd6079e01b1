# SPDX-License-Identifier: Apache-2.0
"""Triton's directory layout, which is read and never written.

::

    <repository>/<model>/config.pbtxt
    <repository>/<model>/<version>/...

Symbolic links are followed by core/links.py's rules. Names that begin with a dot are skipped: they are unfinished copies, or
belong to Kubernetes. The name of a directory may consist of any bytes; here and in the index, a name is printable text
(show_name()).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from hypersonic.server.core.links import Links, below
from hypersonic.server.errors import ModelLoadError, StartError, printable

CONFIG = "config.pbtxt"
#: the reason for a name that no repository has
NOT_FOUND = "model not found in any model repository."
#: the reason for a name that several repositories have
AMBIGUOUS = "model appears in two or more repositories"
#: the reason for a name that a model may not have
MODEL_NAME_RULE = "expected a name of at most 128 letters, digits, '_', '.' and '-' that begins with a letter, a digit or '_'"
_VERSION_DIRECTORY = re.compile(r"[1-9][0-9]{0,17}")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
#: the state of a directory tree, by which changes are detected: path, mtime in ns, size in bytes and inode of each file
Signature = tuple[tuple[str, int, int, int], ...]


class ModelDirectory(NamedTuple):
    """A model's directory, and the repository that contains it."""

    path: Path
    repository: Path

    @property
    def name(self) -> str:
        """The model's name as the index shows it."""
        return show_name(self.path.name)


class Found(NamedTuple):
    """The model directories of all repositories, by name.

    Attributes:
        away: the errors of repositories that cannot be read now.
    """

    models: Mapping[str, tuple[ModelDirectory, ...]]
    away: tuple[OSError, ...] = ()


def show_name(name: str) -> str:
    """Return a file name as printable text. Bytes that are not UTF-8, control characters and the like are escaped."""
    text = os.fsencode(name).decode(errors="backslashreplace")
    return printable(text)


def is_plain_name(name: str) -> bool:
    """Return whether a model, or a file of a load request, may have this name.

    It may have at most 128 letters, digits, '_', '.' and '-', and does not begin with '.' or '-'.
    """
    return _PLAIN_NAME.fullmatch(name) is not None


def find_models(repositories: Sequence[Path]) -> Found:
    """Return every model directory, by name. A name that several repositories have gets several places."""
    places: dict[str, tuple[ModelDirectory, ...]] = {}
    away: list[OSError] = []
    for repository in repositories:
        try:
            paths = sorted(repository.iterdir())
        except OSError as error:
            away.append(error)
            continue
        for place in (ModelDirectory(path, repository) for path in paths if _is_model_directory(path)):
            places[place.name] = (*places.get(place.name, ()), place)
    return Found(places, tuple(away))


def _is_model_directory(path: Path) -> bool:
    """Return whether a path is a model directory.

    A path that cannot be examined counts as one: its load then fails with the reason, and a model that serves under its name
    is not unloaded.
    """
    if path.name.startswith("."):
        return False
    try:
        return path.is_dir() or _leads_nowhere(path)
    except OSError:
        return True


def _leads_nowhere(path: Path) -> bool:
    """Return whether a path is a link to itself or to something missing, for example on a file system that is not mounted."""
    return path.is_symlink() and not path.exists()


def require_repositories(repositories: Sequence[Path]) -> None:
    """Raise StartError for a repository that cannot be read."""
    for repository in repositories:
        try:
            next(repository.iterdir(), None)
        except OSError as error:
            raise StartError(
                f"model repository {repository} cannot be read: {error.strerror}; "
                "expected a directory with one directory per model; `hypersonic run` and `hypersonic build` write "
                "./models: start the server where you called them, or name that directory with --model-repository"
            ) from error


def find_model(repositories: Sequence[Path], name: str) -> tuple[ModelDirectory, ...]:
    """Return the places of one model; () for a name that no repository has."""
    if not is_plain_name(name):
        return find_models(repositories).models.get(name, ())
    return tuple(
        ModelDirectory(repository / name, repository) for repository in repositories if _is_model_directory(repository / name)
    )


def check_place(places: Sequence[ModelDirectory], links: Links) -> ModelDirectory:
    """Return the only place of a model. Raises ModelLoadError, with the reason that RepositoryIndex shows, if there are none or
    several, if a model may not have this name, or if a link leads where it may not.
    """
    if not places:
        raise ModelLoadError(NOT_FOUND)
    if len(places) > 1:
        raise ModelLoadError(AMBIGUOUS)
    if not is_plain_name(places[0].name):
        raise ModelLoadError(MODEL_NAME_RULE)
    _follow(places[0].path, places[0].repository, links)
    return places[0]


def version_directories(place: ModelDirectory, links: Links) -> dict[int, Path]:
    """Return version -> directory. A version is a directory whose name is a number from 1 on, without leading zeros.

    Raises ModelLoadError for a link that leads where it may not, and OSError.
    """
    _follow(place.path, place.repository, links)
    directories = [path for path in place.path.iterdir() if path.is_dir() and _VERSION_DIRECTORY.fullmatch(path.name)]
    for path in directories:
        _follow(path, place.repository, links)
    return {int(path.name): path for path in directories}


def _follow(path: Path, repository: Path, links: Links) -> None:
    links.follow(path, repository, str(path.relative_to(repository)))


def is_version(text: str) -> bool:
    """Return whether a directory of that name is a version."""
    return _VERSION_DIRECTORY.fullmatch(text) is not None


def scrub(text: str, roots: Sequence[Path]) -> str:
    """Return an error's text as clients may see it: `roots`, the directories above the models, are removed from its paths."""
    for root in roots:
        for known in (root, root.resolve()):
            text = text.replace(f"{known}/", "")
    return text


def signature(place: ModelDirectory) -> Signature:
    """Return the state of all files below a model's directory, following links. Raises OSError for a directory that is gone."""
    top = (str(place.path), place.path.stat())
    return tuple(sorted(_row(*entry) for entry in (top, *_there(place.path))))


def _there(model: Path) -> Iterator[tuple[str, os.stat_result]]:
    for seen in below(model):
        if seen.status is not None:
            yield seen.path, seen.status


def _row(path: str, status: os.stat_result) -> tuple[str, int, int, int]:
    return path, status.st_mtime_ns, status.st_size, status.st_ino


def select_below(whole: Signature, directory: Path) -> Signature:
    """Return the part of a signature that is about one directory below the model's."""
    top, prefix = str(directory), f"{directory}/"
    return tuple(row for row in whole if row[0] == top or row[0].startswith(prefix))
