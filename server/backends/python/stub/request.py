# SPDX-License-Identifier: Apache-2.0
"""InferenceRequest: the argument of execute(), and a model's request to another model of the same server (BLS)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from hypersonic.server.backends.python.stub.calls import PROCESS, Asked, Reply
from hypersonic.server.backends.python.stub.errors import ErrorCode, TritonError, TritonModelException
from hypersonic.server.backends.python.stub.response import (
    InferenceResponse,
    InferenceResponseSender,
    ParameterValue,
    checked_parameters,
    is_cancelled,
)
from hypersonic.server.backends.python.stub.tensor import NUMPY, Packed, Tensor, unpack

NO_REQUEST = -1


class InferenceTrace:
    """A request's trace, to pass on to requests that it causes; they belong to it if it is sampled."""

    __slots__ = ("key",)

    def __init__(self, key: int) -> None:
        self.key = key

    def get_context(self) -> None:
        """Return None: spans are created in the server only."""


class InferenceRequest:
    """One request. Requests passed to execute() have a response sender; those that a model creates can be executed."""

    __slots__ = (
        "__weakref__", "_correlation_id", "_flags", "_id", "_inputs", "_key", "_make_sender", "_model_name", "_model_version",
        "_outputs", "_parameters", "_priority", "_sender", "_timeout_us", "_trace",
    )  # fmt: skip

    def __init__(
        self,
        request_id: str = "",
        correlation_id: int | str = 0,
        inputs: Sequence[Tensor] | None = None,
        requested_output_names: Sequence[str] | None = None,
        model_name: str = "",
        model_version: int = -1,
        flags: int = 0,
        timeout: int = 0,
        preferred_memory: object = None,
        trace: InferenceTrace | None = None,
        parameters: Mapping[str, ParameterValue] | None = None,
        priority: int = 0,
    ) -> None:
        """Create a request to another model.

        Args:
            model_version: -1 = the latest.
            timeout: microseconds, 0 = none.
            preferred_memory: accepted and ignored.
            trace: the trace of the request that causes this one.

        Raises:
            TypeError: For wrong arguments.
            TritonModelException: For wrong parameters.
        """
        del preferred_memory
        if inputs is None or requested_output_names is None or not model_name:
            raise TypeError("InferenceRequest: inputs, requested_output_names and model_name are needed")
        if isinstance(requested_output_names, str) or not all(isinstance(tensor, Tensor) for tensor in inputs):
            raise TypeError("InferenceRequest: inputs must be a list of Tensor, requested_output_names a list of str")
        self._id, self._correlation_id, self._flags = request_id, correlation_id, flags
        self._inputs: Sequence[Tensor] = list(inputs)
        self._outputs: Sequence[str] = list(requested_output_names)
        self._model_name, self._model_version = model_name, model_version
        self._timeout_us, self._priority = timeout, priority
        self._parameters: Mapping[str, ParameterValue] = checked_parameters(parameters)
        self._key, self._trace = NO_REQUEST, NO_REQUEST if trace is None else trace.key
        self._sender: InferenceResponseSender | None = None
        self._make_sender: Callable[[], InferenceResponseSender] | None = None

    @classmethod
    def received(
        cls,
        fields: Sequence[Any],
        inputs: Sequence[Tensor],
        outputs: Sequence[str],
        model: tuple[str, int],
        make_sender: Callable[[], InferenceResponseSender],
    ) -> InferenceRequest:
        """Return a request from the server.

        Args:
            fields: key, id, correlation id, flags, timeout in us, priority, parameters.
        """
        request = cls.__new__(cls)
        request._key, request._id, request._correlation_id, request._flags = fields[:4]
        request._timeout_us, request._priority, request._parameters = fields[4:7]
        request._inputs, request._outputs = inputs, outputs
        request._model_name, request._model_version = model
        request._sender, request._make_sender = None, make_sender
        request._trace = request._key
        return request

    def inputs(self) -> Sequence[Tensor]:
        """Return the inputs that were sent, without optional ones that were left out."""
        return self._inputs

    def request_id(self) -> str:
        """Return the id that the client gave, or ""."""
        return self._id

    def correlation_id(self) -> int | str:
        """Return the id of its sequence, 0 for none."""
        return self._correlation_id

    def requested_output_names(self) -> list[str]:
        """Return the names of the requested outputs: all of the model's if the client named none."""
        return list(self._outputs)

    def model_name(self) -> str:
        """Return the name of the model that the request is for."""
        return self._model_name

    def model_version(self) -> int:
        """Return the version of that model, -1 for the latest."""
        return self._model_version

    def parameters(self) -> str:
        """Return the parameters as JSON text."""
        return json.dumps(self._parameters, separators=(",", ":"))

    def flags(self) -> int:
        """Return 0, TRITONSERVER_REQUEST_FLAG_SEQUENCE_START, _END, or both."""
        return self._flags

    def set_flags(self, flags: int) -> None:
        """Set the flags, before exec()."""
        self._flags = flags

    def set_release_flags(self, flags: int) -> None:
        """Raise TritonModelException unless the flags mean release, since rescheduling is not supported."""
        if flags != 1:
            raise TritonModelException("this server cannot reschedule requests (TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)")

    def timeout(self) -> int:
        """Return the timeout in microseconds, 0 for none."""
        return self._timeout_us

    def priority(self) -> int:
        """Return the priority: 1 is the highest, 0 = the model's default."""
        return self._priority

    def trace(self) -> InferenceTrace:
        """Return the request's trace, to create other requests that belong to it."""
        return InferenceTrace(self._trace)

    def is_cancelled(self) -> bool:
        """Return whether the client no longer waits for the answer."""
        return is_cancelled(self._key)

    def get_response_sender(self) -> InferenceResponseSender:
        """Return the response sender. Raises TritonModelException for a request that the model created."""
        if self._sender is None:
            if self._make_sender is None:
                raise TritonModelException("only requests that execute() was given have a response sender")
            self._sender = self._make_sender()
            self._make_sender = None
        return self._sender

    def exec(self, decoupled: bool = False) -> Any:
        """Send the request to its model and wait. Returns the response; with decoupled=True an iterator of responses.

        An error of the other model is in the response. Raises TritonModelException outside execute().
        """
        asked = self._send(decoupled)
        return _each(asked) if decoupled else _response(asked.only())

    async def async_exec(self, decoupled: bool = False) -> Any:
        """Send the request as exec() does, in a coroutine; with decoupled=True the result is an asynchronous iterator."""
        asked = self._send(decoupled)
        if decoupled:
            return _each_async(asked)
        return _response(await _on_thread(asked.only))

    def _send(self, decoupled: bool) -> Asked:
        if PROCESS.calls is None or not PROCESS.may_infer:
            raise TritonModelException("BLS is only supported during the 'execute' function.")
        packed = [Packed(tensor) for tensor in self._inputs]
        return PROCESS.calls.ask(
            [
                "infer", 0, self._model_name, self._model_version, bool(decoupled), self._id, self._correlation_id, self._flags,
                self._timeout_us, self._priority, self._parameters, self._outputs,
                [[tensor.name, tensor.datatype, tensor.shape, tensor.size_bytes] for tensor in packed], self._trace,
            ],
            [tensor.data for tensor in packed],
        )  # fmt: skip


def _response(reply: Reply) -> InferenceResponse:
    """Convert a reply and the tensors' bytes to a response.

    The reply: ["reply", call, more, [code, text] or None, parameters, [[name, datatype, shape, size]...]].
    """
    (_, _, _, error, parameters, tensors), payload = reply
    if error is not None:
        return InferenceResponse(error=TritonError(error[1], ErrorCode(error[0])))
    outputs, at = [], 0
    for name, datatype, shape, size_bytes in tensors:
        outputs.append(_tensor(name, datatype, tuple(shape), payload[at : at + size_bytes]))
        at += size_bytes
    return InferenceResponse(outputs, parameters=parameters)


def _tensor(name: str, datatype: str, shape: tuple[int, ...], data: memoryview) -> Tensor:
    if datatype not in NUMPY:
        return Tensor.received(name, datatype, shape, lambda: unpack(datatype, shape, data))
    return Tensor(name, unpack(datatype, shape, data))


def _each(asked: Asked) -> Iterator[InferenceResponse]:
    try:
        more = True
        while more:
            reply = asked.next()
            more = reply[0][2]
            yield _response(reply)
    finally:
        asked.calls.answered(asked.number)


async def _each_async(asked: Asked) -> Any:
    replies = _each(asked)
    while (response := await _on_thread(next, replies, None)) is not None:
        yield response


async def _on_thread(function: Callable[..., Any], *arguments: Any) -> Any:
    import asyncio  # loaded already when this runs; most models do not need it

    return await asyncio.to_thread(function, *arguments)
