# SPDX-License-Identifier: Apache-2.0
"""The interface of the model repository for front ends and monitoring, and the states of model versions.

server/repository/models.py implements it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol

from hypersonic.server.core.inference.model import Model
from hypersonic.server.core.inference.parameters import LoadParameter
from hypersonic.server.errors import InvalidRequestError

_VERSION_TEXT = re.compile(r"\s*([+-]?[0-9]{1,19})")
#: the reason of a version that was unloaded on request, which is not a failure
UNLOADED = "unloaded"
#: how long a request waits for a version that can be loaded only after its predecessor was unloaded
REPLACEMENT_WAIT_S = 60.0


class ModelState(StrEnum):
    """The states in RepositoryIndex. UNKNOWN: the model is in a repository, and no load of it has been requested."""

    UNKNOWN = ""
    READY = "READY"
    UNAVAILABLE = "UNAVAILABLE"
    LOADING = "LOADING"
    UNLOADING = "UNLOADING"


class IndexEntry(NamedTuple):
    """A row of RepositoryIndex.

    Attributes:
        version: "" for a row about the model itself.
    """

    name: str
    version: str
    state: ModelState
    reason: str

    @property
    def failed(self) -> bool:
        """True if the version cannot be served although it was not unloaded on request."""
        return self.state is ModelState.UNAVAILABLE and self.reason != UNLOADED


class Repository(Protocol):
    """The loaded models and the repositories they come from. Any thread may use it."""

    @property
    def all_ready(self) -> bool:
        """True if no version is LOADING for the first time, and none is UNAVAILABLE except those unloaded on request."""

    def model(self, name: str, version: str = "", *, wait_s: float = REPLACEMENT_WAIT_S) -> Model:
        """Return the requested version, or the latest in service.

        Raises, with Triton's texts, NotFoundError, UnavailableError for a version that is not READY (ReplacingError if it will
        be), and InvalidRequestError for a version that is not a number.

        Args:
            wait_s: the longest wait for a model whose old version had to be unloaded first.
        """

    def __contains__(self, name: object) -> bool:
        """Return whether a model of that name is loaded."""

    def __iter__(self) -> Iterator[Model]:
        """Iterate over every loaded version, in service or not, ordered by name and version."""

    def working(self) -> Sequence[str]:
        """List the model versions with open requests: also versions being unloaded, and requests whose client has
        disconnected."""

    def loaded_versions(self, name: str) -> Sequence[int]:
        """List the loaded versions of one model, in ascending order."""

    def index(self) -> list[IndexEntry]:
        """List every model in the repositories, ordered by name and version."""

    def states(self) -> Counter[ModelState]:
        """Count the model versions in each state; a model without versions counts once."""

    def load(self, name: str, parameters: Mapping[str, LoadParameter] = ...) -> None:
        """Load a model (RepositoryModelLoad) and return when it serves. Raises ServerError."""

    def unload(self, name: str, *, unload_dependents: bool = False) -> None:
        """Unload a model (RepositoryModelUnload) and return at once; open requests are still served. Raises ServerError."""


def parse_version(text: str) -> int | None:
    """Return a request's model_version as a number, None if it is empty. Raises InvalidRequestError with Triton's text."""
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
