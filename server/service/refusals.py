# SPDX-License-Identifier: Apache-2.0
"""Calls refused before a model saw them, by protocol and reason: hypersonic_calls_refused_total.

What a model refuses or fails is in nv_inference_request_failure and not here. Answered calls never come past this.
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
    """Which front end."""

    GRPC = "grpc"
    HTTP = "http"


class Refusal(StrEnum):
    """The `reason` label."""

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


#: the first match counts; what matches none failed and was not refused
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
    """Why a call was refused; None for a failure of the server or a model."""
    return next((reason for kind, reason in _REASONS if isinstance(error, kind)), None)


class Refusals:
    """Any thread adds and reads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = {(protocol, reason): 0 for protocol in Protocol for reason in Refusal}

    def add(self, protocol: Protocol, error: ServerError) -> None:
        """An error that a client is told. Those of a model, and failures, do not count."""
        reason = None if error.of_model else reason_of(error)
        if reason is not None:
            self.count(protocol, reason)

    def count(self, protocol: Protocol, reason: Refusal) -> None:
        """One call."""
        with self._lock:
            self._counts[protocol, reason] += 1

    @property
    def counts(self) -> Mapping[tuple[Protocol, Refusal], int]:
        """Of each there is, zeros included."""
        with self._lock:
            return dict(self._counts)
