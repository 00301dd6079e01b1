# SPDX-License-Identifier: Apache-2.0
"""A site: one repository with a model of every kind, the real program on it, and what other clients and the operator see.

double   python, two processes     y = 2 x        slow     the same, 20 ms a run
triple   onnxruntime               y = 3 x        six      ensemble: double, then triple
total    python, sequences         y = sum of x so far
repeat   python, decoupled         x = [answers, floats of each, seconds between two]
facile   fpga, the emulated card   y = 2 x[0] + x[1]
"""

from __future__ import annotations

import queue
import re
import threading
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from hypersonic.firmware.publish.config_pbtxt import config_pbtxt
from hypersonic.firmware.publish.repository import publish
from tests.host.conftest import Build
from tests.server.onnx_graphs import graph, node
from tests.server.python_models import DECOUPLED, DOUBLE, FLOATS, source, write_python
from tests.support.server_program import Program, program

X = np.arange(6, dtype=np.float32).reshape(2, 3)
TWO = FLOATS + "instance_group [ { count: 2 kind: KIND_CPU } ]"
TOTAL = """
def answer(request):
    starts = request.flags() & pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START
    number = request.correlation_id()  # 0: it fills the place of a sequence that has nothing to ask just now
    self.totals[number] = x_of(request) + (0 if starts or not number else self.totals[number])
    return y(self.totals[number])
return [answer(request) for request in requests]
"""
REPEAT = """
def answer(request, sender):
    count, floats, pause_s = x_of(request).tolist()
    for n in range(int(count)):
        if request.is_cancelled():
            break
        sender.send(y(np.full(int(floats), n, np.float32)))
        time.sleep(pause_s)
    sender.send(flags=FINAL)
for request in requests:
    threading.Thread(target=answer, args=(request, request.get_response_sender())).start()
"""
SIX = """
platform: "ensemble"
max_batch_size: 8
input [ { name: "x" data_type: TYPE_FP32 dims: [ 3 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ 3 ] } ]
ensemble_scheduling { step [
  { model_name: "double" model_version: -1 input_map { key: "x" value: "x" } output_map { key: "y" value: "between" } },
  { model_name: "triple" model_version: -1 input_map { key: "x" value: "between" } output_map { key: "y" value: "y" } }
] }
"""
SEQUENCE = FLOATS + "sequence_batching { max_sequence_idle_microseconds: 60000000 }"


def write_site(repository: Path, build: Build | None = None) -> Path:
    """The repository; with `build` the fpga model too."""
    write_python(repository, "double", source(DOUBLE), TWO)
    write_python(repository, "slow", source("time.sleep(0.02)\n" + DOUBLE), TWO)
    write_python(repository, "total", source(TOTAL, "self.totals = {}"), SEQUENCE)
    write_python(repository, "repeat", source(REPEAT), DECOUPLED)
    shape = ("N", 3)
    three = {"three": np.array(3, np.float32)}
    (repository / "triple" / "1").mkdir(parents=True)
    (repository / "triple" / "1" / "model.onnx").write_bytes(
        graph([node("Mul", "x three", "y")], [("x", "FP32", shape)], [("y", "FP32", shape)], three)
    )
    (repository / "triple" / "config.pbtxt").write_text(f'backend: "onnxruntime"\n{FLOATS}')
    (repository / "six" / "1").mkdir(parents=True)
    (repository / "six" / "config.pbtxt").write_text(SIX)
    if build is not None:
        xclbin, manifest = build
        publish(repository, xclbin.read_bytes(), manifest, config_pbtxt(manifest, parameters={"timeout_ms": "20000"}))
    return repository


def tensor(x: np.ndarray, name: str = "x") -> triton.InferInput:
    given = triton.InferInput(name, list(x.shape), "FP32")
    given.set_data_from_numpy(x)
    return given


def infer(client: triton.InferenceServerClient, model: str, x: np.ndarray, **keywords: object) -> np.ndarray:
    return client.infer(model, [tensor(x)], client_timeout=60, **keywords).as_numpy("y")


@dataclass
class Site:
    """A running one."""

    program: Program
    repository: Path

    def client(self) -> triton.InferenceServerClient:
        """On a connection of its own."""
        return triton.InferenceServerClient(self.program.grpc, channel_args=[("grpc.use_local_subchannel_pool", 1)])

    def address(self, service: str) -> tuple[str, int]:
        """service: GRPCInferenceService, HTTPService, Metrics Service."""
        host, port = self.program.ports[service].rsplit(":", 1)
        return host, int(port)

    def metrics(self) -> Mapping[str, float]:
        """The values of the metrics page, by name and labels."""
        with urllib.request.urlopen(f"http://{self.program.ports['Metrics Service']}/metrics", timeout=60) as answer:
            rows = [line.rsplit(" ", 1) for line in answer.read().decode().splitlines() if not line.startswith("#")]
        return {name: float(value) for name, value in rows}

    def cut_off(self, fault: str) -> float:
        """Clients cut off so far."""
        return self.metrics()[f'hypersonic_server_clients_cut_off_total{{fault="{fault}"}}']

    def wait_for(self, condition: Callable[..., object]) -> None:
        """Return as soon as the condition holds; fail with the server's log if it never does."""
        self.program.wait_for(condition)

    @property
    def resident_bytes(self) -> int:
        """The server's memory."""
        status = Path(f"/proc/{self.program.process.pid}/status").read_text()
        match = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert match is not None
        return int(match[1]) * 1024


def streamed(
    running: Site, count: int, floats: int = 1, pause_s: float = 0, client: triton.InferenceServerClient | None = None
) -> list[float]:
    """The first number of each answer of `repeat`, to a client that reads as it should. Raises InferenceServerException."""
    if client is None:
        with running.client() as own:
            return streamed(running, count, floats, pause_s, own)
    got: queue.SimpleQueue[Any] = queue.SimpleQueue()
    client.start_stream(lambda result, error: got.put(error or result), stream_timeout=60)
    try:
        with suppress(InferenceServerException):  # refused already: the callback knows why
            client.async_stream_infer("repeat", [tensor(np.array([count, floats, pause_s], np.float32))])
        answers: list[float] = []
        while len(answers) < count:
            answer = got.get(timeout=60)
            if isinstance(answer, InferenceServerException):
                raise answer
            answers.append(float(answer.as_numpy("y")[0]))
    finally:
        client.stop_stream()
    return answers


@contextmanager
def site(repository: Path, *options: str, environment: Mapping[str, str] | None = None, limits: str = "") -> Iterator[Site]:
    """limits: an option of prlimit(1)."""
    argv = ("--model-repository", str(repository), *options)
    with program(*argv, environment=environment, limits=limits) as running:
        yield Site(running, repository)


@dataclass
class Others:
    """Other clients, on connections of their own: they ask one model after another and check every answer until stop()."""

    site: Site
    models: Mapping[str, float]
    answered: int = 0
    failures: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._stopping = threading.Event()
        self._asked = threading.Condition()
        self._threads = [threading.Thread(target=self._ask, args=(model, factor)) for model, factor in self.models.items()]
        for thread in self._threads:
            thread.start()

    def _ask(self, model: str, factor: float) -> None:
        with self.site.client() as client:
            n = 0
            while not self._stopping.is_set():
                n += 1
                try:
                    got = infer(client, model, X + n)
                    if not np.array_equal(got, factor * (X + n)):
                        self.failures.append(f"{model}: {got}")
                except Exception as error:  # noqa: BLE001 - whatever another client sees is the test's answer
                    self.failures.append(f"{model}: {error}")
                with self._asked:
                    self.answered += 1
                    self._asked.notify_all()
                self._stopping.wait(0.01)

    def more(self, count: int = 10) -> None:
        """Until they have had so many more answers."""
        with self._asked:
            goal = self.answered + count
            assert self._asked.wait_for(lambda: self.answered >= goal, 60), "the other clients get no answers"

    def stop(self) -> list[str]:
        """Stop the clients and return their complaints."""
        self._stopping.set()
        for thread in self._threads:
            thread.join()
        return self.failures


FACTORS = {"double": 2.0, "triple": 3.0, "six": 6.0}


@contextmanager
def others(running: Site, models: Mapping[str, float] = FACTORS) -> Iterator[Others]:
    """They see nothing of what happens inside."""
    clients = Others(running, models)
    try:
        yield clients
    finally:
        failures = clients.stop()
    assert not failures, failures[:5]
    assert clients.answered >= 3
