# SPDX-License-Identifier: Apache-2.0
"""Under load, a model's process dies or hangs, or a client gives up: other clients get all answers, and metrics show it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import numpy as np
import pytest
from tritonclient.grpc import service_pb2, service_pb2_grpc

from tests.faults.site import FACTORS, Site, infer, others, site, streamed, write_site
from tests.host.conftest import Build
from tests.support.processes import alive, children_of


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site(write_site(tmp_path_factory.mktemp("site") / "models")) as started:
        yield started


def processes(running: Site) -> dict[str, int]:
    """The models' processes by the instances they serve, which are their last arguments; one that is dead has none."""
    commands = {pid: Path(f"/proc/{pid}/cmdline").read_text().split("\0") for pid in children_of(running.program.process.pid)}
    return {arguments[-2]: pid for pid, arguments in commands.items() if len(arguments) > 2}


def failures(running: Site) -> dict[str, float]:
    return {name: value for name, value in running.metrics().items() if "request_failure" in name and value}


def test_kill_9_of_a_models_process_under_load_is_seen_by_nobody_but_the_operator(running: Site) -> None:
    revived = 'hypersonic_instance_revived_total{model="double",model_instance="double_0_0",version="1"}'
    with others(running, {**FACTORS, "slow": 2.0}) as clients, running.client() as client:
        clients.more(10)
        for round_ in range(1, 4):
            before = processes(running)
            os.kill(before["double_0_0"], signal.SIGKILL)
            clients.more(20)
            running.wait_for(
                lambda before=before: processes(running).get("double_0_0", before["double_0_0"]) != before["double_0_0"]
            )
            running.wait_for(lambda round_=round_: running.program.log.count("double_0_0 is back in service") == round_)
            assert {name: pid for name, pid in processes(running).items() if name != "double_0_0"} == {
                name: pid for name, pid in before.items() if name != "double_0_0"
            }
        assert client.is_server_ready()
    assert running.metrics()[revived] == 3
    assert running.program.log.count("double_0_0: its process ended with signal SIGKILL") == 3
    assert running.program.log.count("double_0_0 is out of service") == 3
    assert not failures(running)


def test_a_hung_compute_unit_under_load_is_seen_by_nobody_but_the_operator(build: Build, tmp_path: Path) -> None:
    hang = {"HYPERSONIC_EMU_HANG": "facile_1:3"}
    x = np.random.default_rng(0).normal(size=(100, 18)).astype(np.float32)
    repository = write_site(tmp_path / "models", build)
    config = repository / "facile" / "config.pbtxt"
    config.write_text(config.read_text().replace('"20000"', '"1000"'))
    with site(repository, environment=hang) as running:
        with others(running) as clients, running.client() as client, ThreadPoolExecutor(4) as pool:
            sent = [pool.submit(infer, client, "facile", x + n) for n in range(24)]
            clients.more(10)
            for n, answer in enumerate(sent):
                np.testing.assert_array_equal(answer.result(), (2 * (x + n)[:, :1] + (x + n)[:, 1:2]).astype(np.float32))
            assert client.is_server_ready()
        metrics = running.metrics()
        assert not failures(running)
    units = {
        (name.split('compute_unit="')[1].split('"')[0], kind): value
        for name, value in metrics.items()
        for kind in ("timeouts_total", "in_service")
        if name.startswith(f"fpga_compute_unit_{kind}{{") and "facile" in name
    }
    assert units == {
        ("facile_1", "timeouts_total"): 1, ("facile_1", "in_service"): 0,
        ("facile_2", "timeouts_total"): 0, ("facile_2", "in_service"): 1,
    }  # fmt: skip
    assert "facile_1 is out of service" in running.program.log


def test_requests_of_a_cancelled_stream_do_not_run_and_others_get_every_answer(running: Site) -> None:
    """Two hundred requests of 20 ms in the queue of two processes; their client gives up after the first answer."""
    sent, model = 200, 'model="slow",version="1"'
    before = running.metrics()
    goes_on = threading.Event()

    def requests() -> Iterator[service_pb2.ModelInferRequest]:
        for n in range(sent):
            message = service_pb2.ModelInferRequest(model_name="slow", id=str(n))
            message.inputs.add(name="x", datatype="FP32", shape=[8, 3])
            message.raw_input_contents.append(np.full((8, 3), n, np.float32).tobytes())
            yield message
        goes_on.wait(60)

    with others(running, {**FACTORS, "slow": 2.0}) as clients, grpc.insecure_channel(running.program.grpc) as channel:
        call = service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelStreamInfer(requests())
        assert next(call).infer_response.id == "0"
        running.wait_for(lambda: running.metrics()[f"nv_inference_pending_request_count{{{model}}}"] > sent / 2)
        call.cancel()
        goes_on.set()
        running.wait_for(lambda: running.metrics()[f"nv_inference_pending_request_count{{{model}}}"] < 3)
        clients.more(10)
    after = running.metrics()
    name = 'nv_inference_request_failure{model="slow",reason="CANCELED",version="1"}'
    canceled = after[name] - before[name]
    assert sent / 2 < canceled <= sent
    rows = after[f"nv_inference_count{{{model}}}"] - before[f"nv_inference_count{{{model}}}"]
    # eight rows a request of the stream, at most one in each process when it was cancelled; two rows of the other clients
    assert rows <= 8 * (sent - canceled + 2) + 2 * clients.answered
    assert streamed(running, 3) == [0, 1, 2]
    assert not [name for name in failures(running) if "CANCELED" not in name]


def test_no_process_outlives_the_server_that_is_killed(tmp_path: Path) -> None:
    with site(write_site(tmp_path / "models")) as running:
        left = processes(running).values()
        os.kill(running.program.process.pid, signal.SIGKILL)
        running.program.process.wait(60)
        running.wait_for(lambda: not any(map(alive, left)))
