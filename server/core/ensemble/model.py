# SPDX-License-Identifier: Apache-2.0
"""EnsembleModel: a model that consists of other models, its steps; tensors are passed from step to step in memory.

::

    X --> embedding --> graph building --> filter --> Y          request's thread: runs step after step, each as if it were
      \\-> features ------------------------^                     the step's own request; steps that are ready together are
                                                                 queued with their models, and their answers waited for

A step starts as soon as its inputs are available, regardless of other steps in progress. Its model is looked up at that time,
so a version that replaces another serves the next request. As in Triton's ensemble scheduler: the texts, the omission of steps
whose outputs are not requested, the conversions between tensors with and without a batch dimension, and the statistics.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

from tritonclient.grpc import model_config_pb2

from hypersonic.server.core.config.ensemble import check_members, missing_members
from hypersonic.server.core.config.schema import EnsembleStep, ModelConfig
from hypersonic.server.core.ensemble.phases import DecoupledRun, Phase, split_phases
from hypersonic.server.core.ensemble.run import EnsembleRun, Lookup, version_text
from hypersonic.server.core.inference.card import CardStatus
from hypersonic.server.core.inference.check import check_unary
from hypersonic.server.core.inference.model import Call, Model, Sink
from hypersonic.server.core.inference.pending import FINAL_RESPONSE
from hypersonic.server.core.inference.request import CheckedRequest, Frame
from hypersonic.server.core.inference.trace import find_trace
from hypersonic.server.errors import (
    BackendError,
    CancelledError,
    FailureReason,
    ModelLoadError,
    ReplacedError,
    ReplacingError,
    ServerError,
)
from hypersonic.server.limits.peers import Peers
from hypersonic.server.limits.threads import FairPool
from hypersonic.server.statistics.instance import InstanceFigures
from hypersonic.server.statistics.latency_options import MetricsConfig, make_latencies
from hypersonic.server.statistics.model import ModelStatistics
from hypersonic.server.statistics.times import RunTimes

_LOG = logging.getLogger(__name__)
#: the most streamed requests that one ensemble processes at the same time; one address alone may have half of them
STREAM_THREADS = 32


class EnsembleModel:
    """A version of an ensemble, as a Model. Any thread may call infer() and stream()."""

    #: a thread drives each request through its steps
    waits = True
    #: the models of the steps have instances, fallbacks and turns of their own
    figures: Mapping[str, InstanceFigures] = MappingProxyType({})
    on_standby = False
    residency = None

    def __init__(
        self,
        config: ModelConfig,
        version: int,
        lookup: Lookup,
        *,
        load_duration_s: float = 0.0,
        metrics: MetricsConfig = MetricsConfig(),  # noqa: B008 - frozen
        peers: Peers | None = None,
    ) -> None:
        """Check the steps. Raises ModelLoadError if the model of a step is missing or does not match."""
        self._phases = _check(config, lookup)
        self.config = _with_policy(config, decoupled=len(self._phases) > 1)
        self.version = version
        self.load_duration_s = load_duration_s
        self.statistics = ModelStatistics(make_latencies(metrics, config.message))
        self._lookup = lookup
        self._address_of = (peers or Peers()).address_of
        self._changed = threading.Condition()
        self._in_flight = self._waiting = 0
        self._closed = False
        #: shared among addresses, because a decoupled step may never end; the connections of an address take turns
        self._pool = FairPool(STREAM_THREADS, f"ensemble {config.name}")
        self._sequences: dict[int | str, list[Callable[[], None]]] = {}

    @property
    def name(self) -> str:
        """As Model.name."""
        return self.config.name

    @property
    def in_service(self) -> bool:
        """True if the models of all steps are ready, or are being replaced."""
        return not self.reason

    @property
    def reason(self) -> str:
        """The reason of the first step whose model is not ready. A model that is being replaced counts as ready, because
        requests wait for it."""
        for step in self.config.ensemble:
            try:
                self._lookup(step.model_name, version_text(step), wait_s=0.0)
            except ReplacingError:
                continue
            except ServerError as error:
                return f"ensemble '{self.name}' depends on '{step.model_name}': {error}"
        return ""

    @property
    def waiting(self) -> int:
        """As Model.waiting."""
        return self._waiting

    @property
    def working(self) -> int:
        """As Model.working."""
        return self._in_flight

    def comes_round(self) -> bool:
        """Return True: the models of the steps have the schedulers."""
        return True

    def busy_clocks(self) -> Mapping[str, int]:
        """Return an empty mapping: an ensemble has no instances."""
        return {}

    def cards(self) -> Mapping[str, CardStatus]:
        """Return an empty mapping: an ensemble uses cards only through its steps' models."""
        return {}

    def infer(self, request: CheckedRequest, frame: Frame, call: Call, arrived_ns: int) -> Any:
        """As Model.infer; the caller's thread drives the steps. Raises UnsupportedError for a decoupled ensemble."""
        check_unary(self.config)
        self._enter()
        try:
            return self._serve(request, call, arrived_ns, time.monotonic_ns(), lambda run: frame(request, run.answer()))
        finally:
            self._leave()

    def stream(
        self, request: CheckedRequest, frame: Frame, call: Call, arrived_ns: int, sink: Sink, *, here: bool = False
    ) -> None:
        """Queue the request for a thread of the model's own pool, whatever `here` is; requests of one sequence run in order."""
        del here
        enqueued_ns = time.monotonic_ns()

        def deliver(run: EnsembleRun) -> None:
            if not isinstance(run, DecoupledRun):
                sink.respond(frame(request, run.answer()))
                return
            with closing(run.answers()) as answers:
                for number, answer in enumerate(answers):
                    if not number:
                        self.statistics.add_first_response(time.monotonic_ns() - arrived_ns)
                    sink.respond(frame(request, answer._replace(parameters={**answer.parameters, FINAL_RESPONSE: False})))

        def serve() -> None:
            with self._changed:
                self._waiting -= 1
            try:
                self._serve(request, call, arrived_ns, enqueued_ns, deliver)
                sink.end(None)
            except ServerError as error:
                sink.end(error)
            finally:
                self._leave()

        self._enter()
        with self._changed:
            self._waiting += 1
        self._in_turn(request, call.client, serve)

    def _in_turn(self, request: CheckedRequest, client: str, serve: Callable[[], None]) -> None:
        if request.sequence is None or not request.sequence.id:
            self._pool.submit(self._address_of(client), serve, client)
            return
        with self._changed:
            line = self._sequences.get(request.sequence.id)
            if line is not None:
                line.append(serve)
                return
            self._sequences[request.sequence.id] = [serve]
        self._pool.submit(self._address_of(client), partial(self._serve_line, request.sequence.id), client)

    def _serve_line(self, sequence: int | str) -> None:
        """Serve the waiting requests of a sequence in order of arrival."""
        while True:
            with self._changed:
                line = self._sequences[sequence]
                if not line:
                    del self._sequences[sequence]
                    return
                serve = line.pop(0)
            serve()

    def _run(self, request: CheckedRequest, call: Call) -> EnsembleRun:
        if self.config.decoupled:
            return DecoupledRun(self.config, self._lookup, request, call, self._phases)
        return EnsembleRun(self.config, self._lookup, request, call)

    def _serve(
        self, request: CheckedRequest, call: Call, arrived_ns: int, enqueued_ns: int, deliver: Callable[[EnsembleRun], Any]
    ) -> Any:
        started_ns = time.monotonic_ns()
        run = self._run(request, call)
        framed: Any = None
        error: ServerError | None = None
        try:
            framed = deliver(run)
        except ServerError as caught:
            error = caught
        except Exception as caught:  # noqa: BLE001 - the last line of defence: the client must not wait for ever
            _LOG.exception("ensemble '%s' failed", self.name)
            error = BackendError(f"ensemble '{self.name}' failed: {type(caught).__name__}")
        times = _sum(run.times, started_ns)
        self._count(request.rows, arrived_ns, enqueued_ns, times, error)
        trace = find_trace(call)
        if trace is not None:
            trace.end(self.version, request.id, arrived_ns, enqueued_ns=enqueued_ns, times=times, error=error)
        if error is not None:
            raise error.with_traceback(None)
        return framed

    def _count(self, rows: int, arrived_ns: int, enqueued_ns: int, times: RunTimes, error: ServerError | None) -> None:
        """Count as Triton does: one execution, with the sums of the steps' compute durations; a failure counts as OTHER or
        CANCELED."""
        now_ns = time.monotonic_ns()
        if error is None:
            self.statistics.add_run(rows, times)
            self.statistics.add_success(arrived_ns, enqueued_ns, times, now_ns)
        else:
            cancelled = isinstance(error, CancelledError)
            self.statistics.add_failure(FailureReason.CANCELED if cancelled else FailureReason.OTHER, now_ns - arrived_ns)

    def _enter(self) -> None:
        with self._changed:
            if self._closed:
                raise ReplacedError(self.name, self.version)
            self._in_flight += 1

    def _leave(self) -> None:
        with self._changed:
            self._in_flight -= 1
            self._changed.notify_all()

    def close(self, timeout_s: float) -> bool:
        """As Model.close."""
        with self._changed:
            self._closed = True
            ended = self._changed.wait_for(lambda: not self._in_flight, timeout_s)
        self._pool.executor.shutdown(wait=False)
        return ended


def _check(config: ModelConfig, lookup: Lookup) -> tuple[Phase, ...]:
    """Check the steps and split them into phases. Raises ModelLoadError with Triton's texts."""

    def member(step: EnsembleStep) -> ModelConfig:
        return _member(config.name, step, lookup).config

    check_members(config, member)
    return split_phases(config, member)


def _with_policy(config: ModelConfig, *, decoupled: bool) -> ModelConfig:
    """Return the configuration with the ensemble decoupled if a step is, whatever its own policy says."""
    if config.decoupled == decoupled:
        return config
    message = model_config_pb2.ModelConfig()
    message.CopyFrom(config.message)
    message.model_transaction_policy.decoupled = decoupled
    return replace(config, decoupled=decoupled, message=message)


def _member(ensemble: str, step: EnsembleStep, lookup: Lookup) -> Model:
    try:
        return lookup(step.model_name, version_text(step))
    except ServerError as error:
        if step.version >= 0:
            raise ModelLoadError(
                f"ensemble '{ensemble}' depends on '{step.model_name}' whose required version {step.version} is not loaded."
            ) from error
        raise missing_members(ensemble, (step.model_name,)) from error


def _sum(runs: Sequence[RunTimes], start_ns: int) -> RunTimes:
    """Add up the durations of the steps as if they ran one after another, from `start_ns`."""
    launched_ns = start_ns + sum(run.launched_ns - run.taken_ns for run in runs)
    done_ns = launched_ns + sum(run.done_ns - run.launched_ns for run in runs)
    return RunTimes(start_ns, launched_ns, done_ns, done_ns + sum(run.answered_ns - run.done_ns for run in runs))
