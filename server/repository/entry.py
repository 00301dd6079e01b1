# SPDX-License-Identifier: Apache-2.0
"""The state of each model of the repository: immutable records that any thread may read while others replace them."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from hypersonic.server.core.config.schema import ModelConfig
from hypersonic.server.core.inference.card import Shortfall
from hypersonic.server.core.inference.model import Model
from hypersonic.server.core.inference.repository import UNLOADED, IndexEntry, ModelState
from hypersonic.server.errors import ModelsFailedError, NotFoundError, UnavailableError, shortened
from hypersonic.server.repository.agents import Hashed
from hypersonic.server.repository.layout import Signature, show_name

#: the most models that an error at start names
_MOST_NAMED = 20


class Plan(NamedTuple):
    """The versions of a model that are to be loaded.

    Attributes:
        config: None if it is invalid; error is then the reason why none of the versions can be loaded.
        directories: version -> directory.
        signature: of the model's directory, () = not watched.
        scratch: a private directory with files from a load request, removed with the last version.
        hashed: the files whose checksums were correct.
    """

    config: ModelConfig | None
    directories: Mapping[int, Path]
    signature: Signature = ()
    scratch: Path | None = None
    error: str = ""
    hashed: tuple[Hashed, ...] = ()


@dataclass(frozen=True)
class VersionRecord:
    """The state of one version.

    Attributes:
        model: set while it serves or drains.
        reason: why the version is UNAVAILABLE, or why the successor of a READY one failed.
    """

    state: ModelState
    reason: str = ""
    model: Model | None = None

    @property
    def serving(self) -> Model | None:
        """The model, None if it is being unloaded or is out of service."""
        return self.model if self.state is ModelState.READY and self.model and self.model.in_service else None


@dataclass(frozen=True)
class ModelEntry:
    """The state of one model name.

    Attributes:
        versions: version -> record.
        state, reason: of the model itself, if it has no versions or a change of it failed; LOADING = its first load has not
            reached its versions yet.
        replacing: the old versions had to be unloaded before the new ones can be loaded, and requests wait.
        plan: what the versions in service were loaded from.
    """

    name: str
    versions: Mapping[int, VersionRecord] = field(default_factory=dict)
    state: ModelState = ModelState.UNKNOWN
    reason: str = ""
    replacing: bool = False
    plan: Plan | None = None

    @property
    def models(self) -> tuple[Model, ...]:
        """The loaded versions, in service or not, ascending."""
        records = (self.versions[version] for version in sorted(self.versions))
        return tuple(record.model for record in records if record.model is not None and record.state is ModelState.READY)

    @property
    def config(self) -> ModelConfig | None:
        """The configuration that is, or was last, loaded; None if there is none."""
        return self.plan.config if self.plan else None

    @property
    def members(self) -> frozenset[str]:
        """The models that an ensemble names; empty for other models."""
        return frozenset(step.model_name for step in self.config.ensemble) if self.config else frozenset()

    @property
    def tried(self) -> bool:
        """True if a load of any of its versions has ever begun."""
        return bool(self.versions)

    def failures(self) -> str:
        """Return Triton's text about the versions that could not be loaded, "" if there are none."""
        failed = {number: record for number, record in sorted(self.versions.items()) if _failed(record)}
        return "".join(f"version {number} is at UNAVAILABLE state: {record.reason};" for number, record in failed.items())

    def without(self, reason: str) -> ModelEntry:
        """Return the entry with its loaded versions UNLOADING."""
        return replace(self, versions={number: _leaving(record) for number, record in self.versions.items()}, reason=reason)

    def settled(self, ended: Collection[Model]) -> ModelEntry:
        """Return the entry as it is once these models have ended."""
        return replace(self, versions={number: _left(record, ended) for number, record in self.versions.items()})

    def rows(self) -> Iterator[IndexEntry]:
        """Yield the rows of RepositoryIndex for this name."""
        if not self.versions or (self.reason and not self.models):
            state = ModelState.UNAVAILABLE if self.reason else self.state
            yield IndexEntry(self.name, "", state, shortened(self.reason))
        for number in sorted(self.versions):
            yield self._row(number, self.versions[number])

    def _row(self, number: int, record: VersionRecord) -> IndexEntry:
        if record.state is not ModelState.READY or record.model is None:
            return IndexEntry(self.name, str(number), record.state, shortened(record.reason))
        lost = "" if self.replacing else record.model.reason
        state = ModelState.UNAVAILABLE if lost else ModelState.READY
        lacks = "; ".join(shortfall.text for shortfall in shortfalls(record.model))
        return IndexEntry(self.name, str(number), state, shortened(lost or self.reason or lacks))


def shortfalls(model: Model) -> list[Shortfall]:
    """Return what a model lacks on its cards."""
    found = (card.shortfall() for card in model.cards().values())
    return list(dict.fromkeys(shortfall for shortfall in found if shortfall is not None))


def _failed(record: VersionRecord) -> bool:
    return record.state is ModelState.UNAVAILABLE and record.reason != UNLOADED


def _leaving(record: VersionRecord) -> VersionRecord:
    return replace(record, state=ModelState.UNLOADING) if record.model is not None else record


def _left(record: VersionRecord, ended: Collection[Model]) -> VersionRecord:
    gone = record.state is ModelState.UNLOADING and any(record.model is model for model in ended)
    return VersionRecord(ModelState.UNAVAILABLE, UNLOADED) if gone else record


def choose(entry: ModelEntry | None, name: str, number: int | None) -> Model:
    """Return a version of a model; number None = the latest in service.

    Args:
        entry: None = unknown name.

    Raises:
        NotFoundError: With Triton's texts.
        UnavailableError: With Triton's texts.
    """
    if entry is not None and entry.state is ModelState.LOADING and not entry.tried:
        raise _not_ready(name, number)
    if entry is None or not entry.tried:
        raise NotFoundError(f"Request for unknown model: '{name}' is not found")
    if number is None:
        return _latest(entry)
    record = entry.versions.get(number)
    if record is None:
        raise NotFoundError(f"Request for unknown model: '{name}' version {number} is not found")
    return record.serving or _refuse(name, number, record)


def _latest(entry: ModelEntry) -> Model:
    for number in sorted(entry.versions, reverse=True):
        if (model := entry.versions[number].serving) is not None:
            return model
    loaded = [number for number, record in entry.versions.items() if record.state is ModelState.READY]
    if loaded:
        _refuse(entry.name, max(loaded), entry.versions[max(loaded)])
    if any(record.state is ModelState.LOADING for record in entry.versions.values()):
        raise _not_ready(entry.name, None)
    raise NotFoundError(f"Request for unknown model: '{entry.name}' has no available versions")


def _not_ready(name: str, number: int | None) -> UnavailableError:
    """Return the error for a request to a model that is being loaded, with Triton's text."""
    version = "" if number is None else f" version {number}"
    return UnavailableError(f"Request for unknown model: '{name}'{version} is not at ready state")


def _refuse(name: str, number: int, record: VersionRecord) -> Model:
    why = f": {record.model.reason}" if record.model is not None and record.state is ModelState.READY else ""
    raise UnavailableError(f"Request for unknown model: '{name}' version {number} is not at ready state{why}")


def served_without(rows: Sequence[IndexEntry], *, strict: bool) -> str:
    """Return the log line of a server that starts although some models cannot be served.

    Args:
        strict: --strict-readiness.
    """
    names = sorted({row.name for row in rows})
    named = ", ".join(names[:_MOST_NAMED]) + (", .." if len(names) > _MOST_NAMED else "")
    ready = (
        "is NOT ready until they are: fix or remove them, or set --strict-readiness=false"
        if strict
        else "is ready without them (--strict-readiness=false)"
    )
    return f"{len(names)} of the models cannot be served: {named}; the server {ready}"


def models_failed(rows: Sequence[IndexEntry]) -> ModelsFailedError:
    """Return the error of a server that does not start because of its models. It begins with Triton's text, and names the
    models, the reasons and what to do.
    """
    lines = [f"failed to load all models; {len(rows)} cannot be served:"]
    for row in rows[:_MOST_NAMED]:
        version = f" version {row.version}" if row.version else ""
        lines += textwrap.indent(f"{row.name}{version}: {row.reason.strip()}", "  ").splitlines()
    if len(rows) > _MOST_NAMED:
        lines.append(f"  and {len(rows) - _MOST_NAMED} more, which the log names")
    lines.append(
        "fix or remove these models, or serve the others with --exit-on-error=false (and --strict-readiness=false, so that the "
        "server is ready without them)"
    )
    return ModelsFailedError("\n".join(map(show_name, lines)))
