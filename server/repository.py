# SPDX-License-Identifier: Apache-2.0
"""ModelRepository: Triton's directory layout, and what became of each version in it.

    <repository>/<model>/config.pbtxt
    <repository>/<model>/<version>/...

What cannot be loaded is UNAVAILABLE with its reason and disturbs nothing else. Nothing is read through a symlink that leads
out of the repository; names that start with a dot are somebody's work in progress.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from hypersonic.server.backend import Backend
from hypersonic.server.config import ModelConfig
from hypersonic.server.config_read import read_config
from hypersonic.server.errors import (
    InvalidRequestError,
    ModelConfigError,
    ModelLoadError,
    NotFoundError,
    StartError,
    UnavailableError,
)
from hypersonic.server.model import Model, ScheduledModel

_LOG = logging.getLogger(__name__)
_VERSION_DIRECTORY = re.compile(r"[1-9][0-9]{0,17}")
_VERSION_TEXT = re.compile(r"\s*([+-]?[0-9]{1,18})")
_MODEL_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")


class ModelState(StrEnum):
    """RepositoryIndex's words."""

    READY = "READY"
    UNAVAILABLE = "UNAVAILABLE"


class IndexEntry(NamedTuple):
    """A row of RepositoryIndex. version: "" where the model itself is at fault."""

    name: str
    version: str
    state: ModelState
    reason: str


class Versions:
    """What became of one model directory: versions loaded, versions failed, or the reason why there are neither."""

    def __init__(self, reason: str = "") -> None:
        self.loaded: dict[int, Model] = {}
        self.failed: dict[int, str] = {}
        self.reason = reason

    def latest(self) -> Model | None:
        """The highest version in service."""
        ready = [version for version in sorted(self.loaded, reverse=True) if self.loaded[version].in_service]
        return self.loaded[ready[0]] if ready else None


class ModelRepository:
    """Loaded once, by load_all(); read by every thread."""

    def __init__(
        self, directories: Sequence[Path], backends: Mapping[str, Backend], on_lost: Callable[[], None] = lambda: None
    ) -> None:
        self._directories = tuple(directories)
        self._backends = backends
        self._on_lost = on_lost
        self._models: dict[str, Versions] = {}

    def load_all(self) -> None:
        """Load every model of every directory. Raises StartError for a directory that cannot be read; nothing else."""
        found: dict[str, list[Path]] = {}
        for directory in self._directories:
            for path in _model_directories(directory):
                found.setdefault(path.name, []).append(path)
        for name in sorted(found):
            self._models[name] = self._load_model(found[name])

    def _load_model(self, paths: Sequence[Path]) -> Versions:
        name = paths[0].name
        if len(paths) > 1:
            return _refused(name, "model appears in two or more repositories")
        if not _MODEL_NAME.fullmatch(name):
            return _refused(name, "expected a model name of letters, digits, '_', '.' and '-', 128 at most")
        path = paths[0]
        try:
            directory = _confined(path, path.parent)
            config = read_config(_confined(path / "config.pbtxt", path.parent), name)
            backend = self._backend(config)
            versions = _version_directories(directory, path.parent)
        except (ModelLoadError, OSError) as error:
            return _refused(name, _scrub(error, path.parent))
        return self._load_versions(config, backend, versions)

    def _backend(self, config: ModelConfig) -> Backend:
        backend = self._backends.get(config.backend)
        if backend is None:
            raise ModelConfigError(
                f"model '{config.name}': backend is '{config.backend}', expected one of {sorted(self._backends)}: "
                "this server has no other"
            )
        return backend

    def _load_versions(self, config: ModelConfig, backend: Backend, versions: Mapping[int, Path]) -> Versions:
        chosen = config.versions.choose(versions)
        if not chosen:
            return _refused(config.name, f"at least one version must be available under the version policy of '{config.name}'")
        result = Versions()
        for version in chosen:
            try:
                result.loaded[version] = self._load_version(config, backend, version, versions[version])
            except (ModelLoadError, OSError) as error:
                result.failed[version] = _scrub(error, versions[version].parent.parent)
                _LOG.error("failed to load '%s' version %d: %s", config.name, version, result.failed[version])
        return result

    def _load_version(self, config: ModelConfig, backend: Backend, version: int, directory: Path) -> Model:
        begin = time.monotonic()
        _LOG.info("loading: %s:%d", config.name, version)
        loaded = backend.load(directory, config)
        model = ScheduledModel(config, version, loaded, load_duration_s=time.monotonic() - begin, on_lost=self._on_lost)
        _LOG.info("successfully loaded '%s' version %d in %.2f s", config.name, version, model.load_duration_s)
        return model

    def model(self, name: str, version: str = "") -> Model:
        """The version asked for, or the latest in service.

        Raises NotFoundError, UnavailableError for a version that is not READY, InvalidRequestError for a version that is no
        number; Triton's texts.
        """
        number = parse_version(version)
        versions = self._models.get(name)
        if versions is None or versions.reason:
            raise NotFoundError(f"Request for unknown model: '{name}' is not found")
        if number is None:
            return _latest(versions, name)
        model = versions.loaded.get(number)
        if model is None and number not in versions.failed:
            raise NotFoundError(f"Request for unknown model: '{name}' version {number} is not found")
        if model is None or not model.in_service:
            raise _unavailable(name, number, model)
        return model

    def __iter__(self) -> Iterator[Model]:
        """Every loaded version, in service or not, by name and version."""
        for name in sorted(self._models):
            loaded = self._models[name].loaded
            yield from (loaded[version] for version in sorted(loaded))

    def loaded_versions(self, name: str) -> tuple[int, ...]:
        """Of one model, ascending."""
        versions = self._models.get(name)
        return tuple(sorted(versions.loaded)) if versions else ()

    def index(self) -> list[IndexEntry]:
        """Every model of the repositories, by name and version."""
        entries: list[IndexEntry] = []
        for name in sorted(self._models):
            versions = self._models[name]
            if versions.reason:
                entries.append(IndexEntry(name, "", ModelState.UNAVAILABLE, versions.reason))
            entries.extend(_entry(name, number, versions) for number in sorted(versions.loaded.keys() | versions.failed.keys()))
        return entries

    @property
    def all_ready(self) -> bool:
        """Whether nothing in the repositories is UNAVAILABLE; with no model at all it is."""
        return all(entry.state is ModelState.READY for entry in self.index())

    def close(self, timeout_s: float) -> bool:
        """Unload everything; False when some instance did not end in time."""
        deadline = time.monotonic() + timeout_s
        ended = [model.close(max(0.0, deadline - time.monotonic())) for model in self]
        return all(ended)


def parse_version(text: str) -> int | None:
    """A request's model_version as a number, None when it is empty. Raises InvalidRequestError with Triton's text."""
    if not text:
        return None
    match = _VERSION_TEXT.fullmatch(text)
    if match is None:
        raise InvalidRequestError(
            f"failed to get model version from specified version string '{text}', version should be an integral value > 0"
        )
    if int(match[1]) < 0:
        raise InvalidRequestError(f"invalid model version specified '{text}' , version should be an integral value > 0")
    return int(match[1])


def _latest(versions: Versions, name: str) -> Model:
    model = versions.latest()
    if model is not None:
        return model
    if versions.loaded:
        number = max(versions.loaded)
        raise _unavailable(name, number, versions.loaded[number])
    raise NotFoundError(f"Request for unknown model: '{name}' has no available versions")


def _unavailable(name: str, number: int, model: Model | None) -> UnavailableError:
    why = f": {model.reason}" if model is not None else ""
    return UnavailableError(f"Request for unknown model: '{name}' version {number} is not at ready state{why}")


def _entry(name: str, number: int, versions: Versions) -> IndexEntry:
    model = versions.loaded.get(number)
    reason = versions.failed[number] if model is None else model.reason
    return IndexEntry(name, str(number), ModelState.UNAVAILABLE if reason else ModelState.READY, reason)


def _refused(name: str, reason: str) -> Versions:
    _LOG.error("failed to load %r: %s", name, reason)
    return Versions(reason)


def _model_directories(repository: Path) -> list[Path]:
    try:
        return sorted(path for path in repository.iterdir() if path.is_dir() and not path.name.startswith("."))
    except OSError as error:
        raise StartError(
            f"model repository {repository} cannot be read: {error.strerror}; expected a directory with one directory per model"
        ) from error


def _version_directories(model: Path, repository: Path) -> dict[int, Path]:
    found = [path for path in model.iterdir() if path.is_dir() and _VERSION_DIRECTORY.fullmatch(path.name)]
    return {int(path.name): _confined(path, repository) for path in found}


def _confined(path: Path, repository: Path) -> Path:
    """The path, once it is resolved and still inside its repository. Raises ModelLoadError."""
    resolved = path.resolve()
    if not resolved.is_relative_to(repository.resolve()):
        raise ModelLoadError(f"{path.relative_to(repository)} leads out of its repository")
    return resolved


def _scrub(error: Exception, repository: Path) -> str:
    """An error's text for clients' eyes: paths only from the repository on."""
    text = str(error)
    for root in (repository, repository.resolve()):
        text = text.replace(f"{root}/", "")
    return text
