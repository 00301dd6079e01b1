# SPDX-License-Identifier: Apache-2.0
"""A model's description, requested before any work, so that a missing server or model is reported at once."""

from __future__ import annotations

from hypersonic.client.codes import Code
from hypersonic.client.errors import UnavailableError, UnknownModelError
from hypersonic.client.pool.member import State
from hypersonic.client.specs import ModelSpec
from hypersonic.client.sync import Client


def describe(client: Client, name: str, version: str = "") -> ModelSpec:
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
    return client.model(name, version).spec
