# SPDX-License-Identifier: Apache-2.0
"""The server as a separate process: start it, read its log and its ports, stop it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.support.waiting import wait_until


@dataclass
class Program:
    """A started server. stderr is read all the time, so that it never blocks."""

    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)
    ports: dict[str, str] = field(default_factory=dict)

    def read(self) -> None:
        for line in self.process.stderr or ():
            self.lines.append(line.rstrip())
            if match := re.search(r"Started (GRPCInferenceService|HTTPService|Metrics Service) at (\S+?)\"?$", line.rstrip()):
                self.ports[match[1]] = match[2]

    @property
    def log(self) -> str:
        return "\n".join(self.lines)

    @property
    def grpc(self) -> str:
        return self.ports["GRPCInferenceService"]

    def wait_for(self, condition: Callable[..., object], timeout_s: float = 300.0) -> None:
        wait_until(condition, timeout_s, explain=lambda: self.log)

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


@contextmanager
def program(
    *options: str,
    environment: Mapping[str, str] | None = None,
    started: bool = True,
    limits: str = "",
    address: str = "127.0.0.1",
    before: Sequence[str] = (),
) -> Iterator[Program]:
    """limits: an option of prlimit(1). address: where it listens. before: a command that runs the server's command."""
    argv = [*before, *(["prlimit", limits, "--"] if limits else []), sys.executable, "-m", "hypersonic.server.app", *options]
    for name in ("grpc", "http", "metrics"):
        if f"--{name}-port" not in options:
            argv += [f"--{name}-port", "0"]
        argv += [f"--{name}-address", address]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True, env={**os.environ, **(environment or {})}) as process:
        running = Program(process)
        reader = threading.Thread(target=running.read)
        reader.start()
        try:
            if started:
                running.wait_for(lambda: len(running.ports) == 3 or process.poll() is not None)
                assert len(running.ports) == 3, running.log
            yield running
        finally:
            process.kill()
            reader.join()
