# SPDX-License-Identifier: Apache-2.0
"""One loaded version of a model: its configuration, scheduler, statistics and request path."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from hypersonic.server.core.config.schema import ModelConfig
from hypersonic.server.core.inference.backend import LoadedModel, TakesTurns
from hypersonic.server.core.inference.card import CardStatus, Residency
from hypersonic.server.core.inference.check import check_unary
from hypersonic.server.core.inference.model import Call, Sink
from hypersonic.server.core.inference.pending import PendingRequest
from hypersonic.server.core.inference.request import CheckedRequest, Frame
from hypersonic.server.core.inference.responses import Responses
from hypersonic.server.core.inference.trace import find_trace
from hypersonic.server.core.inference.unary import Unary, no_answer
from hypersonic.server.core.scheduling.batch import Batcher
from hypersonic.server.core.scheduling.batcher import DynamicBatcher
from hypersonic.server.core.scheduling.rule import BatchRule
from hypersonic.server.core.scheduling.scheduler import Scheduler
from hypersonic.server.core.scheduling.sequence import SequenceBatcher
from hypersonic.server.errors import CancelledError, ReplacedError, ServerError
from hypersonic.server.statistics.instance import InstanceFigures
from hypersonic.server.statistics.latency_options import MetricsConfig, make_latencies
from hypersonic.server.statistics.model import ModelStatistics


class ScheduledModel:
    """A model version with instances of its own. Front ends' threads call infer() or stream().

    Such a thread may itself run a batch: its own request, and those merged with it.
    """

    #: no thread has to wait: the thread that ran a request sends its answer
    waits = False

    def __init__(
        self,
        config: ModelConfig,
        version: int,
        loaded: LoadedModel,
        *,
        load_duration_s: float = 0.0,
        metrics: MetricsConfig = MetricsConfig(),  # noqa: B008 - frozen
        on_lost: Callable[[], None] = lambda: None,
    ) -> None:
        self.config = config
        self.version = version
        self.load_duration_s = load_duration_s
        self.statistics = ModelStatistics(make_latencies(metrics, config.message))
        self._loaded = loaded
        #: the requests that have not ended
        self._open: set[PendingRequest] = set()
        self._instances = (*loaded.instances, *loaded.standby)
        self.scheduler = Scheduler(
            loaded.instances,
            self._batcher(),
            self.statistics,
            label=f"model '{config.name}' version {version}",
            standby=loaded.standby,
            decoupled=config.decoupled,
            on_lost=on_lost,
        )
        if isinstance(loaded, TakesTurns):
            self.scheduler.ask = loaded.attach(self.scheduler)

    def _batcher(self) -> Batcher:
        config = self.config
        capacity_rows = min(slot.capacity_rows for instance in self._instances for slot in instance.slots)
        if config.sequence is not None:
            return SequenceBatcher(config, capacity_rows, len(self._loaded.instances))
        return DynamicBatcher(BatchRule.of(capacity_rows, config.dynamic_batching, config.max_batch_size))

    @property
    def name(self) -> str:
        """As Model.name."""
        return self.config.name

    @property
    def in_service(self) -> bool:
        """As Model.in_service."""
        return self.scheduler.in_service

    @property
    def reason(self) -> str:
        """As Model.reason."""
        return self.scheduler.reason

    @property
    def waiting(self) -> int:
        """As Model.waiting."""
        return self.scheduler.waiting

    @property
    def working(self) -> int:
        """As Model.working."""
        return len(self._open)

    @property
    def figures(self) -> Mapping[str, InstanceFigures]:
        """As Model.figures."""
        return self.scheduler.figures

    @property
    def on_standby(self) -> bool:
        """As Model.on_standby."""
        return self.scheduler.on_standby

    @property
    def residency(self) -> Residency | None:
        """As Model.residency."""
        return self._loaded.residency if isinstance(self._loaded, TakesTurns) else None

    def comes_round(self) -> bool:
        """As Model.comes_round."""
        return self.scheduler.comes_round()

    def busy_clocks(self) -> dict[str, int]:
        """As Model.busy_clocks."""
        return {instance.name: instance.busy_clocks() for instance in self._instances}

    def cards(self) -> dict[str, CardStatus]:
        """As Model.cards."""
        cards = ((instance.name, self._loaded.card(instance)) for instance in self._instances)
        return {name: card for name, card in cards if card is not None}

    def infer(self, request: CheckedRequest, frame: Frame, call: Call, arrived_ns: int) -> Any:
        """As Model.infer. Raises UnsupportedError (UNIMPLEMENTED) for a decoupled model."""
        check_unary(self.config)
        unary = Unary(lambda answer: answer)
        self.stream(request, frame, call, arrived_ns, unary, here=True)
        unary.wait()
        return unary.take()

    def stream(
        self, request: CheckedRequest, frame: Frame, call: Call, arrived_ns: int, sink: Sink, *, here: bool = False
    ) -> None:
        """As Model.stream."""
        counted, decoupled = threading.Lock(), self.config.decoupled

        def count(pending: PendingRequest) -> None:
            # a decoupled model's last answer and the end of its run arrive in either order, on two threads
            over = pending.completed and pending.times is not None
            if (over or pending.error is not None) and counted.acquire(blocking=False):
                self._count(pending)

        def done(pending: PendingRequest) -> None:
            (count if decoupled else self._count)(pending)
            error = pending.error
            if error is not None:
                error.of_model = True
            elif not decoupled:
                sink.respond(pending.answer)
            sink.end(error)

        responses = Responses(sink, self.statistics.add_response, lambda: count(pending)) if decoupled else None
        pending = PendingRequest(*(request, frame, arrived_ns), client=call.client, on_done=done, responses=responses)
        try:
            self._submit(pending, call, here=here)
        except ReplacedError:
            raise
        except ServerError as error:
            pending.error = error
            self._count(pending)
            raise

    def _submit(self, pending: PendingRequest, call: Call, *, here: bool) -> None:
        batcher = self.scheduler.batcher
        pending.trace = find_trace(call)

        def give_up() -> None:
            if not pending.completed:
                batcher.withdraw(pending, CancelledError())

        call.add_callback(give_up)
        self._open.add(pending)
        try:
            self.scheduler.submit(pending, here=here)
        except ReplacedError:
            self._open.discard(pending)
            raise
        if not pending.completed and not call.is_active():  # the call ended before the request could be withdrawn
            batcher.withdraw(pending, CancelledError())

    def _count(self, pending: PendingRequest) -> None:
        now_ns = time.monotonic_ns()
        self._open.discard(pending)
        error = pending.failure
        if error is None and pending.answer is None and not self.config.decoupled:
            error = pending.error = no_answer()
        if error is not None:
            self.statistics.add_failure(error.reason, now_ns - pending.arrived_ns)
        elif pending.times is not None:
            self.statistics.add_success(pending.arrived_ns, pending.queued.enqueued_ns, pending.times, now_ns)
        if pending.responses is not None and pending.responses.first_ns:
            self.statistics.add_first_response(pending.responses.first_ns - pending.arrived_ns)
        if pending.trace is not None:  # a sampled request, or an ensemble's step, which is timed by its trace
            pending.trace.end(
                *(self.version, pending.request.id, pending.arrived_ns),
                enqueued_ns=pending.queued.enqueued_ns,
                times=pending.times,
                error=error,
            )

    def close(self, timeout_s: float) -> bool:
        """As Model.close."""
        if not self.scheduler.close(ReplacedError(self.name, self.version), timeout_s):
            return False
        for instance in self._instances:
            instance.close()
        self._loaded.close()
        return True
