# SPDX-License-Identifier: Apache-2.0
"""One run: requests from the input memory, execute(), responses to the output memory.

::

    ["run", base, size, [[fields, outputs, [[input, offset, size, shape]...]]...]]
    ["grow", size] -> ["grown", size] or ["refused", text]
    ["done", kept, [[outputs, parameters] or [code, text]...]] or ["failed", text]

fields: as InferenceRequest.received takes them. input: its number, or [name, datatype] of a tensor that the server added.
outputs: [position, datatype, shape, offset, size] each. kept: the model holds views of the input memory, which must not be
written again.
"""

from __future__ import annotations

import inspect
import mmap
import sys
import threading
import weakref
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hypersonic.server.backends.python.stub.calls import PROCESS, Calls
from hypersonic.server.backends.python.stub.channel import Channel, Message
from hypersonic.server.backends.python.stub.errors import ErrorCode, Refusal, TritonError, TritonModelException, describe
from hypersonic.server.backends.python.stub.request import InferenceRequest
from hypersonic.server.backends.python.stub.response import ABANDONED, InferenceResponse, InferenceResponseSender
from hypersonic.server.backends.python.stub.tensor import Array, Packed, Tensor, unpack

if TYPE_CHECKING:
    import asyncio

#: the alignment of tensors in the shared memory
ALIGN_BYTES = 64


class Description(NamedTuple):
    """The description of the model for its process.

    Attributes:
        instance: the instance's name.
        repository: the model's parent directory.
    """

    instance: str
    model: str
    version: int
    file: str
    repository: str
    decoupled: bool
    inputs: Sequence[Sequence[str]]
    outputs: Sequence[str]


class MappedFile:
    """The mapped part of a shared memory file.

    Attributes:
        flat: its bytes, (size_bytes,) uint8.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._place = (0, 0)
        self.flat: Array = np.empty(0, np.uint8)

    @property
    def size_bytes(self) -> int:
        """The number of mapped bytes."""
        return len(self.flat)

    def references(self) -> int:
        """Return the reference count of `flat`. Only compare results: the absolute value differs between Python versions."""
        return sys.getrefcount(self.flat)

    def show(self, base: int, size_bytes: int) -> None:
        """Map this part, unless it is mapped already. The model's views of an earlier part stay valid."""
        if self._place != (base, size_bytes):
            self._place = (base, size_bytes)
            self.flat = np.frombuffer(mmap.mmap(self._fd, size_bytes, offset=base), np.uint8)


class Late:
    """A response that is sent through a response sender instead of being returned by execute()."""

    def __init__(self) -> None:
        self.response: InferenceResponse | None = None
        self.closed = threading.Event()

    def deliver(self, response: InferenceResponse | None, final: bool) -> None:
        """Store the response; `final` ends the wait for it. Called on any thread of the model."""
        self.response = response or self.response
        if final:
            self.closed.set()


class Runs:
    """Executes the model's runs, one after another, on the main thread."""

    def __init__(
        self, model: Any, description: Description, run: Channel, calls: Calls, windows: tuple[MappedFile, MappedFile]
    ) -> None:
        self._model = model
        self._description = description
        #: name -> positions; an implicit state may also be an output
        self._positions: dict[str, list[int]] = {}
        for position, name in enumerate(description.outputs):
            self._positions.setdefault(name, []).append(position)
        self._run = run
        self._calls = calls
        self._inputs, self._outputs = windows
        self._copying = description.decoupled
        self._loop: asyncio.AbstractEventLoop | None = None

    def serve(self, message: Message) -> None:
        """Execute one run, from its message to its answer. Raises ChannelClosedError."""
        PROCESS.may_infer = True
        _, base, size_bytes, requests = message
        self._inputs.show(base, size_bytes)
        references = self._inputs.references()
        view = self._inputs.flat.copy() if self._copying else self._inputs.flat
        answer = self._decoupled(view, requests) if self._description.decoupled else self._plain(view, requests)
        del view
        kept = not self._copying and self._inputs.references() > references
        # a model that keeps one input may keep them all: from now on each run gets its own copy
        self._copying = self._copying or kept
        if answer[0] == "done":
            answer[1] = kept
        self._run.send(answer)

    def _plain(self, view: Array, fields: Sequence[Sequence[Any]]) -> Message:
        late: dict[int, Late] = {}
        requests = [self._request(view, each, partial(self._late_sender, late, index)) for index, each in enumerate(fields)]
        try:
            result = self._execute(requests)
            if result is not None:
                self._check(result, len(requests))
        except BaseException as error:  # noqa: BLE001 - any exception of a model fails only its run
            return ["failed", describe(error, self._description.repository)]
        finally:
            requests.clear()
        responses = [self._response(result[index] if result else None, late.get(index)) for index in range(len(fields))]
        del result
        return self._write(responses, [each[1] for each in fields])

    def _response(self, given: InferenceResponse | None, late: Late | None) -> InferenceResponse:
        """Return the sender's response if there is one, otherwise the returned one, as in Triton."""
        if late is not None and (given is None or late.closed.is_set()):
            late.closed.wait()
            return late.response or InferenceResponse()
        return given or InferenceResponse(error=TritonError(ABANDONED))

    def _late_sender(self, late: dict[int, Late], index: int) -> InferenceResponseSender:
        late[index] = Late()
        return InferenceResponseSender(-1, late[index].deliver, decoupled=False)

    def _decoupled(self, view: Array, fields: Sequence[Sequence[Any]]) -> Message:
        senders: list[InferenceResponseSender] = []
        requests = []
        for each in fields:
            key, names = each[0][0], each[1]
            sender = InferenceResponseSender(key, partial(self._deliver, key, names), decoupled=True)
            requests.append(self._request(view, each, lambda sender=sender: sender))
            requests[-1].get_response_sender()
            senders.append(sender)
        watched = [weakref.ref(sender) for sender in senders]
        del sender
        senders.clear()
        try:
            self._check_none(self._execute(requests))
        except BaseException as error:  # noqa: BLE001 - as above
            _close(watched, self._failure(error))
        return ["done", False, []]

    def _failure(self, error: BaseException) -> str:
        text = describe(error, self._description.repository)
        return f"Failed to process the request(s) for model '{self._description.instance}', message: {text}"

    def _request(self, view: Array, each: Sequence[Any], make_sender: Any) -> InferenceRequest:
        fields, names, tensors = each
        inputs = [self._tensor(view, *tensor) for tensor in tensors]
        description = self._description
        return InferenceRequest.received(
            fields, inputs, names or description.outputs, (description.model, description.version), make_sender
        )

    def _tensor(self, view: Array, which: Any, offset: int, size_bytes: int, shape: Sequence[int]) -> Tensor:
        name, datatype = self._description.inputs[which] if isinstance(which, int) else which
        dims = tuple(shape)
        return Tensor.received(name, datatype, dims, partial(unpack, datatype, dims, view[offset : offset + size_bytes]))

    def _execute(self, requests: Sequence[InferenceRequest]) -> Any:
        if not hasattr(self._model, "execute"):
            raise Refusal(f"Python model {self._description.file} does not implement `execute` method.")
        result = self._model.execute(list(requests))
        if not inspect.iscoroutine(result):
            return result
        return self._background(result, requests) if self._description.decoupled else self._until_done(result)

    def _until_done(self, coroutine: Any) -> Any:
        import asyncio  # most models do not need it

        self._loop = self._loop or asyncio.new_event_loop()
        return self._loop.run_until_complete(coroutine)

    def _background(self, coroutine: Any, requests: Sequence[InferenceRequest]) -> None:
        """Run a decoupled model's coroutine in the background, also while the next execute() runs."""
        import asyncio

        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=self._loop.run_forever, name="triton-coroutines", daemon=True).start()
        watched = [weakref.ref(request.get_response_sender()) for request in requests]

        async def supervised() -> None:
            try:
                await coroutine
            except BaseException as error:  # noqa: BLE001 - as above
                _close(watched, self._failure(error))

        asyncio.run_coroutine_threadsafe(supervised(), self._loop)

    def _check_none(self, result: Any) -> None:
        if result is not None:
            raise Refusal(
                f"Python model '{self._description.instance}' is using the decoupled mode and the execute function must return "
                "None."
            )

    def _check(self, result: Any, requests: int) -> None:
        if not isinstance(result, list):
            raise Refusal(f"Expected a list in the execute return, found type '{type(result)}'.")
        if len(result) != requests:
            raise Refusal(
                "Number of InferenceResponse objects do not match the number of InferenceRequest objects. "
                f"InferenceRequest(s) size is:{requests}, and InferenceResponse(s) size is:{len(result)}\n"
            )
        for response in result:
            if response is not None and not isinstance(response, InferenceResponse):
                raise Refusal(
                    "Expected an 'InferenceResponse' object in the execute function return list, found type "
                    f"'{type(response)}'."
                )

    def _pack(self, response: InferenceResponse, names: Sequence[str] | None) -> list[Packed]:
        """Return the requested tensors that the response has. Raises TritonModelException for one given twice."""
        wanted = self._positions if names is None else names
        packed = [Packed(tensor) for tensor in response.output_tensors() if tensor.name() in wanted]
        if len({tensor.name for tensor in packed}) != len(packed):
            raise TritonModelException("the response has an output twice")
        return packed

    def _write(self, responses: Sequence[InferenceResponse], names: Sequence[Sequence[str] | None]) -> Message:
        """Write all responses of a run into the output memory."""
        answers: list[Any] = []
        pieces: list[tuple[int, memoryview]] = []
        at = 0
        for response, wanted in zip(responses, names, strict=True):
            try:
                error = response.error()
                packed = [] if error is not None else self._pack(response, wanted)
            except Exception as raised:  # noqa: BLE001 - a response that cannot be written fails only its request
                error = TritonError(self._failure(raised))
            if error is not None:
                answers.append([int(error.code()), error.message()])
                continue
            outputs = []
            for tensor in packed:
                where = [tensor.datatype, tensor.shape, at, tensor.size_bytes]
                outputs += [[position, *where] for position in self._positions[tensor.name]]
                pieces.append((at, tensor.data))
                at += -(-tensor.size_bytes // ALIGN_BYTES) * ALIGN_BYTES
            answers.append([outputs, response.parameter_values])
        refusal = self._grow(at)
        if refusal:
            return ["failed", refusal]
        for start, data in pieces:
            self._outputs.flat[start : start + len(data)] = np.frombuffer(data, np.uint8)
        return ["done", False, answers]

    def _grow(self, size_bytes: int) -> str:
        """Ask the server for room for the outputs; return the reason if it refuses, otherwise ""."""
        if size_bytes > self._outputs.size_bytes:
            self._run.send(["grow", size_bytes])
            (verdict, what), _ = self._run.receive()
            if verdict == "refused":
                return str(what)
            self._outputs.show(0, what)
        return ""

    def _deliver(self, key: int, names: Sequence[str] | None, response: InferenceResponse | None, final: bool) -> None:
        """Send a decoupled model's response, or only the end (None)."""
        error = None if response is None else response.error()
        if response is None or error is not None:
            refused = None if error is None else [int(error.code()), error.message()]
            self._calls.tell(["response", key, final, refused, {}, None])
            return
        packed = self._pack(response, names)
        self._calls.tell(
            ["response", key, final, None, response.parameter_values, [self._meta(tensor) for tensor in packed]],
            [tensor.data for tensor in packed],
        )

    def _meta(self, tensor: Packed) -> list[Any]:
        return [self._positions[tensor.name][0], tensor.datatype, tensor.shape, tensor.size_bytes]


def _close(watched: Sequence[weakref.ref[InferenceResponseSender]], text: str) -> None:
    for reference in watched:
        sender = reference()
        if sender is not None:
            sender.close(TritonError(text, ErrorCode.INTERNAL))
