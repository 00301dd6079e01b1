# SPDX-License-Identifier: Apache-2.0
"""How a model of the repository gets into service, out of it, and in place of another, one name at a time.

plan (config, versions) -> members of an ensemble -> turn of the name -> load beside what serves -> swap -> drain the old
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from hypersonic.server.config.ensemble import check_members, missing_members
from hypersonic.server.config.schema import EnsembleStep, ModelConfig
from hypersonic.server.ensemble.phases import split_phases
from hypersonic.server.errors import InvalidRequestError, ModelBusyError, ModelLoadError, ServerError
from hypersonic.server.inference.model import Model
from hypersonic.server.inference.repository import ModelState
from hypersonic.server.repository.control_mode import load_failure, poll_failure
from hypersonic.server.repository.entry import ModelEntry, Plan, VersionRecord, choose
from hypersonic.server.repository.layout import NOT_FOUND, Place, Signature, check_place, find_model, select_below, signature
from hypersonic.server.repository.loading import Loader
from hypersonic.server.repository.override import Override, discard
from hypersonic.server.repository.registry import Registry, Turns
from hypersonic.server.repository.retiring import Retirements

_LOG = logging.getLogger(__name__)
Records = Mapping[int, VersionRecord]
#: an ensemble's config and version
EnsembleFactory = Callable[[ModelConfig, int], Model]


class _CircularError(ModelLoadError):
    """Ensembles that need each other."""


class Lifecycle:
    """watched: plans carry the signature of their directory, and versions that did not change are kept."""

    def __init__(
        self,
        directories: Sequence[Path],
        loader: Loader,
        registry: Registry,
        ensembles: EnsembleFactory | None,
        *,
        watched: bool,
    ) -> None:
        self.wanted: frozenset[str] = frozenset()
        self.retirements = Retirements()
        #: name -> its directory as it was just before it was last read
        self.seen: dict[str, Signature] = {}
        self._directories = directories
        self._loader = loader
        self._registry = registry
        self._ensembles = ensembles
        self._watched = watched
        self._turns = Turns()

    def want(self, names: Iterable[str]) -> None:
        """Somebody asked for these by name: what needs another model comes back with it."""
        self.wanted |= frozenset(names)

    def forget(self, name: str) -> None:
        """Nobody asks for it any more."""
        self.wanted -= {name}
        self.seen.pop(name, None)

    def needs(self, name: str) -> tuple[frozenset[str], str]:
        """(the models an ensemble names, the backend that is to choose a card), before anything is loaded."""
        places = find_model(self._directories, name)
        return self._loader.needs(places[0]) if len(places) == 1 else (frozenset(), "")

    def load(
        self,
        name: str,
        override: Override | None = None,
        chain: tuple[str, ...] = (),
        settled: frozenset[str] = frozenset(),
    ) -> None:
        """Load a model, or replace what serves under its name; so are the models that an ensemble names.

        chain: the ensembles that need it. settled: models not to be loaded: that has just been tried. Raises
        InvalidRequestError, ModelLoadError: a load request's errors.
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
        """The files that came with a plan of which nothing was loaded. The turn is ours."""
        entry = self._registry.entry(name)
        if entry.plan is not plan or not entry.models:
            discard(plan.scratch)

    def try_load(self, name: str, chain: tuple[str, ...] = (), settled: frozenset[str] = frozenset()) -> None:
        """The same; what goes wrong is in the index and the log."""
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

    def _plan_place(self, name: str, places: Sequence[Place]) -> Plan:
        known: Signature = ()
        if self._watched:
            known = self.seen[name] = self.look(places)
        return self._loader.plan(check_place(places, self._loader.links), known)

    def look(self, places: Sequence[Place]) -> Signature:
        """Of all places of one name; () where they cannot be looked at, whose reason the load finds."""
        try:
            return tuple(row for place in places for row in signature(place))
        except (OSError, RuntimeError):
            return ()

    def _note(self, name: str, places: Sequence[Place], reason: str) -> None:
        """For the index; a name that no repository has leaves no trace."""
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
        """The turn is ours. Raises InvalidRequestError."""
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
        self._swap(old, ModelEntry(name, records, plan=plan))

    def _refuse(self, name: str, plan: Plan, reason: str) -> None:
        """What serves goes on serving; the index says why nothing else does."""
        discard(plan.scratch)
        self._registry.update(
            name,
            lambda entry: replace(entry, reason=reason, versions={} if not entry.models else entry.versions, replacing=False),
        )

    def _abandon(self, records: Records, old: ModelEntry) -> None:
        """Close what was loaded beside a version that failed, and never served."""
        fresh = [record.model for record in records.values() if record.model is not None]
        self.retirements.start(old.name, [model for model in fresh if model not in old.models], lambda: None)

    def _swap(self, old: ModelEntry, new: ModelEntry) -> None:
        """From now on the new versions answer; the old ones end in the background. Raises when one could not be loaded."""
        name, kept = new.name, new.models
        leaving = [model for model in old.models if not any(model is other for other in kept)]
        rows = {number: row for number, row in old.without("").versions.items() if row.state is ModelState.UNLOADING}
        self._registry.put(replace(new, versions={**rows, **new.versions}))
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
        """None for a name that has nothing left, here or in the repositories."""
        settled = entry.settled(models)
        idle = all(record.state is ModelState.UNAVAILABLE for record in settled.versions.values())
        return None if idle and not find_model(self._directories, entry.name) else settled

    def _replace_in_place(self, name: str, old: ModelEntry, plan: Plan) -> None:
        """The old versions go first, requests wait meanwhile; when the new ones fail, the old ones come back if they can."""
        _LOG.info("'%s' is unloaded before it is replaced: both do not fit", name)
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
        for unused in {id(p): p for p in (old.plan, plan) if p is not None and p is not new.plan}.values():
            discard(unused.scratch)
        if failures:
            raise load_failure(name, failures)

    def _load_versions(self, plan: Plan, old: ModelEntry, *, insist: bool) -> Records:
        """Every version of a plan. insist: raises ModelBusyError, with nothing left behind. Raises ModelLoadError."""
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
        """The ensembles that name a model, once it was loaded or replaced."""
        for entry in self._dependents(name):
            if entry.models:
                self._check_again(entry.name)
            elif entry.name in self.wanted:
                self.try_load(entry.name)

    def _dependents(self, name: str) -> list[ModelEntry]:
        models = self._registry.models
        return [models[other] for other in sorted(models) if other != name and name in models[other].members]

    def _check_again(self, name: str) -> None:
        """An ensemble whose model was replaced: it is unloaded when it does not fit any more."""
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
        """Unload a model and the ensembles that name it; requests that are there already are served in the background.

        An ensemble's last requests still need its models: those go when the ensemble has ended.
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
        """What goes with a model, itself last: first the ensembles that nothing loaded names, then what only those name, ..."""
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
        """models: what was to be unloaded; what somebody loaded in its place meanwhile stays."""
        with self._turns.of(name):
            entry = self._registry.entry(name)
            if name in self._registry.models and list(entry.models) == list(models):
                self._registry.put(entry.without(reason))
                self._retire(name, models, entry.plan)


def _unforeseen(name: str, error: Exception) -> str:
    """The reason of a model whose load failed in a way nobody thought of; the log says more."""
    _LOG.error("model '%s' cannot be loaded", name, exc_info=error)
    return f"Internal: the load failed: {type(error).__name__}"


def _unchanged(old: ModelEntry, plan: Plan, version: int) -> VersionRecord | None:
    """The version as it serves, when neither its directory nor the configuration changed since it was loaded."""
    record = old.versions.get(version)
    if not plan.signature or not record or not record.serving or not old.plan or not old.plan.config or not plan.config:
        return None
    if old.plan.config.message != plan.config.message or old.plan.directories.get(version) != plan.directories[version]:
        return None
    directory = plan.directories[version]
    return record if select_below(old.plan.signature, directory) == select_below(plan.signature, directory) else None
