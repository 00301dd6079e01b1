# SPDX-License-Identifier: Apache-2.0
"""Makes the attempts of a request without its own thread: answers and the timer call it back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future

from hypersonic.client.attempts.context import Context
from hypersonic.client.attempts.plan import GiveUp, Go, Step, UseFallback, may_retry
from hypersonic.client.attempts.request import Request, Result, Sending, answer_of
from hypersonic.client.errors import CallError, ClosedError
from hypersonic.client.messages.response import Answer
from hypersonic.client.pool.member import Member
from hypersonic.client.transport.call import Running


class Background:
    """A request and its future.

    Args:
        ended: called once, when the request is over, before the future has its result.
    """

    def __init__(self, context: Context, request: Request, ended: Callable[[], None]) -> None:
        self._context, self._request, self._ended = context, request, ended
        self._begin_ns = time.perf_counter_ns()
        self._plan = context.plan(request.what, request.time, request.part[1])
        self._lock = threading.Lock()
        self._running: dict[Member, Running | None] = {}
        self._over = False
        self.future: RequestFuture = RequestFuture(self.cancel)

    def start(self) -> None:
        """Make the first attempt."""
        self._follow(UseFallback(self._request.fallback) if self._request.fallback else Go())
        hedge = self._context.settings.hedge
        if hedge is not None:
            self._context.timer.after(hedge.after_s, self._hedge)

    def cancel(self) -> None:
        """End the request; its calls are cancelled."""
        self._end(lambda: None)

    def close(self) -> None:
        """End the request because the client is closed."""
        self._end(lambda: self.future.set_exception(ClosedError("the client was closed before the request ended")))

    def _follow(self, step: Step) -> None:
        if isinstance(step, GiveUp):
            error = step.error
            self._end(lambda: self.future.set_exception(error))
        elif isinstance(step, UseFallback):
            threading.Thread(target=self._fall_back, args=(step,), name="hypersonic-client-fallback", daemon=True).start()
        elif step.pause_s:
            self._context.timer.after(step.pause_s, lambda: self._go(step))
        else:
            self._go(step)

    def _go(self, step: Go, *, hedge: bool = False) -> None:
        member = self._context.pick(self._plan, step, self._request.model)
        if member is None:
            self._follow(self._context.nobody(self._plan, self._request.model, self._request.pin))
        else:
            self._attempt(member, hedge=hedge)

    def _attempt(self, member: Member, *, hedge: bool) -> None:
        request, pool = self._request, self._context.pool
        with self._lock:
            if self._over:
                return
            self._running[member] = None
        try:
            headers = member.headers() + request.headers
            sending = request.sending(member, request.pin.version)  # _done() releases the resources that this takes
        except BaseException as error:  # noqa: BLE001 - the exception of a function for tokens ends the request
            failure = error
            self._end(lambda: self.future.set_exception(failure))
            return
        begin_ns = time.perf_counter_ns()
        pool.begin(member, request.size, retry=bool(self._plan.failed_attempts) and not hedge, hedge=hedge)

        def done(outcome: bytes | CallError) -> None:
            self._done(member, sending, outcome, time.perf_counter_ns() - begin_ns)

        try:
            running = member.transport.start("ModelInfer", sending.message, self._context.attempt_s(self._plan), headers, done)
        except CallError as error:
            done(error)
            return
        if self._hold(member, running):
            running.cancel()

    def _hold(self, member: Member, running: Running) -> bool:
        """Keep a started call, unless it has ended already. Returns whether the request is over."""
        with self._lock:
            if member in self._running:
                self._running[member] = running
            return self._over

    def _done(self, member: Member, sending: Sending, outcome: bytes | CallError, latency_ns: int) -> None:
        """Called with the outcome of an attempt, on a thread of the transport."""
        with self._lock:
            self._running.pop(member, None)
            over, others = self._over, bool(self._running)
        try:
            if over:
                self._context.pool.drop(member, self._request.size)
                return
            ended = outcome if isinstance(outcome, CallError) else self._read(sending, outcome)
            if isinstance(ended, CallError):
                self._context.failed(self._request, member, ended)
                step = self._plan.failed(member, ended, latency_ns * 1e-9)
                if not others or not may_retry(ended):
                    self._follow(step)
            else:
                self._context.succeeded(member, self._request, latency_ns)
                result = self._context.result(self._request, ended, member.name, self._plan, self._begin_ns)
                self._end(lambda: self.future.set_result(result))
        except Exception as error:  # noqa: BLE001 - the future raises it, whatever it is
            failure = error
            self._end(lambda: self.future.set_exception(failure))
        finally:
            sending.release()

    def _read(self, sending: Sending, message: bytes) -> Answer | CallError:
        try:
            return answer_of(sending, message, self._request.pin)
        except CallError as error:
            return error

    def _hedge(self) -> None:
        """Send the request to a second server, unless it is over or between two attempts."""
        with self._lock:
            first = next(iter(self._running), None)
        other = self._context.pool.pick(self._request.model, {first}) if first else None
        if first and other and other is not first:
            self._attempt(other, hedge=True)

    def _fall_back(self, step: UseFallback) -> None:
        try:
            result = self._context.fall_back(self._request, step.fallback, self._plan, self._begin_ns)
        except BaseException as error:  # noqa: BLE001 - the user's function may raise anything, and the future raises it
            failure = error
            self._end(lambda: self.future.set_exception(failure))
        else:
            self._end(lambda: self.future.set_result(result))

    def _end(self, settle: Callable[[], None]) -> None:
        """End the request, once: release its place in the limits, settle its future, and cancel the calls in flight."""
        with self._lock:
            if self._over:
                return
            self._over = True
            running = tuple(self._running.values())
            ended, self._ended = self._ended, _nothing  # a reference cycle: the inputs would stay until gc runs
        ended()
        self.future.forget()
        if self.future.set_running_or_notify_cancel():
            settle()
        for call in running:
            if call is not None:
                call.cancel()


def _nothing() -> None:
    """Do nothing, in place of a callback that must not be called again."""


class RequestFuture(Future[Result]):
    """The future of a request. It can be cancelled until it has its result."""

    def __init__(self, on_cancel: Callable[[], None]) -> None:
        super().__init__()
        self._on_cancel = on_cancel

    def cancel(self) -> bool:
        """Cancel the request and its calls. Returns False if it is over already."""
        cancelled = super().cancel()
        if cancelled:
            self._on_cancel()
        return cancelled

    def forget(self) -> None:
        """Drop the reference to the request, so that its inputs are not kept with the result."""
        self._on_cancel = _nothing
