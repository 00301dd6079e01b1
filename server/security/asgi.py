# SPDX-License-Identifier: Apache-2.0
"""A policy in front of an ASGI application's routes: the same judgement as rpc/grpcio/guard.py's, before the body is read.

    path -> the route that serves it -> that route's group is judged -> the route

The path is read once, by the router. A second reading, however careful, would be another one somewhere.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from typing import Any

from starlette.applications import Starlette
from starlette.routing import BaseRoute, Match, Route, Router

from hypersonic.server.errors import AuthorisationError, CredentialsError
from hypersonic.server.security.groups import Group
from hypersonic.server.security.policy import Policy, authorise
from hypersonic.server.status_codes import http_status

_LOG = logging.getLogger(__name__)
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]
OnRefused = Callable[[AuthorisationError], None]


class GroupRoute(Route):
    """A route and the protocol group it belongs to, whatever the method."""

    def __init__(self, path: str, endpoint: Callable[..., Any], group: Group, methods: Collection[str] = ("GET",)) -> None:
        super().__init__(path, endpoint, methods=list(methods))
        self.group = group
        # Starlette ends the pattern with `$`, which also fits in front of a line feed
        self.path_regex = re.compile(self.path_regex.pattern.removesuffix("$") + r"\Z")


def protect(app: Starlette, policy: Policy, on_refused: OnRefused = lambda _error: None) -> Starlette:
    """Put the policy in front of every route of the application, and of every path that none serves.

    A route without a group serves nothing, so that one added later is closed until somebody decides whose it is. The
    application is left as it is when the policy asks nothing.
    """
    if policy.active:
        judge = _Judge(policy, on_refused)
        app.router = Router(
            [_Guarded(route, judge) for route in app.routes if isinstance(route, GroupRoute)],
            redirect_slashes=False,  # a redirect would tell of a route whose group has not been judged
            default=_Nowhere(app.router.default, judge),
        )
    return app


class _Judge:
    """The policy, and what a caller that it refuses is told."""

    def __init__(self, policy: Policy, on_refused: OnRefused) -> None:
        self._policy = policy
        self._on_refused = on_refused

    async def lets_in(self, group: Group | None, scope: Scope, send: Send) -> bool:
        """Whether the call may go on; if not, it has been answered."""
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
        try:
            authorise(self._policy, group, headers)
        except AuthorisationError as error:
            _LOG.debug("refused %s %s: %s", scope.get("method"), scope["path"], error)
            self._on_refused(error)
            await _refuse(scope, send, error)
            return False
        return True


class _Guarded(BaseRoute):
    """A route that serves only what its group lets in; also before it says that it does not know the method."""

    def __init__(self, route: GroupRoute, judge: _Judge) -> None:
        self._route = route
        self._judge = judge

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        return self._route.matches(scope)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        if await self._judge.lets_in(self._route.group, scope, send):
            await self._route.handle(scope, receive, send)


class _Nowhere:
    """Serves the paths that no route serves: it is exempt from nothing, and not found."""

    def __init__(self, default: Application, judge: _Judge) -> None:
        self._default = default
        self._judge = judge

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if await self._judge.lets_in(None, scope, send):
            await self._default(scope, receive, send)


def _challenge(error: AuthorisationError) -> list[tuple[bytes, bytes]]:
    """RFC 6750, section 3: no error code for a caller that sent no credentials."""
    if not isinstance(error, CredentialsError):
        return []
    return [(b"www-authenticate", b"Bearer" if error.missing else b'Bearer error="invalid_token"')]


async def _refuse(scope: Scope, send: Send, error: AuthorisationError) -> None:
    """The body has not been read, so the connection ends with this answer."""
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": error.text})
        return
    body = json.dumps({"error": error.text}).encode()
    plain = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": http_status(error), "headers": [*plain, *_challenge(error)]})
    await send({"type": "http.response.body", "body": body})
