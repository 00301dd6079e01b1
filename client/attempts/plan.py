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
    UnknownModelError,
    server_error,
)
from hypersonic.client.pool.member import Member
from hypersonic.client.settings import Fallback, OtherServer, Retry, SameServer

_TIME_UP = "the time is up"


@dataclass(frozen=True)
class Go:
    """Make an attempt after `pause_s` seconds: on `same`; if that is None, on a server other than `avoid` if there is one."""

    pause_s: float = 0.0
    same: Member | None = None
    avoid: Member | None = None


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
    """

    def __init__(self, what: str, retry: Retry, budget: TokenBucket, deadline: float, clock: Callable[[], float]) -> None:
        self._what, self._retry, self._budget, self.deadline, self._clock = what, retry, budget, deadline, clock
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
        if not may_retry(error):
            return GiveUp(server_error(member.name, error))
        return self._next(member, stay=error.code != Code.NOT_FOUND)

    def nobody(self, why: str, *, known: bool) -> Step:
        """Return what follows if no server takes work now.

        Args:
            known: one of them has the model, and may take work later.
        """
        if not known:
            return self._end(UnknownModelError("all servers", Code.NOT_FOUND, why))
        if (fallback := self._fallback()) is not None:
            return UseFallback(fallback)
        pause_s = self._pause_s(least=0.05)
        if pause_s >= self.left_s:
            return GiveUp(DeadlineError(f"{self._what}: no server takes new work: {why}", self.failed_attempts))
        return Go(pause_s)

    def _next(self, member: Member, *, stay: bool) -> Step:
        while self._policy is not None:
            if isinstance(self._policy, Fallback):
                return UseFallback(self._policy)
            if self._used < self._policy.tries and (stay or isinstance(self._policy, OtherServer)):
                return self._again(member, self._policy)
            self._policy, self._used = next(self._policies, None), 0
        return self._end(None)

    def _again(self, member: Member, policy: SameServer | OtherServer) -> Step:
        pause_s = self._pause_s()
        if pause_s >= self.left_s:
            return self._end(None, _TIME_UP)
        if not self._budget.take():
            return self._end(None, "no server answered, and the retry budget is used up")
        self._used += 1
        if isinstance(policy, SameServer):
            return Go(pause_s, same=member)
        return Go(pause_s, avoid=member)

    def _pause_s(self, least: float = 0.0) -> float:
        backoff = self._retry.backoff
        longest = min(backoff.cap_s, backoff.base_s * 2.0 ** min(self._retries, 60))
        self._retries += 1
        return least + random.uniform(0.0, longest)

    def _end(self, error: ClientError | None, why: str = "no server answered") -> Step:
        """Return the last step: no server is asked again.

        Args:
            error: raised without a fallback; None: made of the attempts.
        """
        if (fallback := self._fallback()) is not None:
            return UseFallback(fallback)
        if error is not None:
            return GiveUp(error)
        attempts = self.failed_attempts
        if all(attempt.code == Code.NOT_FOUND for attempt in attempts):
            return GiveUp(UnknownModelError(attempts[-1].server, Code.NOT_FOUND, attempts[-1].text))
        if why == _TIME_UP or self.left_s <= self._retry.backoff.base_s or attempts[-1].code == Code.DEADLINE_EXCEEDED:
            return GiveUp(DeadlineError(f"{self._what}: {_TIME_UP}", attempts))
        return GiveUp(AllServersFailedError(f"{self._what}: {why}", attempts))

    def _fallback(self) -> Fallback | None:
        return next((policy for policy in self._retry.policies if isinstance(policy, Fallback)), None)


def may_retry(error: CallError) -> bool:
    """Return whether another attempt is safe and may succeed. Inference has no state: only the kind of the failure matters."""
    retryable = error.code in RETRYABLE or error.code == Code.NOT_FOUND
    return retryable and not isinstance(server_error("", error), AccessError)


def blames(error: CallError) -> bool:
    """Return whether a failure is the fault of the server rather than of the request."""
    return error.code in RETRYABLE and may_retry(error)
