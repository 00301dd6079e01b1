# SPDX-License-Identifier: Apache-2.0
"""Errors between a request's arrival and its answer; status_codes.py has gRPC's and HTTP's codes for each.

ServerError
├── InvalidRequestError          the client's mistake
│   ├── TooLargeError            ... more bytes than a request may have
│   └── InvalidTensorError       ... in a request already matched to its model
├── NotFoundError                no such model, version or region
├── UnavailableError             may work later or elsewhere
│   ├── ShuttingDownError
│   ├── ReplacedError            this version was unloaded meanwhile: ask the repository again
│   ├── ReplacingError           the next version is on its way: a request would wait
│   ├── QueueFullError
│   └── QueueTimeoutError
├── BudgetError                  too many bytes in flight
│   ├── AddressShareError        ... of this client's address
│   └── ClientShareError         ... of this connection
├── CancelledError               the client went away or its deadline passed
├── AlreadyExistsError           a name that is taken
├── UnauthenticatedError         the client did not show who it is
├── AuthorisationError           a policy of this server does not let the caller do this
│   ├── CredentialsError         ... without credentials that count; an UnauthenticatedError, too
│   ├── ForbiddenError           ... with credentials for somebody else's service
│   └── RestrictedError          ... without the group's own header
├── SharedMemoryError            a region cannot be opened, read or written            (INTERNAL in Triton)
├── MalformedJsonError           an HTTP body is not the JSON it should be             (INTERNAL in Triton)
├── UnsupportedError             part of the protocol that this server does not do
├── BackendError                 the model, or what it runs on, failed
│   ├── UnknownError             ... and says no more than that                         (UNKNOWN in Triton)
│   ├── InstanceLostError        an instance is out of service, its requests may be tried elsewhere
│   │   └── InstanceTimeoutError ... because a run did not end
│   └── InstanceAwayError        it cannot be had again before somebody acts
├── ModelLoadError               a model of the repository cannot be served
│   ├── ModelConfigError         ... because of its config.pbtxt
│   └── ModelBusyError           ... because what it needs is taken, maybe by the version it is to replace
└── StartError                   the program cannot start as it was asked to
    └── ModelsFailedError        ... because of its models
"""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar, Self


class FailureReason(StrEnum):
    """The `reason` label of nv_inference_request_failure, Triton's words."""

    REJECTED = "REJECTED"
    CANCELED = "CANCELED"
    BACKEND = "BACKEND"
    OTHER = "OTHER"


class ServerError(Exception):
    """Root of the server room's errors; str() is the text a client sees."""

    reason: ClassVar[FailureReason] = FailureReason.OTHER
    #: whether Triton writes `[request id: ...] ` in front of the text
    names_request: ClassVar[bool] = False
    #: set where the request is known
    request_id: str | None = None
    model_name: str = ""
    #: whether a model raised it, which has counted it then
    of_model: bool = False

    def copy(self) -> Self:
        """Another object that says the same, without a traceback.

        Requests that fail together must not share one: each one's thread raises it and writes its request's id on it.
        """
        twin = type(self).__new__(type(self))
        twin.args = self.args
        twin.__dict__.update(self.__dict__)
        twin.__cause__, twin.__suppress_context__ = self.__cause__, self.__suppress_context__
        return twin

    @property
    def text(self) -> str:
        """The text that the client sees."""
        if not self.names_request or self.request_id is None:
            return str(self)
        return f"[request id: {self.request_id or '<id_unknown>'}] {self}"


class InvalidRequestError(ServerError):
    """The request contradicts the protocol or the model's configuration."""


class TooLargeError(InvalidRequestError):
    """More bytes than a request may have."""


class InvalidTensorError(InvalidRequestError):
    """A tensor of the request does not fit the model: shape, datatype, bytes, batch, presence."""

    names_request = True


class NotFoundError(ServerError):
    """No such model or version."""


class UnavailableError(ServerError):
    """The server cannot serve this now; another server, or a later try, may."""


class ShuttingDownError(UnavailableError):
    """The server drains and takes no new request."""

    def __init__(self) -> None:
        super().__init__("GRPC server is shutting down and has stopped accepting new requests.")


class ReplacedError(UnavailableError):
    """The version was unloaded before the request was queued; the repository knows what is in its place, if anything."""

    def __init__(self, model: str, version: int) -> None:
        super().__init__(f"Request for unknown model: '{model}' version {version} is not at ready state")


class ReplacingError(UnavailableError):
    """The model's old version had to go before its new one could come; a request waits for that, a look does not."""


class QueueFullError(UnavailableError):
    """The model's queue holds max_queue_size requests already."""

    reason = FailureReason.REJECTED
    names_request = True

    def __init__(self) -> None:
        super().__init__("Exceeds maximum queue size")


class QueueTimeoutError(UnavailableError):
    """The request waited in the queue longer than its queue policy allows."""

    reason = FailureReason.REJECTED

    def __init__(self) -> None:
        super().__init__("Request timeout expired")


class BudgetError(ServerError):
    """The requests in flight hold as many bytes as the server may hold."""

    reason = FailureReason.REJECTED


class AddressShareError(BudgetError):
    """There is room, but not for this client's address: it holds its share already."""


class ClientShareError(BudgetError):
    """There is room for this client's address, but not for this connection: it holds its share already."""


class CancelledError(ServerError):
    """The client cancelled, disconnected, or its deadline passed."""

    reason = FailureReason.CANCELED

    def __init__(self) -> None:
        super().__init__("request cancelled by its client, or its deadline passed")


class AlreadyExistsError(ServerError):
    """A name that is taken already."""


class UnauthenticatedError(ServerError):
    """The client did not show who it is, or may not do this."""

    reason = FailureReason.REJECTED


class AuthorisationError(ServerError):
    """The caller may not do this; str() is what it is told."""


class CredentialsError(AuthorisationError, UnauthenticatedError):
    """No credentials, or none that count. missing: none were sent."""

    def __init__(self, text: str, *, missing: bool = False) -> None:
        super().__init__(text)
        self.missing = missing


class ForbiddenError(AuthorisationError):
    """Good credentials, made for somebody else's service."""


class RestrictedError(AuthorisationError):
    """The group's own header is absent or wrong."""


class SharedMemoryError(ServerError):
    """A shared memory region cannot be opened, read or written. INTERNAL, as in Triton."""


class MalformedJsonError(ServerError):
    """An HTTP body is not the JSON that Triton's protocol asks for. INTERNAL, as in Triton."""


class UnsupportedError(ServerError):
    """A part of the protocol that this server does not do."""


class BackendError(ServerError):
    """A run of the model failed."""

    reason = FailureReason.BACKEND


class UnknownError(BackendError):
    """A model answered with an error of the code UNKNOWN."""


class InstanceLostError(BackendError):
    """The instance is out of service for good."""


class InstanceTimeoutError(InstanceLostError):
    """A run did not end in time."""


class InstanceAwayError(BackendError):
    """A lost instance cannot be had before somebody acts (resets its card, plugs it in): nobody should wait for it."""

    def __init__(self, text: str, retry_s: float) -> None:
        """retry_s: after which it is worth looking again."""
        super().__init__(text)
        self.retry_s = retry_s


class ModelLoadError(ServerError):
    """A model version cannot be loaded; the reason shows in RepositoryIndex."""


class ModelConfigError(ModelLoadError):
    """A config.pbtxt cannot be read or contradicts itself, its directory or its model."""


class ModelBusyError(ModelLoadError):
    """The card that the version needs is taken by another. The repository unloads the version it replaces, then tries again."""


class StartError(ServerError):
    """Wrong options, a port in use, no repository: the operator's to mend."""

    #: of the process
    exit_code = 2


class ModelsFailedError(StartError):
    """Models that were to be loaded at start cannot be served, and --exit-on-error is true."""

    exit_code = 1


def escaped(text: str, most_chars: int = 128) -> str:
    """A stranger's text as an error shows it: in ASCII, on one line, cut to `most_chars` characters before it is escaped."""
    return text[:most_chars].encode("unicode_escape").decode()


def printable(text: str, *, kept: str = "") -> str:
    """A stranger's text that stays as it is but for what does not print, or turns the direction of writing: that is escaped.

    kept: characters that stay all the same.
    """
    return "".join(c if c.isprintable() or c in kept else c.encode("unicode_escape").decode() for c in text)
