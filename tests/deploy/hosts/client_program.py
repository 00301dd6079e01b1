# SPDX-License-Identifier: Apache-2.0
"""A client that runs on a host of the test, and checks every integer of every answer.

    python -m tests.deploy.hosts.client_program '{"servers": ["10.99.0.3:8001"], "count": 100}'

It prints one line of JSON for each answer, as it arrives, and one for each request that failed; then a line with totals. A
request has the rows `rows_of(index)`, which no other request of any client has, as long as the clients' `first` are far enough
apart. After SIGTERM it sends no more requests, and finishes those that it has sent.
"""

from __future__ import annotations

import json
import queue
import signal
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import tritonclient.grpc as triton
from numpy.typing import NDArray

from hypersonic.client import Client, ClientError, Health, Limits, OtherServer, SameServer, Timeout

INT32 = NDArray[np.int32]


@dataclass(frozen=True)
class Task:
    """The work of a client. first: added to the indices of its requests. warm: answers before the clock starts.

    timeout, health: settings of our client.
    """

    servers: list[str]
    count: int
    model: str = "next"
    rows: int = 2
    columns: int = 8
    in_flight: int = 8
    first: int = 0
    warm: int = 0
    library: str = "hypersonic"
    timeout: dict[str, float] = field(default_factory=dict)
    health: dict[str, float] = field(default_factory=dict)

    def as_json(self) -> str:
        """Return the task as an argument of the program."""
        return json.dumps(asdict(self))


@dataclass(frozen=True)
class Answer:
    """An answer, or the error in its place. server: "" if the library does not tell."""

    index: int
    output: NDArray[Any] | None
    server: str = ""
    attempts: int = 1
    error: str = ""


class Asked:
    """Yields the indices of the requests until they are used up or `stop` is set. count: so many so far."""

    def __init__(self, most: int, stop: threading.Event) -> None:
        self._most, self._stop, self.count = most, stop, 0

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        if self.count == self._most or self._stop.is_set():
            raise StopIteration
        self.count += 1
        return self.count - 1


def rows_of(task: Task, index: int) -> INT32:
    """Return the rows of a request: consecutive integers, from a number that depends on the index."""
    size = task.rows * task.columns
    begin = (task.first + index) * 7919 % 2_000_000_000
    return np.arange(begin, begin + size, dtype=np.int32).reshape(task.rows, task.columns)


def expected(task: Task, index: int) -> NDArray[Any]:
    """Return the right answer: the first number and the sum of each row from `digest`; each number and one from the others."""
    rows = rows_of(task, index)
    if task.model != "digest":
        return rows + np.int32(1)
    return np.stack([rows[:, 0].astype(np.int64), rows.sum(axis=1, dtype=np.int64)], axis=1)


def by_hypersonic(task: Task, asked: Iterator[int]) -> Iterator[Answer]:
    """Send the requests with our client's `map`. A failed request ends it."""
    client = Client(
        task.servers,
        timeout=Timeout(**task.timeout),
        limits=Limits(in_flight=task.in_flight),
        health=Health(**task.health),  # type: ignore[arg-type]  # failures is an int in JSON
        retry=(SameServer(), OtherServer(tries=60)),
    )
    with client:
        try:
            for result in client.model(task.model).map((rows_of(task, index) for index in asked), ordered=False):
                yield Answer(result.index, result.output, result.server, result.attempts)
        except ClientError as error:
            yield Answer(-1, None, error=str(error))


def by_tritonclient(task: Task, asked: Iterator[int]) -> Iterator[Answer]:
    """Send the requests with NVIDIA's client, from as many threads as requests may be in flight. It does not retry."""
    answers = queue.SimpleQueue[Answer | None]()
    lock = threading.Lock()

    def send() -> None:
        with triton.InferenceServerClient(task.servers[0]) as client:
            while True:
                with lock:
                    index = next(asked, None)
                if index is None:
                    answers.put(None)  # this thread has ended
                    return
                tensor = triton.InferInput("x", [task.rows, task.columns], "INT32")
                tensor.set_data_from_numpy(rows_of(task, index))
                try:
                    output = client.infer(task.model, [tensor], client_timeout=60).as_numpy("y")
                    answers.put(Answer(index, output))
                except Exception as error:  # noqa: BLE001 - any failure is an answer of the program
                    answers.put(Answer(index, None, error=str(error)))

    for _ in range(task.in_flight):
        threading.Thread(target=send, daemon=True).start()
    ended = 0
    while ended < task.in_flight:
        answer = answers.get()
        ended += answer is None
        if answer is not None:
            yield answer


def sent_bytes() -> int:
    """Return the bytes that the interfaces of this host, but for loopback, have sent."""
    lines = Path("/proc/self/net/dev").read_text().splitlines()[2:]
    return sum(int(line.split(":")[1].split()[8]) for line in lines if not line.strip().startswith("lo:"))


def write(line: dict[str, Any]) -> None:
    """Print a line of JSON."""
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def main(argument: str) -> None:
    """Do the task and print what happened."""
    task = Task(**json.loads(argument))
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    asked = Asked(task.count, stop)
    begin_s, begin_bytes = time.perf_counter(), sent_bytes()
    right = number = 0
    send = {"hypersonic": by_hypersonic, "tritonclient": by_tritonclient}[task.library]
    for number, answer in enumerate(send(task, asked), 1):
        same = answer.output is not None and np.array_equal(answer.output, expected(task, answer.index))
        right += same
        line = {"index": answer.index, "right": bool(same), "server": answer.server, "attempts": answer.attempts}
        write({**line, "error": answer.error})
        if number == task.warm:
            begin_s = time.perf_counter()
    seconds, measured = time.perf_counter() - begin_s, max(1, number - task.warm)
    # of all requests: some of those that are answered after the warm ones were sent before
    request_bytes = (sent_bytes() - begin_bytes) / max(1, number)
    totals = {"right": right, "asked": asked.count, "per_s": measured / seconds, "request_bytes": request_bytes}
    write(totals)


if __name__ == "__main__":
    main(sys.argv[1])
