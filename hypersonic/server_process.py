# SPDX-License-Identifier: Apache-2.0
"""A server in a process of its own, for as long as a `with` block lasts."""

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

#: what the server prints once each port answers; Triton's own words for gRPC and HTTP
_STARTED = re.compile(r"Started (GRPCInferenceService|HTTPService|Metrics Service) at (\S+)")


class ServerError(RuntimeError):
    """The server process did not start, or did not stop as it should: its exit code and its last lines."""

    exit_code = 1


@dataclass(frozen=True)
class RunningServer:
    """Where a running server answers, each as host:port."""

    grpc: str
    http: str
    metrics: str


@contextmanager
def start_server(
    repository: Path, *options: str, start_timeout_s: float = 300.0, stop_timeout_s: float = 40.0
) -> Iterator[RunningServer]:
    """A server on free ports of the loopback interface; SIGTERM on leaving. Raises ServerError."""
    argv = python_argv("-m", "hypersonic.cli", "serve", "--model-repository", str(repository))
    for port in ("grpc", "http", "metrics"):
        argv += [f"--{port}-port", "0", f"--{port}-address", "127.0.0.1"]
    process = subprocess.Popen(
        [*argv, *options], env=python_environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    lines: list[str] = []
    ports: dict[str, str] = {}
    ready = threading.Event()
    reader = threading.Thread(target=_read_log, args=(process.stderr, lines, ports, ready), daemon=True)
    reader.start()
    try:
        if not ready.wait(start_timeout_s) or len(ports) < 3:
            process.kill()
            raise ServerError(f"the server did not start within {start_timeout_s:.0f} s; it said:\n{_tail(lines)}")
        yield RunningServer(ports["GRPCInferenceService"], ports["HTTPService"], ports["Metrics Service"])
        process.send_signal(signal.SIGTERM)
        code = process.wait(stop_timeout_s)
        if code:
            raise ServerError(f"the server ended with {code} after SIGTERM, expected 0; it said:\n{_tail(lines)}")
    except subprocess.TimeoutExpired as error:
        raise ServerError(
            f"the server did not stop within {stop_timeout_s:.0f} s of SIGTERM; it said:\n{_tail(lines)}"
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
