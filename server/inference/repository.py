# SPDX-License-Identifier: Apache-2.0
"""The models that are served, as front ends and monitoring see them, and the states of those that are not.

server/repository/models.py has them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol

from hypersonic.server.errors import InvalidRequestError
from hypersonic.server.inference.model import Model
from hypersonic.server.inference.parameters import LoadParameter

_VERSION_TEXT = re.compile(r"\s*([+-]?[0-9]{1,19})")
#: the reason of a version that somebody unloaded; such a version is no sign of trouble
UNLOADED = "unloaded"
#: how long a request waits for a version whose predecessor had to go first
REPLACEMENT_WAIT_S = 60.0


class ModelState(StrEnum):
    """RepositoryIndex's words. UNKNOWN: in a repository, and nobody has asked for it yet."""

    UNKNOWN = ""
    READY = "READY"
    UNAVAILABLE = "UNAVAILABLE"
    LOADING = "LOADING"
    UNLOADING = "UNLOADING"


class IndexEntry(NamedTuple):
    """A row of RepositoryIndex. version: "" where the model itself is meant."""

    name: str
    version: str
    state: ModelState
    reason: str

    @property
    def failed(self) -> bool:
        """Whether it cannot be served, though nobody unloaded it."""
        return self.state is ModelState.UNAVAILABLE and self.reason != UNLOADED


class Repository(Protocol):
    """Every thread may use it."""

    @property
    def all_ready(self) -> bool:
        """Whether nothing is UNAVAILABLE, but for what was unloaded, or LOADING for the first time."""

    def model(self, name: str, version: str = "", *, wait_s: float = REPLACEMENT_WAIT_S) -> Model:
        """The version asked for, or the latest in service. wait_s: for a model whose old version had to go first.

        Raises NotFoundError, UnavailableError for a version that is not READY (ReplacingError for one that will be),
        InvalidRequestError for a version that is no number; Triton's texts.
        """

    def __contains__(self, name: object) -> bool:
        """Whether a model of that name is loaded."""

    def __iter__(self) -> Iterator[Model]:
        """Every loaded version, in service or not, by name and version."""

    def working(self) -> Sequence[str]:
        """The model versions that have requests: also those being unloaded, and also requests whose client has left."""

    def loaded_versions(self, name: str) -> Sequence[int]:
        """Of one model, ascending."""

    def index(self) -> list[IndexEntry]:
        """Every model of the repositories, by name and version."""

    def states(self) -> Counter[ModelState]:
        """How many model versions are in each state; of models without versions, how many models."""

    def load(self, name: str, parameters: Mapping[str, LoadParameter] = ...) -> None:
        """RepositoryModelLoad; returns when the model serves. Raises ServerError."""

    def unload(self, name: str, *, unload_dependents: bool = False) -> None:
        """RepositoryModelUnload; returns at once, requests already there are served. Raises ServerError."""


def parse_version(text: str) -> int | None:
    """A request's model_version as a number, None when it is empty. Raises InvalidRequestError with Triton's text."""
    if not text:
        return None
    match = _VERSION_TEXT.fullmatch(text)
    if match is None or abs(int(match[1])) >= 1 << 63:
        raise InvalidRequestError(
            f"failed to get model version from specified version string '{text}' (details: stol), "
            "version should be an integral value > 0"
        )
    if int(match[1]) < 0:
        raise InvalidRequestError(f"invalid model version specified '{text}' , version should be an integral value > 0")
    return int(match[1])
