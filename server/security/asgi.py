# SPDX-License-Identifier: Apache-2.0
"""A policy in front of an ASGI application: the same judgement as rpc.py's, on the path, before the body is read."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from hypersonic.server.security.groups import group_of_path
from hypersonic.server.security.policy import (
    AuthorisationError,
    CredentialsError,
    Policy,
    authorise,
)

_LOG = logging.getLogger(__name__)
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]


def protect(
    app: Application, policy: Policy, on_refused: Callable[[AuthorisationError], None] = lambda _error: None
) -> Application:
    """The application behind the policy; the application itself when the policy asks nothing."""
    if not policy.active:
        return app

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        refusal = _judge(scope, policy, on_refused)
        if refusal is None:
            await app(scope, receive, send)
        else:
            await _answer(send, *refusal)

    return guarded


#: status, error text, further headers
_Refusal = tuple[int, str, list[tuple[bytes, bytes]]]


def _judge(scope: Scope, policy: Policy, on_refused: Callable[[AuthorisationError], None]) -> _Refusal | None:
    if scope["type"] == "lifespan":
        return None
    group = group_of_path(scope["path"]) if scope["type"] == "http" else None
    headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
    try:
        authorise(policy, group, headers)
    except AuthorisationError as error:
        _LOG.debug("refused %s %s: %s", scope.get("method"), scope["path"], error)
        on_refused(error)
        return status_of(error), error.text, _challenge(error)
    return (404, "Not Found", []) if group is None else None


def status_of(error: AuthorisationError) -> int:
    """HTTP's code: Triton's for a restricted group, Envoy's for tokens."""
    return 401 if isinstance(error, CredentialsError) else 403


def _challenge(error: AuthorisationError) -> list[tuple[bytes, bytes]]:
    """RFC 6750, section 3: no error code for a caller that sent no credentials."""
    if not isinstance(error, CredentialsError):
        return []
    return [(b"www-authenticate", b"Bearer" if error.missing else b'Bearer error="invalid_token"')]


async def _answer(send: Send, status: int, text: str, headers: list[tuple[bytes, bytes]]) -> None:
    """The body has not been read, so the connection ends with this answer."""
    body = json.dumps({"error": text}).encode()
    plain = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": [*plain, *headers]})
    await send({"type": "http.response.body", "body": body})
