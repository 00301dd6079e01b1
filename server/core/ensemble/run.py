# SPDX-License-Identifier: Apache-2.0
"""EnsembleRun: runs one request through the steps of an ensemble, on one thread.

When the inputs of a step are complete, they become a request to its model, which is checked like a client's. A step runs on the
driving thread if no other step could become ready meanwhile. The others are queued with their models (Model.stream), and their
results go to this run's queue. The first error ends the run: waiting steps are withdrawn, and steps in progress are waited for,
because they read the request's bytes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any, NamedTuple, Protocol

from hypersonic.server.core.config.schema import Dims, EnsembleStep, ModelConfig
from hypersonic.server.core.inference.answer import Answer, Output
from hypersonic.server.core.inference.check import check
from hypersonic.server.core.inference.model import Call, Model, OpenCall
from hypersonic.server.core.inference.request import CheckedRequest, Frame, InferRequest, InputTensor, WantedOutput
from hypersonic.server.core.inference.trace import StepTrace, TracedCall, find_trace
from hypersonic.server.errors import (
    BackendError,
    BudgetError,
    CancelledError,
    InvalidRequestError,
    NotFoundError,
    ReplacedError,
    ServerError,
    UnavailableError,
    UnsupportedError,
)
from hypersonic.server.statistics.times import RunTimes

#: how often one step is repeated because its version was unloaded at that moment
_MOST_REPLACEMENTS = 8
#: the classes that a step's error is converted to; the first one that it is an instance of is used
_KINDS = (InvalidRequestError, NotFoundError, UnavailableError, BudgetError, UnsupportedError, BackendError)


class StepTensor(NamedTuple):
    """A tensor between steps.

    Attributes:
        shape: with the batch dimension.
        rows: the batch size, 0 without a batch dimension.
    """

    datatype: str
    shape: Dims
    data: memoryview
    rows: int


#: a step's answer: its tensors by their names in the ensemble, None for outputs that the model did not give
Tensors = Mapping[str, StepTensor | None]


class Lookup(Protocol):
    """Repository.model. version: "" = the latest. wait_s: for a model that is being replaced. Raises ServerError."""

    def __call__(self, name: str, version: str, *, wait_s: float = ...) -> Model:
        """Return the loaded model."""


class Ended(NamedTuple):
    """The result of a step: tensors or an error."""

    step: EnsembleStep
    tensors: Tensors
    error: ServerError | None = None


class _Clock:
    """The trace of a step: records the times of its run and passes everything on to the real trace, if there is one."""

    def __init__(self, times: list[RunTimes], trace: StepTrace | None) -> None:
        self._times = times
        self._trace = trace

    def step(self, model: str, arrived_ns: int) -> StepTrace:
        """Return the trace of a step of a nested ensemble, whose own run does the counting."""
        return _Clock([], self._trace.step(model, arrived_ns) if self._trace else None)

    def end(
        self,
        version: int,
        request_id: str,
        arrived_ns: int,
        *,
        enqueued_ns: int = 0,
        times: RunTimes | None = None,
        error: Exception | None = None,
    ) -> None:
        if times is not None:
            self._times.append(times)
        if self._trace is not None:
            self._trace.end(version, request_id, arrived_ns, enqueued_ns=enqueued_ns, times=times, error=error)


class Ending(OpenCall):
    """A call that ends with the outer call, or earlier, when the ensemble gives up."""

    def __init__(self, call: Call) -> None:
        """Create an Ending.

        Args:
            call: the outer call.
        """
        super().__init__(call.client)
        self._outer = call
        if not call.add_callback(self.end):
            self.end()

    def is_active(self) -> bool:
        """As Call.is_active."""
        return super().is_active() and self._outer.is_active()


class _StepSink:
    """The sink for a queued step's answer; called on any thread."""

    def __init__(self, step: EnsembleStep, queue: SimpleQueue[Ended]) -> None:
        self._step = step
        self._queue = queue
        self._tensors: Tensors = {}
        self._error: ServerError | None = None

    def respond(self, framed: Any) -> None:
        self._tensors = framed

    def respond_error(self, error: ServerError) -> None:
        self._error = error

    def end(self, error: ServerError | None) -> None:
        self._queue.put(Ended(self._step, self._tensors, error or self._error))


class EnsembleRun:
    """One request's run, driven by answer().

    Attributes:
        times: those of the steps' runs, in the order in which they ended.
    """

    def __init__(self, config: ModelConfig, lookup: Lookup, request: CheckedRequest, call: Call) -> None:
        self.times: list[RunTimes] = []
        self._config = config
        self._lookup = lookup
        self._request = request
        self._trace = find_trace(call)
        self._ending = Ending(call)
        self._wanted = frozenset(config.outputs[position].name for position in request.outputs)
        self._waiting = find_needed_steps(config, self._wanted)
        self._in_flight: list[EnsembleStep] = []
        self._ended: SimpleQueue[Ended] = SimpleQueue()
        self._tensors: dict[str, StepTensor | None] = _inputs(config, request)

    def answer(self) -> Answer:
        """Return the answer. Raises ServerError; its text begins with the ensemble's name, as in Triton."""
        with self._naming():
            self._drive()
            return self._answer()

    @contextmanager
    def _naming(self) -> Iterator[None]:
        try:
            yield
        except CancelledError:
            raise
        except ServerError as error:
            if error.request_id is None:
                error.request_id = self._request.id
            kind = next((kind for kind in _KINDS if isinstance(error, kind)), BackendError)
            raise kind(f"in ensemble '{self._config.name}', {error.text}") from error

    def _drive(self) -> None:
        while True:
            ready = [step for step in self._waiting if self._tensors.keys() >= set(step.input_map.values())]
            if not ready and not self._in_flight:
                return
            self._waiting = [step for step in self._waiting if step not in ready]
            try:
                self._advance(ready)
            except ServerError:
                self._give_up()
                raise
            self._forget()

    def _advance(self, ready: Sequence[EnsembleStep]) -> None:
        """Start the ready steps, and wait until a step has ended. Raises its error."""
        here = ready[-1] if ready and self._may_block(ready) else None
        for step in ready:
            if step is not here:
                self._start(step)
        if here is None:
            self._take(self._ended.get())
        else:
            self._tensors.update(self._send(here, self._infer))

    def _may_block(self, ready: Sequence[EnsembleStep]) -> bool:
        """Return whether this thread may run the last of `ready`: no other step could become ready before it ends."""
        others = (*self._in_flight, *ready[:-1])
        there = self._tensors.keys() | {name for step in others for name in step.output_map.values()}
        return not any(there >= set(step.input_map.values()) for step in self._waiting)

    def _start(self, step: EnsembleStep) -> None:
        self._send(step, self._queue)
        self._in_flight.append(step)

    def _take(self, ended: Ended) -> None:
        self._in_flight.remove(ended.step)
        if ended.error is not None:
            raise ended.error
        self._tensors.update(ended.tensors)

    def _forget(self) -> None:
        """Drop the tensors that are no longer needed."""
        needed = self._wanted.union(*(step.input_map.values() for step in self._waiting))
        self._tensors = {name: tensor for name, tensor in self._tensors.items() if name in needed}

    def _give_up(self) -> None:
        self._ending.end()
        for _ in range(len(self._in_flight)):
            self._ended.get()

    def _send(self, step: EnsembleStep, send: Callable[[EnsembleStep, Model, CheckedRequest], Tensors]) -> Tensors:
        """Send a step's request to its model, or to the version that replaced it if it was unloaded meanwhile."""
        for _ in range(_MOST_REPLACEMENTS):
            model = self._lookup(step.model_name, version_text(step))
            try:
                return send(step, model, self._step_request(step, model.config))
            except ReplacedError as error:
                replaced = error
        raise replaced

    def _infer(self, step: EnsembleStep, model: Model, request: CheckedRequest) -> Tensors:
        """Run the step on this thread."""
        now_ns = time.monotonic_ns()
        tensors: Tensors = model.infer(request, framing(step, model.config), self._call(model, now_ns), now_ns)
        return tensors

    def _queue(self, step: EnsembleStep, model: Model, request: CheckedRequest) -> Tensors:
        """Queue the step with its model; the result goes to `_ended`."""
        if model.config.decoupled:
            raise UnsupportedError(f"model '{model.name}' has become decoupled: load the ensemble again")
        now_ns = time.monotonic_ns()
        sink = _StepSink(step, self._ended)
        model.stream(request, framing(step, model.config), self._call(model, now_ns), now_ns, sink)
        return {}

    def _call(self, model: Model, now_ns: int) -> TracedCall:
        trace = self._trace.step(model.name, now_ns) if self._trace is not None else None
        return TracedCall(self._ending, _Clock(self.times, trace))

    def _step_request(self, step: EnsembleStep, config: ModelConfig) -> CheckedRequest:
        """Return a step's checked request. Raises InvalidRequestError as for a client's request."""
        given = self._request
        request = InferRequest(
            id=given.id,
            inputs=tuple(self._step_inputs(step, config)),
            outputs=tuple(WantedOutput(name) for name in step.output_map),
            timeout_us=given.timeout_us,
            priority=given.priority,
            sequence=given.sequence,
            parameters=given.parameters,
        )
        try:
            return check(request, config)
        except ServerError as error:
            error.request_id = given.id
            raise

    def _step_inputs(self, step: EnsembleStep, config: ModelConfig) -> Iterator[InputTensor]:
        """Yield a step's inputs, without optional ones left out and outputs that were not answered."""
        dims = {spec.name: spec.dims for spec in config.inputs}
        for name, tensor_name in step.input_map.items():
            tensor = self._tensors[tensor_name]
            if tensor is not None:
                shape = fitted(tensor, dims.get(name, ()), batched=config.max_batch_size > 0)
                yield InputTensor(name, tensor.datatype, shape, tensor.data)

    def _answer(self) -> Answer:
        """Return the answer, without outputs that their step did not give."""
        if not self._tensors.keys() >= self._wanted:
            raise InvalidRequestError(
                f"[request id: {self._request.id or '<id_unknown>'}] unexpected deadlock, at least one output is not set while "
                "no more ensemble steps can be made"
            )
        batched = self._config.max_batch_size > 0
        outputs: list[Output] = []
        for position in self._request.outputs:
            spec = self._config.outputs[position]
            tensor = self._tensors[spec.name]
            if tensor is not None:
                shape = fitted(tensor, spec.dims, batched=batched)
                outputs.append(Output(position, tensor.datatype, shape, (tensor.data,), len(tensor.data)))
        return Answer(tuple(outputs), fresh=True)


def version_text(step: EnsembleStep) -> str:
    """Return the version as a request writes it; "" is the latest."""
    return "" if step.version < 0 else str(step.version)


def find_needed_steps(config: ModelConfig, wanted: Set[str]) -> list[EnsembleStep]:
    """Return the steps that these outputs depend on, in the order of the configuration."""
    makers = {name: step for step in config.ensemble for name in step.output_map.values()}
    needed: list[EnsembleStep] = []
    names = list(wanted)
    while names:
        step = makers.get(names.pop())
        if step is not None and step not in needed:
            needed.append(step)
            names += step.input_map.values()
    return [step for step in config.ensemble if step in needed]


def _inputs(config: ModelConfig, request: CheckedRequest) -> dict[str, StepTensor | None]:
    rows = request.rows if config.max_batch_size else 0
    return {
        spec.name: None if data is None else StepTensor(spec.datatype, shape, data, rows)
        for spec, data, shape in zip(config.inputs, request.tensors, request.shapes, strict=True)
    }


def framing(step: EnsembleStep, config: ModelConfig) -> Frame:
    """Return a frame function: an answer -> its tensors by their names in the ensemble, copied if the answer does not own its
    memory."""

    def frame(request: CheckedRequest, answer: Answer) -> Tensors:
        rows = request.rows if config.max_batch_size else 0
        tensors: dict[str, StepTensor | None] = dict.fromkeys(step.output_map.values())
        for output in answer.asked(request.outputs):
            name = step.output_map[config.outputs[output.position].name]
            tensors[name] = StepTensor(output.datatype, output.shape, _kept(output, fresh=answer.fresh), rows)
        return tensors

    return frame


def _kept(output: Output, *, fresh: bool) -> memoryview:
    """Return an output's bytes in memory that stays valid as long as it is referenced."""
    if len(output.chunks) == 1 and (fresh or isinstance(output.chunks[0], bytes)):
        return memoryview(output.chunks[0])
    return memoryview(b"".join(output.chunks))


def fitted(tensor: StepTensor, dims: Dims, *, batched: bool) -> Dims:
    """Return the tensor's shape for a model with these dims, if only one of the two has a batch dimension.

    A batch dimension of 1 is added or removed if the shape then matches and did not before; any other shape is unchanged.
    """
    if batched and not tensor.rows and _matches(tensor.shape, dims):
        return (1, *tensor.shape)
    if not batched and tensor.rows == 1 and not _matches(tensor.shape, dims):
        return tensor.shape[1:]
    return tensor.shape


def _matches(shape: Dims, dims: Dims) -> bool:
    return len(shape) == len(dims) and all(-1 in (size, dim) or size == dim for size, dim in zip(shape, dims, strict=True))
