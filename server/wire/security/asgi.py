# SPDX-License-Identifier: Apache-2.0
"""Applies a security policy before the routes of an ASGI application, as wire/grpc/grpcio/handlers.py does for gRPC: every call
is authorised before its body is read.

::

    path -> the route that serves it -> the policy checks that route's group -> the route

Only the router interprets the path. A second interpretation could differ from it.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from typing import Any

from starlette.applications import Starlette
from starlette.routing import Route, Router

from hypersonic.server.errors import AuthorisationError, CredentialsError
from hypersonic.server.wire.security.groups import Group
from hypersonic.server.wire.security.policy import Policy, authorise
from hypersonic.server.wire.status_codes import http_status

_LOG = logging.getLogger(__name__)
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]
OnRefused = Callable[[AuthorisationError], None]


class GroupRoute(Route):
    """A route, and the protocol group to which it belongs for all its methods."""

    def __init__(self, path: str, endpoint: Callable[..., Any], group: Group, methods: Collection[str] = ("GET",)) -> None:
        """The arguments of starlette's Route, and the group."""
        super().__init__(path, endpoint, methods=list(methods))
        self.group = group
        #: asked before every call, even one with a method that the route does not serve; None = every call is let in
        self.judge: Judge | None = None
        # Starlette ends the pattern with `$`, which also matches before a line feed
        self.path_regex = re.compile(self.path_regex.pattern.removesuffix("$") + r"\Z")

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the call, or answer with the refusal."""
        if self.judge is None or await self.judge.lets_in(self.group, scope, send):
            await super().handle(scope, receive, send)


def protect(app: Starlette, policy: Policy, on_refused: OnRefused = lambda _error: None) -> Starlette:
    """Apply the policy to every route of the application, and to every path that no route serves. Returns the application.

    A route without a group serves nothing, so that a new route stays closed until it is given a group.

    If the policy never refuses anything, the application is not changed.

    Args:
        on_refused: called with each refusal.
    """
    if policy.active:
        judge, default = Judge(policy, on_refused), app.router.default

        async def nowhere(scope: Scope, receive: Receive, send: Send) -> None:
            """Serve a path that no route serves: the policy is applied without exemptions, then the answer is 404."""
            if await judge.lets_in(None, scope, send):
                await default(scope, receive, send)

        routes = [route for route in app.routes if isinstance(route, GroupRoute)]
        for route in routes:
            route.judge = judge
        # a redirect would reveal a route before its group has been checked
        app.router = Router(routes, redirect_slashes=False, default=nowhere)
    return app


class Judge:
    """Checks calls with the policy, and answers those that it refuses."""

    def __init__(self, policy: Policy, on_refused: OnRefused) -> None:
        """Create a Judge.

        Args:
            on_refused: called with each refusal.
        """
        self._policy = policy
        self._on_refused = on_refused

    async def lets_in(self, group: Group | None, scope: Scope, send: Send) -> bool:
        """Return whether the call may proceed. If not, it has been answered.

        Args:
            group: None = the path has no group.
        """
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
        try:
            authorise(self._policy, group, headers)
        except AuthorisationError as error:
            _LOG.debug("refused %s %s: %s", scope.get("method"), scope["path"], error)
            self._on_refused(error)
            await _refuse(scope, send, error)
            return False
        return True


def _challenge(error: AuthorisationError) -> list[tuple[bytes, bytes]]:
    """Return the WWW-Authenticate header (RFC 6750, section 3), without an error code for a caller without credentials."""
    if not isinstance(error, CredentialsError):
        return []
    return [(b"www-authenticate", b"Bearer" if error.missing else b'Bearer error="invalid_token"')]


async def _refuse(scope: Scope, send: Send, error: AuthorisationError) -> None:
    """Answer with a refusal and close the connection, because the body has not been read."""
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": error.text})
        return
    body = json.dumps({"error": error.text}).encode()
    plain = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": http_status(error), "headers": [*plain, *_challenge(error)]})
    await send({"type": "http.response.body", "body": body})
