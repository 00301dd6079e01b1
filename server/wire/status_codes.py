# SPDX-License-Identifier: Apache-2.0
"""The status code of each kind of error, in gRPC and in HTTP. In both tables, the first matching type counts."""

from __future__ import annotations

from enum import IntEnum

from hypersonic.server.errors import (
    AlreadyExistsError,
    AuthorisationError,
    BackendError,
    BudgetError,
    CancelledError,
    ForbiddenError,
    InvalidRequestError,
    MalformedJsonError,
    ModelLoadError,
    NotFoundError,
    ServerError,
    SharedMemoryError,
    UnauthenticatedError,
    UnavailableError,
    UnknownError,
    UnsupportedError,
)


class GrpcStatus(IntEnum):
    """gRPC's status codes."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


#: kind of error -> gRPC status code; all other kinds are INTERNAL
_GRPC: tuple[tuple[type[ServerError], GrpcStatus], ...] = (
    (InvalidRequestError, GrpcStatus.INVALID_ARGUMENT),
    (NotFoundError, GrpcStatus.NOT_FOUND),
    (UnavailableError, GrpcStatus.UNAVAILABLE),
    (AlreadyExistsError, GrpcStatus.ALREADY_EXISTS),
    (UnauthenticatedError, GrpcStatus.UNAUTHENTICATED),  # as Envoy answers for tokens
    (ForbiddenError, GrpcStatus.PERMISSION_DENIED),
    (AuthorisationError, GrpcStatus.UNAVAILABLE),  # as Triton answers for a restricted group
    (BudgetError, GrpcStatus.RESOURCE_EXHAUSTED),
    (CancelledError, GrpcStatus.CANCELLED),
    (UnsupportedError, GrpcStatus.UNIMPLEMENTED),
    (UnknownError, GrpcStatus.UNKNOWN),
)
#: kind of error -> HTTP status code, as in Triton; all other kinds are 400
_HTTP: tuple[tuple[type[ServerError], int], ...] = (
    (NotFoundError, 404),
    (UnavailableError, 503),
    (BudgetError, 503),
    (UnsupportedError, 501),
    (UnauthenticatedError, 401),  # as Envoy answers for tokens
    (AuthorisationError, 403),  # as Triton answers for a restricted group
    (MalformedJsonError, 500),
    (SharedMemoryError, 500),
    (UnknownError, 400),
    (BackendError, 500),
    (ModelLoadError, 500),
)


def grpc_status(error: ServerError) -> GrpcStatus:
    """Return the gRPC status code of an error."""
    return next((code for kind, code in _GRPC if isinstance(error, kind)), GrpcStatus.INTERNAL)


def http_status(error: ServerError) -> int:
    """Return the HTTP status code of an error."""
    return next((code for kind, code in _HTTP if isinstance(error, kind)), 400)
