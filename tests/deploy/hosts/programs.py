# SPDX-License-Identifier: Apache-2.0
"""The programs on the hosts: servers with three models, and clients that check their answers.

next     y = x + 1                          any number of INT32 in a row, up to 64 rows
digest   y = the first number of each row, and its sum, so that answers are small    the same
slow     as next, but a run takes 5 s; it leaves a file when it starts
steady   as next, but a run takes 80 ms, and eight run at a time; it is in a repository of its own
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.deploy.hosts.client_program import Task
from tests.deploy.hosts.namespaces import NAMESPACES, Host
from tests.server.python_models import source, write_python
from tests.support.server_program import Program, program
from tests.support.waiting import wait_until

PORT = 8001
CONFIG = """
max_batch_size: 64
input [ { name: "x" data_type: TYPE_INT32 dims: [ -1 ] } ]
output [ { name: "y" data_type: %s dims: [ %d ] } ]
"""
NEXT = "return [y(x_of(request) + np.int32(1)) for request in requests]"
DIGEST = """
def digest(x):
    return np.stack([x[:, 0].astype(np.int64), x.sum(axis=1, dtype=np.int64)], axis=1)
return [y(digest(x_of(request))) for request in requests]
"""
SLOW = (
    """
namespace = os.stat("/proc/self/ns/net").st_ino
open(os.path.join(os.path.dirname(__file__), "..", "..", "..", f"working-{namespace}"), "w").close()
time.sleep(5)
"""
    + NEXT
)
#: its requests in flight, and not the processor, are what a test of it is about
STEADY = "time.sleep(0.08)\n" + NEXT
EIGHT = "instance_group [ { count: 8 kind: KIND_CPU } ]"


def write_models(repository: Path) -> Path:
    """Write the repository of the servers."""
    write_python(repository, "next", source(NEXT), CONFIG % ("TYPE_INT32", -1))
    write_python(repository, "slow", source(SLOW), CONFIG % ("TYPE_INT32", -1))
    write_python(repository, "digest", source(DIGEST), CONFIG % ("TYPE_INT64", 2))
    return repository


def write_steady(repository: Path) -> Path:
    """Write the repository of model `steady`."""
    write_python(repository, "steady", source(STEADY), CONFIG % ("TYPE_INT32", -1) + EIGHT)
    return repository


def is_working(host: Host, repository: Path) -> bool:
    """Return whether model `slow` has begun a run on a host."""
    return repository.with_name(f"working-{(NAMESPACES / host.namespace).stat().st_ino}").exists()


def address(host: Host) -> str:
    """Return the address of the gRPC port of the server on a host."""
    return f"{host.address}:{PORT}"


@contextmanager
def server(host: Host, repository: Path, *options: str) -> Iterator[Program]:
    """Run a server on a host."""
    ports = ("--grpc-port", str(PORT), "--http-port", "8000", "--metrics-port", "8002")
    with program(
        "--model-repository", str(repository), *ports, *options, address=host.address, before=host.command()
    ) as running:
        yield running


@dataclass
class Running:
    """A client at work. lines: what it has printed for its requests. totals: its last line. ended: all of it has been read."""

    task: Task
    process: subprocess.Popen[str]
    lines: list[dict[str, Any]] = field(default_factory=list)
    totals: dict[str, float] = field(default_factory=dict)
    ended: bool = False

    def read(self) -> None:
        try:
            for line in self.process.stdout or ():
                content = json.loads(line)
                if "per_s" in content:
                    self.totals = content
                else:
                    self.lines.append(content)
        finally:
            self.ended = True

    def wait_for(self, condition: Callable[[], object]) -> None:
        """Wait until the condition holds. Fails if the client has ended before."""
        wait_until(lambda: condition() or self.ended, 300, explain=self.summary)
        assert condition(), self.summary()

    def wait_for_answers(self, count: int) -> None:
        """Wait until it has so many answers in all."""
        self.wait_for(lambda: len(self.lines) >= count)

    def wait_for_more(self, count: int) -> None:
        """Wait until it has so many answers more than now."""
        self.wait_for_answers(len(self.lines) + count)

    @property
    def servers(self) -> Counter[str]:
        """The answers by server."""
        return Counter(line["server"] for line in self.lines)

    @property
    def retried(self) -> int:
        """The answers that took more than one attempt."""
        return sum(line["attempts"] > 1 for line in self.lines)

    def summary(self) -> str:
        """Return what is known, for the text of a failure."""
        wrong = [line for line in self.lines if not line["right"]][:5]
        return f"{len(self.lines)} of {self.task.count} answers from {dict(self.servers)}, not right: {wrong}, {self.totals}"

    def finish(self) -> dict[str, float]:
        """Wait for the end; each request must have its right answer, once. Returns the totals."""
        self.wait_for(lambda: self.totals)
        indices = sorted(line["index"] for line in self.lines)
        assert all(line["right"] for line in self.lines), self.summary()
        assert indices == list(range(self.task.count)), self.summary()
        return self.totals

    def stop(self) -> dict[str, float]:
        """Let it finish what is in flight; each request that it has sent must have its right answer, once."""
        self.process.send_signal(signal.SIGTERM)
        self.wait_for(lambda: self.totals)
        self.task = replace(self.task, count=int(self.totals["asked"]))
        return self.finish()


@contextmanager
def client(host: Host, task: Task, names: Path | None = None) -> Iterator[Running]:
    """Run a client on a host. names: a file in place of /etc/hosts, in a mount namespace of the client's own."""
    argv = host.command(sys.executable, "-m", "tests.deploy.hosts.client_program", task.as_json())
    if names:
        argv = ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', str(names), *argv]
    root = Path(__file__).parents[3]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, cwd=root) as process:
        running = Running(task, process)
        reader = threading.Thread(target=running.read)
        reader.start()
        try:
            yield running
        finally:
            process.kill()
            reader.join()


def run_client(host: Host, task: Task) -> dict[str, float]:
    """Run a client to its end. Returns its totals."""
    with client(host, task) as running:
        return running.finish()
