# SPDX-License-Identifier: Apache-2.0
"""The routes of pages that another part of the server writes, such as the status page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from starlette.requests import Request
from starlette.responses import Response

from hypersonic.server.wire.security.asgi import GroupRoute
from hypersonic.server.wire.security.groups import Group


class Page(Protocol):
    """A page to serve (observe/status/page.py)."""

    @property
    def path(self) -> str:
        """Where it is served."""

    @property
    def media_type(self) -> str:
        """Its type, without a charset."""

    @property
    def content(self) -> bytes | Callable[[], bytes]:
        """The body, or a function that reads it, which may take as long as reading the cards' registers."""

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of its answers besides the type."""


def page_route(page: Page, group: Group) -> GroupRoute:
    """Return the route GET of a page; a function is called on a worker thread."""
    content = page.content
    if not isinstance(content, bytes):
        read = content

        def send_read(_request: Request) -> Response:
            return Response(read(), media_type=page.media_type, headers=page.headers)

        return GroupRoute(page.path, send_read, group)

    async def send(_request: Request) -> Response:
        return Response(content, media_type=page.media_type, headers=page.headers)

    return GroupRoute(page.path, send, group)
