# SPDX-License-Identifier: Apache-2.0
"""Ensembles with decoupled steps: each response of such a step passes separately through the steps that follow.

::

    X -> normalise -> repeat (decoupled) -+-> response 1 -> scale -> Y, sent
                                          +-> response 2 -> scale -> Y, sent
    \\____ phase 0 _____________________/      \\__ phase 1 ________/

As in Triton, a step or an answer cannot combine tensors of different decoupled steps, nor tensors of a decoupled step with
others. So the steps form a sequence of phases, and every phase except the last ends with its decoupled step. Responses are
processed one after another, which satisfies any max_inflight_requests; waiting responses hold a bounded number of bytes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from queue import SimpleQueue
from typing import Any, NamedTuple

from hypersonic.server.core.config.schema import EnsembleStep, ModelConfig
from hypersonic.server.core.ensemble.run import EnsembleRun, Lookup, StepTensor, Tensors, find_needed_steps, framing
from hypersonic.server.core.inference.answer import Answer
from hypersonic.server.core.inference.model import Call, Model
from hypersonic.server.core.inference.request import CheckedRequest
from hypersonic.server.errors import BudgetError, CancelledError, ModelConfigError, ServerError

#: the limit of one request's responses that wait for the following steps
MOST_WAITING_BYTES = 256 << 20


class Phase(NamedTuple):
    """Steps in the order of the configuration.

    Attributes:
        decoupled: the step whose responses each begin the next phase, None for the last.
    """

    steps: tuple[EnsembleStep, ...]
    decoupled: EnsembleStep | None = None


def split_phases(config: ModelConfig, member: Callable[[EnsembleStep], ModelConfig]) -> tuple[Phase, ...]:
    """Return the phases; one for an ensemble without decoupled steps.

    Args:
        member: step -> the configuration of its model.

    Raises:
        ModelConfigError: With Triton's text, if a step combines tensors of different decoupled steps.
    """
    origins: dict[str, EnsembleStep | None] = dict.fromkeys(tensor.name for tensor in config.inputs)
    waiting = list(config.ensemble)
    inner: list[tuple[EnsembleStep, EnsembleStep | None]] = []
    while waiting:
        step = next(step for step in waiting if origins.keys() >= set(step.input_map.values()))
        waiting.remove(step)
        origin = _origin(config, origins, step.input_map.values())
        inner.append((step, origin))
        origins.update(dict.fromkeys(step.output_map.values(), step if member(step).decoupled else origin))
    end = _origin(config, origins, [output.name for output in config.outputs])
    return _row(inner, end)


def _origin(config: ModelConfig, origins: Mapping[str, EnsembleStep | None], names: Any) -> EnsembleStep | None:
    first, *others = (origins[name] for name in names)
    if any(other is not first for other in others):
        raise ModelConfigError(
            f"in ensemble {config.name}, step of model '{config.name}' receives inputs originated from different decoupled "
            "models"
        )
    return first


def _row(inner: Sequence[tuple[EnsembleStep, EnsembleStep | None]], end: EnsembleStep | None) -> tuple[Phase, ...]:
    """Collect the phases backwards, from the last one, whose tensors come from `end`, to the first."""
    origins = {id(step): origin for step, origin in inner}
    phases: list[Phase] = []
    last, origin = None, end
    while True:
        steps = tuple(step for step, its in inner if its is origin and step is not last)
        phases.insert(0, Phase(steps, last))
        if origin is None:
            return tuple(phases)
        last, origin = origin, origins[id(origin)]


class _Responses:
    """A sink that keeps a decoupled step's responses until they are needed."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[Tensors | ServerError | None] = SimpleQueue()
        self._in_bytes = self._out_bytes = 0
        self.ended = False

    def respond(self, framed: Any) -> None:
        self._in_bytes += _size_bytes(framed)
        if self._in_bytes - self._out_bytes <= MOST_WAITING_BYTES:
            self._queue.put(framed)
        else:
            self._queue.put(
                BudgetError(
                    f"responses of a decoupled step that wait for the next one hold more than {MOST_WAITING_BYTES} bytes: "
                    "its model is faster than the steps after it"
                )
            )

    def respond_error(self, error: ServerError) -> None:
        """Store the error: a step's first error ends the ensemble's request."""
        self._queue.put(error)

    def end(self, error: ServerError | None) -> None:
        if error is not None:
            self._queue.put(error)
        self._queue.put(None)

    def next(self) -> Tensors | None:
        """Return the next response, None at the end. Raises the step's error."""
        item = self._queue.get()
        if isinstance(item, ServerError):
            raise item
        if item is None:
            self.ended = True
        else:
            self._out_bytes += _size_bytes(item)
        return item

    def drain(self) -> None:
        """Wait until the step is over, since it reads the request's bytes."""
        while not self.ended:
            self.ended = self._queue.get() is None


def _size_bytes(tensors: Tensors) -> int:
    return sum(len(tensor.data) for tensor in tensors.values() if tensor is not None)


class DecoupledRun(EnsembleRun):
    """One request to an ensemble with decoupled steps."""

    def __init__(
        self, config: ModelConfig, lookup: Lookup, request: CheckedRequest, call: Call, phases: Sequence[Phase]
    ) -> None:
        super().__init__(config, lookup, request, call)
        self._phases = phases
        self._outputs = self._wanted
        self._needed = find_needed_steps(config, self._wanted)

    def answers(self) -> Generator[Answer]:
        """Yield the answers; closing the generator withdraws the steps in progress. Raises as EnsembleRun.answer does."""
        with self._naming():
            yield from self._through(0, self._tensors)

    def _through(self, number: int, tensors: Mapping[str, StepTensor | None]) -> Iterator[Answer]:
        phase = self._phases[number]
        self._tensors = dict(tensors)
        self._waiting = [step for step in phase.steps if step in self._needed]
        self._wanted = frozenset(phase.decoupled.input_map.values()) if phase.decoupled else self._outputs
        self._drive()
        if phase.decoupled is None:
            yield self._answer()
            return
        for response in self._responses(phase.decoupled):
            yield from self._through(number + 1, response)

    def _responses(self, step: EnsembleStep) -> Iterator[Tensors]:
        responses = _Responses()

        def stream(step: EnsembleStep, model: Model, request: CheckedRequest) -> Tensors:
            now_ns = time.monotonic_ns()
            model.stream(request, framing(step, model.config), self._call(model, now_ns), now_ns, responses)
            return {}

        self._send(step, stream)
        try:
            while (response := responses.next()) is not None:
                if not self._ending.is_active():
                    raise CancelledError
                yield response
        finally:
            if not responses.ended:
                self._ending.end()
                responses.drain()
