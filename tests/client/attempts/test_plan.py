# SPDX-License-Identifier: Apache-2.0
"""What follows a failed attempt: the policies in their order, within the budget and the deadline."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypersonic.client.attempts.budget import TokenBucket
from hypersonic.client.attempts.plan import GiveUp, Go, Plan, Step, UseFallback
from hypersonic.client.codes import Code
from hypersonic.client.errors import (
    RETRYABLE,
    AccessError,
    AllServersFailedError,
    CallError,
    DeadlineError,
    OtherVersionError,
    RequestError,
    UnknownModelError,
    WrongAnswerError,
    WrongAnswersError,
)
from hypersonic.client.pool.member import Member
from hypersonic.client.servers import Server
from hypersonic.client.settings import Backoff, Budget, Fallback, OtherServer, Retry, SameServer

DOWN = CallError(Code.UNAVAILABLE, "down")
NO_PAUSE = Backoff(0.0, 0.0)


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def member(name: str) -> Member:
    return Member(Server(f"{name}:1"), transport=None)  # type: ignore[arg-type]


def plan(
    *policies: Any, budget: Budget | None = None, total_s: float = 10.0, clock: Clock | None = None, backoff: Backoff = NO_PAUSE
) -> Plan:
    retry = Retry(policies, backoff, budget or Budget())
    return Plan("model 'm'", retry, TokenBucket(retry.budget), total_s, clock or Clock())


def error_of(step: Step) -> Exception:
    assert isinstance(step, GiveUp), step
    return step.error


def test_policies_are_followed_in_their_order() -> None:
    a = member("a")
    fallback = Fallback(lambda inputs: inputs)
    tries = plan(SameServer(2), OtherServer(1), fallback)
    steps = [tries.failed(a, DOWN, 0.1) for _ in range(4)]
    assert steps == [Go(same=a), Go(same=a), Go(avoid=frozenset({a})), UseFallback(fallback)]
    assert len(tries.failed_attempts) == 4


def test_every_attempt_is_listed_when_all_failed() -> None:
    tries = plan(OtherServer(1))
    tries.failed(member("a"), DOWN, 0.25)
    error = error_of(tries.failed(member("b"), CallError(Code.RESOURCE_EXHAUSTED, "full"), 0.5))
    assert isinstance(error, AllServersFailedError)
    assert [(one.server, one.code.name, one.text, one.seconds) for one in error.attempts] == [
        ("a:1", "UNAVAILABLE", "down", 0.25),
        ("b:1", "RESOURCE_EXHAUSTED", "full", 0.5),
    ]
    assert "a:1: UNAVAILABLE after 0.250 s: down" in str(error)


@pytest.mark.parametrize("code", sorted(set(Code) - RETRYABLE - {Code.OK, Code.NOT_FOUND}))
def test_an_error_of_the_request_is_not_tried_again(code: Code) -> None:
    error = error_of(plan(SameServer(5), OtherServer(5)).failed(member("a"), CallError(code, "no"), 0.1))
    access = code in {Code.UNAUTHENTICATED, Code.PERMISSION_DENIED}
    assert type(error) is (AccessError if access else RequestError)


def test_a_restricted_protocol_is_not_tried_again_though_its_code_is_unavailable() -> None:
    said = CallError(Code.UNAVAILABLE, "This protocol is restricted, expecting header 'triton-grpc-protocol-key'")
    assert isinstance(error_of(plan(SameServer(5)).failed(member("a"), said, 0.1)), AccessError)


def test_a_model_that_one_server_lacks_is_asked_of_another_and_not_of_the_same() -> None:
    missing = CallError(Code.NOT_FOUND, "unknown model")
    tries = plan(SameServer(3), OtherServer(1))
    a = member("a")
    assert tries.failed(a, missing, 0.1) == Go(avoid=frozenset({a}))
    assert isinstance(error_of(tries.failed(member("b"), missing, 0.1)), UnknownModelError)


def test_without_tokens_there_is_no_retry() -> None:
    bucket = TokenBucket(Budget(tokens=1, per_success=0.5))
    retry = Retry((SameServer(9),), NO_PAUSE)
    first, second = (Plan("x", retry, bucket, 10.0, Clock()) for _ in range(2))
    assert isinstance(first.failed(member("a"), DOWN, 0.1), Go)
    assert isinstance(second.failed(member("a"), DOWN, 0.1), GiveUp)
    bucket.give()
    bucket.give()
    assert isinstance(Plan("x", retry, bucket, 10.0, Clock()).failed(member("a"), DOWN, 0.1), Go)


def test_a_fallback_needs_no_token_and_no_time() -> None:
    clock = Clock()
    fallback = Fallback(lambda inputs: inputs)
    tries = plan(SameServer(9), fallback, budget=Budget(tokens=0), clock=clock)
    clock.now = 11.0
    assert tries.failed(member("a"), CallError(Code.DEADLINE_EXCEEDED, "late"), 11.0) == UseFallback(fallback)


def test_the_deadline_ends_the_attempts() -> None:
    clock = Clock()
    tries = plan(OtherServer(99), clock=clock)
    clock.now = 9.0
    assert isinstance(tries.failed(member("a"), DOWN, 9.0), Go)
    clock.now = 10.0
    error = error_of(tries.failed(member("a"), CallError(Code.DEADLINE_EXCEEDED, "late"), 1.0))
    assert isinstance(error, DeadlineError)
    assert len(error.attempts) == 2


@given(st.floats(0.001, 1), st.floats(0.001, 10), st.integers(1, 40))
def test_pauses_stay_within_the_doubled_base_and_the_cap(base_s: float, cap_s: float, tries: int) -> None:
    made = plan(SameServer(99), budget=Budget(tokens=1000), total_s=1e9, backoff=Backoff(base_s, cap_s))
    for n in range(tries):
        step = made.failed(member("a"), DOWN, 0.1)
        assert isinstance(step, Go)
        assert 0 <= step.pause_s <= min(cap_s, base_s * 2**n)


@given(st.floats(0.01, 60))
def test_pauses_end_before_the_time_is_up_and_the_error_comes_when_it_is(total_s: float) -> None:
    clock = Clock()
    tries = plan(OtherServer(1000), budget=Budget(tokens=1000), total_s=total_s, backoff=Backoff(1e6, 1e6), clock=clock)
    step = tries.failed(member("a"), DOWN, 0.01)
    while isinstance(step, Go):
        assert clock.now + step.pause_s < total_s
        clock.now += max(step.pause_s, 0.001)
        step = tries.failed(member("a"), DOWN, 0.01)
    error = error_of(step)
    assert isinstance(error, DeadlineError)
    assert clock.now > total_s - 0.01
    assert str(error).startswith("model 'm': the time is up; ")


def test_a_late_attempt_with_time_left_is_no_deadline_error() -> None:
    tries = plan(total_s=60)
    error = error_of(tries.failed(member("a"), CallError(Code.DEADLINE_EXCEEDED, "late"), 7.1))
    assert type(error) is AllServersFailedError


def test_after_a_wrong_answer_every_other_server_is_asked_before_one_is_asked_again_and_the_fallback_is_not_used() -> None:
    tries = plan(SameServer(3), Fallback(lambda inputs: inputs), budget=Budget(tokens=0))
    one, other = member("a"), member("b")
    step = tries.failed(one, WrongAnswerError("it has 3 rows, expected 4"), 0.01)
    assert isinstance(step, Go)
    assert (step.same, step.avoid) == (None, frozenset({one}))
    step = tries.failed(other, WrongAnswerError("it has 3 rows, expected 4"), 0.01)
    assert isinstance(step, Go)
    assert step.avoid == {one, other}
    error = error_of(tries.failed(one, WrongAnswerError("it has 3 rows, expected 4"), 0.01))
    assert isinstance(error, WrongAnswersError)
    assert [attempt.server for attempt in error.attempts] == ["a:1", "b:1", "a:1"]


MISSING = CallError(Code.NOT_FOUND, "unknown")
WRONG = WrongAnswerError("it has 3 rows, expected 4")


@pytest.mark.parametrize("error", [DOWN, MISSING, OtherVersionError("2", "1"), WRONG])
@pytest.mark.parametrize("first", [MISSING, WRONG])
def test_a_server_that_was_wrong_or_lacks_the_model_is_not_asked_again_because_another_one_fails_too(
    first: CallError, error: CallError
) -> None:
    """It gets requests for the model again after a second, and is often the one with the fewest in flight."""
    tries = plan(OtherServer(5))
    one = member("a")
    tries.failed(one, first, 0.01)
    step = tries.failed(member("b"), error, 0.01)
    assert isinstance(step, Go)
    assert one in step.avoid


def test_another_version_is_followed_by_an_attempt_at_once_and_without_a_token() -> None:
    tries = plan(budget=Budget(tokens=0))
    assert tries.failed(member("a"), OtherVersionError("2", "1"), 0.01) == Go()


def test_an_empty_retry_budget_is_named() -> None:
    error = error_of(plan(OtherServer(9), budget=Budget(tokens=0)).failed(member("a"), DOWN, 0.01))
    assert str(error).startswith("model 'm': no server answered, and the retry budget is used up; 1 attempt failed:\n")


def test_while_every_server_rejects_new_work_the_request_waits_without_a_token_until_its_deadline() -> None:
    clock = Clock()
    tries = plan(budget=Budget(tokens=0), clock=clock)
    for _ in range(5):
        step = tries.nobody("saturated", known=True)
        assert isinstance(step, Go)
        assert step.pause_s > 0
    clock.now = 9.996
    assert isinstance(error_of(tries.nobody("saturated", known=True)), DeadlineError)


def test_a_model_of_no_server_is_an_error_at_once() -> None:
    error = error_of(plan(SameServer(9)).nobody("a:1 has no model 'm'", known=False))
    assert isinstance(error, UnknownModelError)
    assert "a:1 has no model 'm'" in str(error)
