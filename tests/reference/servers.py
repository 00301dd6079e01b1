# SPDX-License-Identifier: Apache-2.0
"""The real tritonserver and ours as processes of their own, on the loopback interface."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.reference import environment
from tests.support.environments import Program
from tests.support.ports import free_ports
from tests.support.waiting import holds_within

PATIENCE_S = 120
_STOP_S = 30
_LAST_WORDS = 400  # letters of a log that ended too soon
_STACK_FRAME = re.compile(r"\d+# ")
#: what both log once a front end listens; cmsTriton waits for the first of them
_STARTED = {
    "grpc": r"Started GRPCInferenceService at ([0-9.]+:[0-9]+)",
    "http": r"Started HTTPService at ([0-9.]+:[0-9]+)",
    "metrics": r"Started Metrics Service at ([0-9.]+:[0-9]+)",
}


class Served(NamedTuple):
    """A running server. Addresses are host:port."""

    name: str
    grpc: str
    http: str
    metrics: str
    log: Path
    process: subprocess.Popen[bytes]

    def ended(self) -> str:
        """How it ended by itself; "" while it runs, or seems to: its port is closed a moment before its process is gone."""
        if self.process.poll() is None and _listens(self.grpc):
            return ""
        try:
            code = self.process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            return ""
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return f"{self.name} ended by itself with {how}; its log ends: {self._last_words()}"

    def _last_words(self) -> str:
        lines = [line.strip() for line in self.log.read_text(errors="replace").splitlines()]
        return " | ".join(line for line in lines if line and not _STACK_FRAME.match(line))[-_LAST_WORDS:]


Start = Callable[..., AbstractContextManager[Served]]


class StartError(RuntimeError):
    """The server ended or said nothing; its log."""


@contextmanager
def triton(directory: Path, repository: Path, *options: str) -> Iterator[Served]:
    """The real server; its log goes into `directory`."""
    program = environment.tritonserver()
    regions = f"reference-{uuid.uuid4().hex}-"
    python = (
        f"--backend-config=python,{option}" for option in ("shm-default-byte-size=1048576", f"shm-region-prefix-name={regions}")
    )
    options = ("--allow-gpu-metrics=false", *python, *_common(repository), *options)
    try:
        with _on_free_ports(program, directory, options) as served:
            yield served
    finally:
        for left in Path("/dev/shm").glob(f"{regions}*"):  # where it crashed
            left.unlink(missing_ok=True)


@contextmanager
def _on_free_ports(program: Program, directory: Path, options: Sequence[str]) -> Iterator[Served]:
    for attempt in range(5):
        ports = dict(zip(_STARTED, free_ports(len(_STARTED)), strict=True))
        argv = [*program.argv, *options, *(f"--{name}-port={port}" for name, port in ports.items())]
        try:
            with _running("triton", directory, argv, program.env) as served:
                yield served
                return
        except StartError as error:  # another test may have taken one of the ports in between
            if attempt == 4 or "already in use" not in str(error):
                raise


@contextmanager
def hypersonic(directory: Path, repository: Path, *options: str) -> Iterator[Served]:
    """Our server; its log goes into `directory`."""
    argv = [sys.executable, "-m", "hypersonic.cli", "serve", "--grpc-port=0", "--http-port=0", "--metrics-port=0"]
    argv += ["--allow-client-shm=true", "--allow-python-override=true"]  # 2.51 knows neither: there both are always on
    with _running("hypersonic", directory, [*argv, *_common(repository), *options], {}) as served:
        yield served


def _common(repository: Path) -> Sequence[str]:
    addresses = [f"--{name}-address=127.0.0.1" for name in _STARTED]
    return [f"--model-repository={repository}", "--exit-on-error=false", "--exit-timeout-secs=5", *addresses]


def _listens(address: str) -> bool:
    host, port = address.rsplit(":", 1)
    try:
        socket.create_connection((host, int(port)), _STOP_S).close()
    except OSError:
        return False
    return True


@contextmanager
def _running(name: str, directory: Path, argv: Sequence[str], env: Mapping[str, str]) -> Iterator[Served]:
    log = directory / f"{name}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(argv, env={**os.environ, **env}, stdout=out, stderr=out, stdin=subprocess.DEVNULL)
    try:
        yield _wait(name, process, log)
    finally:
        _stop(process)


def _wait(name: str, process: subprocess.Popen[bytes], log: Path) -> Served:
    def listening() -> list[str]:
        text = log.read_text(errors="replace")
        return [match.group(1) for pattern in _STARTED.values() if (match := re.search(pattern, text))]

    holds_within(lambda: len(listening()) == len(_STARTED) or process.poll() is not None, PATIENCE_S)
    if len(addresses := listening()) == len(_STARTED):
        grpc, http, metrics = addresses
        return Served(name, grpc, http, metrics, log, process)
    raise StartError(f"{name} did not start (exit code {process.poll()}):\n{log.read_text(errors='replace')}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
