# SPDX-License-Identifier: Apache-2.0
"""The state that the attempts of all requests of a client share: servers, retry budget, timer and the count of fallbacks."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, field

from hypersonic.client.attempts.budget import TokenBucket
from hypersonic.client.attempts.fallback import run_fallback
from hypersonic.client.attempts.plan import GiveUp, Go, Plan, Step, blames
from hypersonic.client.attempts.request import FALLBACK, CallTime, Request, Result
from hypersonic.client.attempts.version import VersionPin
from hypersonic.client.codes import Code
from hypersonic.client.errors import CallError, OtherVersionError, VersionGoneError, WrongAnswerError
from hypersonic.client.messages.response import Answer
from hypersonic.client.pool.descriptions import Descriptions
from hypersonic.client.pool.latency import Latencies
from hypersonic.client.pool.member import Member, Wanted
from hypersonic.client.pool.servers import Pool
from hypersonic.client.pool.timer import Timer
from hypersonic.client.settings import Fallback, Settings

_LOG = logging.getLogger(__name__)
#: gRPC does not accept a timeout of 0
_SHORTEST_S = 0.001
#: the longest timeout that gRPC is given, in seconds
_LONGEST_S = 1e8


@dataclass
class Fallbacks:
    """The requests that a fallback answered."""

    latencies: Latencies = field(default_factory=Latencies)
    failed: int = 0
    warned: bool = False


class Context:
    """The state that requests share. Any thread may use it."""

    def __init__(self, pool: Pool, timer: Timer, settings: Settings) -> None:
        self.pool, self.timer, self.settings = pool, timer, settings
        self.descriptions = Descriptions(pool, timer)
        self.budget = TokenBucket(settings.retry.budget)
        self.fallbacks = Fallbacks()
        self._lock = threading.Lock()

    def plan(self, what: str, call_time: CallTime, parts: int = 1) -> Plan:
        """Return the plan of a request that is admitted now.

        Args:
            what: names it in errors.
            parts: of its call.
        """
        deadline = call_time.deadline(time.monotonic())
        return Plan(what, self.settings.retry, self.budget, deadline, time.monotonic, call_time.time_up(deadline, parts))

    def attempt_s(self, plan: Plan) -> float:
        """Return the time that the next attempt may take."""
        return max(_SHORTEST_S, min(plan.left_s, self.settings.timeout.attempt_s or plan.left_s, _LONGEST_S))

    def pick(self, plan: Plan, step: Go, model: Wanted) -> Member | None:
        """Return the server for the next attempt; None if no server takes work for the model now.

        A health check may list a model again that its server has already refused twice for this request.
        """
        member = step.same or self.pool.pick(model, step.avoid)
        return None if member in plan.missing_twice else member

    def nobody(self, plan: Plan, model: Wanted, pin: VersionPin | None = None) -> Step:
        """Return what follows when no server takes work for the model.

        Args:
            pin: of the request.
        """
        why, known = self.pool.why_not(model), self.pool.has_it(model, besides=plan.missing_twice)
        if pin is not None and pin.from_answer and not known:
            text = f"model {model[0]!r}: version {model[1]} has answered, and no server has it any more: {why}"
            return GiveUp(VersionGoneError("all servers", Code.NOT_FOUND, text))
        # a load balancer may have asked a server that is ending; the next check, or the next attempt, tells
        known = known or (not plan.missing_twice and self.pool.lists_it(model))
        return plan.nobody(why, known=known)

    def succeeded(self, member: Member, request: Request, latency_ns: int) -> None:
        """Count an answer."""
        self.pool.succeed(member, request.size, latency_ns, request.name)
        self.budget.give()

    def failed(self, request: Request, member: Member, error: CallError) -> None:
        """Count a failed attempt."""
        if isinstance(error, OtherVersionError):
            self.pool.drop(member, request.size)
            return
        self.pool.fail(member, request.size, error, request.model, blame=blames(error))
        if isinstance(error, WrongAnswerError):
            self.descriptions.refute(member, request.name, error.text)
        elif error.code in {Code.INVALID_ARGUMENT, Code.NOT_FOUND}:
            self.descriptions.ask_again(member, request.name)

    def result(self, request: Request, answer: Answer, server: str, plan: Plan, begin_ns: int) -> Result:
        """Return the result of a request that a server answered."""
        latency_ns = time.perf_counter_ns() - begin_ns
        return Result(answer.outputs, request.name, answer.version, server, len(plan.failed_attempts) + 1, latency_ns)

    def fall_back(self, request: Request, fallback: Fallback, plan: Plan, begin_ns: int) -> Result:
        """Return the result that the fallback computes, on this thread. The first one is logged as a warning."""
        with self._lock:
            warn, self.fallbacks.warned = not self.fallbacks.warned, True
        if warn:
            why = plan.failed_attempts[-1] if plan.failed_attempts else self.pool.why_not(request.model)
            _LOG.warning("model %r is computed by the fallback (logged once for each client): %s", request.model[0], why)
        begin = time.perf_counter_ns()
        try:
            outputs = run_fallback(fallback, request)
        except BaseException:
            with self._lock:
                self.fallbacks.failed += 1
            raise
        now = time.perf_counter_ns()
        with self._lock:
            self.fallbacks.latencies.add(now - begin)
        return Result(outputs, request.name, "", FALLBACK, len(plan.failed_attempts) + 1, now - begin_ns)
