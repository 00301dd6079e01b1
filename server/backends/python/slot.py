# SPDX-License-Identifier: Apache-2.0
"""An instance of a python model, and its slot: tensors are exchanged with the process through shared memory."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from hypersonic.server.backends.python.answer import answer_of, model_error, output_names, printable, reshaped
from hypersonic.server.backends.python.arena import Arena
from hypersonic.server.backends.python.events import Events
from hypersonic.server.backends.python.process import ModelProcess
from hypersonic.server.backends.python.stub.channel import ChannelClosedError, Message, MessageError
from hypersonic.server.core.config.schema import ModelConfig
from hypersonic.server.core.inference.answer import Answer
from hypersonic.server.core.inference.backend import Execution
from hypersonic.server.core.inference.pending import Share
from hypersonic.server.core.inference.request import CheckedRequest
from hypersonic.server.errors import BackendError, InstanceLostError, InstanceTimeoutError, ServerError
from hypersonic.server.limits.load_timeout import too_long

_LOG = logging.getLogger(__name__)
#: the alignment of tensors in shared memory: numpy is fastest on whole cache lines
_ALIGN_BYTES = 64
#: the time that a model has to finalize, in seconds
_STOP_S = 10.0
#: the time between the end of a process's channel and its death, in seconds: the kernel closes files first
_DYING_S = 1.0
_SEQUENCE_START, _SEQUENCE_END = 1, 2
_NONSENSE = (MessageError, ValueError, TypeError, LookupError, AttributeError)


class PythonInstance:
    """One process at a time as an Instance; revive() replaces a lost process."""

    def __init__(
        self,
        name: str,
        config: ModelConfig,
        command: Callable[[str], Message],
        events: Events,
        load_timeout_s: float = 0.0,
    ) -> None:
        """Start the process; wait_loaded() must follow.

        Args:
            command: the instance's name -> the first message to its process.
            load_timeout_s: the time limit of initialize(), 0 = none.
        """
        self._load_timeout_s = load_timeout_s
        self.name = name
        self._command = command
        self._limit_bytes = config.integer("shm_max_bytes", 1 << 30)
        self._slot = PythonSlot(self, config, events)
        self.slots: Sequence[PythonSlot] = (self._slot,)
        self.events = events
        self.in_service = False
        self._start()

    def _start(self) -> None:
        with ExitStack() as opened:
            try:
                self.inputs = Arena(self._limit_bytes)
                opened.callback(self.inputs.close)
                self.outputs = Arena(self._limit_bytes)
                opened.callback(self.outputs.close)
                self.process = ModelProcess(self.name, (self.inputs.fd, self.outputs.fd), self._limit_bytes, self.events)
            except OSError as error:
                raise InstanceLostError(f"Stub process '{self.name}' cannot be started: {error}") from error
            opened.pop_all()

    def wait_loaded(self) -> None:
        """Wait until the model is initialized. Raises BackendError with the reason if it cannot be."""
        try:
            self.process.run.send(self._command(self.name))
            (verdict, *reason), _ = self.process.run.receive(deadline_ns_of(self._load_timeout_s))
        except TimeoutError as error:
            self.lost()
            raise InstanceTimeoutError(too_long(self._load_timeout_s)) from error
        except (ChannelClosedError, MessageError) as error:
            raise InstanceLostError(self.unhealthy) from error
        if verdict != "loaded":
            raise BackendError(printable(str(reason[0])) if reason else self.unhealthy)
        self.in_service = True

    @property
    def unhealthy(self) -> str:
        """Triton's text for a process that no longer exists."""
        return f"Stub process '{self.name}' is not healthy."

    def lost(self, *, dying: bool = False, by_run: bool = False) -> InstanceLostError:
        """Kill the process and return the error to raise.

        Args:
            dying: True if it is dying by itself; its thread is then given time to log the cause.
            by_run: as in InstanceLostError.
        """
        self.in_service = False
        if dying:
            self.process.wait(_DYING_S)
        self.process.kill()
        self.process.wait()
        return InstanceLostError(self.unhealthy, by_run=by_run)

    def busy_clocks(self) -> int:
        """Return 0: a process has no kernel clock."""
        return 0

    def revive(self) -> bool:
        """Start a new process and return True. Raises BackendError if its model does not initialize."""
        self.close()
        self._start()
        self.wait_loaded()
        return True

    def close(self) -> None:
        """Let the model finalize, end the process and free the shared memory."""
        if self.in_service:
            self.process.stop(_STOP_S)
        else:
            self.lost()
        self.in_service = False
        self.process.run.close()
        self.inputs.close()
        self.outputs.close()


def deadline_ns_of(timeout_s: float) -> int:
    """Return the monotonic time at which a wait that begins now must end, for Channel.receive; 0 = never."""
    return time.monotonic_ns() + int(timeout_s * 1e9) if timeout_s else 0


class PythonSlot:
    """A slot that writes requests' tensors into the input memory; answers are views of the output memory."""

    def __init__(self, owner: PythonInstance, config: ModelConfig, events: Events) -> None:
        self.capacity_rows = max(1, config.max_batch_size)
        self._owner = owner
        self._config = config
        self._events = events
        self._names = output_names(config)
        self._timeout_ms = config.integer("timeout_ms", 0)
        self._keys: list[int] = []
        self._answers: Sequence[Any] = ()
        self._launched_ns = 0
        self._shares = 0

    def start(self, shares: Sequence[Share]) -> None:
        """As Slot.start. Raises InstanceLostError if the process is dead."""
        owner = self._owner
        if not owner.in_service:
            raise InstanceLostError(owner.unhealthy)
        requests = [share.pending.request for share in shares]
        places = self._write(requests)
        self._shares = len(shares)
        self._keys = self._events.open(shares)
        message = [
            "run", owner.inputs.base, owner.inputs.size_bytes,
            [self._fields(*each) for each in zip(self._keys, requests, places, strict=True)],
        ]  # fmt: skip
        try:
            owner.process.run.send(message)
        except ChannelClosedError as error:
            lost = owner.lost(dying=True)
            self._events.forget(self._keys)
            raise lost from error
        self._launched_ns = time.monotonic_ns()

    def finish(self) -> Execution:
        """As Slot.finish.

        A process that dies, sends a malformed answer or exceeds timeout_ms is killed and raises InstanceLostError; by_run is
        then True unless a request of an earlier run was still open.
        """
        deadline_ns = self._launched_ns + self._timeout_ms * 1_000_000 if self._timeout_ms else 0
        try:
            message = self._receive(deadline_ns)
            done_ns = time.monotonic_ns()
            self._take(message)
            if self._config.decoupled:
                self._events.end_run(self._keys)
                self._keys = []
        except TimeoutError as error:
            self._owner.lost()
            text = f"Stub process '{self._owner.name}' did not answer within {self._timeout_ms} ms (timeout_ms) and was killed."
            raise InstanceTimeoutError(text, by_run=self._events.exclusive) from error
        except ChannelClosedError as error:
            raise self._owner.lost(dying=True, by_run=self._events.exclusive) from error
        except _NONSENSE as error:
            _LOG.error("%s: its process sent a malformed answer and is killed: %s", self._owner.name, error)
            raise self._owner.lost(by_run=self._events.exclusive) from error
        finally:
            self._events.forget(self._keys)
        return Execution(self._launched_ns, done_ns)

    def answer(self, index: int) -> Answer:
        """As Slot.answer."""
        answer = self._answers[index]
        if isinstance(answer, ServerError):
            raise answer
        assert isinstance(answer, Answer)
        return answer

    def _write(self, requests: Sequence[CheckedRequest]) -> list[list[list[Any]]]:
        """Write the tensors; return each request's as [input, offset, size, shape]. Raises BackendError."""
        places, at = [], 0
        for request in requests:
            tensors: list[list[Any]] = []
            for which, shape, data in self._tensors(request):
                tensors.append([which, at, len(data), shape])
                at += -(-len(data) // _ALIGN_BYTES) * _ALIGN_BYTES
            places.append(tensors)
        memory = self._owner.inputs
        if not memory.fit(at):
            raise BackendError(f"the inputs of a run of model '{self._config.name}' need {at} bytes, more than shm_max_bytes")
        for request, tensors in zip(requests, places, strict=True):
            for (_, start, size_bytes, _), (_, _, data) in zip(tensors, self._tensors(request), strict=True):
                if size_bytes:
                    memory.flat[start : start + size_bytes] = np.frombuffer(data, np.uint8)
        return places

    def _tensors(self, request: CheckedRequest) -> Iterator[tuple[Any, tuple[int, ...], memoryview]]:
        """Iterate over (input's number, or name and datatype of a tensor that the server added; shape; bytes)."""
        for index, data in enumerate(request.tensors):
            if data is not None:
                yield index, self._shape(index, request.shapes[index]), data
        for tensor in request.extra:
            yield (tensor.name, tensor.datatype), tensor.shape, tensor.data

    def _shape(self, index: int, shape: tuple[int, ...]) -> tuple[int, ...]:
        spec = self._config.inputs[index]
        if spec.reshape is None:
            return shape
        return reshaped(shape, spec.dims, spec.reshape, self._config.max_batch_size > 0)

    def _fields(self, key: int, request: CheckedRequest, tensors: list[list[Any]]) -> list[Any]:
        mark = request.sequence
        flags = 0 if mark is None else mark.start * _SEQUENCE_START | mark.end * _SEQUENCE_END
        names = None
        if request.outputs != self._config.all_outputs:
            names = [
                self._names[position] for position in (*request.outputs, *range(len(self._config.outputs), len(self._names)))
            ]
        fields = [
            key, request.id, mark.id if mark is not None else 0, flags, request.timeout_us, request.priority,
            dict(request.parameters),
        ]  # fmt: skip
        return [fields, names, tensors]

    def _receive(self, deadline_ns: int) -> Message:
        """Wait for the end of the run; make room for its outputs if the process asks for it."""
        owner = self._owner
        while True:
            message, _ = owner.process.run.receive(deadline_ns)
            if message[0] != "grow":
                return message
            _, size_bytes = message
            if not isinstance(size_bytes, int) or size_bytes < 0:
                raise ValueError(f"room for {size_bytes!r} bytes")
            text = f"the outputs need {size_bytes} bytes, more than shm_max_bytes"
            try:
                fits = owner.outputs.fit(size_bytes)
            except BackendError as error:
                fits, text = False, str(error)
            owner.process.run.send(["grown", owner.outputs.size_bytes] if fits else ["refused", text])

    def _take(self, message: Message) -> None:
        """Check and keep the answers. Raises BackendError for a run that failed."""
        if message[0] == "failed":
            text = f"Failed to process the request(s) for model '{self._owner.name}', message: {printable(message[1])}"
            raise BackendError(text)
        kind, kept, answers = message
        if kind != "done" or (len(answers) != self._shares and not self._config.decoupled):
            raise MessageError(f"{kind[:40]!r} with {len(answers)} answers to {self._shares} requests")
        memory = self._owner.outputs.view
        self._answers = [
            model_error(*fields) if isinstance(fields[0], int) else answer_of(fields, self._config, memory)
            for fields in answers
        ]
        if kept:
            self._owner.inputs.leave()


def load_command(fields: Mapping[str, Any], arguments: Mapping[str, str]) -> Callable[[str], Message]:
    """Return a function from an instance's name to the first message to its process.

    Args:
        fields: of the stub's Description except `instance`.
        arguments: of initialize() except the instance's name.
    """

    def command(instance: str) -> Message:
        return ["load", {**fields, "instance": instance}, {**arguments, "model_instance_name": instance}]

    return command


def config_json(message: Mapping[str, Any]) -> str:
    """Return a configuration as JSON in Triton's format, without spaces."""
    return json.dumps(message, separators=(",", ":"))
