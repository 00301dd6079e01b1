# SPDX-License-Identifier: Apache-2.0
"""Decides what follows a failed attempt. It has no threads and makes no calls: blocking.py and background.py report to it.

first() --> Go --failed()--> Go on the same server, after a pause --failed()--> Go on another one --> .. --> UseFallback
                                                                                                          or GiveUp
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from hypersonic.client.attempts.budget import TokenBucket
from hypersonic.client.codes import Code
from hypersonic.client.errors import (
    RETRYABLE,
    AccessError,
    AllServersFailedError,
    Attempt,
    CallError,
    ClientError,
    DeadlineError,
    OtherVersionError,
    UnknownModelError,
    WrongAnswerError,
    WrongAnswersError,
    server_error,
)
from hypersonic.client.pool.member import Member
from hypersonic.client.settings import Fallback, OtherServer, Retry, SameServer

#: the least time for an attempt, in seconds
_SHORTEST_S = 0.005


@dataclass(frozen=True)
class Go:
    """Make an attempt after `pause_s` seconds: on `same`; if that is None, on a server not in `avoid`, if there is one."""

    pause_s: float = 0.0
    same: Member | None = None
    avoid: frozenset[Member] = frozenset()


@dataclass(frozen=True)
class UseFallback:
    """Compute the outputs with the user's function."""

    fallback: Fallback


@dataclass(frozen=True)
class GiveUp:
    """The request has failed."""

    error: ClientError


Step = Go | UseFallback | GiveUp


class Plan:
    """The attempts of one request.

    Args:
        what: names it in errors.
        deadline: in seconds of `clock`, for all attempts.
        time_up: what an error says when the deadline has passed.
    """

    def __init__(
        self,
        what: str,
        retry: Retry,
        budget: TokenBucket,
        deadline: float,
        clock: Callable[[], float],
        time_up: str = "the time is up",
    ) -> None:
        self._what, self._retry, self._budget, self.deadline, self._clock = what, retry, budget, deadline, clock
        self._time_up = time_up
        #: servers that gave a wrong answer; and these and those without the model, which are avoided
        self._wrong: set[Member] = set()
        self._avoid: set[Member] = set()
        #: servers that have answered once that they do not have the model, and twice: the latter are not asked again
        self._missing: set[Member] = set()
        self.missing_twice: set[Member] = set()
        self._policies = iter(retry.policies)
        self._policy = next(self._policies, None)
        self._used = self._retries = 0
        self.failed_attempts: tuple[Attempt, ...] = ()

    @property
    def left_s(self) -> float:
        """The seconds until the deadline."""
        return self.deadline - self._clock()

    def failed(self, member: Member, error: CallError, seconds: float) -> Step:
        """Return what follows a failed attempt that took `seconds`."""
        self.failed_attempts += (Attempt(member.name, error.code, error.text, seconds),)
        if isinstance(error, OtherVersionError):  # the next attempt asks for the version of the other answers
            return Go(avoid=frozenset(self._avoid))
        if isinstance(error, WrongAnswerError):
            return self._wrong_answer(member)
        if not may_retry(error):
            return GiveUp(server_error(member.name, error))
        if missing := error.code == Code.NOT_FOUND:
            (self.missing_twice if member in self._missing else self._missing).add(member)
            self._avoid.add(member)
        return self._next(member, stay=not missing)

    def nobody(self, why: str, *, known: bool) -> Step:
        """Return what follows if no server takes work now.

        Args:
            known: one of them has the model, and may take work later.
        """
        if not known:
            return self._end(UnknownModelError("all servers", Code.NOT_FOUND, why))
        if (fallback := self._fallback()) is not None:
            return UseFallback(fallback)
        if self._is_time_up:
            text = f"{self._what}: {self._time_up}; no server takes new work: {why}"
            return GiveUp(DeadlineError(text, self.failed_attempts))
        return Go(self._pause_s(least=0.05), avoid=frozenset(self._avoid))

    @property
    def _is_time_up(self) -> bool:
        """Whether too little time is left for another attempt."""
        return self.left_s <= _SHORTEST_S

    def _wrong_answer(self, member: Member) -> Step:
        """Return what follows a wrong answer: all other servers are asked before one is asked again. It takes no token."""
        asked_twice = member in self._wrong
        self._wrong.add(member)
        self._avoid.add(member)
        if asked_twice or not self._retry.policies or self._is_time_up:
            return self._end(None)
        return Go(self._pause_s(), avoid=frozenset(self._avoid))

    def _next(self, member: Member, *, stay: bool) -> Step:
        while self._policy is not None:
            if isinstance(self._policy, Fallback):
                break
            if self._used < self._policy.tries and (stay or isinstance(self._policy, OtherServer)):
                return self._again(member, self._policy)
            self._policy, self._used = next(self._policies, None), 0
        return self._end(None)

    def _again(self, member: Member, policy: SameServer | OtherServer) -> Step:
        if self._is_time_up:
            return self._end(None)
        if not self._budget.take():
            return self._end(None, "no server answered, and the retry budget is used up")
        self._used += 1
        if isinstance(policy, SameServer):
            return Go(self._pause_s(), same=member)
        return Go(self._pause_s(), avoid=frozenset(self._avoid | {member}))

    def _pause_s(self, least: float = 0.0) -> float:
        backoff = self._retry.backoff
        longest = min(backoff.cap_s, backoff.base_s * 2.0 ** min(self._retries, 60))
        self._retries += 1
        return min(least + random.uniform(0.0, longest), self.left_s / 2)

    def _end(self, error: ClientError | None, why: str = "") -> Step:
        """Return the last step: no server is asked again.

        Args:
            error: raised without a fallback; None: made of the attempts.
        """
        attempts = self.failed_attempts
        if attempts and all(attempt.code == Code.OK for attempt in attempts):  # a fallback must not hide it
            return GiveUp(WrongAnswersError(f"{self._what}: no server's answer fits the model", attempts))
        if (fallback := self._fallback()) is not None:
            return UseFallback(fallback)
        if error is not None:
            return GiveUp(error)
        if all(attempt.code == Code.NOT_FOUND for attempt in attempts):
            return GiveUp(UnknownModelError(attempts[-1].server, Code.NOT_FOUND, attempts[-1].text))
        if self._is_time_up:
            return GiveUp(DeadlineError(f"{self._what}: {self._time_up}", attempts))
        answered = any(attempt.code == Code.OK for attempt in attempts)
        why = why or ("no server gave a right answer" if answered else "no server answered")
        return GiveUp(AllServersFailedError(f"{self._what}: {why}", attempts))

    def _fallback(self) -> Fallback | None:
        return next((policy for policy in self._retry.policies if isinstance(policy, Fallback)), None)


def may_retry(error: CallError) -> bool:
    """Return whether another attempt is safe and may succeed. Inference has no state: only the kind of the failure matters."""
    if isinstance(error, WrongAnswerError | OtherVersionError):
        return True
    retryable = error.code in RETRYABLE or error.code == Code.NOT_FOUND
    return retryable and not isinstance(server_error("", error), AccessError)


def blames(error: CallError) -> bool:
    """Return whether a failure is the fault of the server rather than of the request."""
    return error.code in RETRYABLE and may_retry(error)
