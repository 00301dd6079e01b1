# SPDX-License-Identifier: Apache-2.0
"""The messages of a stream, without a thread that waits for them.

grpcio's iterator over a stream's requests blocks a thread for as long as the stream is open. What that iterator does with gRPC
core for each message is done here instead, on the thread of grpcio's server that core tells of it. It is built on parts of
grpcio that are not documented; where one is missing, a thread reads the iterator.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from hypersonic.server.rpc.grpcio.core import cygrpc
from hypersonic.server.rpc.transport import Arrived

_LOG = logging.getLogger(__name__)
_grpcio: Any = import_module("grpc._server") if find_spec("grpc._server") else None
_NEEDED = ("_RECEIVE_MESSAGE_TOKEN", "_possibly_finish_call", "_is_rpc_state_active", "_OPEN", "_CLOSED")


class StreamRequests:
    """The requests of one ModelStreamInfer call."""

    def __init__(self, requests: Iterator[bytes], arrived: Arrived) -> None:
        """requests: grpcio's iterator; `arrived` is called on a thread that must not be kept."""
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
        """Ask for the next message."""
        if not self._by_events:
            self._wanted.release()
        elif not self._begin():
            self._arrived(None)

    def close(self) -> None:
        """The call has ended, and nobody reads any more."""
        self._closed = True
        if not self._by_events:
            self._wanted.release()

    def _begin(self) -> bool:
        """Whether gRPC core was asked."""
        state = self._state
        with state.condition:
            if not _grpcio._is_rpc_state_active(state):
                return False
            self._call.start_server_batch((cygrpc.ReceiveMessageOperation(0),), self._tag)
            state.due.add(_grpcio._RECEIVE_MESSAGE_TOKEN)
        return True

    def _tag(self, event: Any) -> Any:
        """Core: a message, or (None) there is none any more. What grpcio's server does next, as its own tags give it."""
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
        """Read the iterator, where grpcio gives no events."""
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
