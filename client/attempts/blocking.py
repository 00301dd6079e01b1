# SPDX-License-Identifier: Apache-2.0
"""Makes the attempts of a request on the caller's thread."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from hypersonic.client.attempts.context import Context
from hypersonic.client.attempts.plan import GiveUp, Go, Plan, Step, UseFallback
from hypersonic.client.attempts.request import Request, Result, answer_of
from hypersonic.client.attempts.version import VersionPin
from hypersonic.client.errors import CallError, ClosedError
from hypersonic.client.messages.response import Answer
from hypersonic.client.pool.member import Member

Value = TypeVar("Value")


def run(context: Context, request: Request) -> Result:
    """Return the result. Raises ServerError, AllServersFailedError, DeadlineError, AnswerError, ClosedError."""
    begin_ns = time.perf_counter_ns()
    plan = context.plan(request.what, request.time, request.part[1])
    if request.fallback is not None:
        return context.fall_back(request, request.fallback, plan, begin_ns)

    def attempt(member: Member) -> tuple[Answer, str]:
        return _attempt(context, request, plan, member), member.name

    answered = follow(context, plan, request.name, attempt, request.pin)
    if isinstance(answered, UseFallback):
        return context.fall_back(request, answered.fallback, plan, begin_ns)
    return context.result(request, *answered, plan, begin_ns)


def follow(context: Context, plan: Plan, name: str, attempt: Callable[[Member], Value], pin: VersionPin) -> Value | UseFallback:
    """Return what `attempt` returns for the first server where it does not raise CallError; UseFallback if the plan says so.

    Raises the error with which the plan gives up, and ClosedError.

    Args:
        name, pin: of the model, and its version.
    """
    step: Step = Go()
    while not context.pool.closes_within(step.pause_s if isinstance(step, Go) else 0.0):
        if isinstance(step, GiveUp):
            raise step.error
        if isinstance(step, UseFallback):
            return step
        model = name, pin.version
        member = context.pick(plan, step, model)
        if member is None:
            step = context.nobody(plan, model, pin)
            continue
        begin = time.monotonic()
        try:
            return attempt(member)
        except CallError as error:
            step = plan.failed(member, error, time.monotonic() - begin)
    raise ClosedError("the client was closed before the request ended")


def _attempt(context: Context, request: Request, plan: Plan, member: Member) -> Answer:
    """One call of ModelInfer, counted. Raises CallError."""
    sending = request.sending(member, request.pin.version)
    try:
        headers = member.headers() + request.headers
        timeout_s = context.attempt_s(plan)
        begin_ns = time.perf_counter_ns()
        context.pool.begin(member, request.size, retry=bool(plan.failed_attempts))
        try:
            message = member.transport.unary("ModelInfer", sending.message, timeout_s, headers)
            latency_ns = time.perf_counter_ns() - begin_ns
            answer = answer_of(sending, message, request.pin)
        except CallError as error:
            context.failed(request, member, error)
            raise
        except BaseException:
            context.pool.drop(member, request.size)
            raise
        context.succeeded(member, request, latency_ns)
        return answer
    finally:
        sending.release()
