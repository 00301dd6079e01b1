# SPDX-License-Identifier: Apache-2.0
"""The real tritonserver and ours as processes of their own, on the loopback interface."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.reference import environment

PATIENCE_S = 120
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


Start = Callable[..., AbstractContextManager[Served]]


class StartError(RuntimeError):
    """The server ended or said nothing; its log."""


@contextmanager
def triton(directory: Path, repository: Path, *options: str) -> Iterator[Served]:
    """The real server; its log goes into `directory`."""
    program = environment.tritonserver()
    quiet = ("--allow-gpu-metrics=false", "--backend-config=python,shm-default-byte-size=1048576")
    for attempt in range(5):
        ports = dict(zip(_STARTED, _free_ports(), strict=True))
        argv = [*program.argv, *quiet, *(f"--{name}-port={port}" for name, port in ports.items())]
        try:
            with _running("triton", directory, [*argv, *_common(repository), *options], program.env) as served:
                yield served
                return
        except StartError as error:  # another test may have taken one of the ports in between
            if attempt == 4 or "already in use" not in str(error):
                raise


@contextmanager
def hypersonic(directory: Path, repository: Path, *options: str) -> Iterator[Served]:
    """Our server; its log goes into `directory`."""
    argv = [sys.executable, "-m", "hypersonic.cli", "serve", "--grpc-port=0", "--http-port=0", "--metrics-port=0"]
    argv += ["--allow-client-shm=true"]  # 2.51 knows no such option: there it is always on
    with _running("hypersonic", directory, [*argv, *_common(repository), *options], {}) as served:
        yield served


def _common(repository: Path) -> Sequence[str]:
    addresses = [f"--{name}-address=127.0.0.1" for name in _STARTED]
    return [f"--model-repository={repository}", "--exit-on-error=false", "--exit-timeout-secs=5", *addresses]


def _free_ports() -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in _STARTED]
    try:
        return [s.getsockname()[1] for s in sockets]
    finally:
        for s in sockets:
            s.close()


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
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        said = log.read_text(errors="replace")
        found = {what: re.search(pattern, said) for what, pattern in _STARTED.items()}
        if all(found.values()):
            return Served(name, *(str(match.group(1)) for match in found.values() if match), log)
        if process.poll() is not None:
            break
        time.sleep(0.05)
    raise StartError(f"{name} did not start (exit code {process.poll()}):\n{log.read_text(errors='replace')}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
