# SPDX-License-Identifier: Apache-2.0
"""The exceptions of the client. All are ClientErrors.

::

    ClientError
      InputError              an input does not fit the model; nothing was sent
      QueueFullError          submit(block=False) found no room
      ClosedError             the client was closed
      AnswerError             the server's answer does not follow the protocol
      ServerError             a server refused the request
        UnavailableError        it could not be reached, or does not take work now
        UnknownModelError       it does not have the model
          VersionGoneError        no server has the version of the answers before
        RequestError            it cannot process the request, and no other server could
        AccessError             it requires other credentials
        StreamError             it ended a stream, which is never tried again
      AllServersFailedError   every attempt failed; `attempts` lists them
        DeadlineError           the time of the request or of the call was up
        WrongAnswersError       every answer did not fit the model; it is an AnswerError too
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from hypersonic.client.codes import Code


class ClientError(RuntimeError):
    """A request was not answered. The message names the server and the model, and says what to do.

    Attributes:
        index: the event's position among those given to map(); None: the error is of no event.
    """

    exit_code = 2
    index: int | None = None


class InputError(ClientError, ValueError):
    """An input does not fit the model. The message names the input, what was given and what was expected."""


class QueueFullError(ClientError):
    """As many requests or bytes are in flight as the limits allow."""


class ClosedError(ClientError):
    """The client was closed before the request ended."""


class AnswerError(ClientError):
    """An answer does not follow Triton's protocol, or does not fit the model."""


class CallError(Exception):
    """A call of a transport failed.

    Args:
        code: the gRPC status.
        text: the error message of the server or of gRPC.
    """

    def __init__(self, code: Code, text: str) -> None:
        super().__init__(code, text)
        self.code, self.text = code, text


class WrongAnswerError(CallError):
    """An answer does not fit the request or the model.

    Args:
        text: what it has, and what was expected.
    """

    def __init__(self, text: str) -> None:
        super().__init__(Code.OK, f"wrong answer: {text}")


class OtherVersionError(CallError):
    """An answer is of another version of the model than the other answers of its call. It is not the server's fault."""

    def __init__(self, version: str, expected: str) -> None:
        super().__init__(Code.OK, f"version {version} answered, and version {expected} has answered another part of the call")


class ServerError(ClientError):
    """A server refused a request.

    Args:
        server: its name.
        code: the gRPC status.
        text: the server's error message.
    """

    def __init__(self, server: str, code: Code, text: str) -> None:
        super().__init__(f"{server}: {code.name}: {text}")
        self.server, self.code, self.text = server, code, text

    def __reduce__(self) -> tuple[type[ServerError], tuple[str, Code, str]]:
        return type(self), (self.server, self.code, self.text)


class UnavailableError(ServerError):
    """The server could not be reached, is draining, or has no room."""


class UnknownModelError(ServerError):
    """The server does not have the model, or not that version of it."""


class VersionGoneError(UnknownModelError):
    """No server has the version of the model any more that has answered other parts of the call, or earlier events."""


class RequestError(ServerError):
    """The server cannot process the request; another attempt would end in the same way."""


class AccessError(ServerError):
    """The server requires a token, a certificate or a header that was not sent."""


class StreamError(ServerError):
    """A stream ended before its last answer. code: the gRPC status; UNKNOWN for an error of the model, which is only a text."""

    def __str__(self) -> str:
        return (
            f"{super().__str__()}; a stream is not tried again, because the model may keep state: start it from the beginning"
        )


@dataclass(frozen=True)
class Attempt:
    """One attempt of a request that failed.

    Attributes:
        server: its name.
        seconds: from its start to its end.
    """

    server: str
    code: Code
    text: str
    seconds: float

    def __str__(self) -> str:
        return f"{self.server}: {self.code.name} after {self.seconds:.3f} s: {self.text}"


class AllServersFailedError(ClientError):
    """Every attempt failed, and no policy allows another one.

    Args:
        attempts: all of them, in their order.
    """

    def __init__(self, what: str, attempts: tuple[Attempt, ...]) -> None:
        attempts_failed = "1 attempt failed" if len(attempts) == 1 else f"{len(attempts)} attempts failed"
        super().__init__(f"{what}; {attempts_failed}{':' if attempts else ''}{''.join(_lines(attempts))}")
        self.what, self.attempts = what, attempts

    def __reduce__(self) -> tuple[type[AllServersFailedError], tuple[str, tuple[Attempt, ...]]]:
        return type(self), (self.what, self.attempts)


def _lines(attempts: tuple[Attempt, ...]) -> Iterator[str]:
    """Yield a line for each attempt, or one for several that failed alike on the same server."""
    alike = Counter((attempt.server, attempt.code, attempt.text) for attempt in attempts)
    for attempt in {(one.server, one.code, one.text): one for one in attempts}.values():
        times = alike[attempt.server, attempt.code, attempt.text]
        yield f"\n  {attempt}" if times == 1 else f"\n  {times} times {attempt.server}: {attempt.code.name}: {attempt.text}"


class DeadlineError(AllServersFailedError):
    """The time of the request or of its call was up."""


class WrongAnswersError(AllServersFailedError, AnswerError):
    """Every answer did not fit the model, and no other server takes the request. `attempts` says what was wrong."""


#: the codes after which another attempt is safe and may succeed
RETRYABLE = {Code.UNAVAILABLE, Code.RESOURCE_EXHAUSTED, Code.ABORTED, Code.DEADLINE_EXCEEDED, Code.CANCELLED}
_ACCESS = {Code.UNAUTHENTICATED, Code.PERMISSION_DENIED}
#: Triton's message for a request without the header of --grpc-restricted-protocol; its code is UNAVAILABLE
_RESTRICTED = "This protocol is restricted"


def server_error(server: str, error: CallError) -> ServerError:
    """Return the exception of a failed call, by its code."""
    kind: type[ServerError] = RequestError
    if error.code in _ACCESS or error.text.startswith(_RESTRICTED):
        kind = AccessError
    elif error.code in RETRYABLE:
        kind = UnavailableError
    elif error.code == Code.NOT_FOUND:
        kind = UnknownModelError
    return kind(server, error.code, error.text)
