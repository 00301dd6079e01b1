# SPDX-License-Identifier: Apache-2.0
"""Messages and requests of a model's threads to the server apart from runs: log lines, responses, BLS, metrics."""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from hypersonic.server.backends.python.stub.channel import Channel, ChannelClosedError, Message, MessageError
from hypersonic.server.backends.python.stub.errors import TritonModelException

Reply = tuple[Message, memoryview]
_GONE = "the server is gone"


class Calls:
    """The events channel as seen from the model's process. Any thread may use it."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._numbers = itertools.count(1)
        self._waiting: dict[int, queue.SimpleQueue[Reply | None]] = {}
        self._closed = False
        self._lock = threading.Lock()
        self._jobs: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        for work in (self._listen, self._work):
            threading.Thread(target=work, name="triton-calls", daemon=True).start()

    def later(self, job: Callable[[], None]) -> None:
        """Run the job on another thread; safe inside __del__."""
        self._jobs.put(job)

    def _work(self) -> None:
        while True:
            with suppress(TritonModelException):  # the server is gone
                self._jobs.get()()

    def tell(self, message: Message, payload: Sequence[bytes | memoryview] = ()) -> None:
        """Send a message without a reply. Raises TritonModelException when the server is gone."""
        try:
            self._channel.send(message, payload)
        except ChannelClosedError as error:
            raise TritonModelException(_GONE) from error

    def ask(self, message: Message, payload: Sequence[bytes | memoryview] = ()) -> Asked:
        """Send a message with replies, which are read one by one by Asked.next().

        Args:
            message: its second element is replaced by the call's number.

        Raises:
            TritonModelException: When the server is gone.
        """
        replies: queue.SimpleQueue[Reply | None] = queue.SimpleQueue()
        with self._lock:
            if self._closed:
                raise TritonModelException(_GONE)
            number = next(self._numbers)
            self._waiting[number] = replies
        message[1] = number
        self.tell(message, payload)
        return Asked(self, number, replies)

    def answered(self, number: int) -> None:
        """Discard further replies to this call."""
        with self._lock:
            self._waiting.pop(number, None)

    def _listen(self) -> None:
        try:
            while True:
                message, payload = self._channel.receive()
                waiting = self._waiting.get(message[1])
                if waiting is not None:
                    waiting.put((message, payload))
        except (ChannelClosedError, MessageError):
            with self._lock:
                self._closed = True
                for waiting in self._waiting.values():
                    waiting.put(None)


class Asked(NamedTuple):
    """A call in progress."""

    calls: Calls
    number: int
    replies: queue.SimpleQueue[Reply | None]

    def next(self) -> Reply:
        """Wait for the next reply. Raises TritonModelException when the server is gone."""
        reply = self.replies.get()
        if reply is None:
            raise TritonModelException(_GONE)
        return reply

    def only(self) -> Reply:
        """Wait for the only reply. Raises TritonModelException when the server is gone."""
        try:
            return self.next()
        finally:
            self.calls.answered(self.number)


class _Process:
    """The state of the process: the functions of triton_python_backend_utils belong to no object."""

    def __init__(self) -> None:
        self.calls: Calls | None = None
        self.model_directory = ""
        #: BLS works only while the model executes, as in Triton
        self.may_infer = False


PROCESS = _Process()
