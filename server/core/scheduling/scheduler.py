# SPDX-License-Identifier: Apache-2.0
"""Scheduler: a thread that finds a batch due and a slot free takes both, runs the batch and completes its requests.

::

    thread of request A:   start A | ...wait... | answer A
    thread of request B:             start B | ...wait............... | answer B
    a runner (C waited):                          start C | ...wait..................... | answer C
    compute unit:              [------ A ------][------ B ------][------ C ------]

Usually that is the request's own thread: a request that makes a batch due and finds a slot free runs without a change of
threads. Runners, one thread per slot, do everything else: batches that wait for more requests, for a slot, or for a second
attempt; requests larger than a slot; requests without a waiting thread. So every free slot has a thread. Both kinds of
thread take batches in the queue's order: a request's own thread takes only a batch with no waiting request before it.

The requests of a lost instance return to the queue. The instance is brought back if its backend can do that: either soon, while
requests wait for it, or after somebody has intervened; until then other instances serve the requests, or they are refused.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence

from hypersonic.server.core.inference.backend import Instance, Waiting
from hypersonic.server.core.inference.pending import PendingRequest
from hypersonic.server.core.scheduling.batch import Batcher
from hypersonic.server.core.scheduling.completion import frame_answer
from hypersonic.server.core.scheduling.instance import InstanceState, RunningBatch
from hypersonic.server.errors import (
    BackendError,
    InstanceAwayError,
    InstanceLostError,
    InstanceTimeoutError,
    ServerError,
    UnavailableError,
)
from hypersonic.server.limits.bounds import seconds_of
from hypersonic.server.limits.supervisor import Supervisor
from hypersonic.server.statistics.model import ModelStatistics
from hypersonic.server.statistics.times import RunTimes

_LOG = logging.getLogger(__name__)
#: the longest wait for the lock of a scheduler that is asked whether it comes round; nobody holds it for long
_LOCK_S = 0.1
#: seconds between the attempts to bring an instance back; after the last one it is lost for good
_REVIVE_AFTER_S = (0.05, 0.2, 1.0, 5.0, 10.0, 10.0)


class Scheduler:
    """The instances of one model version.

    Args:
        on_lost: called on any thread when the last instance went out of service, and when one came back after that.
        standby: instances that run only when none of the others is left.
        decoupled: answers are sent by the backend, not read from slots.
    """

    def __init__(
        self,
        instances: Sequence[Instance],
        batcher: Batcher,
        statistics: ModelStatistics,
        *,
        label: str,
        standby: Sequence[Instance] = (),
        decoupled: bool = False,
        on_lost: Callable[[], None] = lambda: None,
    ) -> None:
        self.batcher = batcher
        self._primary = tuple(InstanceState(instance, index) for index, instance in enumerate(instances))
        self._standby = tuple(InstanceState(instance, len(instances) + i, standby=True) for i, instance in enumerate(standby))
        self._instances = self._primary + self._standby
        self.figures = {state.name: state.figures for state in self._instances}
        self._statistics = statistics
        self._label = label
        self._decoupled = decoupled
        self._on_lost = on_lost
        self._lock, self._changed = batcher.lock, batcher.changed
        #: under the same lock: a thread has released a lost instance's slot, or the scheduler is being closed
        self._slot_released = threading.Condition(batcher.lock)
        #: under the same lock: a request with a timeout has been queued
        self._earlier = threading.Condition(batcher.lock)
        self._timekeeper: threading.Thread | None = None
        #: why the model is held, "" = it is not; see hold()
        self._held, self._held_for_good = "", False
        self._lost: dict[str, str] = {}
        #: called with the number of requests that find no primary instance in service; None = the model does not take turns
        self.ask: Callable[[int], None] | None = None
        self._asked_ns = 0
        #: how often runners have looked for a batch, and how often at the last comes_round()
        self._rounds = self._rounds_before = 0
        self._threads = Supervisor(label, self._threads_changed, "load the model again, or restart the server")
        self._runners = [
            self._threads.start(f"{label}:{state.name}:{index}", self._run_batches)
            for state in self._instances
            for index in range(len(state.instance.slots))
        ]
        for state in self._instances:
            if state.leaving:
                self._await_turn(state)

    @property
    def in_service(self) -> bool:
        """True if any instance takes requests or is being brought back, and the model is not held."""
        return not self._held and self._has_instances

    @property
    def _has_instances(self) -> bool:
        return any(state.figures.in_service or state.reviving for state in self._instances)

    @property
    def on_standby(self) -> bool:
        """True if only standby instances are left."""
        return bool(self._standby) and not any(state.figures.in_service or state.reviving for state in self._primary)

    @property
    def reason(self) -> str:
        """The reason why nothing is in service; empty while an instance is."""
        if self._held or self._has_instances:
            return self._held
        return f"no compute unit is in service any more: {'; '.join(self._lost.values())}"

    @property
    def waiting(self) -> int:
        """The number of requests in the queue, and in slots whose run waits for another run."""
        with self._lock:
            in_slots = {pending for state in self._instances for pending in state.waiting}
            return len(self.batcher) + sum(not pending.queued.waiting and not pending.null for pending in in_slots)

    def queued(self) -> Waiting:
        """Return the waiting requests. While standby instances serve them, at least one row counts as waiting, since the first
        request that found no primary instance."""
        waiting = self.batcher.waiting()
        return Waiting(self._asked_ns, max(1, waiting.rows)) if self._asked_ns else waiting

    @property
    def losses(self) -> str:
        """The instances that went out of service, and why."""
        return "; ".join(self._lost.values())

    def comes_round(self) -> bool:
        """Return False if requests wait, a slot is free, and no runner has looked for a batch since the last question.

        Each free slot has a runner that runs nothing; one is woken here, so that it looks before the next question.
        """
        if not self._lock.acquire(timeout=_LOCK_S):
            return False
        try:
            before, self._rounds_before = self._rounds_before, self._rounds
            self._wake_runner()
            return self._rounds > before or not len(self.batcher) or not self._available()
        finally:
            self._lock.release()

    def submit(self, pending: PendingRequest, *, here: bool = True) -> None:
        """Queue a request.

        Args:
            here: run it on this thread if it can run at once; it may then be completed on return.

        Raises:
            QueueFullError: When no instance is left to serve it.
            UnavailableError: When no instance is left to serve it.
        """
        with self._lock:
            self.batcher.enqueue(pending)
            if self.ask is not None and not any(state.figures.in_service for state in self._primary):
                self._asked_ns = self._asked_ns or (pending.queued.enqueued_ns if self._standby else 0)
                self.ask(1)
            batch = self._dispatch(pending)[0] if here else None
            if batch is None:
                self._wake_runner()
                if pending.queued.expires_ns:
                    self._keep_time()
        if batch is not None:
            self._run(batch)

    def leave(self) -> None:
        """Take the primary instances out of service, because another model needs their card. Their runs end and are answered;
        requests wait for the instances to come back, or go to the standby instances."""
        with self._lock:
            leaving = [state for state in self._primary if state.figures.in_service]
            for state in leaving:
                state.leave()
                self._await_turn(state)
            if leaving and len(self.batcher) and self.ask is not None and not self._standby:
                self.ask(len(self.batcher))
            self._changed.notify_all()

    def hold(self, reason: str, *, for_good: bool = False) -> None:
        """As TurnQueue.hold; also when one of the model's own threads has ended."""
        with self._lock:
            if self._held_for_good:
                return
            self._held, self._held_for_good = reason, for_good
            if reason:
                (self.batcher.abandon if for_good else self.batcher.suspend)(UnavailableError(f"{self._label}: {reason}"))
            elif self._has_instances:
                self.batcher.resume()
            self._changed.notify_all()
        self._on_lost()

    def _threads_changed(self) -> None:
        self.hold(self._threads.reason, for_good=self._threads.lost)

    def _await_turn(self, state: InstanceState) -> None:
        """Bring the instance back once its runs have ended and it has its turn."""
        state.reviving = not self._standby or state.figures.standby
        name = f"{self._label}:{state.name}:turn"
        threading.Thread(target=self._revive, args=(state,), name=name, daemon=True).start()

    def _keep_time(self) -> None:
        """Make sure that a thread notices the timeout of a waiting request, even while every slot is busy and no runner checks.

        The lock is held.
        """
        if self._timekeeper is None:
            self._timekeeper = self._threads.start(f"{self._label}:timeouts", self._expire)
        self._earlier.notify()

    def _expire(self) -> None:
        with self._lock:
            while left_ns := self.batcher.expire():
                self._earlier.wait(seconds_of(left_ns))
            self._timekeeper = None

    def close(self, error: ServerError, timeout_s: float) -> bool:
        """Refuse new requests with `error` and serve the waiting ones; return whether all runs ended in time."""
        self._threads.close()
        with self._lock:
            self.batcher.close(error)
            self._slot_released.notify_all()
        deadline = time.monotonic() + timeout_s
        for runner in self._runners:
            runner.join(max(0.0, deadline - time.monotonic()))
        return not any(runner.is_alive() for runner in self._runners)

    def _run_batches(self) -> None:
        """Run batches until there will never be another one. The main function of a runner."""
        while (batch := self._next()) is not None:
            self._run(batch)

    def _next(self) -> RunningBatch | None:
        """Wait until a batch is due and a slot is free; return None when there will never be another batch."""
        with self._lock:
            while True:
                self._rounds += 1
                batch, wait_ns = self._dispatch()
                if batch is not None:
                    self._wake_runner()
                    return batch
                if self._ended:
                    return None
                self._changed.wait(seconds_of(wait_ns) if wait_ns else None)

    def _dispatch(self, last: PendingRequest | None = None) -> tuple[RunningBatch | None, int]:
        """Return (a batch, 0), or (None, ns until it is worth asking again).

        The lock is held.

        Args:
            last: as in DynamicBatcher.take.
        """
        wait_ns = 0
        for state in self._available():
            due = self.batcher.take(last, state.index)
            if due.shares:
                return state.dispatch(due.shares), 0
            wait_ns = min(wait_ns, due.wait_ns) if wait_ns and due.wait_ns else due.wait_ns
        return None, wait_ns

    def _available(self) -> Sequence[InstanceState]:
        """Return the instances with a free slot: the one with the most, or all if batches are pinned to instances."""
        states = self._standby if self._standby and self.on_standby else self._primary
        if self.batcher.pinned:
            return [state for state in states if state.free]
        freest = states[0] if len(states) == 1 else max(states, key=lambda state: len(state.free))
        return (freest,) if freest.free else ()

    def _wake_runner(self) -> None:
        """Wake a runner to check for a batch, after a request was queued or a slot was freed. The lock is held."""
        if len(self.batcher) and self._available():
            self._changed.notify()

    @property
    def _ended(self) -> bool:
        """True if the batcher is closed and no request is left that could still need a slot. The lock is held."""
        return self.batcher.closed and not len(self.batcher) and not any(state.taken for state in self._instances)

    def _run(self, batch: RunningBatch) -> None:
        """Run a batch and complete its requests. Raises nothing."""
        try:
            answered = self._execute(batch)
        except InstanceLostError as error:
            answered = None
            self._retire(batch.state, error)
        except Exception as error:  # noqa: BLE001 - the last line of defence: the requests must not wait for ever
            answered = None
            _LOG.exception("%s: instance %s stopped", self._label, batch.state.name)
            self._retire(batch.state, BackendError(f"instance {batch.state.name} failed: {type(error).__name__}"))
        finally:
            self._release_slot(batch)
        if answered is not None:
            self._release_requests(batch, *answered)

    def _execute(self, batch: RunningBatch) -> tuple[RunTimes, list[PendingRequest]] | None:
        """Run the batch from its start to the framed answers; return None if there is nothing to answer."""
        try:
            batch.start()
            execution = batch.slot.finish()
        except InstanceLostError:
            raise
        except BackendError as error:
            self._fail(batch, error)
            return None
        with self._lock:
            if not batch.state.complete(batch, execution.done_ns):
                return None
            times = batch.state.add_run(batch, execution)
        return times, self._answer(batch, times)

    def _fail(self, batch: RunningBatch, error: BackendError) -> None:
        _LOG.error("%s: a run on %s failed: %s", self._label, batch.state.name, error)
        with self._lock:
            if batch.state.complete(batch, time.monotonic_ns()):
                self.batcher.fail(batch.shares, error)
        if not batch.state.instance.in_service:  # the instance went out of service with this failure
            self._retire(batch.state, error)

    def _answer(self, batch: RunningBatch, times: RunTimes) -> list[PendingRequest]:
        """Frame the answers from the slot; return the requests that are complete now."""
        ready: list[PendingRequest] = []
        for index, share in enumerate(batch.shares):
            if self._decoupled:
                share.pending.end_run(times)
                self.batcher.end_run(share)
            elif frame_answer(batch.slot, index, share, times, self.batcher):
                ready.append(share.pending)
        return ready

    def _release_requests(self, batch: RunningBatch, times: RunTimes, ready: Sequence[PendingRequest]) -> None:
        """Count the run and release the threads of the completed requests."""
        # counted before any client has its answer, so that statistics read after an answer include it
        rows = sum([share.rows for share in batch.shares if not share.pending.null])
        last = ready[-1].times if ready else None
        # a run of one request has the same times as the request
        answered_ns = last.answered_ns if last is not None else time.monotonic_ns()
        self._statistics.add_run(rows, times.answered_at(answered_ns))
        for pending in ready:
            pending.release()

    def _release_slot(self, batch: RunningBatch) -> None:
        with self._lock:
            batch.state.release(batch)
            self._wake_runner()
            if self._ended:
                self._changed.notify_all()
            if not batch.state.figures.in_service:
                self._slot_released.notify_all()

    def _retire(self, state: InstanceState, error: BackendError) -> None:
        """Take the instance out of service; its requests go to another one, or wait until this one is back.

        Every thread with a run on it calls this; only the first call has an effect. Other instances that were lost with it (the
        card is gone) retire too, before a request is tried on them.
        """
        with self._lock:
            state.figures.timeouts += isinstance(error, InstanceTimeoutError)
            working = [other for other in self._instances if other.figures.in_service]
            lost = [other for other in working if other is state or not other.instance.in_service]
            shares = [share for other in lost for share in other.retire()]
            shares += state.retire() if state.leaving else []  # lost during its last runs, for whose end its thread waits
            for other in lost:
                other.reviving = True
                self._lost[other.name] = str(error)
            text = f"{self._label}: {error}"
            by_run = isinstance(error, InstanceLostError) and error.by_run
            self.batcher.put_back(shares, UnavailableError(text), BackendError(text) if by_run else None)
            if any(share.pending.queued.expires_ns for share in shares):
                self._keep_time()
        if state.leaving:
            _LOG.error("%s: %s did not complete a run before it left its card: %s", self._label, state.name, error)
        text = f"{error}; {len(shares)} requests wait for another"
        for other in lost:
            _LOG.error("%s: %s is out of service: %s", self._label, other.name, text)
            name = f"{self._label}:{other.name}:revive"
            threading.Thread(target=self._revive, args=(other,), name=name, daemon=True).start()

    def _revive(self, state: InstanceState) -> None:
        """Bring an instance back, or give it up if it is lost for good."""
        with self._lock:
            self._slot_released.wait_for(lambda: not state.taken)
        pauses_s = iter(_REVIVE_AFTER_S)
        while True:
            try:
                if state.instance.revive():
                    self._restore(state)
                    return
                break
            except InstanceAwayError as error:
                if not self._wait_away(state, error):
                    return
            except BackendError as error:
                _LOG.warning("%s: %s could not be brought back: %s", self._label, state.name, error)
                pause_s = next(pauses_s, None)
                if pause_s is None:
                    break
                time.sleep(pause_s)
            except Exception:  # noqa: BLE001 - requests wait for this thread
                _LOG.exception("%s: %s cannot be brought back", self._label, state.name)
                break
        self._give_up(state, self.batcher.abandon)

    def _wait_away(self, state: InstanceState, error: InstanceAwayError) -> bool:
        """Stop waiting for the instance and sleep until the next attempt; return False if the scheduler is being closed."""
        with self._lock:
            if self._ended:
                return False
            if state.leaving:  # its turn failed
                self._lost[state.name] = str(error)
            state.leaving = False
        if state.reviving:
            _LOG.warning("%s: the server looks for %s every %g s: %s", self._label, state.name, error.retry_s, error)
            self._give_up(state, self.batcher.suspend)
        with self._lock:
            return not self._slot_released.wait_for(lambda: self.batcher.closed, error.retry_s)

    def _restore(self, state: InstanceState) -> None:
        with self._lock:
            back, turn = not self.in_service, state.leaving
            state.restore()
            self._asked_ns = 0
            self._lost.pop(state.name, None)
            if not self._held:
                self.batcher.resume()
            self._changed.notify_all()
        _LOG.log(logging.DEBUG if turn else logging.INFO, "%s: %s is back in service", self._label, state.name)
        if back:
            self._on_lost()

    def _give_up(self, state: InstanceState, refuse: Callable[[ServerError], None]) -> None:
        """Let requests no longer wait for the instance.

        Args:
            refuse: called with an error if it was the last one.
        """
        with self._lock:
            given_up, state.reviving = state.reviving, False
            last = not self.in_service
            if last:
                refuse(UnavailableError(f"{self._label}: {self.reason}"))
            self._changed.notify_all()
        if self.on_standby and given_up and not state.figures.standby:
            _LOG.warning("%s: the standby instances take over: %s", self._label, self.losses)
        if last and given_up:
            _LOG.error("%s: %s", self._label, self.reason)
            self._on_lost()
