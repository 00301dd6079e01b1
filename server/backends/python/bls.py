# SPDX-License-Identifier: Apache-2.0
"""Business logic scripting (BLS): a model's request to another model of the same server.

::

  ["infer", call, model, version, decoupled, id, correlation id, flags, timeout us, priority, parameters, outputs,
   [[name, datatype, shape, size]...], trace] and the inputs' bytes
  -> ["reply", call, more, [code, text] or None, parameters, [[name, datatype, shape, size]...]] and the outputs' bytes

trace: the key of the request whose trace this one belongs to, -1 = none.
"""

from __future__ import annotations

import logging
import queue
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from hypersonic.server.backends.python.answer import parameters_of, printable
from hypersonic.server.backends.python.stub.channel import Channel, ChannelClosedError, Message
from hypersonic.server.core.config.schema import ModelConfig
from hypersonic.server.core.inference.answer import Answer
from hypersonic.server.core.inference.check import check
from hypersonic.server.core.inference.model import Model
from hypersonic.server.core.inference.parameters import ParameterValue, SequenceMark
from hypersonic.server.core.inference.pending import FINAL_RESPONSE
from hypersonic.server.core.inference.request import CheckedRequest, Frame, InferRequest, InputTensor, WantedOutput
from hypersonic.server.core.inference.trace import StepTrace
from hypersonic.server.errors import BackendError, NotFoundError, ReplacedError, ServerError, UnavailableError

_LOG = logging.getLogger(__name__)
_SEQUENCE_START, _SEQUENCE_END = 1, 2
#: how often one request is repeated because its version was unloaded at that moment
_MOST_REPLACEMENTS = 8
#: the code of every error that a calling model receives, as in Triton
_INTERNAL = 1


class ModelCall(NamedTuple):
    """A request from a model to another.

    Attributes:
        number: the calling process's number for it.
        version: "" = the latest.
        caller: the name of the calling instance.
        trace: the trace of the request that caused it.
    """

    number: int
    model: str
    version: str
    decoupled: bool
    request: InferRequest
    caller: str
    trace: StepTrace | None = None

    @classmethod
    def of(
        cls, message: Message, payload: memoryview, caller: str, traces: Callable[[int], StepTrace | None] = lambda _: None
    ) -> ModelCall:
        """Read a message of the process.

        Raises ValueError, TypeError, LookupError.

        Args:
            traces: key of a request -> its trace.
        """
        (
            _,
            number,
            model,
            version,
            decoupled,
            request_id,
            correlation,
            flags,
            timeout_us,
            priority,
            parameters,
            outputs,
            inputs,
            trace,
        ) = message
        sequence = (
            SequenceMark(correlation, bool(flags & _SEQUENCE_START), bool(flags & _SEQUENCE_END)) if correlation else None
        )
        request = InferRequest(
            printable(request_id),
            tuple(_inputs(inputs, payload)),
            tuple(WantedOutput(printable(name)) for name in outputs),
            _count(timeout_us),
            _count(priority),
            sequence,
            parameters_of(parameters),
        )
        return cls(
            *(number, printable(model), "" if version == -1 else str(version), bool(decoupled), request, caller),
            trace=None if trace == -1 else traces(trace),
        )


def _count(value: Any) -> int:
    if not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r} is not a count")
    return value


def _inputs(inputs: Any, payload: memoryview) -> Iterator[InputTensor]:
    at = 0
    for name, datatype, shape, size_bytes in inputs:
        if at + _count(size_bytes) > len(payload):
            raise ValueError(f"input {name!r} of {size_bytes!r} bytes")
        yield InputTensor(printable(name), str(datatype), tuple(int(n) for n in shape), payload[at : at + size_bytes])
        at += size_bytes


class NamedAnswer(NamedTuple):
    """One response of the called model, copied.

    Attributes:
        final: no response follows.
        error: set instead of tensors.
    """

    tensors: tuple[InputTensor, ...]
    parameters: Mapping[str, ParameterValue]
    final: bool
    error: ServerError | None = None


#: a model's request -> the called model's responses: one, or any number from a decoupled model; raises ServerError
Infer = Callable[[ModelCall], Iterator[NamedAnswer]]


def infer_by(models: Callable[[str, str], Model]) -> Infer:
    """Return the function that serves models' requests to other models.

    Error texts are Triton's.

    Args:
        models: (name, version) -> the loaded model, as ModelRepository.model.
    """

    def infer(call: ModelCall) -> Iterator[NamedAnswer]:
        for _ in range(_MOST_REPLACEMENTS):
            with suppress(ReplacedError):  # unloaded before the request was queued: look the model up again
                yield from _infer(call, models)
                return
        raise _not_ready(call)

    return infer


def _prefix(call: ModelCall) -> str:
    return f"Model {call.model} - Error when running inference: "


def _not_ready(call: ModelCall) -> BackendError:
    return BackendError(f"{_prefix(call)}Failed for execute the inference request. Model '{call.model}' is not ready.")


def _infer(call: ModelCall, models: Callable[[str, str], Model]) -> Iterator[NamedAnswer]:
    try:
        model = models(call.model, call.version)
    except (NotFoundError, UnavailableError) as error:
        raise _not_ready(call) from error
    if model.config.decoupled and not call.decoupled:
        raise BackendError(
            f"{_prefix(call)}Model {call.model} is using the decoupled. The current BLS request call doesn't support models "
            "using the decoupled transaction policy. Please use 'decoupled=True' argument to the 'exec' or 'async_exec' calls "
            "for decoupled models.'"
        )
    try:
        request = check(call.request, model.config)
    except ServerError as error:
        raise BackendError(f"{_prefix(call)}{error}") from error
    now_ns = time.monotonic_ns()
    frame = _frame(model.config)
    caller = _Caller(call.caller, call.trace.step(call.model, now_ns) if call.trace is not None else None)
    if not model.config.decoupled:
        yield model.infer(request, frame, caller, now_ns)
        return
    responses = _Responses()
    model.stream(request, frame, caller, now_ns, responses)
    yield from responses


def _frame(config: ModelConfig) -> Frame:
    def frame(request: CheckedRequest, answer: Answer) -> NamedAnswer:
        tensors = tuple(
            InputTensor(config.outputs[o.position].name, o.datatype, o.shape, memoryview(b"".join(o.chunks)))
            for o in answer.asked(request.outputs)
        )
        parameters = {name: value for name, value in answer.parameters.items() if name != FINAL_RESPONSE}
        final = bool(answer.parameters.get(FINAL_RESPONSE, not config.decoupled))
        return NamedAnswer(tensors, parameters, final)

    return frame


class _Caller:
    """A calling model in place of a connection. It counts as a separate client for fair queueing, and never disconnects."""

    def __init__(self, client: str, trace: StepTrace | None) -> None:
        self.client = client
        self.trace = trace

    def is_active(self) -> bool:
        return True

    def add_callback(self, callback: Callable[[], None]) -> bool:
        del callback
        return True


class _Responses:
    """A sink whose responses are read by the calling thread."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[NamedAnswer | ServerError | None] = queue.SimpleQueue()

    def respond(self, framed: Any) -> None:
        self._queue.put(framed)

    def respond_error(self, error: ServerError) -> None:
        self._queue.put(NamedAnswer((), {}, final=False, error=error))

    def end(self, error: ServerError | None) -> None:
        self._queue.put(error)

    def __iter__(self) -> Iterator[NamedAnswer]:
        """Yield the responses. An end without a final response becomes an empty response, as in Triton."""
        final = False
        while isinstance(response := self._queue.get(), NamedAnswer):
            final = response.final
            yield response
        if response is not None:
            raise response
        if not final:
            yield NamedAnswer((), {}, final=True)


def _refuse(_: ModelCall) -> Iterator[NamedAnswer]:
    raise BackendError("this server does not let models call other models")


def serve_call(infer: Infer | None, call: ModelCall, events: Channel) -> None:
    """Answer one call of a process. Raises nothing, since no caller could handle an error."""
    with suppress(ChannelClosedError):
        try:
            for answer in (infer or _refuse)(call):
                _reply(events, call, answer)
        except ServerError as error:
            events.send(["reply", call.number, False, [_INTERNAL, error.text], {}, []])
        except Exception as error:  # noqa: BLE001 - the model waits for an answer in any case
            _LOG.exception("%s: a request to model '%s' failed", call.caller, call.model)
            events.send(["reply", call.number, False, [_INTERNAL, f"the request failed: {type(error).__name__}"], {}, []])


def _reply(events: Channel, call: ModelCall, answer: NamedAnswer) -> None:
    error = None if answer.error is None else [_INTERNAL, answer.error.text]
    meta = [[tensor.name, tensor.datatype, tensor.shape, len(tensor.data)] for tensor in answer.tensors]
    events.send(
        ["reply", call.number, not answer.final, error, dict(answer.parameters), meta],
        [tensor.data for tensor in answer.tensors],
    )
