# SPDX-License-Identifier: Apache-2.0
"""Find out which requests a server runs together, with the gated model: the first request holds the instance in execute, the
others queue behind it one by one, then it is released."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import numpy as np

from tests.reference.pair import Side
from tests.reference.repository import gate
from tests.reference.wire import Wire, given, message, plain, refused
from tests.support.waiting import holds_within, wait_until

DURATIONS = ("success", "fail", "queue", "compute_input", "compute_infer", "compute_output", "cache_hit", "cache_miss")


ENQUEUE_S = 0.1
"""Seconds a server gets between counting a request as pending and queueing it."""


class Queued(NamedTuple):
    """A request that queues. row: shape of one row; expires_ms: how long it must be left to expire."""

    rows: int = 1
    row: tuple[int, ...] = (2,)
    parameters: dict[str, int] = {}
    expires_ms: int = 0


def request(model: str, queued: Queued, value: float = 1.0, id: str = "") -> Any:  # noqa: A002
    parameters: dict[str, Any] = queued.parameters
    shape = (queued.rows, *queued.row) if queued.rows else queued.row
    return message(model, [given("X", np.full(shape, value, np.float32), "FP32")], id=id, **parameters)


class Scenario(NamedTuple):
    """Requests that queue behind a model's first request, which stays in execute meanwhile."""

    model: str
    queued: Sequence[Queued]
    first: Queued = Queued()


def run(side: Side, asked: Scenario) -> dict[str, Any]:
    """Of each queued request (run after the first one's, requests in that run, place in it), or how it was refused; and what
    the statistics counted meanwhile."""
    wire, (model, queued, first) = side.wire, asked
    before = counts(wire, model)
    with held(side, model, first) as holder:
        futures: list[grpc.Future] = []
        for one in queued:
            futures.append(wire.begin(request(model, one)))
            _wait_for_queue(wire, model, futures)
        time.sleep(max(one.expires_ms for one in queued) / 1000)  # what expires is time itself
    holders = _seen(holder)[0]
    ends = [_seen(future) for future in futures]
    # the answer leaves before it is counted; the real server does not count what a full queue refuses
    counted = [end for end in ends if isinstance(end, tuple) or "maximum queue size" not in end["text"]]
    wait_until(lambda: _ended(counts(wire, model), before) >= len(counted) + 1)
    after = counts(wire, model)
    return {
        "runs": [(end[0] - holders, *end[1:]) if isinstance(end, tuple) else end for end in ends],
        "counted": {key: value - before.get(key, 0) for key, value in after.items() if value > before.get(key, 0)},
    }


def _wait_for_queue(wire: Wire, model: str, futures: Sequence[grpc.Future]) -> None:
    """Wait until every request is counted as pending or has ended, and a moment more.

    The real server counts a request as pending just before it puts it into its queue. On a loaded machine the next request
    could overtake it there, and nothing outside the server shows that the queue has it.
    """
    wait_until(lambda: wire.pending(model) + sum(future.done() for future in futures) >= len(futures))
    time.sleep(ENQUEUE_S)


def counts(wire: Wire, model: str) -> dict[str, int]:
    """Every count of a model's statistics."""
    (statistics,) = wire.rpc("ModelStatistics", name=model)["model_stats"]
    kept = {key: int(statistics.get(key, 0)) for key in ("inference_count", "execution_count")}
    kept |= {key: int(statistics.get("inference_stats", {}).get(key, {}).get("count", 0)) for key in DURATIONS}
    for batch in statistics.get("batch_stats", []):
        kept |= {f"batch of {batch['batch_size']}: {key}": int(batch[key]["count"]) for key in DURATIONS[3:6]}
    return kept


def _ended(now: dict[str, int], before: dict[str, int]) -> int:
    return sum(now[key] - before[key] for key in ("success", "fail"))


def _seen(future: grpc.Future) -> Any:
    try:
        answer = plain(future.result())
    except grpc.RpcError as error:
        return refused(error)
    (data,) = [output[4] for output in answer["outputs"] if output[0] == "RUN"]
    return tuple(int(v) for v in np.frombuffer(data, np.int32)[:3])


@contextmanager
def held(side: Side, model: str, first: Queued) -> Iterator[grpc.Future]:
    """A request that is in execute until the context is left: its future."""
    holder = side.wire.begin(request(model, first, -1.0))
    with _in_execute(gate(side.repository, model)):
        yield holder


@contextmanager
def _in_execute(path: Path) -> Iterator[None]:
    """Returns once the model waits at its gate; leaving lets it go on."""
    opened: list[int] = []

    def entered() -> bool:
        try:
            opened.append(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            return False
        return True

    wait_until(entered)
    try:
        yield
    finally:
        os.close(opened[0])


def keeps_order(side: Side, model: str) -> bool:
    """Whether an answer waits for the one to a request that came before, though another instance had it ready."""
    before = counts(side.wire, model)["execution_count"]
    with held(side, model, Queued()) as holder:
        second = side.wire.begin(request(model, Queued()))
        wait_until(lambda: counts(side.wire, model)["execution_count"] > before)
        early = second.done()
    return _seen(holder)[0] == 0 and _seen(second)[1:] == (1, 0) and not early


def cancelled(side: Side, model: str) -> dict[str, int]:
    """The growth of the statistics when the client cancels a request that waits behind another."""
    wire = side.wire
    before = counts(wire, model)
    with held(side, model, Queued()) as holder:
        waiting = wire.begin(request(model, Queued()))
        wait_until(lambda: wire.pending(model) >= 1)
        waiting.cancel()
        holds_within(lambda: _ended(counts(wire, model), before) >= 1, 2.0)  # some servers never notice the cancellation
    holder.result()
    wait_until(lambda: _ended(counts(wire, model), before) >= 2)
    return {key: value - before.get(key, 0) for key, value in counts(wire, model).items() if value > before.get(key, 0)}


def keeps_sequences_apart(side: Side, model: str) -> dict[str, Any]:
    """Of six sequences in four candidates' places: which run together is a matter of moments, the order in each is not."""
    steps = [*(_of(n, "start") for n in range(2, 7)), _of(1), *(_of(n, "end") for n in range(2, 7)), _of(1, "end")]
    outcome = run(side, Scenario(model, steps, _of(1, "start")))
    of_sequence = {
        n: [end[0] for end, one in zip(outcome["runs"], steps, strict=True) if one.parameters["sequence_id"] == n]
        for n in range(1, 7)
    }
    return {
        "in order": {n: len(runs) == 2 and runs[0] < runs[1] for n, runs in of_sequence.items()},
        "at most four at once": max(places for _, places, _ in outcome["runs"]) <= 4,
        "counted": {key: value for key, value in outcome["counted"].items() if key in ("inference_count", "success", "queue")},
    }  # fmt: skip


def _timed(timeout_us: int, expires_ms: int = 0, rows: int = 1, priority: int = 0) -> Queued:
    return Queued(
        rows, parameters={"timeout": timeout_us} | ({"priority": priority} if priority else {}), expires_ms=expires_ms
    )


def _of(sequence: int, mark: str = "") -> Queued:
    """A step of a sequence; mark: `start`, `end`, both or none."""
    marks = {f"sequence_{word}": True for word in mark.split()}
    return Queued(parameters={"sequence_id": sequence, **marks})


_Q = Queued()
SCENARIOS: dict[str, Scenario] = {
    "no batching": Scenario("plain", [_Q] * 3),
    "no batch dimension": Scenario("single", [Queued(0)] * 3, Queued(0)),
    "up to the largest batch": Scenario("dynamic", [_Q] * 6),
    "batches of several rows": Scenario("dynamic", [Queued(2), Queued(1), Queued(2), Queued(4), Queued(1)], Queued(2)),
    "a row too many": Scenario("dynamic", [Queued(3), Queued(2), Queued(1)]),
    "preferred sizes: one": Scenario("preferred", [_Q]),
    "preferred sizes: three": Scenario("preferred", [_Q] * 3),
    "preferred sizes: four": Scenario("preferred", [_Q] * 4),
    "preferred sizes: five": Scenario("preferred", [_Q] * 5),
    "preferred sizes: seven": Scenario("preferred", [_Q] * 7),
    "delay: a preferred size is sent at once": Scenario("delayed", [_Q] * 3, Queued(3)),
    "delay: twice a preferred size": Scenario("delayed", [_Q] * 6, Queued(3)),
    "delay: a full batch": Scenario("delayed", [Queued(4)], Queued(3)),
    "queue of two": Scenario("queue", [_Q] * 4),
    "requests that expire": Scenario("expiring", [Queued(expires_ms=600)] * 2),
    "a timeout of its own": Scenario("expiring", [_timed(100_000, 300)]),
    "a timeout longer than the model's": Scenario("expiring", [_timed(60_000_000, 600)]),
    "a timeout where none may be set": Scenario("unhurried", [_timed(1_000, 100), _Q]),
    "expired requests wait behind the others": Scenario("delaying", [Queued(4, expires_ms=600), _timed(100_000), _Q]),
    "every request expired, none refused": Scenario("delaying", [_timed(1_000, 100)] * 3),
    "shapes apart, first ones alike": Scenario("grouping", [Queued(row=(n,)) for n in (2, 2, 3, 3)]),
    "shapes apart, by turns": Scenario("grouping", [Queued(row=(n,)) for n in (2, 3, 2, 3)]),
    "ragged": Scenario("ragged", [Queued(row=(n,)) for n in (2, 3, 5, 2)]),
    "ragged, of several rows": Scenario("ragged", [Queued(2, row=(3,)), Queued(2, row=(5,)), Queued(1, row=(1,))]),
    "priorities": Scenario("priority", [*(Queued(parameters={"priority": p}) for p in (3, 2, 1)), _Q, Queued(parameters={"priority": 1})]),
    "priority no level": Scenario("priority", [Queued(parameters={"priority": 4})]),
    "a full level": Scenario("priority", [Queued(parameters={"priority": 3})] * 2),
    "a level that expires": Scenario("levels", [_timed(100_000, 600, priority=2), _timed(100_000, priority=1), _Q]),
    "priorities within a batch": Scenario("levels", [Queued(2, parameters={"priority": p}) for p in (2, 1, 2, 1)]),
    "sequences side by side": Scenario("seated", [_of(2, "start"), _of(3, "start"), _of(1), _of(2, "end"), _of(3, "end"), _of(1, "end")], _of(1, "start")),
    "more sequences than seats": Scenario("seated", [*(_of(n, "start end") for n in range(2, 7)), _of(1, "end")], _of(1, "start")),
}  # fmt: skip


def cases() -> dict[str, Callable[[Side], Any]]:
    """All of them, by name."""
    cases: dict[str, Callable[[Side], Any]] = {name: partial(run, asked=asked) for name, asked in SCENARIOS.items()}
    cases["sequences apart"] = partial(keeps_sequences_apart, model="oldest_first")
    cases["order is kept"] = partial(keeps_order, model="ordered")
    cases["cancelled, no batching"] = partial(cancelled, model="plain")
    cases["cancelled"] = partial(cancelled, model="dynamic")
    return {f"batching: {name}": case for name, case in cases.items()}
