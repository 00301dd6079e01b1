# SPDX-License-Identifier: Apache-2.0
"""A server that a client starts on its own host when no other server answers: LocalServer."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from hypersonic.client.errors import AllServersFailedError, ClosedError, UnavailableError
from hypersonic.client.local.process import LocalServerError, ServerProcess
from hypersonic.client.settings import Arrays, Retry, SameServer, Settings
from hypersonic.client.sync import Client

_SETTINGS = Settings(retry=Retry((SameServer(tries=2),)))


class LocalServer:
    """A `hypersonic serve` on this host, for the fallback of a client.

    ::

        Client(servers, retry=(OtherServer(), Fallback(LocalServer("models"))))

    It starts with the first request, on a free port of the loopback interface, and answers all requests until close(). It ends
    with this process, however that ends. Any thread may use it; it can be pickled, and a fork may use it: each process starts
    its own server. A server that dies is started again; one that did not start is not, until close(). A client closes the
    LocalServer of its fallback; the next request starts it again.
    """

    def __init__(
        self, repository: str | Path, *options: str, settings: Settings | None = None, start_timeout_s: float = 300.0
    ) -> None:
        """Create a LocalServer.

        Args:
            repository: the model repository.
            options: of `hypersonic serve`, such as "--backend-config", "onnxruntime,..".
            settings: of the client that sends the requests.
            start_timeout_s: the most seconds that loading the models may take.
        """
        self._repository = Path(repository).absolute()
        self._options = options
        self._settings = settings or _SETTINGS
        self._start_timeout_s = start_timeout_s
        self._slots: dict[int, _Slot] = {}

    def run(self, model: str, inputs: Arrays) -> Arrays:
        """Return the outputs for the inputs, by name. Starts the server if it does not run, and waits until it is ready.

        Raises LocalServerError if the server does not start, UnknownModelError if its repository does not have the model,
        ClosedError if the server is closed meanwhile, and what Model.result() raises.
        """
        slot = self._slot()
        try:
            return self._run(model, inputs, slot.served())
        except (AllServersFailedError, UnavailableError):
            if not slot.died():
                raise
        return self._run(model, inputs, slot.served())

    def close(self) -> None:
        """Stop the server of this process and wait for its end. Requests in flight end with ClosedError."""
        slot = self._slots.pop(os.getpid(), None)
        if slot is not None:
            slot.end()

    def _slot(self) -> _Slot:
        pid = os.getpid()
        slot = self._slots.get(pid)
        if slot is None:
            new = _Slot(self._repository, self._options, self._settings, self._start_timeout_s)
            slot = self._slots.setdefault(pid, new)
            if slot is new:
                slot.end = weakref.finalize(self, _close_in, pid, slot)
        return slot

    @staticmethod
    def _run(model: str, inputs: Arrays, client: Client) -> Arrays:
        # If no server has described the model, the client passes an array without a name under the name "".
        return client.model(model).result(inputs[""] if set(inputs) == {""} else inputs).outputs

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_slots": {}}


class _Slot:
    """The server of one process, and the client that talks to it. After close() it starts no server again.

    Attributes:
        end: closes it, at the latest when its LocalServer is forgotten or this process exits.
    """

    def __init__(self, repository: Path, options: tuple[str, ...], settings: Settings, start_timeout_s: float) -> None:
        self._repository, self._options = repository, options
        self._settings, self._start_timeout_s = settings, start_timeout_s
        self._lock = threading.Lock()
        self._process: ServerProcess | None = None
        self._client: Client | None = None
        self._closed = False
        self.end: Callable[[], object] = self.close

    def served(self) -> Client:
        """Return the client of the server, once the server is ready. Starts the server if none runs."""
        with self._lock:
            self._refuse_if_closed()
            if self._process is not None and self._process.was_ready and self._process.ended:
                self._stop()
            if self._process is None:
                self._process = ServerProcess(self._repository, self._options)
            process = self._process
        address = process.address(self._start_timeout_s)
        with self._lock:
            self._refuse_if_closed()
            if self._client is None:
                self._client = Client(address, self._settings)
            return self._client

    def died(self) -> bool:
        """Return whether the server has ended by itself. Raises ClosedError after close()."""
        with self._lock:
            self._refuse_if_closed()
            return self._process is not None and self._process.ends_soon()

    def close(self) -> None:
        """Stop the server."""
        with self._lock:
            self._closed = True
            self._stop()

    def _stop(self) -> None:
        """Called with the lock."""
        client, process = self._client, self._process
        self._client = self._process = None
        if client is not None:
            client.close()
        if process is not None:
            process.stop()

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise ClosedError("the local server was closed")


def _close_in(pid: int, slot: _Slot) -> None:
    """Close a slot that was not closed, in the process that it belongs to and not in a fork of it."""
    if pid == os.getpid():
        slot.close()


__all__ = ["LocalServer", "LocalServerError"]
