# SPDX-License-Identifier: Apache-2.0
"""Loader: turns a model's directory into loaded versions: configuration, completion, backend, labels, warm-up."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Protocol

from tritonclient.grpc import model_config_pb2

from hypersonic.server.backends.known import BACKENDS
from hypersonic.server.core.config.check import check_config, no_version, read_version_policy
from hypersonic.server.core.config.ensemble import ENSEMBLE
from hypersonic.server.core.config.read import infer_backend, parse_json_config, read_message
from hypersonic.server.core.config.schema import ModelConfig
from hypersonic.server.core.inference.backend import Backend, LoadedModel, Stoppable
from hypersonic.server.core.inference.classification import with_labels
from hypersonic.server.core.inference.model import Model
from hypersonic.server.core.inference.repository import ModelState
from hypersonic.server.core.links import Links, check_links
from hypersonic.server.core.scheduling.fallback import close, with_fallback
from hypersonic.server.errors import ModelBusyError, ModelConfigError, ModelLoadError, ServerError, printable
from hypersonic.server.limits.load_timeout import LoadTimeout
from hypersonic.server.repository.agents import check_unchanged, run_agents
from hypersonic.server.repository.control_mode import ModelControlOptions
from hypersonic.server.repository.entry import Plan, VersionRecord
from hypersonic.server.repository.layout import (
    CONFIG,
    NOT_FOUND,
    ModelDirectory,
    Signature,
    is_version,
    scrub,
    version_directories,
)
from hypersonic.server.repository.override import Override, discard, stage
from hypersonic.server.repository.override_checks import check_alone, check_files
from hypersonic.server.repository.warmup import warm_up
from hypersonic.server.statistics.latency_options import MetricsConfig

_LOG = logging.getLogger(__name__)
#: how long a version whose load took too long may take to close, in seconds
_CLOSE_S = 30.0
#: the most links of one model that its log line names
_SHOWN_LINKS = 10


class ServeModel(Protocol):
    """Makes a version that takes requests from the instances that its backend loaded. ScheduledModel implements it.

    on_lost: called when an instance goes out of service.
    """

    def __call__(
        self,
        config: ModelConfig,
        version: int,
        loaded: LoadedModel,
        *,
        load_duration_s: float,
        metrics: MetricsConfig,
        on_lost: Callable[[], None],
    ) -> Model:
        """Return the version.

        Args:
            load_duration_s: how long its load took, warm-up included.
        """


class Loader:
    """Plans and loads versions. It keeps no models; any thread may use it.

    Args:
        links: the rules for symbolic links in the repositories. limit: the time limit of each load.
    """

    def __init__(
        self,
        backends: Mapping[str, Backend],
        serve: ServeModel,
        *,
        metrics: MetricsConfig,
        control: ModelControlOptions,
        links: Links,
        on_lost: Callable[[], None],
    ) -> None:
        """Create a Loader.

        Args:
            backends: name -> backend.
            on_lost: called when an instance of a model goes out of service.
        """
        self._policy = control.override
        self._backends = backends
        self._serve = serve
        self._metrics = metrics
        self._complete = control.complete_config
        self._on_lost = on_lost
        self.links = links
        self.limit = LoadTimeout(control.load_timeout_s)

    def stop(self) -> None:
        """Give up the loads that are under way, and refuse new ones."""
        self.limit.stop()
        for backend in self._backends.values():
            if isinstance(backend, Stoppable):
                backend.stop()

    def needs(self, place: ModelDirectory) -> tuple[frozenset[str], str]:
        """Return (the models that an ensemble names, the backend that has to choose a card or "").

        Both are read from the unchecked configuration.
        """
        try:
            message = self._message(place)
        except Exception:  # noqa: BLE001 - plan() finds the reason
            return frozenset(), ""
        chosen = any(group.gpus for group in message.instance_group)
        return frozenset(step.model_name for step in message.ensemble_scheduling.step), "" if chosen else message.backend

    def plan(self, place: ModelDirectory, signature: Signature = ()) -> Plan:
        """Return the versions to load from a model's directory.

        Raises ModelLoadError, with a text for clients, for a model whose load cannot begin.
        """
        return self._plan_repository(place, lambda: self._message(place), signature)

    def _plan_repository(
        self, place: ModelDirectory, read: Callable[[], model_config_pb2.ModelConfig], signature: Signature
    ) -> Plan:
        try:
            return self._planned(read(), place, signature)
        except Exception as error:
            raise ModelLoadError(scrub(_text(error, place.name), (place.repository,))) from error

    def _message(self, place: ModelDirectory) -> model_config_pb2.ModelConfig:
        path = place.path / CONFIG
        if self._complete and not path.exists() and not path.is_symlink():
            return model_config_pb2.ModelConfig(name=place.name)
        return read_message(path, place.name, self.links)

    def plan_override(self, name: str, place: ModelDirectory | None, override: Override) -> Plan:
        """Return the versions to load for a load request with a configuration.

        The files are the request's, or, if it has none, those of the repository at `place`. Raises ModelLoadError, and
        InvalidRequestError for files that are not accepted over the network.
        """
        try:
            message = parse_json_config(override.config, name)
        except ModelConfigError as error:
            raise ModelConfigError(f"Invalid config override: {error}") from error
        if override.files:
            check_files(message, {file.name for file in override.files}, self._policy)
            return self._plan_files(name, message, override)
        if place is None:
            raise ModelLoadError(NOT_FOUND)
        check_alone(message, self._own(place), version_directories(place, self.links).values(), self._policy)
        return self._plan_repository(place, lambda: message, ())

    def _own(self, place: ModelDirectory) -> model_config_pb2.ModelConfig | None:
        try:
            return self._message(place)
        except (ServerError, OSError):
            return None

    def _plan_files(self, name: str, message: model_config_pb2.ModelConfig, override: Override) -> Plan:
        scratch = stage(name, override)
        try:
            plan = self._planned(message, ModelDirectory(scratch / name, scratch))
        except Exception as error:
            discard(scratch)
            raise ModelLoadError(scrub(_text(error, name), (scratch,))) from error
        return plan._replace(scratch=scratch)

    def _planned(self, message: model_config_pb2.ModelConfig, place: ModelDirectory, signature: Signature = ()) -> Plan:
        """Return the plan for a configuration. As in Triton's index, an invalid configuration is the error of each version."""
        name, versions = message.name, version_directories(place, self.links)
        chosen = read_version_policy(message).choose(versions)
        for missing in set(message.version_policy.specific.versions) - set(chosen):
            _LOG.warning("version %d is specified for model '%s', but the version directory is not present", missing, name)
        if not chosen:
            raise no_version(name)
        directories = {version: versions[version] for version in chosen}
        self._follow(place.path, directories)
        # before anything of the model is used, because completing its configuration may run the model
        hashed = self.limit.run(name, partial(run_agents, message, place.path, self.links))
        try:
            config = self._completed(message, directories[chosen[-1]])
        except Exception as error:  # noqa: BLE001 - any failure in a model's directory becomes that model's reason
            return Plan(None, directories, signature, error=explain(error, directories[chosen[-1]]))
        return Plan(config, directories, signature, hashed=hashed)

    def _follow(self, model: Path, versions: Mapping[int, Path]) -> None:
        """Log where the symbolic links of a model lead. Raises ModelLoadError for one that leads where it may not."""
        targets = check_links(model, self._others(model, versions), self.links)
        if targets:
            shown = ", ".join(f"{name} -> {target}" for name, target in list(targets.items())[:_SHOWN_LINKS])
            more = f" and {len(targets) - _SHOWN_LINKS} more" if len(targets) > _SHOWN_LINKS else ""
            _LOG.info("'%s' is read through symbolic links: %s%s", model.name, shown, more)

    def _others(self, model: Path, versions: Mapping[int, Path]) -> set[str]:
        """Return the names of the version directories that are not loaded."""
        chosen = {path.name for path in versions.values()}
        return {path.name for path in model.iterdir() if is_version(path.name)} - chosen

    def _completed(self, message: model_config_pb2.ModelConfig, latest: Path) -> ModelConfig:
        infer_backend(message, {path.name for path in latest.iterdir()}, BACKENDS)
        if message.platform != ENSEMBLE and not message.HasField("ensemble_scheduling"):
            backend = self._backend(message)
            if self._complete:
                self.limit.run(message.name, partial(_complete, backend, latest, message))
        return check_config(message, BACKENDS)

    def _backend(self, message: model_config_pb2.ModelConfig) -> Backend:
        if not message.backend and message.platform:
            raise ModelConfigError(f"unexpected platform type '{message.platform}' for {message.name}")
        if not message.backend:
            raise ModelConfigError(
                f"Invalid model name: Could not determine backend for model '{message.name}' with no backend in model "
                f"configuration, expected one of {sorted(self._backends)}"
            )
        backend = self._backends.get(message.backend)
        if backend is None:
            raise ModelConfigError(
                f"unable to find backend library for backend '{message.backend}', expected one of {sorted(self._backends)}"
            )
        return backend

    def load(self, plan: Plan, version: int, *, insist: bool) -> VersionRecord:
        """Load one version. Returns its record: READY, or UNAVAILABLE with its reason.

        Args:
            insist: raise ModelBusyError instead of recording it.
        """
        directory, config = plan.directories[version], plan.config
        if config is None:
            return VersionRecord(ModelState.UNAVAILABLE, plan.error)
        try:
            return VersionRecord(ModelState.READY, model=self._load(config, version, plan, insist=insist))
        except ModelBusyError as error:
            if insist:
                raise
            return _failed(config.name, version, explain(error, directory))
        except (ModelLoadError, OSError) as error:
            return _failed(config.name, version, explain(error, directory))
        except Exception as error:  # noqa: BLE001 - the failure of one model must not affect others
            _LOG.exception("failed to load '%s' version %d", config.name, version)
            return _failed(config.name, version, f"Internal: the backend failed: {type(error).__name__}")

    def labelled(self, plan: Plan) -> ModelConfig:
        """Return an ensemble's configuration with the labels of its outputs. Raises ModelLoadError."""
        if plan.config is None:
            raise ModelLoadError(plan.error)
        return with_labels(plan.config, next(iter(plan.directories.values())).parent, self.links)

    def _load(self, config: ModelConfig, version: int, plan: Plan, *, insist: bool) -> Model:
        begin, directory = time.monotonic(), plan.directories[version]
        self.limit.check()
        _LOG.info("loading: %s:%d", config.name, version)
        labelled = with_labels(config, directory.parent, self.links)
        backend = with_fallback(self._backends[config.backend], labelled, self._backends, insist=insist)
        held: list[LoadedModel] = []

        def work() -> Model:
            held.append(backend.load(directory, labelled))
            return self._served(labelled, version, plan, held, begin)

        def give_up() -> None:  # for a warm-up that hangs; a backend has to end what hangs in its load()
            threading.Thread(target=_close, args=(held,), name=f"give up {config.name}", daemon=True).start()

        model = self.limit.run(f"'{config.name}' version {version}", work, _discard, give_up)
        _LOG.info("successfully loaded '%s' version %d in %.2f s", config.name, version, model.load_duration_s)
        return model

    def _served(self, config: ModelConfig, version: int, plan: Plan, held: list[LoadedModel], begin: float) -> Model:
        (loaded,), model = held, plan.directories[version].parent
        try:
            self._check_again(plan, model)
            warm_up(config, model, loaded, self.links)
        except BaseException:
            _close(held)
            raise
        took_s = time.monotonic() - begin
        return self._serve(config, version, loaded, load_duration_s=took_s, metrics=self._metrics, on_lost=self._on_lost)

    def _check_again(self, plan: Plan, model: Path) -> None:
        """Check that the backend opened the same files, by their paths, that were checked before.

        Raises ModelConfigError and ModelLoadError.
        """
        check_unchanged(plan.hashed)
        if self.links.roots:
            check_links(model, self._others(model, plan.directories), self.links)


def _complete(backend: Backend, directory: Path, message: model_config_pb2.ModelConfig) -> bool:
    backend.complete(directory, message)
    return True


def _close(held: list[LoadedModel]) -> None:
    """Close the loaded instances, once."""
    with suppress(IndexError):
        close(held.pop())


def _discard(model: Model) -> None:
    """Close a version whose load took too long."""
    model.close(_CLOSE_S)


def _failed(name: str, version: int, reason: str) -> VersionRecord:
    _LOG.error("failed to load '%s' version %d: %s", name, version, reason)
    return VersionRecord(ModelState.UNAVAILABLE, reason)


def _text(error: Exception, model: str) -> str:
    """Return an error's text as the index shows it: printable, because file names may be any bytes.

    An unexpected exception is logged.
    """
    if isinstance(error, OSError):
        text = f"{error.strerror}: {error.filename}"
    elif isinstance(error, ServerError):
        text = str(error)
    else:
        _LOG.error("model '%s' cannot be read", model, exc_info=error)
        text = f"the model's directory cannot be read: {type(error).__name__}: {error}"
    return printable(text, kept="\n")


def explain(error: Exception, directory: Path) -> str:
    """Return a version's reason: Triton's name for the kind of error, and the error's text.

    Args:
        directory: the version's; the path above the repository is removed from the text.
    """
    kind = "Invalid argument" if isinstance(error, ModelConfigError) else "Internal"
    return f"{kind}: {scrub(_text(error, directory.parent.name), (directory.parent.parent,))}"
