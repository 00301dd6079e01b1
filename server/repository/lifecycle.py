# SPDX-License-Identifier: Apache-2.0
"""Lifecycle: loads, replaces and unloads the models of the repository, one at a time for each name.

plan (config, versions) -> members of an ensemble -> lock of the name -> load while the old one serves -> swap -> drain the old
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from hypersonic.server.core.config.ensemble import check_members, missing_members
from hypersonic.server.core.config.schema import EnsembleStep, ModelConfig
from hypersonic.server.core.ensemble.phases import split_phases
from hypersonic.server.core.inference.model import Model
from hypersonic.server.core.inference.repository import ModelState
from hypersonic.server.errors import InvalidRequestError, ModelBusyError, ModelLoadError, ServerError
from hypersonic.server.repository.control_mode import load_failure, poll_failure
from hypersonic.server.repository.entry import ModelEntry, Plan, VersionRecord, choose, shortfalls
from hypersonic.server.repository.layout import (
    NOT_FOUND,
    ModelDirectory,
    Signature,
    check_place,
    find_model,
    select_below,
    signature,
)
from hypersonic.server.repository.loading import Loader
from hypersonic.server.repository.override import Override, discard
from hypersonic.server.repository.registry import Registry, Turns
from hypersonic.server.repository.retiring import Retirements

_LOG = logging.getLogger(__name__)
Records = Mapping[int, VersionRecord]
#: (an ensemble's config, version) -> the ensemble
EnsembleFactory = Callable[[ModelConfig, int], Model]


class _CircularError(ModelLoadError):
    """Ensembles depend on each other."""


class Lifecycle:
    """Brings models into service and takes them out. Any thread may use it."""

    def __init__(
        self,
        directories: Sequence[Path],
        loader: Loader,
        registry: Registry,
        ensembles: EnsembleFactory | None,
        *,
        watched: bool,
    ) -> None:
        """Create a Lifecycle.

        Args:
            ensembles: makes ensembles, None = there are none.
            watched: plans carry the signature of their directory, and a reload keeps the versions that have not changed.
        """
        #: the names that were requested
        self.wanted: frozenset[str] = frozenset()
        self.retirements = Retirements()
        #: name -> signature of its directory just before it was last read
        self.seen: dict[str, Signature] = {}
        self._directories = directories
        self._loader = loader
        self._registry = registry
        self._ensembles = ensembles
        self._watched = watched
        self._turns = Turns()

    def want(self, names: Iterable[str]) -> None:
        """Record that these were requested by name. Such an ensemble is loaded again when a model that it needs is loaded."""
        self.wanted |= frozenset(names)

    def forget(self, name: str) -> None:
        """Record that this name is no longer requested."""
        self.wanted -= {name}
        self.seen.pop(name, None)

    def needs(self, name: str) -> tuple[frozenset[str], str]:
        """Return (the models that an ensemble names, the backend that has to choose a card or "").

        This is known before anything is loaded.
        """
        places = find_model(self._directories, name)
        return self._loader.needs(places[0]) if len(places) == 1 else (frozenset(), "")

    def load(
        self,
        name: str,
        override: Override | None = None,
        chain: tuple[str, ...] = (),
        settled: frozenset[str] = frozenset(),
    ) -> None:
        """Load a model, or replace the one that serves under its name. An ensemble's models are loaded first.

        Args:
            override: configuration and files of a load request, None = those of the repository.
            chain: the ensembles that need the model.
            settled: models that are not loaded, because that has just been tried.

        Raises:
            InvalidRequestError: The errors of a load request.
            ModelLoadError: The errors of a load request.
        """
        plan = self._plan(name, override)
        try:
            self._load_members(plan, (*chain, name), settled)
            with self._turns.of(name):
                try:
                    self._replace(name, plan)
                finally:
                    self._discard_unused(name, plan)
        except _CircularError as error:
            self._refuse(name, plan, str(error))
            if chain:
                raise
            raise load_failure(name, str(error)) from error
        except ServerError:
            raise
        except Exception as error:
            reason = _unforeseen(name, error)
            self._refuse(name, plan, reason)
            raise load_failure(name, reason) from error
        self._revisit(name)

    def _discard_unused(self, name: str, plan: Plan) -> None:
        """Remove the files of a plan of which nothing was loaded. The lock of the name is held."""
        entry = self._registry.entry(name)
        if entry.plan is not plan or not entry.models:
            discard(plan.scratch)

    def try_load(self, name: str, chain: tuple[str, ...] = (), settled: frozenset[str] = frozenset()) -> None:
        """Load as load() does, but report failures only in the index and the log."""
        try:
            self.load(name, chain=chain, settled=settled)
        except _CircularError:
            raise
        except ServerError as error:
            _LOG.error("%s", str(error).rstrip())

    def _plan(self, name: str, override: Override | None) -> Plan:
        places = find_model(self._directories, name)
        try:
            if override is None:
                return self._plan_place(name, places)
            return self._loader.plan_override(name, check_place(places, self._loader.links) if places else None, override)
        except InvalidRequestError:
            raise
        except Exception as error:
            reason = str(error) if isinstance(error, ModelLoadError) else _unforeseen(name, error)
            self._note(name, places, reason)
            raise poll_failure(name, reason) from error

    def _plan_place(self, name: str, places: Sequence[ModelDirectory]) -> Plan:
        known: Signature = ()
        if self._watched:
            known = self.seen[name] = self.look(places)
        return self._loader.plan(check_place(places, self._loader.links), known)

    def look(self, places: Sequence[ModelDirectory]) -> Signature:
        """Return the signature of all places of one name, () if they cannot be read; the load then finds the reason."""
        try:
            return tuple(row for place in places for row in signature(place))
        except (OSError, RuntimeError):
            return ()

    def _note(self, name: str, places: Sequence[ModelDirectory], reason: str) -> None:
        """Store a reason for the index, unless no repository has the name."""
        if places or name in self._registry.models:
            self._registry.update(name, lambda entry: replace(entry, reason="" if reason == NOT_FOUND else reason))

    def _load_members(self, plan: Plan, chain: tuple[str, ...], settled: frozenset[str]) -> None:
        members = {step.model_name for step in plan.config.ensemble} if plan.config else set()
        for member in sorted(members):
            if member in chain:
                raise _CircularError(f"circular dependency between ensembles: {chain[0]} -> ... -> {chain[-1]} -> {chain[0]}")
            if member not in settled and not self._registry.entry(member).models:
                self.try_load(member, chain, settled)

    def _replace(self, name: str, plan: Plan) -> None:
        """Load the versions of a plan and put them into service. The lock of the name is held. Raises InvalidRequestError."""
        old = self._registry.entry(name)
        if not old.models:
            loading = {version: VersionRecord(ModelState.LOADING) for version in plan.directories}
            self._registry.put(replace(old, versions={**old.versions, **loading}, reason="", plan=plan))
        try:
            records = self._load_versions(plan, old, insist=bool(old.models) or self.retirements.pending(name))
        except ModelBusyError:
            self._replace_in_place(name, old, plan)
            return
        except ModelLoadError as error:
            self._refuse(name, plan, str(error))
            raise load_failure(name, str(error)) from error
        if old.models and any(record.model is None for record in records.values()):
            self._abandon(records, old)
            self._refuse(name, plan, ModelEntry(name, records).failures())
            raise load_failure(name, ModelEntry(name, records).failures())
        new = ModelEntry(name, records, plan=plan)
        if _is_in_the_way(old, new):
            self._abandon(records, old)
            self._replace_in_place(name, old, plan)
            return
        self._swap(old, new)

    def _refuse(self, name: str, plan: Plan, reason: str) -> None:
        """Store the reason of a failed load for the index. The versions that serve stay in service."""
        discard(plan.scratch)
        self._registry.update(
            name,
            lambda entry: replace(entry, reason=reason, versions={} if not entry.models else entry.versions, replacing=False),
        )

    def _abandon(self, records: Records, old: ModelEntry) -> None:
        """Close the new versions of a load that failed. They have not served."""
        fresh = [record.model for record in records.values() if record.model is not None]
        self.retirements.start(old.name, [model for model in fresh if model not in old.models], lambda: None)

    def _swap(self, old: ModelEntry, new: ModelEntry) -> None:
        """Put the new versions into service; the old ones end in the background.

        Raises InvalidRequestError if one of the new versions could not be loaded.
        """
        name, kept = new.name, new.models
        leaving = [model for model in old.models if not any(model is other for other in kept)]
        rows = {number: row for number, row in old.without("").versions.items() if row.state is ModelState.UNLOADING}
        self._registry.put(replace(new, versions={**rows, **new.versions}))
        _log_shortfalls(new)
        self._retire(name, leaving, old.plan if old.plan is not new.plan else None)
        if new.failures():
            raise load_failure(name, new.failures())

    def _retire(self, name: str, models: Sequence[Model], plan: Plan | None) -> None:
        def done() -> None:
            self._registry.update(name, lambda entry: self._settled(entry, models))
            if not any(entry.plan is plan for entry in self._registry.models.values()):
                discard(plan.scratch if plan else None)

        self.retirements.start(name, models, done)

    def _settled(self, entry: ModelEntry, models: Sequence[Model]) -> ModelEntry | None:
        """Return the entry once `models` have ended; None if nothing of that name is left here or in the repositories."""
        settled = entry.settled(models)
        idle = all(record.state is ModelState.UNAVAILABLE for record in settled.versions.values())
        return None if idle and not find_model(self._directories, entry.name) else settled

    def _replace_in_place(self, name: str, old: ModelEntry, plan: Plan) -> None:
        """Unload the old versions, then load the new ones while requests wait. If that fails, load the old ones again."""
        _LOG.info("'%s' is unloaded before it is replaced: there is no room for both", name)
        rows = dict.fromkeys((*old.versions, *plan.directories), VersionRecord(ModelState.LOADING))
        self._registry.put(replace(old, versions=rows, replacing=True))
        self.retirements.finish(name, old.models)
        records = self._load_versions(plan, ModelEntry(name), insist=False)
        new = ModelEntry(name, records, plan=plan)
        failures = new.failures()
        if not new.models and old.plan is not None and old.plan is not plan:
            records = self._load_versions(old.plan, ModelEntry(name), insist=False)
            if any(record.model is not None for record in records.values()):
                new = ModelEntry(name, records, plan=old.plan, reason=failures)
        self._registry.put(new)
        _log_shortfalls(new)
        for unused in {id(p): p for p in (old.plan, plan) if p is not None and p is not new.plan}.values():
            discard(unused.scratch)
        if failures:
            raise load_failure(name, failures)

    def _load_versions(self, plan: Plan, old: ModelEntry, *, insist: bool) -> Records:
        """Load every version of a plan.

        Args:
            insist: raise ModelBusyError, and leave nothing loaded, if a card is taken.

        Raises:
            ModelLoadError: For an ensemble.
        """
        if plan.config is not None and plan.config.ensemble:
            return self._load_ensemble(plan, plan.config)
        records: dict[int, VersionRecord] = {}
        try:
            for version in plan.directories:
                records[version] = _unchanged(old, plan, version) or self._loader.load(plan, version, insist=insist)
        except ModelBusyError:
            self._abandon(records, old)
            raise
        return records

    def _load_ensemble(self, plan: Plan, config: ModelConfig) -> Records:
        if self._ensembles is None:
            raise ModelLoadError(f"'{config.name}' is an ensemble, which this server does not run")
        self._require_members(config)
        labelled = self._loader.labelled(plan)
        _LOG.info("loading: %s", config.name)
        models = {version: self._ensembles(labelled, version) for version in plan.directories}
        return {version: VersionRecord(ModelState.READY, model=model) for version, model in models.items()}

    def _require_members(self, config: ModelConfig) -> None:
        entries = {step.model_name: self._registry.entry(step.model_name) for step in config.ensemble}
        missing = [name for name, entry in entries.items() if not entry.tried]
        if missing:
            raise missing_members(config.name, missing)
        for name, entry in entries.items():
            if not entry.models:
                why = f" Model '{name}' loading failed with error: {entry.failures()}" if entry.failures() else ""
                raise ModelLoadError(f"ensemble '{config.name}' depends on '{name}' which has no loaded version.{why}")

    def _revisit(self, name: str) -> None:
        """Check or load the ensembles that name a model, after it was loaded or replaced."""
        for entry in self._dependents(name):
            if entry.models:
                self._check_again(entry.name)
            elif entry.name in self.wanted:
                self.try_load(entry.name)

    def _dependents(self, name: str) -> list[ModelEntry]:
        models = self._registry.models
        return [models[other] for other in sorted(models) if other != name and name in models[other].members]

    def _check_again(self, name: str) -> None:
        """Check an ensemble whose model was replaced, and unload it if it does not match the new model."""
        config = self._registry.entry(name).config
        if config is None:
            return

        def member(step: EnsembleStep) -> ModelConfig:
            return self._member(step.model_name, step.version)

        try:
            check_members(config, member)
            decoupled = len(split_phases(config, member)) > 1
        except ServerError as error:
            _LOG.error("'%s' is unloaded: %s", name, error)
            self.unload(name, str(error))
            return
        if any(model.config.decoupled != decoupled for model in self._registry.entry(name).models):
            self.try_load(name)

    def _member(self, name: str, version: int) -> ModelConfig:
        return choose(self._registry.entry(name), name, version if version >= 0 else None).config

    def unload(self, name: str, reason: str = "") -> None:
        """Unload a model and the ensembles that name it. Requests that have already arrived are served in the background.

        The last requests of an ensemble still need its models, so these are unloaded when the ensemble has ended.
        """
        first, *rest = self._levels(name)
        for top, models in first:
            self._unload_alone(top, models, reason if top == name else "")

        def go() -> None:
            ended = [other for other, _ in first]
            for level in rest:
                for other in ended:
                    self.retirements.finish(other)
                for other, models in level:
                    self._unload_alone(other, models, reason if other == name else "")
                ended = [other for other, _ in level]

        if rest:
            self.retirements.start(f"{name} after its ensembles", (), go)

    def _levels(self, name: str) -> list[list[tuple[str, tuple[Model, ...]]]]:
        """Return the models that are unloaded with a model, in groups: an ensemble before the models that it names.

        The model itself is in the last group.
        """
        heights = {name: 0}
        waiting = [name]
        while waiting:
            lower = waiting.pop()
            for entry in self._dependents(lower):
                if entry.models and heights.get(entry.name, 0) <= heights[lower]:
                    heights[entry.name] = heights[lower] + 1
                    waiting.append(entry.name)
        levels: list[list[tuple[str, tuple[Model, ...]]]] = [[] for _ in range(max(heights.values()) + 1)]
        for other, height in heights.items():
            levels[-1 - height].append((other, self._registry.entry(other).models))
        return levels

    def _unload_alone(self, name: str, models: Sequence[Model], reason: str) -> None:
        """Unload `models`, unless others have replaced them meanwhile."""
        with self._turns.of(name):
            entry = self._registry.entry(name)
            if name in self._registry.models and list(entry.models) == list(models):
                self._registry.put(entry.without(reason))
                self._retire(name, models, entry.plan)


def _log_shortfalls(entry: ModelEntry) -> None:
    for model in entry.models:
        for shortfall in shortfalls(model):
            _LOG.warning("'%s' version %d: %s", entry.name, model.version, shortfall.text)


def _is_in_the_way(old: ModelEntry, new: ModelEntry) -> bool:
    """Return whether new versions lack something on their cards only until all old versions have left, as these will."""
    leave = bool(old.models) and not any(model is other for model in old.models for other in new.models)
    return leave and any(shortfall.ends_with_versions for model in new.models for shortfall in shortfalls(model))


def _unforeseen(name: str, error: Exception) -> str:
    """Return the reason of a load that failed with an unexpected exception, and log the exception."""
    _LOG.error("model '%s' cannot be loaded", name, exc_info=error)
    return f"Internal: the load failed: {type(error).__name__}"


def _unchanged(old: ModelEntry, plan: Plan, version: int) -> VersionRecord | None:
    """Return the serving version if neither its directory nor the configuration has changed since it was loaded, else None."""
    record = old.versions.get(version)
    if not plan.signature or not record or not record.serving or not old.plan or not old.plan.config or not plan.config:
        return None
    if old.plan.config.message != plan.config.message or old.plan.directories.get(version) != plan.directories[version]:
        return None
    directory = plan.directories[version]
    return record if select_below(old.plan.signature, directory) == select_below(plan.signature, directory) else None
