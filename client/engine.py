# SPDX-License-Identifier: Apache-2.0
"""The part of a client that belongs to one process: servers, connections and requests in flight, for Client and AsyncClient."""

from __future__ import annotations

import asyncio
import math
import os
import threading
import time
import weakref
from collections.abc import Sequence
from concurrent.futures import CancelledError, Future
from contextlib import suppress

from hypersonic.client.attempts import blocking
from hypersonic.client.attempts.background import Background, RequestFuture
from hypersonic.client.attempts.context import Context
from hypersonic.client.attempts.plan import GiveUp, Plan, UseFallback
from hypersonic.client.attempts.request import CallTime, Request, Result
from hypersonic.client.attempts.version import VersionPin
from hypersonic.client.codes import Code
from hypersonic.client.errors import AnswerError, CallError, ClosedError, DeadlineError, QueueFullError, WrongAnswerError
from hypersonic.client.gate import Gate
from hypersonic.client.pool.descriptions import description_requests
from hypersonic.client.pool.member import Member, State, Wanted
from hypersonic.client.pool.servers import Pool
from hypersonic.client.pool.timer import Timer
from hypersonic.client.server_times import Sums, read_sums
from hypersonic.client.servers import AddressError, Server
from hypersonic.client.settings import Fallback, Settings, as_timeout
from hypersonic.client.shared_memory.sharing import Sharing
from hypersonic.client.specs import ModelSpec, read_spec
from hypersonic.client.transport.call import Connect

#: time between two checks while ready() waits, in seconds
_ASK_S = 0.25


class Engine:
    """The servers and the requests of one client in one process. Any thread may use it.

    Neither a thread nor a connection starts before the first request.
    """

    def __init__(self, servers: Sequence[Server], settings: Settings, connect: Connect) -> None:
        self.settings = settings
        self._timer = Timer()
        self.sharing = Sharing(settings) if settings.shared_memory == "auto" else None
        self.pool = Pool(servers, settings, self.sharing.connect(connect) if self.sharing else connect, self._timer)
        self.context = Context(self.pool, self._timer, settings)
        self._gate = Gate(settings.limits)
        self._lock = threading.Lock()
        self._running: set[Background] = set()
        self._asked: dict[Wanted, Future[ModelSpec | Fallback]] = {}
        self._baselines: dict[Wanted, dict[str, Sums]] = {}
        self._closed = False
        # if a client is dropped without close(), no thread may remain. A fork must not touch its parent's connections
        weakref.finalize(self, _end, os.getpid(), self.pool, self._timer).atexit = False

    def call_time(self, timeout: float | None = None) -> CallTime:
        """Return the time of a call that begins now.

        Args:
            timeout: of the call, in seconds; None: that of the settings.
        """
        settings = self.settings.timeout if timeout is None else as_timeout(timeout)
        call_s = math.inf if settings.call_s is None else settings.call_s
        return CallTime(min(settings.total_s, call_s), call_s, time.monotonic() + call_s)

    def spec(self, model: Wanted, call_time: CallTime | None = None) -> ModelSpec | Fallback:
        """Return the model's description, or the fallback, if there is one and no server answers.

        The description is requested once: threads that need it meanwhile wait for the first one's outcome, or ask if the first
        one's time is up. Raises UnknownModelError, AllServersFailedError, DeadlineError, AnswerError.

        Args:
            call_time: of the call that needs it; None: that of the settings, from now on.
        """
        descriptions = self.context.descriptions
        if (known := descriptions.get(model)) is not None:
            return known
        plan = self.context.plan(f"the metadata of model {model[0]!r}", call_time or self.call_time())
        while (known := descriptions.get(model)) is None:
            self._refuse_if_closed()
            with self._lock:
                if descriptions.get(model) is not None:
                    continue
                others = self._asked.get(model)
                asked = self._asked[model] = others or Future()
            if others is None:
                return self._ask(model, asked, plan)
            with suppress(CancelledError):  # the thread that asked was interrupted, or its time is up, so this one asks
                if (described := self._wait(model, others, plan)) is not None:
                    return described
        return known

    def _wait(self, model: Wanted, others: Future[ModelSpec | Fallback], plan: Plan) -> ModelSpec | Fallback | None:
        """Return what another thread asks for, or the fallback if the time is up before; None: look again."""
        try:
            return others.result(min(max(0.0, plan.left_s), threading.TIMEOUT_MAX))
        except TimeoutError:
            step = self.context.nobody(plan, model)
        if isinstance(step, GiveUp):
            raise step.error
        return step.fallback if isinstance(step, UseFallback) else None

    def _ask(self, model: Wanted, asked: Future[ModelSpec | Fallback], plan: Plan) -> ModelSpec | Fallback:
        """Ask for the description, and give it to the threads that wait for it."""
        try:
            described = self._describe(model, plan)
        except DeadlineError:
            raise
        except Exception as error:
            asked.set_exception(error)
            raise
        else:
            asked.set_result(described)
            return described
        finally:
            asked.cancel()  # after Ctrl-C or a DeadlineError; otherwise it is done already, and this has no effect
            with self._lock:
                del self._asked[model]

    def _describe(self, model: Wanted, plan: Plan) -> ModelSpec | Fallback:
        """Ask the servers for the model's description, and keep it."""
        name, version = model
        self.pool.ready_for(model, max(0.0, min(plan.left_s, 2 * self.settings.timeout.connect_s)))

        def ask(member: Member) -> ModelSpec:
            headers = member.headers()
            try:
                said = [
                    member.transport.unary(rpc, message, self.context.attempt_s(plan), headers)
                    for rpc, message in description_requests(model).items()
                ]
            except CallError as error:
                if error.code == Code.NOT_FOUND:
                    self.pool.lacks(member, model)
                raise
            try:
                return read_spec(member.name, name, version, *said)
            except AnswerError as error:
                raise WrongAnswerError(str(error)) from error

        described = blocking.follow(self.context, plan, name, ask, VersionPin(version))
        if isinstance(described, UseFallback):
            return described.fallback
        self._remember_times(model, plan.deadline)
        self.context.descriptions.keep(model, described)
        return described

    def models(self) -> dict[str, tuple[str, ...]]:
        """Return the names of models that are ready -> the addresses of the servers that list them."""
        self._refuse_if_closed()
        listed = self.pool.listed(2 * self.settings.timeout.connect_s)
        names = sorted({name for models in listed.values() for name in models})
        return {name: tuple(address for address, models in listed.items() if name in models) for name in names}

    def ready(self, name: str, timeout_s: float) -> bool:
        """Return whether a server that has the model is up, or comes up in time; "" is any model. Raises ClosedError."""
        self._refuse_if_closed()
        until, first_s = time.monotonic() + timeout_s, 2 * self.settings.timeout.connect_s
        while True:
            with suppress(AddressError):  # a server may write the file of its address later
                if self.pool.is_up(name, first_s):
                    return True
            self._refuse_if_closed()
            left_s = until - time.monotonic()
            if left_s <= 0:
                return False
            time.sleep(min(_ASK_S, left_s))
            self.pool.check_all()

    def baselines(self, member: Member) -> dict[Wanted, Sums]:
        """Return the server's sums (ModelStatistics) of each model, as they were before the first request."""
        return {model: sums[member.name] for model, sums in self._baselines.items() if member.name in sums}

    def infer(self, request: Request) -> Result:
        """Send a request and wait for its result. Raises what blocking.run() raises, and ClosedError."""
        if self.settings.hedge is not None:
            return self.submit(request).result()
        self._wait_for_room(request)
        try:
            self._refuse_if_closed()
            return blocking.run(self.context, request)
        finally:
            self._gate.leave(request.size)

    def submit(self, request: Request, *, block: bool = True) -> RequestFuture:
        """Send a request. Waits while the limits are reached; raises QueueFullError instead without `block`."""
        if block:
            self._wait_for_room(request)
        elif not self._gate.try_enter(request.size):
            limits = self.settings.limits
            raise QueueFullError(
                f"{limits.in_flight} requests or {limits.bytes_in_flight} bytes are in flight, as many as the limits allow; "
                "wait for a result, or raise Limits(in_flight, bytes_in_flight)"
            )
        return self._launch(request)

    async def submit_async(self, request: Request, *, block: bool = True) -> RequestFuture:
        """Send a request. Waits for room without blocking the event loop; see submit()."""
        if not block:
            return self.submit(request, block=False)
        if not self._gate.try_enter(request.size):
            left_s = request.time.until - time.monotonic()
            try:
                await asyncio.wait_for(self._enter(request.size), None if left_s == math.inf else left_s)
            except TimeoutError:
                raise _no_room(request) from None
        return self._launch(request)

    def _wait_for_room(self, request: Request) -> None:
        """Wait at the gate until there is room. Raises DeadlineError if the time of the call ends before."""
        if not self._gate.wait(request.size, request.time.until):
            raise _no_room(request)

    def close(self) -> None:
        """End all requests with ClosedError, close the connections and end the threads."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            running = tuple(self._running)
        for background in running:
            background.close()
        if self.sharing is not None:
            self.sharing.close()
        _end(os.getpid(), self.pool, self._timer)

    def _launch(self, request: Request) -> RequestFuture:
        """Start a request for which the gate has granted room."""

        def ended() -> None:
            self._gate.leave(request.size)
            with self._lock:
                self._running.discard(background)

        background = Background(self.context, request, ended)
        with self._lock:
            closed = self._closed
            if not closed:
                self._running.add(background)
        if closed:
            self._gate.leave(request.size)
            self._refuse_if_closed()
        background.start()
        return background.future

    async def _enter(self, size: int) -> None:
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()

        def settle() -> None:
            if ready.cancelled():
                self._gate.leave(size)
            else:
                ready.set_result(None)

        def granted() -> None:
            try:
                loop.call_soon_threadsafe(settle)
            except RuntimeError:  # the loop is closed
                self._gate.leave(size)

        self._gate.enter(size, granted)
        try:
            await ready
        except asyncio.CancelledError:
            if ready.done() and not ready.cancelled():
                self._gate.leave(size)
            raise

    def _remember_times(self, model: Wanted, deadline: float) -> None:
        sums, longest_s = {}, self.settings.timeout.connect_s
        for member in self.pool.members:
            left_s = min(longest_s, deadline - time.monotonic())
            if member.state is State.UP and left_s > 0 and (now := read_sums(member, model, left_s)) is not None:
                sums[member.name] = now
        self._baselines.setdefault(model, sums)

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise ClosedError("the client is closed")


def _no_room(request: Request) -> DeadlineError:
    why = request.time.time_up(request.time.until, request.part[1])
    return DeadlineError(f"{request.what}: {why}; the limits had no room for it", ())


def _end(pid: int, pool: Pool, timer: Timer) -> None:
    """Close the connections and end the threads, in the process that opened them."""
    if pid == os.getpid():
        pool.close()
        timer.close()
