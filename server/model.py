# SPDX-License-Identifier: Apache-2.0
"""One loaded version of a model: its configuration, its scheduler, its figures, and its request path."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Protocol

from hypersonic.server.backend import Card, LoadedModel
from hypersonic.server.batcher import BatchRule, DynamicBatcher
from hypersonic.server.config import ModelConfig
from hypersonic.server.errors import BackendError, CancelledError, QueueTimeoutError, ServerError, UnavailableError
from hypersonic.server.pending import Chunks, Frame, PendingRequest
from hypersonic.server.request import CheckedRequest
from hypersonic.server.scheduler import InstanceFigures, Scheduler
from hypersonic.server.statistics import ModelStatistics
from hypersonic.server.wire import OutputTensor, ResponseFrame


class Call(Protocol):
    """What the request path needs to know of the connection a request came by."""

    def is_active(self) -> bool:
        """False once the client cancelled, disconnected, or its deadline passed."""

    def add_callback(self, callback: Callable[[], None]) -> bool:
        """Call back when the call ends, on any thread; False when it has ended already."""


class ModelVersion:
    """Front ends' threads call infer(), and run batches in it: their own request's and those merged with it."""

    def __init__(
        self,
        config: ModelConfig,
        version: int,
        loaded: LoadedModel,
        *,
        load_duration_s: float = 0.0,
        on_lost: Callable[[], None] = lambda: None,
    ) -> None:
        self.config = config
        self.version = version
        self.load_duration_s = load_duration_s
        self.statistics = ModelStatistics()
        self._loaded = loaded
        self._wire = ResponseFrame.of(config.name, str(version), [(o.name, o.datatype) for o in config.outputs])
        self._dims = tuple(output.dims for output in config.outputs)
        capacity_rows = min(slot.capacity_rows for instance in loaded.instances for slot in instance.slots)
        rule = BatchRule.of(capacity_rows, config.dynamic_batching, config.max_batch_size)
        self.scheduler = Scheduler(
            loaded.instances,
            DynamicBatcher(rule),
            self.statistics,
            label=f"model '{config.name}' version {version}",
            on_lost=on_lost,
        )

    @property
    def name(self) -> str:
        return self.config.name

    @property
    def figures(self) -> dict[str, InstanceFigures]:
        """Per compute unit."""
        return self.scheduler.figures

    def busy_cycles(self) -> dict[str, int]:
        """compute unit -> its clocks with a run in flight since load, asked of the card."""
        return {instance.name: instance.busy_cycles() for instance in self._loaded.instances}

    def cards(self) -> dict[str, Card]:
        """compute unit -> its card, for those on one."""
        found = ((instance.name, self._loaded.card(instance)) for instance in self._loaded.instances)
        return {name: card for name, card in found if card is not None}

    def infer(self, request: CheckedRequest, frame: Frame, call: Call, arrived_ns: int) -> bytes:
        """The answer, framed. Blocks until it is there.

        Raises QueueFullError, QueueTimeoutError, CancelledError, BackendError or UnavailableError; each counts as a failure.
        """
        pending = PendingRequest(request, frame, arrived_ns)
        try:
            answer = self._serve(pending, call)
        except ServerError as error:
            self.statistics.add_failure(error.reason, time.monotonic_ns() - arrived_ns)
            raise
        if pending.times is not None:
            self.statistics.add_success(arrived_ns, pending.enqueued_ns, pending.times, time.monotonic_ns())
        return answer

    def _serve(self, pending: PendingRequest, call: Call) -> bytes:
        batcher = self.scheduler.batcher
        call.add_callback(lambda: batcher.withdraw(pending, CancelledError()))
        self.scheduler.submit(pending)
        if not pending.completed:
            if not call.is_active():  # it ended before there was anything to withdraw
                batcher.withdraw(pending, CancelledError())
            self._wait(pending)
        if pending.error is not None:
            raise pending.error.with_traceback(None)
        if pending.answer is None:
            raise BackendError("the request ended without an answer")
        return pending.answer

    def _wait(self, pending: PendingRequest) -> None:
        """Until it is completed; a request that still waits in the queue when its timeout comes is taken out."""
        policy = self.scheduler.batcher.rule.policy
        left_ns = pending.expires_ns - time.monotonic_ns()
        if pending.expires_ns and not policy.delay_on_timeout and not pending.wait(max(1, left_ns)):
            self.scheduler.batcher.withdraw(pending, QueueTimeoutError())
        pending.wait()

    def frame(self, request: CheckedRequest, outputs: Sequence[Chunks]) -> bytes:
        """A serialized ModelInferResponse; copies the outputs once."""
        batch = (request.rows,) if self.config.max_batch_size else ()
        return self._wire.fill(
            request.id,
            [
                OutputTensor(index, batch + self._dims[index], outputs[index], sum(len(chunk) for chunk in outputs[index]))
                for index in request.outputs
            ],
        )

    def close(self, timeout_s: float) -> bool:
        """Serve what waits, then give everything back; False when an instance did not end in time and was left alone."""
        gone = UnavailableError(f"Request for unknown model: '{self.name}' version {self.version} is not at ready state")
        if not self.scheduler.close(gone, timeout_s):
            return False
        for instance in self._loaded.instances:
            instance.close()
        self._loaded.close()
        return True
