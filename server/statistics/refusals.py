# SPDX-License-Identifier: Apache-2.0
"""Counts the calls that are refused before they reach a model, by protocol and reason: hypersonic_calls_refused_total.

Requests that a model refuses or fails are counted in nv_inference_request_failure instead.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from enum import StrEnum

from hypersonic.server.errors import (
    AddressShareError,
    AuthorisationError,
    BudgetError,
    CancelledError,
    ClientShareError,
    InvalidRequestError,
    MalformedJsonError,
    NotFoundError,
    ServerError,
    SharedMemoryError,
    ShuttingDownError,
    TooLargeError,
    UnauthenticatedError,
    UnavailableError,
    UnsupportedError,
)


class Protocol(StrEnum):
    """The `protocol` label: the front end that refused the call."""

    GRPC = "grpc"
    HTTP = "http"


class Refusal(StrEnum):
    """The `reason` label: why a call was refused."""

    UNAUTHENTICATED = "unauthenticated"
    RESTRICTED = "restricted"
    TOO_LARGE = "too_large"
    BYTE_BUDGET = "byte_budget"
    ADDRESS_SHARE = "address_share"
    CLIENT_SHARE = "client_share"
    NOT_FOUND = "not_found"
    UNAVAILABLE = "unavailable"
    SHUTTING_DOWN = "shutting_down"
    UNSUPPORTED = "unsupported"
    BAD_REQUEST = "bad_request"
    CANCELED = "canceled"


#: kind of error -> reason; the first match counts. Other errors are failures and are not counted as refusals
_REASONS: tuple[tuple[type[ServerError], Refusal], ...] = (
    (UnauthenticatedError, Refusal.UNAUTHENTICATED),
    (AuthorisationError, Refusal.RESTRICTED),
    (TooLargeError, Refusal.TOO_LARGE),
    (AddressShareError, Refusal.ADDRESS_SHARE),
    (ClientShareError, Refusal.CLIENT_SHARE),
    (BudgetError, Refusal.BYTE_BUDGET),
    (NotFoundError, Refusal.NOT_FOUND),
    (ShuttingDownError, Refusal.SHUTTING_DOWN),
    (UnavailableError, Refusal.UNAVAILABLE),
    (UnsupportedError, Refusal.UNSUPPORTED),
    (CancelledError, Refusal.CANCELED),
    (InvalidRequestError, Refusal.BAD_REQUEST),
    (MalformedJsonError, Refusal.BAD_REQUEST),
    (SharedMemoryError, Refusal.BAD_REQUEST),
)


def reason_of(error: ServerError) -> Refusal | None:
    """Return why a call was refused, None for a failure of the server or of a model."""
    return next((reason for kind, reason in _REASONS if isinstance(error, kind)), None)


class Refusals:
    """The counts, from 0 at start. Any thread may add and read."""

    def __init__(self) -> None:
        """Begin with zero for each protocol and reason."""
        self._lock = threading.Lock()
        self._counts = {(protocol, reason): 0 for protocol in Protocol for reason in Refusal}

    def add(self, protocol: Protocol, error: ServerError) -> None:
        """Count an error that is sent to a client. Errors of a model, and failures, are not counted."""
        reason = None if error.of_model else reason_of(error)
        if reason is not None:
            self.count(protocol, reason)

    def count(self, protocol: Protocol, reason: Refusal) -> None:
        """Count one refused call."""
        with self._lock:
            self._counts[protocol, reason] += 1

    @property
    def counts(self) -> Mapping[tuple[Protocol, Refusal], int]:
        """(protocol, reason) -> count, including zeros."""
        with self._lock:
            return dict(self._counts)
