# SPDX-License-Identifier: Apache-2.0
"""A backend in memory, for tests of scheduling: y = sum of each row of x, with delays, failures and hung runs as a test asks.

The real card and the real kernel are in tests/end_to_end.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton
from tritonclient.grpc import model_config_pb2

from hypersonic.server.app import Server, Signals
from hypersonic.server.core.config.schema import ModelConfig
from hypersonic.server.core.inference.answer import Answer, Output
from hypersonic.server.core.inference.backend import Execution
from hypersonic.server.core.inference.card import CardStatus
from hypersonic.server.core.inference.pending import Share
from hypersonic.server.errors import BackendError, InstanceAwayError, InstanceLostError, InstanceTimeoutError, ModelLoadError
from hypersonic.server.options import Options
from tests.host.conftest import build, cards, device, faulty, image, sysfs, weighted  # noqa: F401 - fixtures for every test of the server
from tests.server.core.ensemble.ensemble_models import models  # noqa: F401 - a fixture of several folders

N_IN = 3


@dataclass
class Script:
    """How the instances of a model behave, and what they did. batches: (rows of each share) of every run, in order of start."""

    slots: int = 2
    slot_rows: int = 64
    instances: int = 1
    run_s: float = 0.0
    hang_from_run: dict[str, int] = field(default_factory=dict)
    fail_runs: set[int] = field(default_factory=set)
    revives: bool = False
    #: once lost, instances are away until this is set
    back: threading.Event | None = None
    gate: threading.Event | None = None
    card: CardStatus = field(default_factory=lambda: CardStatus("FPGA-test", "test"))
    batches: list[tuple[int, ...]] = field(default_factory=list)
    started: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    most_in_flight: int = 0

    def open_gate(self) -> None:
        """Let the runs that wait at the gate go on."""
        assert self.gate is not None
        self.gate.set()

    def come_back(self) -> None:
        """Let lost instances be revived."""
        assert self.back is not None
        self.back.set()


class SumSlot:
    """Slot of the in-memory backend; checks that the thread that starts it finishes and reads it, and poisons its output when
    it is reused, so that a late reader is caught."""

    def __init__(self, instance: SumInstance, capacity_rows: int) -> None:
        self.capacity_rows = capacity_rows
        self._instance = instance
        self._x = np.zeros((capacity_rows, N_IN), np.float32)
        self._y = np.zeros((capacity_rows, 1), np.float32)
        self._rows = self._run = 0
        self._user: int | None = None

    def start(self, shares: Sequence[Share]) -> None:
        assert self._user is None
        self._user = threading.get_ident()
        self._shares = shares
        flat = self._x.reshape(-1).view(np.uint8)
        at = 0
        for share in shares:
            (data,) = share.tensors
            assert data is not None
            flat[at : at + len(data)] = np.frombuffer(data, np.uint8)
            at += len(data)
        self._rows = sum(share.rows for share in shares)
        assert at == self._rows * N_IN * 4
        self._y[:] = np.nan
        self._run = self._instance.start(tuple(share.rows for share in shares))
        self._launched_ns = time.monotonic_ns()

    def finish(self) -> Execution:
        assert self._user == threading.get_ident()
        self._user = None
        self._instance.finish(self._run)
        self._y[: self._rows, 0] = self._x[: self._rows].sum(axis=1)
        return Execution(self._launched_ns, time.monotonic_ns())

    def answer(self, index: int) -> Answer:
        first_row = sum(share.rows for share in self._shares[:index])
        rows = self._shares[index].rows
        assert first_row + rows <= self._rows
        data = self._y[first_row : first_row + rows].reshape(-1).view(np.uint8).data
        return Answer((Output(0, "FP32", (rows, 1), (data,), len(data)),))


class SumInstance:
    """Instance of the in-memory backend: its runs work one at a time and end in the order of their start."""

    def __init__(self, name: str, script: Script) -> None:
        self.name = name
        self.in_service = True
        self.closed = False
        self.slots = tuple(SumSlot(self, script.slot_rows) for _ in range(script.slots))
        self._script = script
        self._started = self._runs = 0
        self._changed = threading.Condition()

    def start(self, rows: tuple[int, ...]) -> int:
        """The run's number, from 1."""
        with self._changed:
            self._started += 1
            self._script.batches.append(rows)
            self._script.most_in_flight = max(self._script.most_in_flight, self._started - self._runs)
            self._script.started.release()
            return self._started

    def finish(self, run: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self._runs == run - 1, 30)
        try:
            self._work(run)
        finally:
            with self._changed:
                self._runs = run
                self._changed.notify_all()

    def _work(self, run: int) -> None:
        script = self._script
        if not self.in_service:
            raise InstanceLostError(f"{self.name} is out of service")
        if script.gate is not None:
            script.gate.wait(30)
        if script.run_s:
            time.sleep(script.run_s)
        if 0 < script.hang_from_run.get(self.name, 0) <= run:
            self.in_service = False
            raise InstanceTimeoutError(f"{self.name} hangs")
        if run in script.fail_runs:
            raise BackendError(f"run {run} failed")

    def busy_clocks(self) -> int:
        return 10 * self._runs

    def revive(self) -> bool:
        """Gone for good, unless the script says that it comes back."""
        if self._script.back is not None:
            if not self._script.back.is_set():
                raise InstanceAwayError(f"{self.name} is away", 0.01)
            self._script.hang_from_run.pop(self.name)
            self.in_service = True
            return True
        self.in_service = self._script.revives
        return self.in_service

    def close(self) -> None:
        self.closed = True


class SumModel:
    def __init__(self, script: Script) -> None:
        self.instances = tuple(SumInstance(f"sum_{n + 1}", script) for n in range(script.instances))
        self._card = script.card

    @property
    def standby(self) -> Sequence[SumInstance]:
        return ()

    def card(self, instance: object) -> CardStatus | None:
        return self._card

    def close(self) -> None: ...


class SumBackend:
    """A version directory with a file `broken` does not load: its text is the reason."""

    def __init__(self, script: Script) -> None:
        self.script = script

    def complete(self, directory: Path, message: model_config_pb2.ModelConfig) -> None: ...

    def load(self, directory: Path, config: ModelConfig) -> SumModel:
        broken = directory / "broken"
        if broken.exists():
            raise ModelLoadError(f"{broken}: {broken.read_text()}")
        return SumModel(self.script)


CONFIG = """
backend: "sum"
max_batch_size: 200
input [ { name: "x" data_type: TYPE_FP32 dims: [ 3 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ 1 ] } ]
"""


def write_model(repository: Path, name: str = "m", config: str = "", versions: Sequence[int] = (1,)) -> Path:
    """A model directory; `config` is appended to CONFIG."""
    directory = repository / name
    directory.mkdir(parents=True)
    for version in versions:
        (directory / str(version)).mkdir()
    (directory / "config.pbtxt").write_text(CONFIG + config)
    return directory


@dataclass
class Running:
    """A server in this process with the in-memory backend."""

    server: Server
    script: Script

    @property
    def grpc(self) -> str:
        return self.server.addresses["GRPCInferenceService"]

    @property
    def http(self) -> str:
        return f"http://{self.server.addresses['HTTPService']}"

    @property
    def metrics(self) -> str:
        return f"http://{self.server.addresses['Metrics Service']}/metrics"

    def infer(self, x: np.ndarray, **keywords: object) -> np.ndarray:
        """One request on a channel of its own."""
        with triton.InferenceServerClient(self.grpc) as client:
            return client.infer("m", [tensor(x)], **keywords).as_numpy("y")


def tensor(x: np.ndarray, name: str = "x", datatype: str = "FP32") -> triton.InferInput:
    given = triton.InferInput(name, list(x.shape), datatype)
    given.set_data_from_numpy(x)
    return given


Serve = Callable[..., AbstractContextManager[Running]]


def serving(directory: Path) -> Serve:
    """Servers as the fixture `serve` gives them; its repository is made in `directory`."""

    @contextmanager
    def start(script: Script | None = None, repository: Path | None = None, **options: Any) -> Iterator[Running]:
        script = script or Script()
        if repository is None:
            repository = directory / "models"
            if not repository.exists():
                write_model(repository)
        ports: dict[str, Any] = dict.fromkeys(("grpc_port", "http_port", "metrics_port"), 0)
        addresses = dict.fromkeys(("grpc_address", "http_address"), "127.0.0.1")
        server = Server(
            Options((repository,), **{**ports, **addresses, "exit_on_error": False, **options}), {"sum": SumBackend(script)}
        )
        server.load()
        server.start()
        try:
            yield Running(server, script)
        finally:
            if script.gate is not None:
                script.gate.set()
            server.stop(Signals())

    return start


@pytest.fixture
def serve(tmp_path: Path) -> Serve:
    """serve(script, repository=..., **options) as a context: a server on free ports of the loopback interface."""
    return serving(tmp_path)


@contextmanager
def loggers_as_they_were() -> Iterator[None]:
    """Undo at the end what a LogControl does to the process's loggers."""
    loggers = [logging.getLogger(name) for name in ("hypersonic", "opentelemetry", "uvicorn", "grpc", "asyncio")]
    before = [(logger.handlers[:], logger.level, logger.propagate) for logger in loggers]
    try:
        yield
    finally:
        for logger, (handlers, level, propagate) in zip(loggers, before, strict=True):
            for handler in logger.handlers:
                handler.close()
            logger.handlers[:], logger.propagate = handlers, propagate
            logger.setLevel(level)


@pytest.fixture
def restored_loggers() -> Iterator[None]:
    """For tests that make a LogControl."""
    with loggers_as_they_were():
        yield


def rows(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, 3)).astype(np.float32)
