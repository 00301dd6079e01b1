# SPDX-License-Identifier: Apache-2.0
"""The counts of a client for each server, and the times that the servers themselves counted."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hypersonic.client.engine import Engine
from hypersonic.client.pool.member import Member
from hypersonic.client.server_times import read_sums


@dataclass(frozen=True)
class ServerTimes:
    """A server's own counts of a model since this client's first request; they include all clients (ModelStatistics).

    Attributes:
        requests: successful ones.
        executions: executed batches. The times are means per request, in microseconds.
    """

    requests: int
    executions: int
    queue_us: float
    input_us: float
    infer_us: float
    output_us: float

    def as_text(self) -> str:
        """Return the counts and the mean times in one line."""
        return (
            f"{self.requests} requests in {self.executions} runs; mean us of a request: queue {self.queue_us:.0f}, "
            f"input {self.input_us:.0f}, infer {self.infer_us:.0f}, output {self.output_us:.0f}"
        )


@dataclass(frozen=True)
class ServerStatistics:
    """The client's counts for one server.

    Attributes:
        sent: attempts.
        bytes: of requests.
        p50_ms, p99_ms: latencies, within 2.2 %.
        state: whether it takes new work, and why not.
        models: the server's own times, by the model's name.
    """

    server: str
    state: str
    sent: int
    failed: int
    retried: int
    hedged: int
    bytes: int
    p50_ms: float
    p99_ms: float
    models: dict[str, ServerTimes]


@dataclass(frozen=True)
class Statistics:
    """The counts of a client.

    Attributes:
        answered: requests that servers answered.
        fallback: requests that the fallback answered.
    """

    servers: tuple[ServerStatistics, ...]
    answered: int
    fallback: int
    fallback_p50_ms: float
    fallback_p99_ms: float

    @property
    def fallback_share(self) -> float:
        """The share of all answers that the fallback computed, 0 to 1; 0 without answers."""
        return self.fallback / max(self.answered + self.fallback, 1)

    def as_text(self) -> str:
        """Return a table with a line for each server, and one for the fallback."""
        lines = [f"{'server':28} {'sent':>8} {'failed':>7} {'retried':>7} {'MB':>9} {'p50 ms':>8} {'p99 ms':>8}  state"]
        for one in self.servers:
            lines.append(
                f"{one.server:28} {one.sent:8} {one.failed:7} {one.retried:7} {one.bytes / 1e6:9.1f} "
                f"{one.p50_ms:8.2f} {one.p99_ms:8.2f}  {one.state}"
            )
            lines += [f"  {model}: {times.as_text()}" for model, times in one.models.items()]
        share = f"{self.fallback} of {self.answered + self.fallback} answers, {100 * self.fallback_share:.1f} %"
        return "\n".join([*lines, f"fallback: {share}"])


def collect(engine: Engine) -> Statistics:
    """Return the statistics of a client. Requests each server's own statistics."""
    members = engine.pool.members
    servers = tuple(_of_server(engine, member) for member in members)
    fallbacks = engine.context.fallbacks.latencies
    return Statistics(
        servers,
        sum(member.counters.latencies.count for member in members),
        fallbacks.count,
        _ms(fallbacks.quantile_ns(0.5)),
        _ms(fallbacks.quantile_ns(0.99)),
    )


def _of_server(engine: Engine, member: Member) -> ServerStatistics:
    counters = member.counters
    state = f"{member.state.value}: {member.why}" if member.why and member.state.name != "UP" else member.state.value
    state += "".join(f"; no requests for {name}: {why}" for name, why in tuple(member.refuted.items()))
    return ServerStatistics(
        member.name,
        state,
        counters.sent,
        counters.failed,
        counters.retried,
        counters.hedged,
        counters.bytes,
        _ms(counters.latencies.quantile_ns(0.5)),
        _ms(counters.latencies.quantile_ns(0.99)),
        _own_times(engine, member),
    )


def _own_times(engine: Engine, member: Member) -> dict[str, ServerTimes]:
    times = {}
    for (name, version), before in engine.baselines(member).items():
        now = read_sums(member, (name, version), engine.settings.timeout.connect_s)
        if now is not None:
            requests, executions, *sums = (b - a for a, b in zip(before, now, strict=True))
            times[name] = ServerTimes(requests, executions, *(ns / 1000 / max(requests, 1) for ns in sums))
    return times


def _ms(ns: float) -> float:
    return ns * 1e-6 if not math.isnan(ns) else math.nan
