# SPDX-License-Identifier: Apache-2.0
"""Runs a server in a process of its own for the duration of a `with` block."""

from __future__ import annotations

import re
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from hypersonic.hls.child import python_argv, python_environment

#: the line that the server logs when a port answers; for gRPC and HTTP it is Triton's
_STARTED = re.compile(r"Started (GRPCInferenceService|HTTPService|Metrics Service) at (\S+)")


class ServerError(RuntimeError):
    """The server process did not start or stop as expected. The message has its exit code and its last lines."""

    exit_code = 1


@dataclass(frozen=True)
class RunningServer:
    """The addresses of a running server, each as host:port."""

    grpc: str
    http: str
    metrics: str


@contextmanager
def start_server(
    repository: Path,
    *options: str,
    start_timeout_s: float = 300.0,
    stop_timeout_s: float = 40.0,
    log: list[str] | None = None,
) -> Iterator[RunningServer]:
    """Start a server on free ports of the loopback interface; stop it with SIGTERM when the context ends.

    Raises ServerError.

    Args:
        options: of `hypersonic serve`.
        start_timeout_s, stop_timeout_s: the most seconds that starting and stopping may take.
        log: a list that gets the lines of the server's log.
    """
    argv = python_argv("-m", "hypersonic.cli", "serve", "--model-repository", str(repository))
    for port in ("grpc", "http", "metrics"):
        argv += [f"--{port}-port", "0", f"--{port}-address", "127.0.0.1"]
    process = subprocess.Popen(
        [*argv, *options], env=python_environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    lines: list[str] = [] if log is None else log
    ports: dict[str, str] = {}
    ready = threading.Event()
    reader = threading.Thread(target=_read_log, args=(process.stderr, lines, ports, ready), daemon=True)
    reader.start()
    try:
        if not ready.wait(start_timeout_s) or len(ports) < 3:
            process.kill()
            raise ServerError(f"the server did not start within {start_timeout_s:.0f} s; its last lines:\n{_tail(lines)}")
        yield RunningServer(ports["GRPCInferenceService"], ports["HTTPService"], ports["Metrics Service"])
        process.send_signal(signal.SIGTERM)
        code = process.wait(stop_timeout_s)
        if code:
            raise ServerError(f"the server ended with {code} after SIGTERM, expected 0; its last lines:\n{_tail(lines)}")
    except subprocess.TimeoutExpired as error:
        raise ServerError(
            f"the server did not stop within {stop_timeout_s:.0f} s of SIGTERM; its last lines:\n{_tail(lines)}"
        ) from error
    finally:
        process.kill()
        process.wait()
        reader.join()


def _read_log(stream: IO[str] | None, lines: list[str], ports: dict[str, str], ready: threading.Event) -> None:
    for line in stream or ():
        lines.append(line.rstrip())
        if match := _STARTED.search(line):
            ports[match[1]] = match[2]
        if len(ports) == 3:
            ready.set()
    ready.set()


def _tail(lines: list[str]) -> str:
    return "\n".join(lines[-20:])
