# SPDX-License-Identifier: Apache-2.0
"""Loads: the calls that clients make, from jobs that wait for their answers (closed loop) or at a given rate (open loop)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hypersonic.plan.farm.errors import FarmError, check_count, check_not_negative, check_positive


@dataclass(frozen=True)
class Call:
    """One request and its answer.

    Attributes:
        rows: 1 or more.
        request_bytes, answer_bytes: on the wire, headers included.
        model: the one that is called.
    """

    rows: int
    request_bytes: float
    answer_bytes: float
    model: str = ""

    def __post_init__(self) -> None:
        check_count(1, rows=self.rows)
        check_not_negative(request_bytes=self.request_bytes, answer_bytes=self.answer_bytes)


@dataclass(frozen=True)
class Retry:
    """A client's behaviour after a failed attempt; the defaults are those of this project's client (client/settings.py).

    Attributes:
        retries: most per request.
        base_s, cap_s: the pause before retry n = 0, 1, .. is uniform up to min(cap_s, base_s * 2**n).
        tokens: of the client's bucket, at the start and at most; each retry takes one.
        per_success: what an answer adds to the bucket. Without a token the request fails.
    """

    retries: int = 13
    base_s: float = 0.02
    cap_s: float = 2.0
    tokens: float = 100.0
    per_success: float = 0.5

    def __post_init__(self) -> None:
        check_count(0, retries=self.retries)
        check_positive(base_s=self.base_s, cap_s=self.cap_s)
        check_not_negative(tokens=self.tokens, per_success=self.per_success)


@dataclass(frozen=True)
class ClosedLoop:
    """A fixed number of jobs. Each works on an event, calls, waits for the answer, and goes on with the next event.

    With asynchronous calls (SONIC's main mode) a job works on other events while it waits: in_flight of them are begun, and the
    own work of one is done at a time.

    Attributes:
        jobs: each is a client with a retry budget of its own.
        own_work_s, own_work_cv: the job's own time per event, without its calls, gamma distributed; cv is the standard
            deviation over the mean, 0 = constant.
        call: or the different calls of an event, in order.
        calls_per_event: one after the other, with equal parts of the own work before each; with several calls in `call`, how
            often they are repeated.
        deadline_s: of a call with all its retries; None = none.
        retry: None = no retries.
        client_bits_per_s: of a job's own network, which delays a call without being shared. A job whose call has failed goes on
            as after an answer, and the event counts.
        in_flight: events that a job has begun, 1 = synchronous calls.
    """

    jobs: int
    own_work_s: float
    call: Call | tuple[Call, ...]
    own_work_cv: float = 0.3
    calls_per_event: int = 1
    deadline_s: float | None = None
    retry: Retry | None = None
    client_bits_per_s: float = math.inf
    in_flight: int = 1

    def __post_init__(self) -> None:
        check_count(1, jobs=self.jobs, calls_per_event=self.calls_per_event, in_flight=self.in_flight, calls=len(self.calls))
        check_positive(own_work_s=self.own_work_s, client_bits_per_s=self.client_bits_per_s)
        check_not_negative(own_work_cv=self.own_work_cv)
        if self.deadline_s is not None:
            check_positive(deadline_s=self.deadline_s)

    @property
    def calls(self) -> tuple[Call, ...]:
        """The calls of an event, in order."""
        return _sequence(self.call) * self.calls_per_event


@dataclass(frozen=True)
class OpenLoop:
    """Events at a given rate, whether earlier ones are finished or not.

    Attributes:
        rate_per_s: of new events, without retries.
        call: of an event, or its calls, one after the other.
        poisson: exponential times between them, or constant ones.
        deadline_s, retry, client_bits_per_s: as in ClosedLoop.
        clients: number of clients that take turns, each with a retry budget.
        start_rate_per_s, ramp_s: the rate rises linearly from start_rate_per_s to rate_per_s in ramp_s seconds (None: it is
            constant).
        until_s: time of the last request, infinite = to the end.
    """

    rate_per_s: float
    call: Call | tuple[Call, ...]
    poisson: bool = True
    deadline_s: float | None = None
    retry: Retry | None = None
    clients: int = 1
    start_rate_per_s: float | None = None
    ramp_s: float = 0.0
    until_s: float = math.inf
    client_bits_per_s: float = math.inf

    def __post_init__(self) -> None:
        check_count(1, clients=self.clients, calls=len(self.calls))
        check_positive(rate_per_s=self.rate_per_s, client_bits_per_s=self.client_bits_per_s, until_s=self.until_s)
        check_not_negative(ramp_s=self.ramp_s)
        if self.deadline_s is not None:
            check_positive(deadline_s=self.deadline_s)
        if self.start_rate_per_s is not None:
            check_positive(start_rate_per_s=self.start_rate_per_s)
            if not self.ramp_s:
                raise FarmError(
                    f"the rate starts at {self.start_rate_per_s:g}/s and ramp_s is 0; give the seconds in which it reaches "
                    f"{self.rate_per_s:g}/s"
                )

    @property
    def calls(self) -> tuple[Call, ...]:
        """The calls of an event, in order."""
        return _sequence(self.call)


def _sequence(call: Call | tuple[Call, ...]) -> tuple[Call, ...]:
    return call if isinstance(call, tuple) else (call,)


Load = ClosedLoop | OpenLoop
