# SPDX-License-Identifier: Apache-2.0
"""The process of a local server: starts `hypersonic serve` on free ports of the loopback interface, reads its log, stops it."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import sysconfig
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

import hypersonic
from hypersonic.client.errors import ClientError, ClosedError

#: the line that the server logs when its gRPC port answers and its models are loaded, with Triton's text
_STARTED = re.compile(rb"Started GRPCInferenceService at (\S+)\s*$")
_SUPERVISOR = Path(__file__).with_name("supervisor.py")
#: the lines of the log that an error shows
_TAIL = 20
#: seconds after which a server that does not react to SIGTERM gets SIGKILL
_GRACE_S = 10.0
#: seconds that the end of a killed process may take
_LAST_S = 5.0


class LocalServerError(ClientError):
    """The local server did not start. The message has its last log lines."""


class ServerProcess:
    """A server and its supervisor. Any thread may use it."""

    def __init__(self, repository: Path, options: Sequence[str]) -> None:
        """Start the process and return without waiting for the server."""
        self._repository = repository
        self._lines: deque[bytes] = deque(maxlen=_TAIL)
        self._address = ""
        self._told = threading.Event()
        self._stopped = False
        serve = [sys.executable, "-P", "-m", "hypersonic", "serve", "--model-repository", str(repository)]
        for port in ("grpc", "http", "metrics"):
            serve += [f"--{port}-port", "0", f"--{port}-address", "127.0.0.1"]
        serve += ["--allow-http", "false", "--allow-metrics", "false", *options]
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_SUPERVISOR), str(os.getpid()), str(_GRACE_S), *serve],
            env=_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the client, which then stops the server
        )
        self._reader = threading.Thread(
            target=self._read, args=(self._process.stderr,), name="hypersonic-client-local-server", daemon=True
        )
        self._reader.start()

    @property
    def ended(self) -> bool:
        """True if the server is no longer running."""
        return self._process.poll() is not None

    @property
    def was_ready(self) -> bool:
        """True once the server has started."""
        return bool(self._address)

    def ends_soon(self) -> bool:
        """Return whether the server has ended or is about to: a lost connection is seen before the end.

        Waits a second for the end, and longer if nothing accepts connections at its port any more.
        """
        return self._ends_within(1.0) or (not self._accepts() and self._ends_within(_GRACE_S))

    def _ends_within(self, seconds: float) -> bool:
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _accepts(self) -> bool:
        host, _, port = self._address.rpartition(":")
        try:
            socket.create_connection((host, int(port)), timeout=1.0).close()
        except OSError:
            return False
        return True

    def address(self, timeout_s: float) -> str:
        """Return host:port of the gRPC port, once the models are loaded.

        Raises LocalServerError if the server ends before that or `timeout_s` is over, and ClosedError after stop().
        """
        told = self._told.wait(timeout_s)
        if self._stopped:
            raise ClosedError("the local server was closed")
        if self._address:
            return self._address
        how = f"is not ready after {timeout_s:.0f} s"
        if told:
            how = f"ended with {self._process.wait()} before it was ready"
        lines = b"\n".join(list(self._lines)).decode(errors="replace")
        raise LocalServerError(f"the local server of {self._repository} {how}; its last lines:\n{lines}")

    def stop(self) -> None:
        """Stop the server and wait for its end. Afterwards no process, descriptor or thread of it remains."""
        self._stopped = True
        self._told.set()
        assert self._process.stdin is not None
        with suppress(OSError, ValueError):  # it has ended, or another thread stops it
            self._process.stdin.write(b"x")
            self._process.stdin.close()
        try:
            self._process.wait(_GRACE_S + _LAST_S)
        except subprocess.TimeoutExpired:  # the server hangs in the kernel; SIGKILL is pending
            self._process.kill()
            self._process.wait()
        self._reader.join(_LAST_S)

    def _read(self, log: IO[bytes]) -> None:
        """Read the log to its end, so that the server never waits for a reader."""
        with log:
            for line in log:
                self._lines.append(line.rstrip())
                if not self._address and (match := _STARTED.search(line)):
                    self._address = match[1].decode(errors="replace")
                    self._told.set()
        self._told.set()


def _environment() -> dict[str, str]:
    """Return this process's environment. A checkout that is not installed is added to PYTHONPATH; empty entries are removed,
    because Python reads them as the working directory."""
    package = Path(hypersonic.__file__).resolve().parent.parent
    installed = {Path(sysconfig.get_path(kind)).resolve() for kind in ("purelib", "platlib")}
    entries = [*([] if package in installed else [str(package)]), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, entries))}
