# SPDX-License-Identifier: Apache-2.0
"""A server of the pool: its state, its connection and its counters."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from hypersonic.client.pool.latency import Latencies
from hypersonic.client.servers import Server
from hypersonic.client.transport.call import Headers, Transport

#: a model's name and version; "" is any version
Wanted = tuple[str, str]


class State(Enum):
    """The state of a server, which decides whether it gets new work."""

    UNKNOWN = "not asked yet"
    UP = "up"
    OUT = "left out after failures"
    REFUSING = "rejects RepositoryIndex, so it gets no new work"


@dataclass
class Counters:
    """Counts of one server.

    Attributes:
        sent: all attempts.
        retried: attempts after a failure.
        hedged: attempts by a hedge.
        bytes: sent.
    """

    sent: int = 0
    failed: int = 0
    retried: int = 0
    hedged: int = 0
    bytes: int = 0
    latencies: Latencies = field(default_factory=Latencies)


@dataclass(eq=False)
class Member:
    """A server and its state. The pool's lock guards all but `transport`.

    Attributes:
        failures: in a row.
        pause_s: how long it was left out last time.
        models: None if the server does not list them.
        why: the text of its last failure.
        lacking: models that it has answered it does not have.
        refuted: by the names of models for which it is left out: why.
        pauses: how long it was left out for a model last time, in seconds, by the model's name.
        checks: how often a check was planned.
        leaving: DNS or a file no longer gives this address.
        warned: the log has a warning that it was left out.
    """

    server: Server
    transport: Transport
    state: State = State.UNKNOWN
    failures: int = 0
    pause_s: float = 0.0
    models: frozenset[str] | None = None
    lacking: set[Wanted] = field(default_factory=set)
    refuted: dict[str, str] = field(default_factory=dict)
    pauses: dict[str, float] = field(default_factory=dict)
    checks: int = 0
    bytes_in_flight: int = 0
    in_flight: int = 0
    why: str = ""
    leaving: bool = False
    warned: bool = False
    counters: Counters = field(default_factory=Counters)

    @property
    def name(self) -> str:
        """Its address."""
        return self.server.address

    def may_have(self, model: Wanted) -> bool:
        """Return False if it is known that the server does not have the model."""
        return model not in self.lacking and (self.models is None or model[0] in self.models)

    def headers(self) -> Headers:
        """Return the headers of a call: the token and the headers of the Server. Calls the token if it is a function."""
        token = self.server.token if isinstance(self.server.token, str) else self.server.token()
        authorization = (("authorization", f"Bearer {token}"),) if token else ()
        return (*authorization, *((name.lower(), value) for name, value in self.server.headers.items()))
