# SPDX-License-Identifier: Apache-2.0
"""StreamRequests: the messages of a stream, received without a thread that waits for them.

grpcio's iterator over a stream's requests blocks a thread for as long as the stream is open. This module makes the calls of
gRPC core that the iterator makes for each message, and handles the resulting event on the thread of grpcio's server that
receives it. It uses undocumented parts of grpcio; if one is missing, a thread reads the iterator.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from hypersonic.server.wire.grpc.grpcio.core import cygrpc
from hypersonic.server.wire.grpc.transport import Arrived

_LOG = logging.getLogger(__name__)
_grpcio: Any = import_module("grpc._server") if find_spec("grpc._server") else None
_NEEDED = ("_RECEIVE_MESSAGE_TOKEN", "_possibly_finish_call", "_is_rpc_state_active", "_OPEN", "_CLOSED")


class StreamRequests:
    """The requests of one ModelStreamInfer call."""

    def __init__(self, requests: Iterator[bytes], arrived: Arrived) -> None:
        """Create a StreamRequests.

        Args:
            requests: grpcio's iterator.
            arrived: called with each message, on a thread that must not be blocked.
        """
        self._requests = requests
        self._arrived = arrived
        self._state: Any = getattr(requests, "_state", None)
        self._call: Any = getattr(requests, "_call", None)
        self._closed = False
        self._by_events = self._state is not None and self._call is not None and all(hasattr(_grpcio, n) for n in _NEEDED)
        if not self._by_events:
            self._wanted = threading.Semaphore(0)
            threading.Thread(target=self._read_on, name="grpc-stream-reader", daemon=True).start()

    def read(self) -> None:
        """Ask for the next message. Does not wait for it."""
        if not self._by_events:
            self._wanted.release()
        elif not self._begin():
            self._arrived(None)

    def close(self) -> None:
        """End the thread that reads the iterator, if there is one. Called once the call has ended."""
        self._closed = True
        if not self._by_events:
            self._wanted.release()

    def _begin(self) -> bool:
        """Ask gRPC core for a message. Returns False if the call has ended."""
        state = self._state
        with state.condition:
            if not _grpcio._is_rpc_state_active(state):
                return False
            self._call.start_server_batch((cygrpc.ReceiveMessageOperation(0),), self._tag)
            state.due.add(_grpcio._RECEIVE_MESSAGE_TOKEN)
        return True

    def _tag(self, event: Any) -> Any:
        """Handle core's event: a message, or None after the last one.

        Returns what grpcio's server has to do next, as grpcio's own event tags do.
        """
        message = event.batch_operations[0].message()
        state = self._state
        with state.condition:
            if message is None and state.client is _grpcio._OPEN:
                state.client = _grpcio._CLOSED
            following = _grpcio._possibly_finish_call(state, _grpcio._RECEIVE_MESSAGE_TOKEN)
        try:
            self._arrived(message)
        except Exception:  # noqa: BLE001 - the thread serves all calls
            _LOG.exception("a stream's message could not be taken")
        return following

    def _read_on(self) -> None:
        """Read the iterator. Used where grpcio lacks the parts that events need."""
        while True:
            self._wanted.acquire()
            if self._closed:
                return
            try:
                message = next(self._requests, None)
            except Exception:  # noqa: BLE001 - gRPC's iterator raises a bare Exception when the call is cancelled
                message = None
            self._arrived(message)
            if message is None:
                return
