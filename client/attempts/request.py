# SPDX-License-Identifier: Apache-2.0
"""A request as it is sent, and its result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from hypersonic.client.errors import AnswerError
from hypersonic.client.messages.response import Answer, read_answer
from hypersonic.client.pool.member import Member, Wanted
from hypersonic.client.settings import Arrays, Fallback
from hypersonic.client.specs import ModelSpec
from hypersonic.client.transport.call import Headers

#: the server's name in the result of a fallback
FALLBACK = "fallback"


@dataclass(frozen=True)
class Result:
    """The answer to a request.

    Attributes:
        outputs: arrays by name, read-only.
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


@dataclass(frozen=True)
class Sending:
    """A request in the form that one server takes.

    Attributes:
        read: reads the answer.
        release: frees the resources of this form.
    """

    message: bytes
    read: Callable[[bytes], Answer] = read_answer
    release: Callable[[], None] = lambda: None


@dataclass(frozen=True)
class Request:
    """A request that any server may answer.

    Attributes:
        model: name and version.
        size: bytes of its inputs.
        inputs: by name, for a fallback.
        deadline: of all attempts, in seconds of time.monotonic().
        headers: sent with each attempt.
        outputs: the names of those to return; () is all.
        spec: the model's description; None: no server describes the model, and `fallback` answers the request at once.
    """

    model: Wanted
    size: int
    inputs: Arrays
    sending: Callable[[Member], Sending]
    deadline: float
    headers: Headers = ()
    outputs: tuple[str, ...] = ()
    spec: ModelSpec | None = None
    fallback: Fallback | None = None

    @property
    def what(self) -> str:
        """The request as errors name it."""
        return f"model {self.model[0]!r}, {self.size} bytes"
