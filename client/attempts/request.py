# SPDX-License-Identifier: Apache-2.0
"""A request as it is sent, and its result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from hypersonic.client.attempts.version import VersionPin
from hypersonic.client.errors import AnswerError, OtherVersionError, WrongAnswerError
from hypersonic.client.messages.response import Answer, read_answer
from hypersonic.client.pool.member import Member, Wanted
from hypersonic.client.settings import Arrays, Fallback
from hypersonic.client.specs import ModelSpec
from hypersonic.client.transport.call import Headers

#: the server's name in the result of a fallback
FALLBACK = "fallback"


@dataclass(frozen=True, repr=False)
class Result:
    """The answer to a request.

    Attributes:
        outputs: arrays by name, read-only.
        version: of the model that answered; of several, if the call allowed them, all of them with commas.
        server: its address, or "fallback".
        attempts: 1 if the first one succeeded.
        latency_ns: from the start of the first attempt to the answer.
        index: the event's position among those given to map().
    """

    outputs: Mapping[str, NDArray[Any]]
    model: str
    version: str
    server: str
    attempts: int
    latency_ns: int
    index: int = 0

    @property
    def output(self) -> NDArray[Any]:
        """The only output. Raises AnswerError if there are several."""
        if len(self.outputs) != 1:
            raise AnswerError(f"{self.model} has the outputs {', '.join(self.outputs)}, expected one; use outputs[NAME]")
        return next(iter(self.outputs.values()))

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}: {array.dtype} {array.shape}" for name, array in self.outputs.items())
        times = f"attempts={self.attempts}, latency_ms={self.latency_ns * 1e-6:.2f}, index={self.index}"
        return f"Result({self.model!r}, version={self.version!r}, {{{shown}}}, server={self.server!r}, {times})"


@dataclass(frozen=True)
class Sending:
    """A request in the form that one server takes.

    Attributes:
        read: reads the answer and checks it; raises AnswerError.
        release: frees the resources of this form.
    """

    message: bytes
    read: Callable[[bytes], Answer] = read_answer
    release: Callable[[], None] = lambda: None


def answer_of(sending: Sending, message: bytes, pin: VersionPin) -> Answer:
    """Return the answer in a message.

    Raises WrongAnswerError, and OtherVersionError if it does not fit the other parts of its call.
    """
    try:
        answer = sending.read(message)
    except AnswerError as error:
        raise WrongAnswerError(str(error)) from error
    if not pin.accept(answer.version):
        raise OtherVersionError(answer.version, pin.version)
    return answer


@dataclass(frozen=True)
class Request:
    """A request that any server may answer.

    Attributes:
        name: of the model.
        pin: the version of the model.
        size: bytes of its inputs.
        inputs: by name, for a fallback.
        sending: makes the request for a server and a version.
        time: of the request and of its call.
        part: its number among the parts of its call, from 1, and how many there are.
        headers: sent with each attempt.
        outputs: the names of those to return; () is all.
        spec: the model's description; None: no server describes the model, and `fallback` answers the request at once.
    """

    name: str
    pin: VersionPin
    size: int
    inputs: Arrays
    sending: Callable[[Member, str], Sending]
    time: CallTime
    part: tuple[int, int] = (1, 1)
    headers: Headers = ()
    outputs: tuple[str, ...] = ()
    spec: ModelSpec | None = None
    fallback: Fallback | None = None

    @property
    def model(self) -> Wanted:
        """The name of the model, and the version that the next attempt asks for."""
        return self.name, self.pin.version

    @property
    def what(self) -> str:
        """The request as errors name it."""
        part, parts = self.part
        number = f"part {part} of {parts}, " if parts > 1 else ""
        return f"model {self.name!r}, {number}{self.size} bytes"


@dataclass(frozen=True)
class CallTime:
    """The time that a call has.

    Attributes:
        request_s: for each request, from its admission to its answer.
        call_s: for the call.
        until: when call_s ends, in seconds of time.monotonic().
    """

    request_s: float
    call_s: float
    until: float

    def deadline(self, now: float) -> float:
        """Return the deadline of a request that is admitted now."""
        return min(now + self.request_s, self.until)

    def time_up(self, deadline: float, parts: int) -> str:
        """Return what an error says of a request whose deadline has passed, and what to do.

        Args:
            parts: of the call.
        """
        if parts == 1 or deadline < self.until:
            return f"the time is up after {self.request_s:g} s; raise timeout= or Timeout.total_s, or add servers"
        advice = "raise timeout= or Timeout.call_s, or use map(), in which each event has its own time"
        return f"the time of the call is up after {self.call_s:g} s; {advice}"
