# SPDX-License-Identifier: Apache-2.0
"""A model's description, requested before any work, so that a missing server or model is reported at once."""

from __future__ import annotations

from typing import Any, Protocol

from hypersonic.client.codes import Code
from hypersonic.client.errors import UnavailableError, UnknownModelError
from hypersonic.client.pool.member import State
from hypersonic.client.settings import Settings
from hypersonic.client.specs import ModelSpec


class Connected(Protocol):
    """The parts of a Client that functions outside it use. A Protocol keeps their imports short."""

    settings: Settings

    @property
    def engine(self) -> Any:
        """The client's connections."""

    def model(self, name: str, version: str = "") -> Any:
        """Return a Model."""


def describe(client: Connected, name: str, version: str = "") -> ModelSpec:
    """Return the description of a model; do not wait for servers that are down.

    A request waits for a server until its total time is up. This function raises UnavailableError instead if no server takes
    work after the first check, which lasts twice `connect_s` at most, and UnknownModelError if those that do lack the model.
    Also raises AnswerError, AllServersFailedError, DeadlineError.
    """
    wanted, pool = (name, version), client.engine.pool
    pool.ready_for(wanted, 2 * client.settings.timeout.connect_s)
    up = [member for member in pool.members if member.state is State.UP]
    if not up:
        servers = ", ".join(member.name for member in pool.members)
        reasons = dict.fromkeys(member.why or member.state.value for member in pool.members)
        raise UnavailableError(servers, Code.UNAVAILABLE, "; ".join(reasons))
    if pool.pick(wanted) is None:
        raise UnknownModelError(", ".join(member.name for member in up), Code.NOT_FOUND, pool.why_not(wanted))
    spec: ModelSpec = client.model(name, version).spec
    return spec
