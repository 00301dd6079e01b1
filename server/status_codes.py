# SPDX-License-Identifier: Apache-2.0
"""The code that an error has in each protocol: one table for gRPC, one for HTTP. In both the first type that fits counts."""

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


#: what is not here is INTERNAL
_GRPC: tuple[tuple[type[ServerError], GrpcStatus], ...] = (
    (InvalidRequestError, GrpcStatus.INVALID_ARGUMENT),
    (NotFoundError, GrpcStatus.NOT_FOUND),
    (UnavailableError, GrpcStatus.UNAVAILABLE),
    (AlreadyExistsError, GrpcStatus.ALREADY_EXISTS),
    (UnauthenticatedError, GrpcStatus.UNAUTHENTICATED),  # Envoy's for tokens
    (ForbiddenError, GrpcStatus.PERMISSION_DENIED),
    (AuthorisationError, GrpcStatus.UNAVAILABLE),  # Triton's for a restricted group
    (BudgetError, GrpcStatus.RESOURCE_EXHAUSTED),
    (CancelledError, GrpcStatus.CANCELLED),
    (UnsupportedError, GrpcStatus.UNIMPLEMENTED),
    (UnknownError, GrpcStatus.UNKNOWN),
)
#: Triton's map; what is not here is 400
_HTTP: tuple[tuple[type[ServerError], int], ...] = (
    (NotFoundError, 404),
    (UnavailableError, 503),
    (BudgetError, 503),
    (UnsupportedError, 501),
    (UnauthenticatedError, 401),  # Envoy's for tokens
    (AuthorisationError, 403),  # Triton's for a restricted group
    (MalformedJsonError, 500),
    (SharedMemoryError, 500),
    (UnknownError, 400),
    (BackendError, 500),
    (ModelLoadError, 500),
)


def grpc_status(error: ServerError) -> GrpcStatus:
    """gRPC's code for an error."""
    return next((code for kind, code in _GRPC if isinstance(error, kind)), GrpcStatus.INTERNAL)


def http_status(error: ServerError) -> int:
    """HTTP's code for an error."""
    return next((code for kind, code in _HTTP if isinstance(error, kind)), 400)
