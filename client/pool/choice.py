# SPDX-License-Identifier: Apache-2.0
"""Chooses the server of a request: of two random servers, the one with fewer bytes in flight."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence, Set

from hypersonic.client.pool.member import Member, State, Wanted


def choose(members: Iterable[Member], model: Wanted, avoid: Set[Member], rng: random.Random) -> Member | None:
    """Return the server for a request; None if no server takes work for the model now.

    A server that is up is preferred, and one not in `avoid` if possible, even one that is still being checked. If none is
    up, the one with the fewest failures in a row is returned, so that no request fails without an attempt. For the same reason
    a server whose answers for the model did not fit is returned if there is no other.
    """
    able = [
        member for member in members if member.state is not State.REFUSING and member.may_have(model) and not member.leaving
    ]
    able = [member for member in able if model[0] not in member.refuted] or able
    up = [member for member in able if member.state is State.UP]
    others = [member for member in up if member not in avoid]
    unknown = [member for member in able if member.state is State.UNKNOWN] if avoid else []
    if up:
        return _less_loaded(others or [member for member in unknown if member not in avoid] or up, rng)
    others = [member for member in able if member not in avoid]
    return min(others or able, key=lambda member: (member.failures, rng.random()), default=None)


def _less_loaded(members: Sequence[Member], rng: random.Random) -> Member:
    two = rng.sample(members, min(2, len(members)))
    return min(two, key=lambda member: (member.bytes_in_flight, member.in_flight))
