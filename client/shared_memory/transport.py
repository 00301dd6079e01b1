# SPDX-License-Identifier: Apache-2.0
"""A transport that sends a request again as a plain message when the server does not know its region any more."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from hypersonic.client.errors import RETRYABLE, CallError
from hypersonic.client.transport.call import Done, Headers, Running, Stream, Transport

#: part of Triton's error messages about regions: unknown, disabled, too small for an output
_WORDS = "shared memory"


class RegionMessage(bytes):
    """A request whose tensors are in a region.

    Attributes:
        plain: makes the same request without a region.
        lost: called before that one is sent.
    """

    plain: Callable[[], bytes]
    lost: Callable[[], None]

    @classmethod
    def of(cls, message: bytes, plain: Callable[[], bytes], lost: Callable[[], None]) -> RegionMessage:
        """Return the message with its two functions."""
        made = cls(message)
        made.plain, made.lost = plain, lost
        return made

    def instead(self, error: CallError) -> bytes | None:
        """Return the plain request if the server has refused the region, which it did before it ran the model; else None."""
        if error.code in RETRYABLE or _WORDS not in error.text:
            return None
        self.lost()
        return self.plain()


class SharingTransport:
    """A transport around another one."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner

    def unary(self, method: str, request: bytes, timeout_s: float, headers: Headers) -> bytes:
        """Return the answer. Raises CallError."""
        if not isinstance(request, RegionMessage):
            return self._inner.unary(method, request, timeout_s, headers)
        deadline = time.monotonic() + timeout_s
        try:
            return self._inner.unary(method, bytes(request), timeout_s, headers)
        except CallError as error:
            plain = request.instead(error)
            if plain is None:
                raise
        return self._inner.unary(method, plain, _left_s(deadline), headers)

    def start(self, method: str, request: bytes, timeout_s: float, headers: Headers, done: Done) -> Running:
        """Start a call and return without waiting. Raises CallError if the transport was closed."""
        if not isinstance(request, RegionMessage):
            return self._inner.start(method, request, timeout_s, headers, done)
        calls, deadline = _Calls(), time.monotonic() + timeout_s

        def first(outcome: bytes | CallError) -> None:
            plain = request.instead(outcome) if isinstance(outcome, CallError) else None
            if plain is None:
                done(outcome)
                return
            try:
                calls.hold(self._inner.start(method, plain, _left_s(deadline), headers, done))
            except CallError as error:
                done(error)

        calls.hold(self._inner.start(method, bytes(request), timeout_s, headers, first))
        return calls

    def stream(self, timeout_s: float | None, headers: Headers) -> Stream:
        """Start a call of ModelStreamInfer."""
        return self._inner.stream(timeout_s, headers)

    def close(self) -> None:
        """End all calls and the connection."""
        self._inner.close()


def _left_s(deadline: float) -> float:
    return max(0.001, deadline - time.monotonic())


class _Calls:
    """One or two calls that are cancelled together."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: list[Running] = []
        self._cancelled = False

    def hold(self, call: Running) -> None:
        with self._lock:
            self._held.append(call)
            cancelled = self._cancelled
        if cancelled:
            call.cancel()

    def cancel(self) -> None:
        with self._lock:
            self._cancelled = True
            held = tuple(self._held)
        for call in held:
            call.cancel()
