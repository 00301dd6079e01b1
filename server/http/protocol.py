# SPDX-License-Identifier: Apache-2.0
"""HTTP/1.1 as uvicorn and h11 speak it, with chunks counted.

A chunk of one byte costs the event loop as much as one of 64 KiB, so a client that sends millions of them holds up everybody's
health checks. Headers are bounded by h11.
"""

from __future__ import annotations

from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

#: all headers of a request together
HEADER_BYTES = 65_536
#: Triton's cap
MOST_CHUNKS = 65_536
#: so many may be of any size; of more, the mean is bounded
FREE_CHUNKS = 1024
LEAST_MEAN_BYTES = 64


class BoundedConnection(h11.Connection):
    """Raises RemoteProtocolError for a body in too many chunks."""

    _chunks = 0
    _body_bytes = 0

    def next_event(self) -> Any:
        event = super().next_event()
        if type(event) is h11.Data:
            self._chunks += event.chunk_start
            self._body_bytes += len(event.data)
            if self._chunks > FREE_CHUNKS:
                self._check()
        elif type(event) is h11.Request:
            self._chunks = self._body_bytes = 0
        return event

    def _check(self) -> None:
        if self._chunks > MOST_CHUNKS or self._body_bytes < LEAST_MEAN_BYTES * (self._chunks - FREE_CHUNKS):
            raise h11.RemoteProtocolError(f"{self._chunks} chunks of {self._body_bytes} bytes in all", error_status_hint=400)


class BoundedProtocol(H11Protocol):
    """uvicorn's protocol on a BoundedConnection."""

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self.conn = BoundedConnection(h11.SERVER, HEADER_BYTES)

    def send_400_response(self, msg: str) -> None:
        """Say so where nothing has been said yet, and close."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()
