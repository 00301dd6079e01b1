# SPDX-License-Identifier: Apache-2.0
"""ModelRepository: the models of some directories, loaded, replaced and unloaded while others are served.

    reader: repository.model(name)  -->  self._models, an immutable mapping
    writer: lock of the name -> load beside what serves -> a new mapping, in one assignment -> drain and close what it replaced

What cannot be loaded is UNAVAILABLE with its reason and disturbs nothing else; a version that serves goes on serving when what
should replace it fails. Where both do not fit (one card) the old one goes first, and requests wait for the new one.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType

from hypersonic.server.backends.known import BACKENDS
from hypersonic.server.config.schema import ModelConfig
from hypersonic.server.errors import ModelLoadError, NotFoundError, ReplacingError, UnavailableError
from hypersonic.server.inference.backend import Backend
from hypersonic.server.inference.model import Model
from hypersonic.server.inference.parameters import LoadParameter
from hypersonic.server.inference.repository import REPLACEMENT_WAIT_S, UNLOADED, IndexEntry, ModelState, parse_version
from hypersonic.server.repository.control_mode import (
    ModelControlMode,
    ModelControlOptions,
    check_override_name,
    check_requested_name,
    poll_failure,
)
from hypersonic.server.repository.entry import ModelEntry, choose
from hypersonic.server.repository.layout import AMBIGUOUS, NOT_FOUND, Found, Place, find_models, require_repositories
from hypersonic.server.repository.lifecycle import Lifecycle
from hypersonic.server.repository.loading import Loader, ServeModel
from hypersonic.server.repository.loads import Load, Loads
from hypersonic.server.repository.override import discard, read_override
from hypersonic.server.repository.registry import Registry
from hypersonic.server.repository.retiring import close_all
from hypersonic.server.statistics.latency_options import MetricsConfig

_LOG = logging.getLogger(__name__)
#: an ensemble's config, version, and the repository its steps are looked up in
Ensembles = Callable[[ModelConfig, int, "ModelRepository"], Model]


class ModelRepository:
    """Every thread may use it; writers of one name take turns.

    serve: makes the versions of models, ensembles: those of ensembles. on_lost: called, on any thread, when what can be served
    may have changed.
    """

    def __init__(
        self,
        directories: Sequence[Path],
        backends: Mapping[str, Backend],
        serve: ServeModel,
        on_lost: Callable[[], None] = lambda: None,
        *,
        control: ModelControlOptions | None = None,
        ensembles: Ensembles | None = None,
        metrics: MetricsConfig | None = None,
    ) -> None:
        """Raises StartError for control options that contradict each other."""
        self.control = control or ModelControlOptions()
        self.control.check()
        links = self.control.links(directories)
        self._directories = links.repositories
        self._registry = Registry(on_lost)
        self._loader = Loader(
            backends, serve, metrics=metrics or MetricsConfig(), control=self.control, links=links, on_lost=on_lost
        )
        self._loads = Loads(self.control.load_threads)
        self._lifecycle = Lifecycle(
            self._directories,
            self._loader,
            self._registry,
            (lambda config, version: ensembles(config, version, self)) if ensembles else None,
            watched=self.control.mode is ModelControlMode.POLL,
        )
        self._stopping = threading.Event()
        self._poller: threading.Thread | None = None

    def model(self, name: str, version: str = "", *, wait_s: float = REPLACEMENT_WAIT_S) -> Model:
        """The version asked for, or the latest in service. wait_s: for a model whose old version had to go first.

        Raises NotFoundError, UnavailableError for a version that is not READY (ReplacingError for one that will be),
        InvalidRequestError for a version that is no number; Triton's texts.
        """
        number = parse_version(version)
        entry = self._registry.models.get(name)
        if entry is not None and entry.replacing and wait_s > 0:
            self._registry.wait_replaced(name, wait_s)
            entry = self._registry.models.get(name)
        try:
            return choose(entry, name, number)
        except (NotFoundError, UnavailableError) as error:
            if entry is not None and entry.replacing:
                raise ReplacingError(str(error)) from error
            raise

    def __contains__(self, name: object) -> bool:
        """Whether a model of that name is loaded."""
        return isinstance(name, str) and bool(self._registry.entry(name).models)

    def __iter__(self) -> Iterator[Model]:
        """Every loaded version, in service or not, by name and version."""
        models = self._registry.models
        for name in sorted(models):
            yield from models[name].models

    def working(self) -> list[str]:
        """The model versions that have requests: also those being unloaded, and also requests whose client has left."""
        records = (record for entry in self._registry.models.values() for record in entry.versions.values())
        models = (record.model for record in records if record.model is not None and record.model.working)
        return [f"model '{model.name}' version {model.version} (requests: {model.working})" for model in models]

    def loaded_versions(self, name: str) -> tuple[int, ...]:
        """Of one model, ascending."""
        return tuple(model.version for model in self._registry.entry(name).models)

    def index(self) -> list[IndexEntry]:
        """Every model of the repositories, by name and version; with explicit control those nobody asked for, too."""
        models = dict(self._registry.models)
        if not self.control.loads_all:
            for name, places in self._find().models.items():
                models.setdefault(name, _unasked(name, places))
        return [row for name in sorted(models) for row in models[name].rows()]

    def states(self) -> Counter[ModelState]:
        """How many model versions are in each state; of models without versions, how many models."""
        return Counter(row.state for entry in self._registry.models.values() for row in entry.rows())

    @property
    def all_ready(self) -> bool:
        """Whether nothing is UNAVAILABLE, but for what was unloaded, or LOADING for the first time."""
        entries = (entry for entry in self._registry.models.values() if not entry.replacing)
        rows = (row for entry in entries for row in entry.rows())
        return all(row.state in (ModelState.READY, ModelState.UNLOADING) or row.reason == UNLOADED for row in rows)

    def check(self) -> None:
        """Raises StartError for a directory that cannot be read."""
        require_repositories(self._directories)

    def load_all(self) -> list[IndexEntry]:
        """Load what is to be loaded at start, and begin to poll. Returns the rows of what failed.

        Raises StartError for a directory that cannot be read.
        """
        self.check()
        if self.control.mode is ModelControlMode.POLL:
            names = self._look()
            self._poller = threading.Thread(target=self._poll_on, name="repository poll", daemon=True)
            self._poller.start()
        else:
            names = sorted(self._find().models if self.control.loads_all else set(self.control.load_models))
            self._lifecycle.want(names)
            self._begin(names)
        self._loads.wait(names)
        missing = [name for name in names if name not in self._registry.models]
        return [row for row in self.index() if row.failed] + [
            IndexEntry(name, "", ModelState.UNAVAILABLE, NOT_FOUND) for name in missing
        ]

    def _begin(self, names: Sequence[str]) -> None:
        """Load these side by side; returns at once."""
        for name in names:
            if name not in self._registry.models:
                self._registry.put(ModelEntry(name, state=ModelState.LOADING))
        needs = {name: self._lifecycle.needs(name) for name in names}
        settled = frozenset(name for name, (members, _) in needs.items() if not members)
        self._loads.start(
            [
                Load(
                    name,
                    _queue_of(name, backend),
                    members & needs.keys() - {name},
                    partial(self._load_one, name, settled),
                )
                for name, (members, backend) in needs.items()
            ]
        )

    def _load_one(self, name: str, settled: frozenset[str]) -> None:
        entry = self._registry.entry(name)
        if entry.tried and entry.models and self.control.mode is not ModelControlMode.POLL:
            return  # loaded with an ensemble
        try:
            self._lifecycle.try_load(name, settled=settled)
        finally:
            self._registry.update(name, _tried)

    def load(self, name: str, parameters: Mapping[str, LoadParameter] = MappingProxyType({})) -> None:
        """RepositoryModelLoad; returns when the model serves. An ensemble brings the models it names.

        parameters: `config` (JSON) and `file:<version>/<name>` (bytes). Raises UnavailableError without explicit control,
        InvalidRequestError, ModelLoadError; Triton's texts.
        """
        self.control.require_explicit()
        check_requested_name(name)
        if parameters:
            check_override_name(name)
        try:
            override = read_override(parameters, self.control.override)
        except ModelLoadError as error:
            raise poll_failure(name, str(error)) from error
        self._lifecycle.load(name, override)
        self._lifecycle.want((name,))

    def unload(self, name: str, *, unload_dependents: bool = False) -> None:
        """RepositoryModelUnload; returns at once, requests already there are served. An unknown name is fine.

        Ensembles that name the model go with it. unload_dependents: so do an ensemble's models that nobody asked for by name.
        Raises UnavailableError without explicit control.
        """
        self.control.require_explicit()
        self._lifecycle.forget(name)
        members = self._registry.entry(name).members
        self._lifecycle.unload(name)
        for member in sorted(members - self._lifecycle.wanted) if unload_dependents else ():
            if not any(member in entry.members and entry.models for entry in self._registry.models.values()):
                self.unload(member, unload_dependents=True)

    def poll(self) -> None:
        """Load what is new or changed since the last look, unload what is gone."""
        self._loads.wait(self._look())

    def _look(self) -> list[str]:
        """Begin to load what is new or changed, unless it is being loaded; unload what is gone. The names of the former."""
        places, away = self._find()
        self._lifecycle.want(places)
        # a file system that is away for a moment must not unload everything
        for name in sorted(self._registry.models.keys() - places.keys()) if not away else ():
            if not self._loads.busy(name):
                self._lifecycle.forget(name)
                self._lifecycle.unload(name)
        changed = [name for name in sorted(places) if not self._loads.busy(name) and self._changed(name, places[name])]
        self._begin(changed)
        return changed

    def _changed(self, name: str, places: Sequence[Place]) -> bool:
        known = self._lifecycle.seen.get(name)
        return known is None or known != self._lifecycle.look(places)

    def _poll_on(self) -> None:
        while not self._stopping.wait(self.control.poll_s):
            try:
                self._look()
            except Exception:  # noqa: BLE001 - a fault of ours ends this look, not polling
                _LOG.exception("the model repositories could not be polled; the next look is in %g s", self.control.poll_s)

    def _find(self) -> Found:
        listing = find_models(self._directories)
        for error in listing.away:
            _LOG.warning("a model repository cannot be read: %s: %s", error.filename, error.strerror)
        return listing

    def stop_loading(self) -> None:
        """Give up the loads under way, and begin no more."""
        self._stopping.set()
        self._loader.stop()
        self._loads.stop(0.0)

    def close(self, timeout_s: float) -> bool:
        """Unload everything; False when some instance did not end in time."""
        deadline = time.monotonic() + timeout_s
        if not self._stopping.is_set():
            self.stop_loading()
        settled = self._loads.stop(timeout_s)
        if self._poller is not None:
            self._poller.join(timeout_s)
        closed = close_all(list(self), deadline)
        retired = self._lifecycle.retirements.close(max(0.0, deadline - time.monotonic()))
        for entry in self._registry.models.values():
            discard(entry.plan.scratch if entry.plan else None)
        return settled and retired and closed

    @property
    def abandoned(self) -> bool:
        """Whether threads of loads that did not end in time may still be there."""
        return self._loader.limit.abandoned > 0


def _queue_of(name: str, backend: str) -> str:
    """What a load shares with others: models that choose among the same cards are loaded in order, so that which of them gets
    which card does not depend on which loads faster."""
    known = BACKENDS.get(backend)
    return backend if known is not None and known.on_card else name


def _tried(entry: ModelEntry) -> ModelEntry | None:
    """The same, once its first load is over; None for a name that no repository has."""
    if entry.state is not ModelState.LOADING:
        return entry
    return replace(entry, state=ModelState.UNKNOWN) if entry.versions or entry.reason else None


def _unasked(name: str, places: Sequence[Place]) -> ModelEntry:
    return ModelEntry(name, reason=AMBIGUOUS if len(places) > 1 else "")
