# SPDX-License-Identifier: Apache-2.0
"""The server's errors. wire/status_codes.py has the gRPC and HTTP status codes of each.

::

    ServerError
    ├── InvalidRequestError          the client's mistake
    │   ├── TooLargeError            ... more bytes than a request may have
    │   └── InvalidTensorError       ... in a request for a known model
    ├── NotFoundError                unknown model, version or region
    ├── UnavailableError             the request may succeed later or on another server
    │   ├── ShuttingDownError
    │   ├── ReplacedError            this version was unloaded meanwhile: ask the repository again
    │   ├── ReplacingError           the next version is being loaded: a request would wait
    │   ├── QueueFullError
    │   └── QueueTimeoutError
    ├── BudgetError                  too many bytes or requests in flight
    │   ├── AddressShareError        ... from this client's address
    │   └── ClientShareError         ... from this connection
    ├── CancelledError               the client cancelled or disconnected, or its deadline passed
    ├── AlreadyExistsError           a name that is taken
    ├── UnauthenticatedError         the client did not authenticate
    ├── AuthorisationError           the server's policy refuses the call
    │   ├── CredentialsError         ... because of missing or invalid credentials; also an UnauthenticatedError
    │   ├── ForbiddenError           ... because the credentials are for another service
    │   └── RestrictedError          ... because the group's header is missing or wrong
    ├── SharedMemoryError            a region cannot be opened, read or written            (INTERNAL in Triton)
    ├── MalformedJsonError           an HTTP body is not the expected JSON                 (INTERNAL in Triton)
    ├── UnsupportedError             a part of the protocol that this server does not support
    ├── BackendError                 the model, or its backend, failed
    │   ├── UnknownError             ... with the code UNKNOWN                              (UNKNOWN in Triton)
    │   ├── InstanceLostError        an instance is out of service; other instances may run its requests
    │   │   └── InstanceTimeoutError ... because a run did not end in time
    │   └── InstanceAwayError        a lost instance cannot return to service before an operator acts
    ├── ModelLoadError               a model of the repository cannot be served
    │   ├── ModelConfigError         ... because of its config.pbtxt
    │   └── ModelBusyError           ... because its card is taken, perhaps by the version that it replaces
    └── StartError                   the server cannot start with these options
        └── ModelsFailedError        ... because of its models
"""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar, Self


class FailureReason(StrEnum):
    """The `reason` label of nv_inference_request_failure, as in Triton."""

    REJECTED = "REJECTED"
    CANCELED = "CANCELED"
    BACKEND = "BACKEND"
    OTHER = "OTHER"


class ServerError(Exception):
    """The base class of the server's errors. str() is the text for the client."""

    reason: ClassVar[FailureReason] = FailureReason.OTHER
    #: whether Triton writes the id of the request in front of the text
    names_request: ClassVar[bool] = False
    #: the request's id; None = not known
    request_id: str | None = None
    #: "" = not known
    model_name: str = ""
    #: True if a model raised it and has counted it as a failed request
    of_model: bool = False

    def copy(self) -> Self:
        """Return an equal error without a traceback.

        Requests that fail together must not share one error, because each one's thread raises it and sets its request_id.
        """
        twin = type(self).__new__(type(self))
        twin.args = self.args
        twin.__dict__.update(self.__dict__)
        twin.__cause__, twin.__suppress_context__ = self.__cause__, self.__suppress_context__
        return twin

    @property
    def text(self) -> str:
        """The text for the client, with the request's id in front where Triton writes it."""
        if not self.names_request or self.request_id is None:
            return str(self)
        return f"[request id: {self.request_id or '<id_unknown>'}] {self}"


class InvalidRequestError(ServerError):
    """The request contradicts the protocol or the model's configuration."""


class TooLargeError(InvalidRequestError):
    """The request has more bytes than allowed."""


class InvalidTensorError(InvalidRequestError):
    """A tensor of the request does not match the model: shape, datatype, size, batch, or whether it is present."""

    #: as in ServerError
    names_request = True


class NotFoundError(ServerError):
    """The model, the version or the region does not exist."""


class UnavailableError(ServerError):
    """The server cannot serve this now. Another server, or a later attempt, may succeed."""


class ShuttingDownError(UnavailableError):
    """The server is shutting down and takes no new requests."""

    def __init__(self) -> None:
        """Use Triton's text."""
        super().__init__("GRPC server is shutting down and has stopped accepting new requests.")


class ReplacedError(UnavailableError):
    """The version was unloaded before the request was queued. The repository may have a successor."""

    def __init__(self, model: str, version: int) -> None:
        """Use Triton's text."""
        super().__init__(f"Request for unknown model: '{model}' version {version} is not at ready state")


class ReplacingError(UnavailableError):
    """The model's old version had to be unloaded before its new one can be loaded. Inference waits for that; a readiness check
    does not.
    """


class QueueFullError(UnavailableError):
    """The model's queue already holds max_queue_size requests."""

    reason = FailureReason.REJECTED
    #: as in ServerError
    names_request = True

    def __init__(self) -> None:
        """Use Triton's text."""
        super().__init__("Exceeds maximum queue size")


class QueueTimeoutError(UnavailableError):
    """The request waited in the queue for longer than its queue policy allows."""

    reason = FailureReason.REJECTED

    def __init__(self) -> None:
        """Use Triton's text."""
        super().__init__("Request timeout expired")


class BudgetError(ServerError):
    """The server holds as many bytes or requests as it may hold."""

    reason = FailureReason.REJECTED


class AddressShareError(BudgetError):
    """There is room, but this client's address already holds its share."""


class ClientShareError(BudgetError):
    """There is room for this client's address, but this connection already holds its share."""


class CancelledError(ServerError):
    """The client cancelled or disconnected, or its deadline passed."""

    reason = FailureReason.CANCELED

    def __init__(self) -> None:
        """Use the text that a client sees when its deadline has passed."""
        super().__init__("request cancelled by its client, or its deadline passed")


class AlreadyExistsError(ServerError):
    """The name is taken."""


class UnauthenticatedError(ServerError):
    """The client did not authenticate."""

    reason = FailureReason.REJECTED


class AuthorisationError(ServerError):
    """The server's policy refuses the call. str() is the text for the caller."""


class CredentialsError(AuthorisationError, UnauthenticatedError):
    """The credentials are missing or invalid."""

    def __init__(self, text: str, *, missing: bool = False) -> None:
        """Create a CredentialsError.

        Args:
            missing: the caller sent no credentials.
        """
        super().__init__(text)
        self.missing = missing


class ForbiddenError(AuthorisationError):
    """The credentials are valid, but for another service."""


class RestrictedError(AuthorisationError):
    """The header of the protocol group is missing or wrong."""


class SharedMemoryError(ServerError):
    """A shared memory region cannot be opened, read or written. INTERNAL, as in Triton."""


class MalformedJsonError(ServerError):
    """An HTTP body is not the JSON that Triton's protocol asks for. INTERNAL, as in Triton."""


class UnsupportedError(ServerError):
    """This server does not support this part of the protocol."""


class BackendError(ServerError):
    """A run of the model failed."""

    reason = FailureReason.BACKEND


class UnknownError(BackendError):
    """A model answered with an error whose code is UNKNOWN."""


class InstanceLostError(BackendError):
    """The instance is out of service, and takes no run unless it is revived.

    Args:
        by_run: True if it was lost during the run that raises this, and no request of another run was open at the instance.
    """

    def __init__(self, text: str, *, by_run: bool = False) -> None:
        super().__init__(text)
        self.by_run = by_run


class InstanceTimeoutError(InstanceLostError):
    """A run did not end in time."""


class InstanceAwayError(BackendError):
    """A lost instance cannot return to service before an operator acts (resets its card, plugs it in). Requests do not wait."""

    def __init__(self, text: str, retry_s: float) -> None:
        """Create an InstanceAwayError.

        Args:
            retry_s: the time until the next check, in seconds.
        """
        super().__init__(text)
        self.retry_s = retry_s


class ModelLoadError(ServerError):
    """A model version cannot be loaded. RepositoryIndex shows the reason."""


class ModelConfigError(ModelLoadError):
    """A config.pbtxt cannot be read, or contradicts itself, its directory or its model."""


class ModelBusyError(ModelLoadError):
    """The card that the version needs is taken. The repository unloads the version that it replaces and tries again."""


class StartError(ServerError):
    """The operator has to correct something: options, a port in use, a missing repository."""

    #: the exit code of the process
    exit_code = 2


class ModelsFailedError(StartError):
    """Models that are loaded at start cannot be served, and --exit-on-error is true."""

    exit_code = 1


def escaped(text: str, most_chars: int = 128) -> str:
    """Return an untrusted text for an error message: in ASCII, on one line, cut to `most_chars` characters before escaping."""
    return text[:most_chars].encode("unicode_escape").decode()


def shortened(text: str, most_chars: int = 8192) -> str:
    """Return a text of at most `most_chars` characters: its beginning and its end, where a traceback says what happened."""
    if len(text) <= most_chars:
        return text
    half = most_chars // 2 - 32
    return f"{text[:half]} [... {len(text) - 2 * half} characters ...] {text[-half:]}"


def printable(text: str, *, kept: str = "") -> str:
    """Return an untrusted text in which characters that cannot be printed, or that change the direction of text, are escaped.

    Args:
        kept: characters that are not escaped in any case.
    """
    return "".join(c if c.isprintable() or c in kept else c.encode("unicode_escape").decode() for c in text)
