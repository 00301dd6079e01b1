# SPDX-License-Identifier: Apache-2.0
"""The HTTP servers: Triton's HTTP paths on port 8000 (routes.py), and Prometheus metrics on port 8002.

One event loop on one thread serves both ports. Work that waits, computes or asks a card runs on other threads.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, cast

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from hypersonic.server.errors import StartError
from hypersonic.server.limits.slow_clients import SlowClients
from hypersonic.server.statistics.exposition import CONTENT_TYPE
from hypersonic.server.wire.http.infer import HttpLimits
from hypersonic.server.wire.http.protocol import HEADER_BYTES, BoundedProtocol
from hypersonic.server.wire.http.routes import inference_app, refuse
from hypersonic.server.wire.security.asgi import Application, GroupRoute
from hypersonic.server.wire.security.groups import Group

__all__ = [
    "HttpLimits",
    "HttpServer",
    "Listener",
    "bind_failure",
    "inference_app",
    "listen",
    "metrics_app",
]
#: how long an idle connection is kept, in seconds: clients' connection pools expect that, and an idle connection costs little
_KEEP_ALIVE_S = 600
#: the most connections that wait to be accepted; the Linux kernel lowers it to net.core.somaxconn
_BACKLOG = 4096


def metrics_app(text: Callable[[], str]) -> Starlette:
    """Return the application of port 8002: GET /metrics, with or without a slash at the end, as in Triton.

    Args:
        text: returns the page, in Prometheus' text format.
    """

    def send(_request: Request) -> Response:  # runs on a thread, because it reads registers of the cards
        return Response(text(), media_type=CONTENT_TYPE)

    routes = [GroupRoute(path, send, Group.METRICS) for path in ("/metrics", "/metrics/")]
    app = Starlette(routes=routes, exception_handlers={HTTPException: refuse})
    app.router.redirect_slashes = False
    return app


#: a bound, listening socket
Listener = socket.socket


class HttpServer:
    """Runs uvicorn on a thread of its own, on sockets that are already bound. The main thread still handles signals."""

    def __init__(
        self,
        apps: Sequence[tuple[Application, Listener]],
        tls: ssl.SSLContext | None = None,
        clients: SlowClients | None = None,
    ) -> None:
        """Create a HttpServer.

        Args:
            apps: each application and its socket.
            tls: for all of them, None = plain HTTP.
            clients: cuts off slow clients; None = nothing does.
        """
        protocol = partial(BoundedProtocol, clients=clients or SlowClients())
        self._servers = [(_uvicorn(app, tls, protocol), listener) for app, listener in apps]
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        #: the event loop has called _come_round() since the last comes_round()
        self._came_round = True

    def start(self) -> None:
        """Begin to serve. Does nothing if there are no applications."""
        if self._servers:
            self._thread.start()

    def comes_round(self) -> bool:
        """Return False if the event loop has called nothing since the last question."""
        came, self._came_round = self._came_round, False
        if came and self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._come_round)
        return came or self._loop is None

    def _come_round(self) -> None:
        self._came_round = True

    def begin_shutdown(self, grace_s: float) -> None:
        """Begin the shutdown: after `grace_s` seconds, requests that have not arrived completely and unread answers are cut
        off.
        """
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._begin_shutdown, self._loop, grace_s)

    def _begin_shutdown(self, loop: asyncio.AbstractEventLoop, grace_s: float) -> None:
        for connection in self._connections():
            connection.begin_shutdown()
        loop.call_later(grace_s, self._end_halves)

    def _end_halves(self) -> None:
        for connection in self._connections():
            connection.end_half()

    def _connections(self) -> list[BoundedProtocol]:
        return [cast("BoundedProtocol", one) for server, _ in self._servers for one in server.server_state.connections]

    def stop(self, timeout_s: float) -> None:
        """Finish the answers that are under way and close idle connections. Waits at most `timeout_s` seconds."""
        for server, _ in self._servers:
            server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        await asyncio.gather(*(server.serve(sockets=[listener]) for server, listener in self._servers))


def _uvicorn(app: Application, tls: ssl.SSLContext | None, protocol: Any) -> uvicorn.Server:
    config = uvicorn.Config(
        app,
        http=protocol,
        h11_max_incomplete_event_size=HEADER_BYTES,
        log_config=None,
        log_level="error",  # clients' mistakes are not worth a log line
        access_log=False,
        lifespan="off",
        server_header=False,
        proxy_headers=False,  # a client is identified by its connection, not by the headers it sends
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=2,
        ws="none",
        ssl_context_factory=None if tls is None else lambda _config, _default: tls,
    )
    return uvicorn.Server(config)


def listen(address: str, port: int, *, shared: bool = False) -> Listener:
    """Return a listening socket; port 0 picks a free one.

    Args:
        shared: other servers that also set it may listen on the same port (SO_REUSEPORT).

    Raises:
        StartError: If the address cannot be used.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        listener = socket.create_server((address, port), family=family, backlog=_BACKLOG, reuse_port=shared)
    except OSError as error:
        raise StartError(bind_failure(address, port, os.strerror(error.errno or 0))) from error
    # accepted connections inherit it; asyncio sets it only on sockets with an explicit protocol. An answer is several writes
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def bind_failure(address: str, port: int, reason: str) -> str:
    """Return the error text for a port that cannot be used; the same for all three ports."""
    return (
        f"cannot listen on {address}:{port}: {reason}; stop what listens there, or choose another port with "
        "--grpc-port, --http-port or --metrics-port (0 picks a free one)"
    )
