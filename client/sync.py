# SPDX-License-Identifier: Apache-2.0
"""The client for threads: Client."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Self

from hypersonic.client.engine import Engine
from hypersonic.client.model import Model
from hypersonic.client.servers import Server, as_servers, environment_servers
from hypersonic.client.settings import Fallback, Health, Hedge, Limits, Policy, Retry, Settings, Timeout
from hypersonic.client.statistics import Statistics, collect
from hypersonic.client.transport.call import Connect
from hypersonic.client.transport.grpcio import GrpcioTransport

#: the engines of unpickled clients, by the client they are copies of: the copies in a process share them
_of_copies: dict[str, dict[int, Engine]] = {}


class Client:
    """Sends events to one or several servers that speak Triton's protocol.

    ::

        with Client(["a:8001", "b:8001"]) as client:
            energy = client.model("facile").infer(rows)

    Any thread may use it. It connects at the first request. It can be pickled, and used after a fork: each process has its own
    connections. The unpickled copies of a client in one process share their connections until one of them is closed.
    """

    def __init__(
        self,
        servers: str | Server | Iterable[str | Server] = "localhost:8001",
        settings: Settings | None = None,
        *,
        timeout: Timeout | float | None = None,
        limits: Limits | None = None,
        retry: Retry | Policy | Sequence[Policy] | None = None,
        health: Health | None = None,
        hedge: Hedge | None = None,
        connect: Connect = GrpcioTransport,
    ) -> None:
        """The other arguments replace parts of the settings. Raises AddressError.

        Args:
            servers: "host:port", a Server, or several.
            timeout: the seconds of a call, or several times.
            connect: makes the transport of a server; tests pass their own.
        """
        self.servers = as_servers(servers)
        self.settings = (settings or Settings()).updated(
            timeout=timeout, limits=limits, retry=retry, health=health, hedge=hedge
        )
        self._connect = connect
        self._key = uuid.uuid4().hex
        self._engines: dict[int, Engine] = {}

    @classmethod
    def from_environment(cls, settings: Settings | None = None) -> Self:
        """Return a client of the servers in SONIC_LOCAL_BALANCER_HOST/_PORT and HYPERSONIC_SERVERS. Raises AddressError."""
        return cls(environment_servers(), settings)

    def model(self, name: str, version: str | int = "") -> Model:
        """Return a model. Its description is requested before the first inference.

        Args:
            version: "" is the server's choice.
        """
        return Model(self, (name, str(version)))

    def models(self) -> dict[str, tuple[str, ...]]:
        """Return the models that are ready, with the addresses of the servers that list them. Asks the servers.

        Servers that cannot be reached, or do not list their models, are left out. Raises AddressError, ClosedError.
        """
        return self.engine.models()

    def ready(self, model: str = "", *, timeout: float = 0.0) -> bool:
        """Return whether a server is ready, and has the model.

        Raises ClosedError.

        Args:
            model: "": any.
            timeout: how long to wait for it, in seconds; the first check takes up to Timeout.connect_s in any case.
        """
        return self.engine.ready(model, timeout)

    def statistics(self) -> Statistics:
        """Return what was sent to each server so far, and the servers' own times for it. Asks the servers."""
        return collect(self.engine)

    def close(self) -> None:
        """End all requests and close the connections. No thread, descriptor or shared memory of the client remains.

        A LocalServer of the fallback is closed too.
        """
        if _of_copies.get(self._key) is self._engines:
            _of_copies.pop(self._key, None)
        engine = self._engines.get(os.getpid())
        if engine is not None:
            engine.close()
        for policy in self.settings.retry.policies:
            if isinstance(policy, Fallback) and not callable(policy.run):
                policy.run.close()

    @property
    def engine(self) -> Engine:
        """The client's connections in this process."""
        pid = os.getpid()
        engine = self._engines.get(pid)
        if engine is None:  # after a fork, the parent's engine stays in the dict: closing it here could hang
            engine = self._engines.setdefault(pid, Engine(self.servers, self.settings, self._connect))
        return engine

    def __repr__(self) -> str:
        return f"Client({', '.join(repr(server.address) for server in self.servers)})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_engines": {}}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._engines = _of_copies.setdefault(self._key, {})
