# SPDX-License-Identifier: Apache-2.0
"""A model that hangs, or is slow, stops no other model: 300 calls wait for it while others are answered."""

from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton
from tritonclient.grpc import model_config_pb2, service_pb2

from hypersonic.server.app import Server, Signals
from hypersonic.server.core.config.schema import ModelConfig
from hypersonic.server.limits.threads import FairPool, ThreadQuota
from hypersonic.server.options import Options
from tests.server.conftest import N_IN, Running, Script, SumModel, tensor, write_model
from tests.support.waiting import wait_until

CALLS = 300
X = np.ones((1, N_IN), np.float32)
ENSEMBLE = """
platform: "ensemble" max_batch_size: 200
input [ { name: "x" data_type: TYPE_FP32 dims: [ 3 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ 1 ] } ]
ensemble_scheduling { step [ { model_name: "hung" model_version: -1
  input_map { key: "x" value: "x" } output_map { key: "y" value: "y" } } ] }
"""


class ScriptedBackend:
    """The in-memory backend, with a script for each model."""

    def __init__(self, scripts: dict[str, Script]) -> None:
        self.scripts = scripts

    def complete(self, directory: Path, message: model_config_pb2.ModelConfig) -> None: ...

    def load(self, directory: Path, config: ModelConfig) -> SumModel:
        return SumModel(self.scripts[config.name])


@contextmanager
def serving(repository: Path, hung: Script, **options: Any) -> Iterator[Running]:
    """Models `m`, which answers at once, `hung`, whose script is given, and `wrap`, an ensemble of the latter."""
    write_model(repository)
    write_model(repository, "hung", options.pop("config", ""))
    (write_model(repository, "wrap") / "config.pbtxt").write_text(ENSEMBLE)
    given: dict[str, Any] = dict.fromkeys(("grpc_port", "http_port", "metrics_port"), 0)
    given |= dict.fromkeys(("grpc_address", "http_address"), "127.0.0.1")
    opts = Options((repository,), **{**given, **options})
    server = Server(opts, {"sum": ScriptedBackend({"m": Script(), "hung": hung})})
    server.load()
    server.start()
    try:
        yield Running(server, hung)
    finally:
        if hung.gate is not None:
            hung.gate.set()
        server.stop(Signals())


class Crowd:
    """Calls that wait for a model, by gRPC over a few connections."""

    def __init__(self, running: Running, model: str, calls: int, **keywords: Any) -> None:
        self.answers: SimpleQueue[Any] = SimpleQueue()
        self._clients = [triton.InferenceServerClient(running.grpc) for _ in range(4)]
        for n in range(calls):
            self._clients[n % 4].async_infer(
                model, [tensor(X)], callback=lambda result, error: self.answers.put(error or result), **keywords
            )

    def close(self) -> None:
        for client in self._clients:
            client.close()


@contextmanager
def crowd(running: Running, model: str, calls: int = CALLS, **keywords: Any) -> Iterator[Crowd]:
    people = Crowd(running, model, calls, **keywords)
    try:
        yield people
    finally:
        people.close()


def answers_everywhere(running: Running) -> None:
    """Model m answers by gRPC, HTTP and in a stream, and its metadata can be had."""
    with triton.InferenceServerClient(running.grpc) as client:
        for _ in range(5):
            assert client.infer("m", [tensor(X)], client_timeout=20).as_numpy("y").tolist() == [[3.0]]
        assert client.get_model_metadata("m", client_timeout=20).name == "m"
        assert client.is_server_live(client_timeout=20)
        streamed: SimpleQueue[Any] = SimpleQueue()
        client.start_stream(lambda result, error: streamed.put(error or result))
        client.async_stream_infer("m", [tensor(X)])
        assert streamed.get(timeout=20).as_numpy("y").tolist() == [[3.0]]
        client.stop_stream()
    assert by_http(running, "m") == [3.0]


def by_http(running: Running, model: str) -> list[float]:
    body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 3], "data": X.tolist()}]}
    request = urllib.request.Request(f"{running.http}/v2/models/{model}/infer", json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=20) as answer:
        values: list[float] = json.load(answer)["outputs"][0]["data"]
        return values


def waiting(running: Running, model: str = "hung") -> int:
    return running.server.repository.model(model).waiting


@pytest.mark.parametrize("threads", [1, 8, 256])
def test_calls_of_a_model_that_hangs_stop_nobody_elses(threads: int, tmp_path: Path) -> None:
    hung = Script(gate=threading.Event(), slots=2)
    options = {"grpc_infer_thread_count": threads, "http_infer_thread_count": threads, "config": "dynamic_batching { }"}
    with serving(tmp_path, hung, **options) as running, crowd(running, "hung") as people:
        with ThreadPoolExecutor(40) as pool:
            asking = [pool.submit(by_http, running, "hung") for _ in range(40)]
            wait_until(lambda: waiting(running) >= CALLS + 40 - 2 * 64)
            answers_everywhere(running)
            assert people.answers.empty()
            assert not any(each.done() for each in asking)
            assert hung.gate is not None
            hung.gate.set()
            assert [each.result(30) for each in asking] == [[3.0]] * 40
        for _ in range(CALLS):
            assert people.answers.get(timeout=30).as_numpy("y").tolist() == [[3.0]]


@pytest.mark.parametrize("threads", [1, 8, 256])
def test_calls_of_an_ensemble_of_a_model_that_hangs_stop_nobody_elses(threads: int, tmp_path: Path) -> None:
    hung = Script(gate=threading.Event(), slots=2)
    options = {"grpc_infer_thread_count": threads, "http_infer_thread_count": threads}
    with serving(tmp_path, hung, **options) as running, crowd(running, "wrap") as people:
        with ThreadPoolExecutor(40) as pool:
            asking = [pool.submit(by_http, running, "wrap") for _ in range(40)]
            wait_until(lambda: running.server.service.admission.requests == CALLS + 40)
            answers_everywhere(running)
            assert people.answers.empty()
            assert not any(each.done() for each in asking)
            assert hung.gate is not None
            hung.gate.set()
            assert [each.result(60) for each in asking] == [[3.0]] * 40
        for _ in range(CALLS):
            assert people.answers.get(timeout=60).as_numpy("y").tolist() == [[3.0]]


def test_a_fast_model_answers_many_requests_while_all_of_a_slow_ones_are_pending(tmp_path: Path) -> None:
    slow = Script(gate=threading.Event(), slots=1, slot_rows=1)
    with serving(tmp_path, slow) as running, crowd(running, "hung", 200) as people:
        wait_until(lambda: waiting(running) == 199)
        with triton.InferenceServerClient(running.grpc) as client:
            for _ in range(100):
                client.infer("m", [tensor(X)], client_timeout=20)
        assert people.answers.empty()
        assert waiting(running) == 199


def test_a_timeout_in_the_queue_of_a_model_that_hangs_is_kept_without_a_thread(tmp_path: Path) -> None:
    hung = Script(gate=threading.Event(), slots=1, slot_rows=1)
    config = "dynamic_batching { default_queue_policy { default_timeout_microseconds: 50000 } }"
    with serving(tmp_path, hung, config=config) as running, crowd(running, "hung", 1):
        wait_until(lambda: hung.started.acquire(blocking=False))
        with crowd(running, "hung", 20) as people:
            for _ in range(20):
                assert "Request timeout expired" in str(people.answers.get(timeout=20))


def test_a_client_that_gives_up_takes_its_waiting_calls_along(tmp_path: Path) -> None:
    hung = Script(gate=threading.Event(), slots=1, slot_rows=1)
    with serving(tmp_path, hung) as running:
        for model in ("hung", "wrap"):
            with crowd(running, model, 50) as people:
                wait_until(lambda: running.server.service.admission.requests == 50)
                people.close()
            wait_until(lambda: running.server.service.admission.requests == 0)
        assert waiting(running) == 0


def test_refusals_of_a_full_queue_come_at_once(tmp_path: Path) -> None:
    hung = Script(gate=threading.Event(), slots=1, slot_rows=1)
    config = "dynamic_batching { default_queue_policy { max_queue_size: 10 } }"
    with serving(tmp_path, hung, config=config) as running, crowd(running, "hung", 50) as people:
        for _ in range(50 - 11):
            assert "Exceeds maximum queue size" in str(people.answers.get(timeout=20))
        assert people.answers.empty()


def test_load_requests_that_hang_leave_control_calls_to_others(tmp_path: Path) -> None:
    gate = threading.Event()

    class Hanging(ScriptedBackend):
        def load(self, directory: Path, config: ModelConfig) -> SumModel:
            if config.name == "hung":
                gate.wait(60)
            return super().load(directory, config)

    write_model(tmp_path)
    write_model(tmp_path, "hung")
    given: dict[str, Any] = dict.fromkeys(("grpc_port", "http_port", "metrics_port"), 0)
    opts = Options((tmp_path,), model_control_mode="explicit", http_address="127.0.0.1", grpc_address="127.0.0.1", **given)
    server = Server(opts, {"sum": Hanging({"m": Script(), "hung": Script()})})
    server.load()
    server.start()
    running = Running(server, Script(gate=gate))
    try:
        with grpc.insecure_channel(running.grpc) as channel, ThreadPoolExecutor(40) as pool:
            load: Any = channel.unary_unary("/inference.GRPCInferenceService/RepositoryModelLoad")
            message = service_pb2.RepositoryModelLoadRequest(model_name="hung").SerializeToString()
            asked = [load.future(message, timeout=60) for _ in range(40)]
            posted: list[Any] = [pool.submit(post, running, "/v2/repository/models/hung/load") for _ in range(40)]
            with triton.InferenceServerClient(running.grpc) as client:
                client.load_model("m", client_timeout=20)
                client.get_model_repository_index(client_timeout=20)
            answers_everywhere(running)
            post(running, "/v2/repository/models/m/load")
            post(running, "/v2/repository/index")
            assert not any(each.done() for each in (*asked, *posted))
            gate.set()
            for each in (*asked, *posted):
                each.result(60)
    finally:
        gate.set()
        server.stop(Signals())


def post(running: Running, path: str) -> None:
    with urllib.request.urlopen(urllib.request.Request(f"{running.http}{path}", b"{}"), timeout=60) as answer:
        answer.read()


def test_requests_are_answered_by_grpcios_own_threads_where_calls_cannot_be_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hypersonic.server.wire.grpc.grpcio.server.take_calls", lambda *_: None)
    hung = Script(gate=threading.Event(), slots=1)
    with serving(tmp_path, hung) as running, crowd(running, "hung", 20) as people:
        wait_until(lambda: waiting(running) == 19)
        answers_everywhere(running)
        assert hung.gate is not None
        hung.gate.set()
        assert [people.answers.get(timeout=30).as_numpy("y").tolist() for _ in range(20)] == [[[3.0]]] * 20


def test_shares_leave_as_many_threads_to_others_as_one_holds() -> None:
    shares = ThreadQuota(8)
    assert [shares.enter("a") for _ in range(5)] == [True] * 4 + [False]
    assert [shares.enter("b") for _ in range(3)] == [True] * 2 + [False]
    assert shares.enter("c")
    shares.leave("a")
    assert not shares.enter("a")
    assert shares.enter("d")


def test_work_that_waits_for_its_share_is_done_in_order_by_whoever_is_done() -> None:
    shares = ThreadQuota(2)
    order: list[Any] = []
    gate = threading.Event()
    blocked = threading.Thread(target=shares.run, args=("a", gate.wait))
    blocked.start()
    wait_until(lambda: shares.held("a") == 1)
    for n in range(5):
        shares.run("a", partial(order.append, n))
    shares.run("b", lambda: order.append("b"))
    assert order == ["b"]
    gate.set()
    blocked.join(30)
    assert order == ["b", 0, 1, 2, 3, 4]


def test_clients_whose_work_for_one_model_waits_for_a_thread_take_turns() -> None:
    shares = ThreadQuota(2)
    order: list[Any] = []
    gate = threading.Event()
    blocked = threading.Thread(target=shares.run, args=("a", gate.wait, "greedy"))
    blocked.start()
    wait_until(lambda: shares.held("a") == 1)
    works = [partial(order.append, n) for n in range(4)]
    for work in works:
        shares.run("a", work, "greedy")
    shares.run("a", lambda: order.append("patient"), "patient")
    assert shares.withdraw("a", works[2], "greedy")
    assert not shares.withdraw("a", works[2], "greedy")
    gate.set()
    blocked.join(30)
    assert order == [0, "patient", 1, 3]


def test_a_fair_pool_runs_others_work_while_one_holds_its_share() -> None:
    pool, gate = FairPool(4, "test"), threading.Event()
    stuck = [pool.submit("a", gate.wait) for _ in range(20)]
    assert [pool.submit(name, partial(str, name)).result(30) for name in "bcd"] == ["b", "c", "d"]
    gate.set()
    assert all(each.result(30) for each in stuck)


def test_python_models_ask_other_models_while_they_wait_for_one_that_hangs() -> None:
    """As Events does with calls: a fair share of its threads for each model asked."""
    pool, gate = FairPool(32, "bls"), threading.Event()
    stuck: list[Future[bool]] = [pool.submit("hung", gate.wait) for _ in range(100)]
    assert pool.submit("m", lambda: True).result(30)
    gate.set()
    assert all(each.result(30) for each in stuck)
