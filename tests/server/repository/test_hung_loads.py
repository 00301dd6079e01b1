# SPDX-License-Identifier: Apache-2.0
"""Models whose load does not end: the others are loaded, served, polled and unloaded, and the time limit ends the wait."""

from __future__ import annotations

import logging
import shutil
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton
from grpc_health.v1 import health_pb2
from tritonclient.utils import InferenceServerException

from hypersonic.server.app import Server
from hypersonic.server.backends.python.backend import PythonBackend
from hypersonic.server.core.scheduling.model import ScheduledModel
from hypersonic.server.errors import InvalidRequestError, ServerError, UnavailableError
from hypersonic.server.options import Options
from hypersonic.server.repository.control_mode import ModelControlMode, ModelControlOptions
from hypersonic.server.repository.loads import Load, Loads
from hypersonic.server.repository.models import ModelRepository
from hypersonic.server.signals import Signals
from tests.server.conftest import N_IN, tensor, write_model
from tests.server.repository.opened_repository import ask, rows, write_shift
from tests.server.shift_backend import ShiftBackend
from tests.support.ports import free_ports
from tests.support.server_program import program
from tests.support.waiting import wait_until

#: a limit that a test waits for, and one that it does not
SHORT_S, LONG_S = 0.2, 600.0


@contextmanager
def loading(
    directory: Path,
    backend: ShiftBackend,
    mode: ModelControlMode = ModelControlMode.NONE,
    *,
    limit_s: float = LONG_S,
    poll_s: float = 3600,
) -> Iterator[ModelRepository]:
    """A repository that is being loaded on a thread, as the server does it; the gates are opened at the end."""
    control = ModelControlOptions(
        mode, poll_s=poll_s, load_timeout_s=limit_s, load_models=("*",) if mode is ModelControlMode.EXPLICIT else ()
    )
    repository = ModelRepository([directory], {"sum": backend}, ScheduledModel, control=control)
    thread = threading.Thread(target=repository.load_all)
    thread.start()
    try:
        yield repository
    finally:
        assert repository.close(30)
        thread.join(30)
        for gate in backend.gates.values():
            gate.set()


def hung(*names: str) -> ShiftBackend:
    """Loads of these models do not end before their gate is opened."""
    backend = ShiftBackend()
    backend.gates = {name: threading.Event() for name in names}
    return backend


def test_models_behind_several_that_hang_are_loaded_and_served(tmp_path: Path) -> None:
    names = [f"a{n}" for n in range(6)]
    for name in (*names, "m", "z"):
        write_model(tmp_path, name)
    with loading(tmp_path, hung(*names)) as repository:
        wait_until(lambda: "m" in repository and "z" in repository)
        assert ask(repository) == ask(repository, name="z") == 3.0
        assert not repository.all_ready
        assert {row[2] for row in rows(repository)} == {"LOADING", "READY"}


def test_a_model_that_is_not_loaded_yet_is_unavailable_and_not_unknown(tmp_path: Path) -> None:
    write_model(tmp_path)
    backend = hung("m")
    with loading(tmp_path, backend) as repository:
        assert backend.entered.acquire(timeout=30)
        for version in ("", "1"):
            with pytest.raises(UnavailableError, match=r"Request for unknown model: 'm'.* is not at ready state"):
                repository.model("m", version)
        backend.gates["m"].set()
        wait_until(lambda: "m" in repository)
        assert ask(repository) == 3.0


def test_all_models_are_in_the_index_as_loading_from_the_start(tmp_path: Path) -> None:
    for name in "abcdefgh":
        write_model(tmp_path, name)
    backend = hung(*"abcdefgh")
    with loading(tmp_path, backend) as repository:
        assert backend.entered.acquire(timeout=30)
        assert {(row[0], row[2]) for row in rows(repository)} == {(name, "LOADING") for name in "abcdefgh"}


@pytest.mark.parametrize("mode", ModelControlMode)
def test_a_load_that_does_not_end_in_time_is_the_models_reason(mode: ModelControlMode, tmp_path: Path) -> None:
    write_model(tmp_path, "a")
    write_model(tmp_path)
    with loading(tmp_path, hung("a"), mode, limit_s=SHORT_S) as repository:
        wait_until(lambda: ("m", "1", "READY", "") in rows(repository))
        reason = "Internal: did not load within 0.2 s (--model-load-timeout-secs)"
        wait_until(lambda: ("a", "1", "UNAVAILABLE", reason) in rows(repository))
        assert ask(repository) == 3.0


def test_a_load_request_is_told_after_the_time_limit_and_others_are_served_meanwhile(tmp_path: Path) -> None:
    write_model(tmp_path, "a")
    write_model(tmp_path)
    backend = hung("a")
    control = ModelControlOptions(ModelControlMode.EXPLICIT, load_timeout_s=SHORT_S)
    repository = ModelRepository([tmp_path], {"sum": backend}, ScheduledModel, control=control)
    repository.load_all()
    refused: list[ServerError] = []

    def load() -> None:
        with pytest.raises(InvalidRequestError, match="did not load within") as caught:
            repository.load("a")
        refused.append(caught.value)

    asking = threading.Thread(target=load)
    asking.start()
    assert backend.entered.acquire(timeout=30)
    repository.load("m")
    assert ask(repository) == 3.0
    asking.join(30)
    assert refused
    backend.gates["a"].set()
    repository.load("a")
    assert ask(repository, name="a") == 3.0
    assert repository.close(30)


def test_what_comes_too_late_is_closed_and_not_served(tmp_path: Path) -> None:
    write_model(tmp_path)
    backend = ShiftBackend(cards=1)
    backend.gates = {"m": threading.Event()}
    with loading(tmp_path, backend, limit_s=SHORT_S) as repository:
        wait_until(lambda: [row[2] for row in rows(repository)] == ["UNAVAILABLE"])
        backend.gates["m"].set()
        wait_until(lambda: backend.loads == [("m", "1")] and backend.cards == 1)
        assert "m" not in repository


def test_polling_goes_on_while_a_model_hangs(tmp_path: Path) -> None:
    for name in ("a", "gone", "m"):
        write_model(tmp_path, name)
    with loading(tmp_path, hung("a"), ModelControlMode.POLL, poll_s=0.01) as repository:
        wait_until(lambda: "m" in repository and "gone" in repository)
        write_model(tmp_path, "late")
        wait_until(lambda: "late" in repository)
        write_shift(tmp_path / "m", 2, 4)
        wait_until(lambda: ask(repository) == 7.0)
        shutil.rmtree(tmp_path / "gone")
        wait_until(lambda: "gone" not in repository)
        shutil.rmtree(tmp_path / "a")


def test_an_ensemble_waits_for_its_models_and_for_no_other(tmp_path: Path) -> None:
    write_model(tmp_path, "a")
    write_model(tmp_path, "b")
    write_model(tmp_path, "slow")
    steps = """
platform: "ensemble" max_batch_size: 200
input [ { name: "x" data_type: TYPE_FP32 dims: [ 3 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ 1 ] } ]
ensemble_scheduling { step [ { model_name: "%s" model_version: -1
  input_map { key: "x" value: "x" } output_map { key: "y" value: "y" } } ] }
"""
    for name, member in (("a_of_b", "b"), ("a_of_slow", "slow")):
        (write_model(tmp_path, name) / "config.pbtxt").write_text(steps % member)
    backend = hung("a", "slow")
    loaded: list[str] = []

    def ensembles(config, version, repository):
        loaded.append(config.name)
        return repository.model(config.ensemble[0].model_name)

    control = ModelControlOptions(load_timeout_s=LONG_S)
    repository = ModelRepository([tmp_path], {"sum": backend}, ScheduledModel, control=control, ensembles=ensembles)
    thread = threading.Thread(target=repository.load_all)
    thread.start()
    wait_until(lambda: loaded == ["a_of_b"])
    backend.gates["slow"].set()
    wait_until(lambda: loaded == ["a_of_b", "a_of_slow"])
    backend.gates["a"].set()
    thread.join(30)
    assert not thread.is_alive()
    assert sorted(backend.loads) == [("a", "1"), ("b", "1"), ("slow", "1")]


def test_closing_does_not_wait_for_a_load_that_hangs(tmp_path: Path) -> None:
    write_model(tmp_path)
    backend = hung("m")
    with loading(tmp_path, backend, limit_s=0):
        assert backend.entered.acquire(timeout=30)


def test_loads_of_one_queue_come_in_order_and_the_next_one_begins_when_one_takes_too_long() -> None:
    loads, order, gate = Loads(4, patience_s=0.01, queue_patience_s=0.1), [], threading.Event()

    def load(name: str, queue: str, *, hangs: bool = False) -> Load:
        def work() -> None:
            order.append(name)
            assert not hangs or gate.wait(30)

        return Load(name, queue, frozenset(), work)

    loads.start([load("a", "card"), load("b", "card", hangs=True), load("c", "card"), load("d", "d")])
    assert loads.wait(["a", "c", "d"], 30)
    assert [name for name in order if name != "d"] == ["a", "b", "c"]
    assert loads.busy("b")
    gate.set()
    assert loads.wait(["b"], 30)


def test_ensembles_that_need_each_other_are_loaded_all_the_same() -> None:
    loads, order = Loads(4), []
    loads.start(
        [
            Load("a", "a", frozenset({"b"}), lambda: order.append("a")),
            Load("b", "b", frozenset({"a"}), lambda: order.append("b")),
        ]
    )
    assert loads.wait(["a", "b"], 30)
    assert order == ["a", "b"]


HANGING = """
import time
class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        {complete}
        return config
    def initialize(self, args):
        {initialize}
    def execute(self, requests):
        {execute}
    def finalize(self):
        {finalize}
"""
FOREVER = "time.sleep(10000)"


def write_hanging(repository: Path, where: str, config: str = "", name: str = "m") -> None:
    """A python model that hangs in one of its methods."""
    directory = write_model(repository, name)
    text = (directory / "config.pbtxt").read_text().replace('"sum"', '"python"')
    (directory / "config.pbtxt").write_text(text + config)
    bodies = {method: FOREVER if method == where else "pass" for method in ("complete", "initialize", "execute", "finalize")}
    (directory / "1" / "model.py").write_text(HANGING.format(**bodies))


def model_threads() -> set[threading.Thread]:
    """The threads of python models' processes, those that other tests left behind among them."""
    return {thread for thread in threading.enumerate() if thread.name.startswith("model:m")}


@pytest.mark.parametrize("where", ["complete", "initialize", "execute"])
def test_a_python_models_process_is_killed_when_its_load_does_not_end(where: str, tmp_path: Path) -> None:
    """execute: in a warm-up."""
    sample = 'inputs { key: "x" value { data_type: TYPE_FP32 dims: [ 3 ] zero_data: true } }'
    write_hanging(tmp_path, where, f'model_warmup [ {{ name: "w" batch_size: 1 {sample} }} ]' if where == "execute" else "")
    backend = PythonBackend(load_timeout_s=2.0)
    control = ModelControlOptions(load_timeout_s=2.0)
    repository = ModelRepository([tmp_path], {"python": backend}, ScheduledModel, control=control)
    others = model_threads()
    repository.load_all()
    (row,) = rows(repository)
    assert row[2] == "UNAVAILABLE"
    assert "did not load within 2 s" in row[3]
    wait_until(lambda: model_threads() <= others)
    assert repository.close(30)


def test_python_models_whose_finalize_hangs_are_unloaded_side_by_side_within_the_time(tmp_path: Path) -> None:
    for n in range(4):
        write_hanging(tmp_path, "finalize", "instance_group [ { count: 2 } ]", name=f"m{n}")
    repository = ModelRepository([tmp_path], {"python": PythonBackend()}, ScheduledModel)
    others = model_threads()
    repository.load_all()
    assert not repository.close(0.5)
    assert len(model_threads() - others) == 8  # it did not wait for one after another


def test_no_load_begins_while_a_server_that_is_told_to_end_waits_for_its_requests(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    logger = logging.getLogger("hypersonic")
    monkeypatch.setattr(logger, "propagate", True)
    monkeypatch.setattr(logger, "handlers", [])
    monkeypatch.setattr(logger, "level", logging.INFO)
    for name in ("a", "b", "c"):
        write_model(tmp_path, name)
    backend = ShiftBackend()
    backend.gates["a"] = threading.Event()
    ports: dict[str, Any] = dict.fromkeys(("grpc_port", "http_port", "metrics_port"), 0)
    server = Server(
        Options((tmp_path,), http_address="127.0.0.1", model_load_thread_count=1, exit_on_error=False, **ports),
        {"sum": backend},
    )
    server.open()
    loader = threading.Thread(target=server.load)
    loader.start()
    assert backend.entered.acquire(timeout=30)
    server.service.admission.enter(1)
    stopper = threading.Thread(target=server.stop, args=(Signals(),))
    stopper.start()
    wait_until(lambda: "Waiting for in-flight" in caplog.text)
    backend.gates["a"].set()
    loader.join(30)
    assert not loader.is_alive()
    server.service.admission.leave(1)
    stopper.join(30)
    assert not stopper.is_alive()
    assert [record.getMessage() for record in caplog.records if "loading: " in record.getMessage()] == ["loading: a:1"]
    assert {name for name, _ in backend.loads} == {"a"}


def test_a_server_is_alive_and_not_ready_and_serves_what_is_loaded_while_a_model_hangs_and_sigterm_ends_it(
    tmp_path: Path,
) -> None:
    write_hanging(tmp_path, "initialize", name="hung")
    write_hanging(tmp_path, "", name="m")
    grpc_port, http_port, metrics_port = free_ports(3)
    ports = ("--grpc-port", str(grpc_port), "--http-port", str(http_port), "--metrics-port", str(metrics_port))
    options = (*ports, "--model-repository", str(tmp_path), "--model-load-timeout-secs", "0")
    with program(*options, started=False) as server, triton.InferenceServerClient(f"127.0.0.1:{grpc_port}") as client:
        server.wait_for(lambda: alive(client))
        assert not client.is_server_ready()
        assert not client.is_model_ready("hung")
        server.wait_for(lambda: client.is_model_ready("m"))
        given = tensor(np.ones((1, N_IN), np.float32))
        with pytest.raises(InferenceServerException, match="without a final response"):  # it was run, and gives nothing
            client.infer("m", [given])
        with pytest.raises(InferenceServerException, match=r"'hung'.* is not at ready state") as caught:
            client.infer("hung", [given])
        assert caught.value.status() == "StatusCode.UNAVAILABLE"
        for path, code in (("/v2/health/live", 200), ("/v2/health/ready", 400), ("/v2/models/m/ready", 200)):
            assert status(f"http://127.0.0.1:{http_port}{path}") == code
        with urllib.request.urlopen(f"http://127.0.0.1:{metrics_port}/metrics", timeout=20) as answer:
            text = answer.read().decode()
        for state in ("LOADING", "READY"):
            assert f'hypersonic_model_versions{{state="{state}"}} 1\n' in text
        with grpc.insecure_channel(f"127.0.0.1:{grpc_port}") as channel:
            check: Any = channel.unary_unary("/grpc.health.v1.Health/Check")
            asked = check(b"", timeout=20)
            assert health_pb2.HealthCheckResponse.FromString(asked).status == health_pb2.HealthCheckResponse.NOT_SERVING
        assert "Started" not in server.log
        assert server.stop() == 0


def alive(client: triton.InferenceServerClient) -> bool:
    try:
        return bool(client.is_server_live())
    except InferenceServerException:
        return False


def status(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=20) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_a_model_that_hangs_at_start_ends_the_server_after_the_time_limit(tmp_path: Path) -> None:
    write_hanging(tmp_path, "initialize", name="hung")
    options = ("--model-repository", str(tmp_path), "--model-load-timeout-secs", "1")
    with program(*options, started=False) as server:
        assert server.process.wait(60) == 1
        server.wait_for(lambda: "did not load within 1 s (--model-load-timeout-secs)" in server.log)
