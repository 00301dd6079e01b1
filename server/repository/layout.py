# SPDX-License-Identifier: Apache-2.0
"""Triton's directory layout, looked at and never written.

    <repository>/<model>/config.pbtxt
    <repository>/<model>/<version>/...

Symbolic links are followed as links.py says; names that start with a dot are somebody's work in progress, or Kubernetes' own.
A directory may bear any bytes as its name: here and in the index a name is text that can be printed (show_name).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from hypersonic.server.errors import ModelLoadError, StartError, printable
from hypersonic.server.links import Links, below

CONFIG = "config.pbtxt"
#: the reason of a name that no repository has
NOT_FOUND = "model not found in any model repository."
#: the reason of a name that several have
AMBIGUOUS = "model appears in two or more repositories"
#: of a name that no model may bear
MODEL_NAME_RULE = "expected a model name of letters, digits, '_', '.' and '-', 128 at most, a letter, digit or '_' in front"
_VERSION_DIRECTORY = re.compile(r"[1-9][0-9]{0,17}")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
#: what tells one state of a directory tree from another: path, mtime in ns, size, inode of each file
Signature = tuple[tuple[str, int, int, int], ...]


class Place(NamedTuple):
    """A model's directory, and the repository it lies in."""

    path: Path
    repository: Path

    @property
    def name(self) -> str:
        """As the index shows it."""
        return show_name(self.path.name)


class Found(NamedTuple):
    """The model directories of all repositories. away: the errors of repositories that cannot be read now."""

    models: Mapping[str, tuple[Place, ...]]
    away: tuple[OSError, ...] = ()


def show_name(name: str) -> str:
    """A file name as text: bytes that are not UTF-8, control characters and the like are escaped, so that no name is lost."""
    text = os.fsencode(name).decode(errors="backslashreplace")
    return printable(text)


def is_plain_name(name: str) -> bool:
    """Whether a model, or a file of a load request, may bear this name: letters, digits, '_', '.' and '-', 128 at most, neither
    '.' nor '-' in front."""
    return _PLAIN_NAME.fullmatch(name) is not None


def find_models(repositories: Sequence[Path]) -> Found:
    """Every model directory, by name; more than one place for a name that several repositories have."""
    places: dict[str, tuple[Place, ...]] = {}
    away: list[OSError] = []
    for repository in repositories:
        try:
            paths = sorted(repository.iterdir())
        except OSError as error:
            away.append(error)
            continue
        for place in (Place(path, repository) for path in paths if _is_model_directory(path)):
            places[place.name] = (*places.get(place.name, ()), place)
    return Found(places, tuple(away))


def _is_model_directory(path: Path) -> bool:
    """What cannot be looked at counts: why is that model's reason, and whatever serves under its name is not gone."""
    if path.name.startswith("."):
        return False
    try:
        return path.is_dir() or _leads_nowhere(path)
    except OSError:
        return True


def _leads_nowhere(path: Path) -> bool:
    """Whether it is a link to what is not there (a file system that is away), or to itself."""
    return path.is_symlink() and not path.exists()


def require_repositories(repositories: Sequence[Path]) -> None:
    """Raises StartError for a directory that cannot be read."""
    for repository in repositories:
        try:
            next(repository.iterdir(), None)
        except OSError as error:
            raise StartError(
                f"model repository {repository} cannot be read: {error.strerror}; "
                "expected a directory with one directory per model"
            ) from error


def find_model(repositories: Sequence[Path], name: str) -> tuple[Place, ...]:
    """The places of one model; () for a name that none has, or that is none of a directory in a repository."""
    if not is_plain_name(name):
        return find_models(repositories).models.get(name, ())
    return tuple(Place(repository / name, repository) for repository in repositories if _is_model_directory(repository / name))


def check_place(places: Sequence[Place], links: Links) -> Place:
    """The one place a model has. Raises ModelLoadError with the reason RepositoryIndex shows."""
    if not places:
        raise ModelLoadError(NOT_FOUND)
    if len(places) > 1:
        raise ModelLoadError(AMBIGUOUS)
    if not is_plain_name(places[0].name):
        raise ModelLoadError(MODEL_NAME_RULE)
    _follow(places[0].path, places[0].repository, links)
    return places[0]


def version_directories(place: Place, links: Links) -> dict[int, Path]:
    """Number -> directory as the repository names it, of 1, 2, ... without leading zeros. Raises ModelLoadError, OSError."""
    _follow(place.path, place.repository, links)
    directories = [path for path in place.path.iterdir() if path.is_dir() and _VERSION_DIRECTORY.fullmatch(path.name)]
    for path in directories:
        _follow(path, place.repository, links)
    return {int(path.name): path for path in directories}


def _follow(path: Path, repository: Path, links: Links) -> None:
    links.follow(path, repository, str(path.relative_to(repository)))


def is_version(text: str) -> bool:
    """Whether a directory of that name is a version."""
    return _VERSION_DIRECTORY.fullmatch(text) is not None


def scrub(text: str, roots: Sequence[Path]) -> str:
    """An error's text for clients' eyes: paths only from the repository on."""
    for root in roots:
        for known in (root, root.resolve()):
            text = text.replace(f"{known}/", "")
    return text


def signature(place: Place) -> Signature:
    """Of every file below a model's directory, links followed. Raises OSError for one that is gone."""
    top = (str(place.path), place.path.stat())
    return tuple(sorted(_row(*entry) for entry in (top, *_there(place.path))))


def _there(model: Path) -> Iterator[tuple[str, os.stat_result]]:
    for seen in below(model):
        if seen.status is not None:
            yield seen.path, seen.status


def _row(path: str, status: os.stat_result) -> tuple[str, int, int, int]:
    return path, status.st_mtime_ns, status.st_size, status.st_ino


def select_below(whole: Signature, directory: Path) -> Signature:
    """What a signature says of one directory in the model's."""
    top, prefix = str(directory), f"{directory}/"
    return tuple(row for row in whole if row[0] == top or row[0].startswith(prefix))
