# SPDX-License-Identifier: Apache-2.0
"""The settings of a client, as frozen dataclasses: times, limits, retries and health checks. All of them can be pickled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, Protocol, get_args

from numpy.typing import NDArray

#: arrays by the names of inputs or outputs
Arrays = Mapping[str, NDArray[Any]]
Compression = Literal["", "gzip", "deflate"]
SharedMemory = Literal["off", "auto"]


class Runs(Protocol):
    """A model that runs without a server, such as LocalServer."""

    def run(self, model: str, inputs: Arrays) -> Arrays:
        """Return the outputs for the inputs, by name."""

    def close(self) -> None:
        """Stop it."""


def _check_positive(settings: Timeout | Limits | Health) -> None:
    """Raise ValueError for a number that is not above 0, and TypeError for a value that is not a number."""
    for field in fields(settings):
        value = getattr(settings, field.name)
        if value is not None and not isinstance(value, int | float):
            raise TypeError(f"{type(settings).__name__}.{field.name} is {value!r}, expected a number")
        if value is not None and not value > 0:
            raise ValueError(f"{type(settings).__name__}.{field.name} is {value}, expected more than 0")


@dataclass(frozen=True)
class Timeout:
    """Times in seconds.

    Attributes:
        total_s: of one request with all its attempts and pauses, from when the limits have room for it. A call with more rows
            than a request may have is several requests.
        attempt_s: of one attempt; None: what is left of the total.
        call_s: of a call with all its requests; None: as long as they take.
        connect_s: of making a connection. The shorter of attempt_s and the rest of total_s is sent to the server as
            `grpc-timeout`.
    """

    total_s: float = 60.0
    attempt_s: float | None = None
    connect_s: float = 5.0
    call_s: float | None = None

    def __post_init__(self) -> None:
        _check_positive(self)


@dataclass(frozen=True)
class Limits:
    """The limits on the work that a client has in flight.

    Attributes:
        in_flight: requests without an answer.
        bytes_in_flight: the bytes of their inputs; a larger request is sent alone.
        message_bytes: the most bytes of a request or an answer; a larger batch is split. 2 GiB - 1 is gRPC's limit.
    """

    in_flight: int = 16
    bytes_in_flight: int = 256 << 20
    message_bytes: int = (1 << 31) - 1

    def __post_init__(self) -> None:
        _check_positive(self)


@dataclass(frozen=True)
class SameServer:
    """Try again on the server that failed, up to `tries` times."""

    tries: int = 1


@dataclass(frozen=True)
class OtherServer:
    """Try again on another server, up to `tries` times; on the one that failed if no other takes the model."""

    tries: int = 12


@dataclass(frozen=True)
class Fallback:
    """Compute the answer without the servers. Policies after it in a list have no effect.

    Attributes:
        run: a function from inputs to outputs, both dicts of arrays by name; or a LocalServer.
    """

    run: Callable[[Arrays], Arrays] | Runs

    def __post_init__(self) -> None:
        if not callable(self.run) and not callable(getattr(self.run, "run", None)):
            raise TypeError(f"a Fallback is made of {self.run!r}, expected a function from inputs to outputs, or a LocalServer")


Policy = SameServer | OtherServer | Fallback


@dataclass(frozen=True)
class Backoff:
    """The pause before retry n = 0, 1, ..: a random time up to min(cap_s, base_s * 2**n), so-called full jitter."""

    base_s: float = 0.02
    cap_s: float = 2.0


@dataclass(frozen=True)
class Budget:
    """The retries that all requests of a client share, so that a dead service is not asked several times as often.

    Attributes:
        tokens: retries at the start, and the most that are saved.
        per_success: what an answer adds.
    """

    tokens: float = 100.0
    per_success: float = 0.5


@dataclass(frozen=True)
class Retry:
    """The reaction to a failed attempt.

    Attributes:
        policies: tried in their order; a Fallback is the last one.
    """

    policies: tuple[Policy, ...] = (SameServer(), OtherServer())
    backoff: Backoff = Backoff()
    budget: Budget = Budget()

    def __post_init__(self) -> None:
        for policy in self.policies:
            if not isinstance(policy, SameServer | OtherServer | Fallback):
                raise TypeError(f"a retry policy is {policy!r}, expected SameServer(..), OtherServer(..) or Fallback(..)")
        if any(isinstance(policy, Fallback) for policy in self.policies[:-1]):
            raise ValueError("a policy follows the Fallback, after which no server is asked; put the Fallback last")


@dataclass(frozen=True)
class Health:
    """Settings of health checks: when a server is left out, and when it is checked again.

    Attributes:
        failures: failed attempts in a row after which it is left out.
        first_s, longest_s: for how long; the time doubles each time that ServerReady fails.
        index_s: seconds between two requests for its list of models.
        ping_s: seconds without a byte from the server, with a request in flight, after which it gets an HTTP/2 ping; None sends
            no pings.
        ping_timeout_s: how long the answer to a ping, or to the bytes of a request, may take until the connection counts as
            broken.
    """

    failures: int = 3
    first_s: float = 1.0
    longest_s: float = 30.0
    index_s: float = 30.0
    ping_s: float | None = 10.0
    ping_timeout_s: float = 10.0

    def __post_init__(self) -> None:
        _check_positive(self)


@dataclass(frozen=True)
class Hedge:
    """Send a request to a second server when the first has not answered after `after_s` seconds; the first answer counts."""

    after_s: float


@dataclass(frozen=True)
class Settings:
    """All settings of a client.

    Attributes:
        compression: of requests.
        shared_memory: "auto" uses system shared memory for servers on this host that allow it; inputs must then not be changed
            before their result is there.
    """

    timeout: Timeout = Timeout()
    limits: Limits = Limits()
    retry: Retry = Retry()
    health: Health = Health()
    hedge: Hedge | None = None
    compression: Compression = ""
    shared_memory: SharedMemory = "off"

    def __post_init__(self) -> None:
        for name, kind in _PARTS.items():
            part = getattr(self, name)
            if not isinstance(part, kind) and not (name == "hedge" and part is None):
                raise TypeError(f"{name} is {part!r}, expected {kind.__name__}(..)")
        for name, choices in (("compression", get_args(Compression)), ("shared_memory", get_args(SharedMemory))):
            if (value := getattr(self, name)) not in choices:
                raise ValueError(f"{name} is {value!r}, expected {', '.join(map(repr, choices))}")

    def updated(
        self,
        *,
        timeout: Timeout | float | None = None,
        retry: Retry | Policy | Sequence[Policy] | None = None,
        **parts: object,
    ) -> Settings:
        """Return the settings with those parts replaced that are not None.

        Args:
            timeout: also just the seconds of a call.
            retry: also just the policies, or one.
        """
        new = {name: part for name, part in parts.items() if part is not None}
        if timeout is not None:
            new["timeout"] = as_timeout(timeout)
        if isinstance(retry, Policy):
            retry = (retry,)
        if isinstance(retry, Sequence):
            retry = Retry(tuple(retry))
        if retry is not None:
            if not isinstance(retry, Retry):
                raise TypeError(f"retry is {retry!r}, expected a policy such as OtherServer(..), several of them, or Retry(..)")
            new["retry"] = retry
        return replace(self, **new)  # type: ignore[arg-type]


def as_timeout(timeout: Timeout | float) -> Timeout:
    """Return the times of a call of so many seconds. Raises TypeError, and ValueError for a number that is not above 0."""
    if isinstance(timeout, Timeout):
        return timeout
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        raise TypeError(f"timeout is {timeout!r}, expected seconds or Timeout(..)")
    if not timeout > 0:
        raise ValueError(f"timeout is {timeout} s, expected more than 0")
    return Timeout(total_s=timeout, call_s=timeout)


#: the types of the parts of Settings
_PARTS = {"timeout": Timeout, "limits": Limits, "retry": Retry, "health": Health, "hedge": Hedge}
