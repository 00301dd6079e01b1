# SPDX-License-Identifier: Apache-2.0
"""Which requests a server runs together, told by the gated model: the first request holds the instance in execute, the others
queue behind it one by one, then it is let go."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import numpy as np

from tests.reference.repository import gate
from tests.reference.wire import TIMEOUT_S, Wire, given, message, plain, refused

DURATIONS = ("success", "fail", "queue", "compute_input", "compute_infer", "compute_output", "cache_hit", "cache_miss")


class Queued(NamedTuple):
    """A request that queues. row: shape of one row; expires_ms: how long it must be left to expire."""

    rows: int = 1
    row: tuple[int, ...] = (2,)
    parameters: dict[str, int] = {}
    expires_ms: int = 0


def request(model: str, queued: Queued, value: float = 1.0, id: str = "") -> Any:  # noqa: A002
    shape = (queued.rows, *queued.row) if queued.rows else queued.row
    return message(model, [given("X", np.full(shape, value, np.float32), "FP32")], id=id, **queued.parameters)


def scenario(wire: Wire, repository: Path, model: str, queued: Sequence[Queued], first_rows: int = 1) -> dict[str, Any]:
    """Of each queued request (run after the first one's, requests in that run, place in it), or how it was refused; and what
    the statistics counted meanwhile."""
    before = counts(wire, model)
    holder = wire.begin(request(model, queued[0]._replace(rows=first_rows, parameters={}), -1.0))
    with _in_execute(gate(repository, model)):
        futures: list[grpc.Future] = []
        for one in queued:
            futures.append(wire.begin(request(model, one)))
            _wait_for_queue(wire, model, futures)
        time.sleep(max(one.expires_ms for one in queued) / 1000)  # what expires is time itself
    first = _seen(holder)[0]
    ends = [_seen(future) for future in futures]
    # the answer leaves before it is counted; the real server does not count what a full queue refuses
    counted = [end for end in ends if isinstance(end, tuple) or "maximum queue size" not in end["text"]]
    wait_until(lambda: _ended(counts(wire, model), before) >= len(counted) + 1)
    after = counts(wire, model)
    return {
        "runs": [(end[0] - first, *end[1:]) if isinstance(end, tuple) else end for end in ends],
        "counted": {key: value - before.get(key, 0) for key, value in after.items() if value > before.get(key, 0)},
    }


def _wait_for_queue(wire: Wire, model: str, futures: Sequence[grpc.Future]) -> None:
    """Until every one of them is seen to queue or has ended."""
    wait_until(lambda: wire.pending(model) + sum(future.done() for future in futures) >= len(futures))


def counts(wire: Wire, model: str) -> dict[str, int]:
    """Every count of a model's statistics."""
    (found,) = wire.rpc("ModelStatistics", name=model)["model_stats"]
    kept = {key: int(found.get(key, 0)) for key in ("inference_count", "execution_count")}
    kept |= {key: int(found.get("inference_stats", {}).get(key, {}).get("count", 0)) for key in DURATIONS}
    for batch in found.get("batch_stats", []):
        kept |= {f"batch of {batch['batch_size']}: {key}": int(batch[key]["count"]) for key in DURATIONS[3:6]}
    return kept


def _ended(now: dict[str, int], before: dict[str, int]) -> int:
    return sum(now[key] - before[key] for key in ("success", "fail"))


def wait_until(holds: Callable[[], bool]) -> None:
    """Raises TimeoutError when it does not come to hold."""
    deadline = time.monotonic() + TIMEOUT_S
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError("what the test waits for did not happen")
        time.sleep(0.01)


def _seen(future: grpc.Future) -> Any:
    try:
        answer = plain(future.result())
    except grpc.RpcError as error:
        return refused(error)
    (data,) = [output[4] for output in answer["outputs"] if output[0] == "RUN"]
    return tuple(int(v) for v in np.frombuffer(data, np.int32)[:3])


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


_Q = Queued()
#: model, what queues behind its first request, rows of the first
SCENARIOS: dict[str, tuple[str, Sequence[Queued], int]] = {
    "no batching": ("plain", [_Q] * 3, 1),
    "no batch dimension": ("single", [Queued(0)] * 3, 0),
    "up to the largest batch": ("dynamic", [_Q] * 6, 1),
    "batches of several rows": ("dynamic", [Queued(2), Queued(1), Queued(2), Queued(4), Queued(1)], 2),
    "a row too many": ("dynamic", [Queued(3), Queued(2), Queued(1)], 1),
    "preferred sizes: one": ("preferred", [_Q], 1),
    "preferred sizes: three": ("preferred", [_Q] * 3, 1),
    "preferred sizes: four": ("preferred", [_Q] * 4, 1),
    "preferred sizes: five": ("preferred", [_Q] * 5, 1),
    "preferred sizes: seven": ("preferred", [_Q] * 7, 1),
    "delay: a preferred size is sent at once": ("delayed", [_Q] * 3, 3),
    "delay: twice a preferred size": ("delayed", [_Q] * 6, 3),
    "delay: a full batch": ("delayed", [Queued(4)], 3),
    "queue of two": ("queue", [_Q] * 4, 1),
    "requests that expire": ("expiring", [Queued(expires_ms=600)] * 2, 1),
    "a timeout of its own": ("expiring", [Queued(parameters={"timeout": 100_000}, expires_ms=300)], 1),
    "a timeout longer than the model's": ("expiring", [Queued(parameters={"timeout": 60_000_000}, expires_ms=600)], 1),
    "expired requests wait behind the others": (
        "delaying",
        [Queued(4, expires_ms=600), Queued(parameters={"timeout": 100_000}), _Q],
        1,
    ),
    "shapes apart, first ones alike": ("grouping", [Queued(row=(2,)), Queued(row=(2,)), Queued(row=(3,)), Queued(row=(3,))], 1),
    "ragged": ("ragged", [Queued(row=(2,)), Queued(row=(3,)), Queued(row=(5,)), Queued(row=(2,))], 1),
    "priorities": (
        "priority",
        [Queued(parameters={"priority": p}) for p in (3, 2, 1)] + [_Q, Queued(parameters={"priority": 1})],
        1,
    ),
    "priority no level": ("priority", [Queued(parameters={"priority": 4})], 1),
    "a full level": ("priority", [Queued(parameters={"priority": 3})] * 2, 1),
}
