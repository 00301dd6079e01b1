# SPDX-License-Identifier: Apache-2.0
"""SIGTERM under load, with a model of every kind: each request is answered or told UNAVAILABLE, and nothing stays behind."""

from __future__ import annotations

import http.client
import queue
import signal
import sys
import threading
import time
import traceback
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import numpy as np
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException

from tests.faults.site import Site, X, infer, site, streamed, write_site
from tests.host.conftest import Build
from tests.support.processes import alive, children_of

#: what they are told who come too late: by the server while it drains, by a port that is closed
LATE = ("stopped accepting new requests", "failed to connect")


class Load:
    """Clients that ask until they are refused. outcomes: what each request came to."""

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.stopping = threading.Event()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []

    def add(self, ask: Callable[[int], bool]) -> None:
        """ask(n): whether the n-th answer is right."""
        self._threads.append(threading.Thread(target=self._run, args=(ask,)))
        self._threads[-1].start()

    def _run(self, ask: Callable[[int], bool]) -> None:
        n = 0
        while not self.stopping.is_set():
            n += 1
            try:
                outcome = "answered" if ask(n) else "wrong"
            except (InferenceServerException, grpc.RpcError) as error:
                outcome = "refused" if any(text in str(error) for text in LATE) else str(error)
            with self._lock:
                self.outcomes[outcome] += 1
            if outcome != "answered":
                return

    def join(self) -> None:
        self.stopping.set()
        for thread in self._threads:
            thread.join(30)
            assert not thread.is_alive(), "".join(traceback.format_stack(sys._current_frames()[thread.ident or 0]))


def asking(running: Site, model: str, factor: float) -> Callable[[int], bool]:
    client = running.client()
    return lambda n: np.array_equal(infer(client, model, X + n), factor * (X + n))


def summing(running: Site, sequence: int) -> Callable[[int], bool]:
    """One sequence without end: y = 1 + 2 + ... + n."""
    client = running.client()

    def ask(n: int) -> bool:
        got = infer(client, "total", np.full((1, 3), n, np.float32), sequence_id=sequence, sequence_start=n == 1)
        return bool((got == n * (n + 1) / 2).all())

    return ask


def on_the_card(running: Site) -> Callable[[int], bool]:
    client = running.client()
    x = np.random.default_rng(1).normal(size=(500, 18)).astype(np.float32)
    y = (2 * x[:, :1] + x[:, 1:2]).astype(np.float32)
    return lambda _: np.array_equal(infer(client, "facile", x), y)


def long_stream(running: Site) -> Callable[[int], bool]:
    """A stream whose model takes a second to answer: begun before the signal, it ends whole."""
    client = running.client()
    return lambda _: streamed(running, 20, pause_s=0.05, client=client) == list(range(20))


def over_http(running: Site) -> Callable[[int], bool]:
    url = f"http://{running.program.ports['HTTPService']}/v2/models/slow/infer"
    body = b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1,3],"data":[1,2,3]}]}'

    def ask(_: int) -> bool:
        try:
            with urllib.request.urlopen(url, body, timeout=60) as answer:
                return b'"data":[2.0,4.0,6.0]' in answer.read()
        except urllib.error.HTTPError as error:
            with error:
                raise InferenceServerException(error.read().decode(), str(error.code)) from None
        except (OSError, http.client.HTTPException) as error:  # the port is closed
            raise InferenceServerException(f"failed to connect: {error}") from None

    return ask


@contextmanager
def watching_health(running: Site) -> Iterator[queue.SimpleQueue[tuple[float, bool]]]:
    """(when, ready) whenever that changes, as Kubernetes or a balancer sees it."""
    from grpc_health.v1 import health_pb2

    seen: queue.SimpleQueue[tuple[float, bool]] = queue.SimpleQueue()
    with grpc.insecure_channel(running.program.grpc) as channel:
        watch: Any = channel.unary_stream("/grpc.health.v1.Health/Watch")
        call = watch(b"")

        def watch() -> None:
            try:
                for data in call:
                    status = health_pb2.HealthCheckResponse.FromString(data).status
                    seen.put((time.monotonic(), status == health_pb2.HealthCheckResponse.SERVING))
            except grpc.RpcError:
                pass

        thread = threading.Thread(target=watch)
        thread.start()
        yield seen
        call.cancel()
        thread.join()


def test_sigterm_under_load_loses_no_request_and_leaves_nothing_behind(build: Build, tmp_path: Path) -> None:
    with (
        site(write_site(tmp_path / "models", build), "--exit-timeout-secs", "30") as running,
        watching_health(running) as health,
    ):
        server = running.program.process
        load = Load()
        for model, factor in (("double", 2.0), ("slow", 2.0), ("triple", 3.0), ("six", 6.0)) * 2:
            load.add(asking(running, model, factor))
        for sequence in (1, 2):
            load.add(summing(running, sequence))
        for ask in (on_the_card, long_stream, long_stream, over_http, over_http):
            load.add(ask(running))
        running.wait_for(lambda: load.outcomes["answered"] > 100)
        processes = children_of(server.pid)
        assert len(processes) == 6
        signalled = time.monotonic()
        server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 0
        load.join()
    assert set(load.outcomes) == {"answered", "refused"}, load.outcomes
    states = [health.get() for _ in range(health.qsize())]
    assert [ready for _, ready in states] == [True, False]
    assert states[1][0] >= signalled
    lines = running.program.lines
    order = ("Waiting for in-flight requests to complete.", "All requests are answered and all models unloaded.")
    first, last = (next(at for at, line in enumerate(lines) if text in line) for text in order)
    assert first < last == len(lines) - 1
    assert not [pid for pid in processes if alive(pid)]
    assert not list(Path("/dev/shm").glob("hypersonic*"))
    assert not [line for line in lines if line.startswith("E") or "Traceback" in line]


def test_requests_that_wait_in_a_queue_at_sigterm_are_answered(tmp_path: Path) -> None:
    """Forty requests of 20 ms on two processes, all accepted before the signal."""
    with site(write_site(tmp_path / "models")) as running, grpc.insecure_channel(running.program.grpc) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        sent = []
        for n in range(40):
            message = service_pb2.ModelInferRequest(model_name="slow", id=str(n))
            message.inputs.add(name="x", datatype="FP32", shape=[8, 3])
            message.raw_input_contents.append(np.full((8, 3), n, np.float32).tobytes())
            sent.append(stub.ModelInfer.future(message, timeout=60))
        running.wait_for(lambda: running.metrics()["hypersonic_server_requests_in_flight"] + sum(c.done() for c in sent) >= 40)
        running.program.process.send_signal(signal.SIGTERM)
        for n, call in enumerate(sent):
            assert call.result().raw_output_contents[0] == np.full((8, 3), 2 * n, np.float32).tobytes()
        assert running.program.process.wait(60) == 0


def test_a_client_that_reads_nothing_does_not_keep_the_server_from_ending(tmp_path: Path) -> None:
    from tests.faults.raw import RawGrpc, request

    with (
        site(write_site(tmp_path / "models"), "--exit-timeout-secs", "3") as running,
        RawGrpc(running.address("GRPCInferenceService")) as slow,
    ):
        slow.call("ModelStreamInfer", request("repeat", np.array([100, 1 << 16, 0])))
        running.wait_for(lambda: running.metrics()["hypersonic_server_bytes_in_flight"] > 1 << 20)
        running.program.process.send_signal(signal.SIGTERM)
        code = running.program.process.wait(60)
    assert code in (0, 1)
    assert "Found 1 in-flight requests" in running.program.log
