# SPDX-License-Identifier: Apache-2.0
"""ModelRepository: loads, replaces and unloads the models of some directories while others are served.

::

    reader: repository.model(name)  -->  Registry.models, an immutable mapping
    writer: lock of the name -> load while the old one serves -> a new mapping, in one assignment -> drain and close the old one

A version that cannot be loaded is UNAVAILABLE with its reason, and does not affect others. A version stays in service if its
successor cannot be loaded. If there is no room for both (one card), the old one is unloaded first, and requests wait for the
new one.
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
from hypersonic.server.core.config.schema import ModelConfig
from hypersonic.server.core.inference.backend import Backend
from hypersonic.server.core.inference.model import Model
from hypersonic.server.core.inference.parameters import LoadParameter
from hypersonic.server.core.inference.repository import REPLACEMENT_WAIT_S, UNLOADED, IndexEntry, ModelState, parse_version
from hypersonic.server.errors import ModelLoadError, NotFoundError, ReplacingError, UnavailableError
from hypersonic.server.limits.supervisor import Supervisor
from hypersonic.server.repository.control_mode import (
    ModelControlMode,
    ModelControlOptions,
    check_override_name,
    check_requested_name,
    poll_failure,
)
from hypersonic.server.repository.entry import ModelEntry, choose
from hypersonic.server.repository.layout import (
    AMBIGUOUS,
    NOT_FOUND,
    Found,
    ModelDirectory,
    Signature,
    find_models,
    require_repositories,
)
from hypersonic.server.repository.lifecycle import Lifecycle
from hypersonic.server.repository.loading import Loader, ServeModel
from hypersonic.server.repository.loads import Load, Loads
from hypersonic.server.repository.override import discard, read_override
from hypersonic.server.repository.registry import Registry
from hypersonic.server.repository.retiring import close_all
from hypersonic.server.statistics.latency_options import MetricsConfig

_LOG = logging.getLogger(__name__)
#: how long the files of a new or changed model must not change before a poll loads it, in seconds
_SETTLE_S = 1.0
#: (an ensemble's config, version, the repository of its steps' models) -> the ensemble
Ensembles = Callable[[ModelConfig, int, "ModelRepository"], Model]


class ModelRepository:
    """The models of some directories. Any thread may use it; changes of one name are made one after the other."""

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
        """Create a ModelRepository.

        Args:
            directories: the repositories.
            serve: makes versions of models.
            ensembles: makes versions of ensembles, None = there are none.
            on_lost: called, on any thread, when the set of models in service may have changed.

        Raises:
            StartError: For control options that contradict each other.
        """
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
        self._threads = Supervisor("model repository", on_lost, "restart the server")
        self._poller: threading.Thread | None = None
        #: name -> the state of its files at the poller's last look, for models that wait until their files stop changing
        self._moving: dict[str, Signature] = {}

    def model(self, name: str, version: str = "", *, wait_s: float = REPLACEMENT_WAIT_S) -> Model:
        """Return a version of a model; version "" = the latest in service.

        Raises, with Triton's texts, NotFoundError (NOT_FOUND, 404), UnavailableError (UNAVAILABLE, 503) for a version that is
        not READY, its subclass ReplacingError for one that will be, and InvalidRequestError for a version that is not a number.

        Args:
            wait_s: how long to wait for a model whose old version had to be unloaded first.
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
        """Return whether a model of that name is loaded."""
        return isinstance(name, str) and bool(self._registry.entry(name).models)

    def __iter__(self) -> Iterator[Model]:
        """Iterate over all loaded versions, in service or not, by name and version."""
        models = self._registry.models
        for name in sorted(models):
            yield from models[name].models

    def working(self) -> list[str]:
        """Return a text for each model version that has requests.

        It counts versions that are being unloaded too, and requests whose client has disconnected.
        """
        records = (record for entry in self._registry.models.values() for record in entry.versions.values())
        models = (record.model for record in records if record.model is not None and record.model.working)
        return [f"model '{model.name}' version {model.version} (requests: {model.working})" for model in models]

    def loaded_versions(self, name: str) -> tuple[int, ...]:
        """Return the loaded versions of one model, ascending."""
        return tuple(model.version for model in self._registry.entry(name).models)

    def index(self) -> list[IndexEntry]:
        """Return the rows of RepositoryIndex, by name and version.

        With explicit control they include the models in the repositories that no client has asked for.
        """
        models = dict(self._registry.models)
        if not self.control.loads_all:
            for name, places in self._find().models.items():
                models.setdefault(name, _unasked(name, places))
        rows = [row for name in sorted(models) for row in models[name].rows()]
        unpolled = self._threads.reason  # the models are served, but no longer follow their files
        return [row._replace(reason=row.reason or unpolled) for row in rows] if unpolled else rows

    def states(self) -> Counter[ModelState]:
        """Return how many model versions are in each state. A model without versions counts as one."""
        return Counter(row.state for entry in self._registry.models.values() for row in entry.rows())

    @property
    def all_ready(self) -> bool:
        """True if no version is UNAVAILABLE, except those that were unloaded, and none is being loaded for the first time."""
        entries = (entry for entry in self._registry.models.values() if not entry.replacing)
        rows = (row for entry in entries for row in entry.rows())
        return all(row.state in (ModelState.READY, ModelState.UNLOADING) or row.reason == UNLOADED for row in rows)

    def check(self) -> None:
        """Raise StartError for a repository that cannot be read."""
        require_repositories(self._directories)

    def load_all(self) -> list[IndexEntry]:
        """Load the models that are loaded at start, wait for them, and begin to poll if the mode is POLL.

        Returns the index rows of the models that could not be loaded. Raises StartError for a repository that cannot be read.
        """
        self.check()
        if self.control.mode is ModelControlMode.POLL:
            names = self._look()
            self._poller = self._threads.start("repository poll", self._poll_on)
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
        """Begin to load these models in parallel. Returns at once."""
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
            return  # it was loaded with an ensemble
        try:
            self._lifecycle.try_load(name, settled=settled)
        finally:
            self._registry.update(name, _tried)

    def load(self, name: str, parameters: Mapping[str, LoadParameter] = MappingProxyType({})) -> None:
        """Serve RepositoryModelLoad. Returns when the model is in service. The models that an ensemble names are loaded too.

        Raises, with Triton's texts, UnavailableError (UNAVAILABLE, 503) without explicit control, InvalidRequestError
        (INVALID_ARGUMENT, 400) and ModelLoadError (INTERNAL, 500).

        Args:
            parameters: `config` (JSON) and `file:<version>/<name>` (bytes).
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
        """Serve RepositoryModelUnload. Returns at once; requests that have arrived are still served. The name may be unknown.

        Ensembles that name the model are unloaded too.

        Args:
            unload_dependents: unload an ensemble's models too, if they were not asked for by name.

        Raises:
            UnavailableError: (UNAVAILABLE, 503) without explicit control.
        """
        self.control.require_explicit()
        self._lifecycle.forget(name)
        members = self._registry.entry(name).members
        self._lifecycle.unload(name)
        for member in sorted(members - self._lifecycle.wanted) if unload_dependents else ():
            if not any(member in entry.members and entry.models for entry in self._registry.models.values()):
                self.unload(member, unload_dependents=True)

    def poll(self) -> None:
        """Load the models that are new or have changed since the last poll, and unload those that are gone. Waits for it."""
        self._loads.wait(self._look())

    def _look(self, *, patient: bool = False) -> list[str]:
        """Unload the models that are gone, and begin to load those that are new or have changed, unless a load is under way.

        Returns the names that are being loaded.

        Args:
            patient: load no model whose files have changed since the last look.
        """
        places, away = self._find()
        self._lifecycle.want(places)
        # a file system that is unavailable for a moment must not unload everything
        for name in sorted(self._registry.models.keys() - places.keys()) if not away else ():
            if not self._loads.busy(name):
                self._lifecycle.forget(name)
                self._lifecycle.unload(name)
        changed = [name for name in sorted(places) if not self._loads.busy(name) and self._changed(name, places[name])]
        if patient:
            changed = self._at_rest({name: self._lifecycle.look(places[name]) for name in changed})
        self._begin(changed)
        return changed

    def _at_rest(self, seen: Mapping[str, Signature]) -> list[str]:
        """Return the models whose files are as they were at the last look; they may be in the middle of a copy otherwise."""
        for name in sorted(seen.keys() - self._moving.keys()):
            _LOG.info("'%s' is loaded once its files do not change for %g s", name, self._settle_s)
        rest = [name for name in seen if self._moving.get(name) == seen[name]]
        self._moving = {name: signature for name, signature in seen.items() if name not in rest}
        return rest

    @property
    def _settle_s(self) -> float:
        return min(_SETTLE_S, self.control.poll_s)

    def _changed(self, name: str, places: Sequence[ModelDirectory]) -> bool:
        known = self._lifecycle.seen.get(name)
        return known is None or known != self._lifecycle.look(places)

    def _poll_on(self) -> None:
        while not self._stopping.wait(self._settle_s if self._moving else self.control.poll_s):
            try:
                self._look(patient=True)
            except Exception:  # noqa: BLE001 - an unexpected exception must not end polling
                _LOG.exception("the model repositories could not be polled; the next attempt is in %g s", self.control.poll_s)

    def _find(self) -> Found:
        listing = find_models(self._directories)
        for error in listing.away:
            _LOG.warning("a model repository cannot be read: %s: %s", error.filename, error.strerror)
        return listing

    def stop_loading(self) -> None:
        """Give up the loads that are under way, and begin no more."""
        self._stopping.set()
        self._threads.close()
        self._loader.stop()
        self._loads.stop(0.0)

    def close(self, timeout_s: float) -> bool:
        """Unload everything. Returns False if an instance did not end in time."""
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
        """True if threads of loads that did not end in time may still be running."""
        return self._loader.limit.abandoned > 0


def _queue_of(name: str, backend: str) -> str:
    """Return the queue of a load. Models that choose among the same cards are loaded one after the other, so that the card that
    each of them gets does not depend on how fast they load.
    """
    known = BACKENDS.get(backend)
    return backend if known is not None and known.on_card else name


def _tried(entry: ModelEntry) -> ModelEntry | None:
    """Return an entry as it is once its first load is over, None for a name that no repository has."""
    if entry.state is not ModelState.LOADING:
        return entry
    return replace(entry, state=ModelState.UNKNOWN) if entry.versions or entry.reason else None


def _unasked(name: str, places: Sequence[ModelDirectory]) -> ModelEntry:
    return ModelEntry(name, reason=AMBIGUOUS if len(places) > 1 else "")
