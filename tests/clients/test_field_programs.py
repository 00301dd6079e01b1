# SPDX-License-Identifier: Apache-2.0
"""The field's other programs: LArSoft's NuSonic, coffea's triton_wrapper (unchanged), what SuperSONIC and its Envoy ask."""

from __future__ import annotations

import http.client
import os
import re
import resource
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton
from grpc_health.v1 import health_pb2, health_pb2_grpc
from numpy.typing import NDArray
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException

from tests.clients.conftest import Asked
from tests.clients.networks import WAIT_S, Network
from tests.reference import environment
from tests.reference.servers import Served

Floats = NDArray[np.float32]
TRACKS, MICHEL = "em_trk_none_netout/Softmax", "michel_netout/Sigmoid"
COFFEA_PROGRAM = Path(__file__).with_name("coffea_program.py")


class NuSonic:
    """larrecodnn's TritonClient: everything blocks, all outputs are taken, what fails is tried again in place."""

    def __init__(self, client: triton.InferenceServerClient, model: str, allowed_tries: int) -> None:
        self._client, self._model, self._tries = client, model, allowed_tries
        self.most = client.get_model_config(model, "").config.max_batch_size
        (self._input,) = client.get_model_metadata(model, "").inputs
        self.shape = [dim for dim in self._input.shape if dim > 0]  # without the batch's dimension

    def classify(self, patches: Floats) -> Mapping[str, Floats]:
        """Any number of patches, in batches as large as the server takes."""
        parts = [self._once(patches[i : i + self.most]) for i in range(0, len(patches), self.most)]
        return {name: np.concatenate([part.as_numpy(name) for part in parts]) for name in (TRACKS, MICHEL)}

    def _once(self, patches: Floats) -> triton.InferResult:
        put = triton.InferInput(self._input.name, list(patches.shape), self._input.datatype)
        put.set_data_from_numpy(patches)
        for left in reversed(range(self._tries + 1)):
            try:
                return self._client.infer(self._model, [put], model_version="")
            except InferenceServerException:
                if not left:
                    raise
        raise AssertionError("unreachable")

    def statistics(self) -> tuple[int, int]:
        """(inferences, successful requests), as `verbose` reads before and after."""
        (statistics,) = self._client.get_inference_statistics(self._model, "").model_stats
        return statistics.inference_count, statistics.inference_stats.success.count


def patches(count: int) -> Floats:
    """Small whole numbers: their sums are exact in any order."""
    return np.random.default_rng(48).integers(-9, 10, (count, 48, 48, 1)).astype(np.float32)


def check_patches(x: Floats, answer: Mapping[str, Floats]) -> None:
    three = np.concatenate([reduce(x, axis=(1, 2)) for reduce in (np.max, np.min, np.sum)], axis=1)
    np.testing.assert_array_equal(answer[TRACKS], three)
    np.testing.assert_array_equal(answer[MICHEL], three[:, 1:2])


def test_nusonic_classifies_the_patches_of_an_event(mycnn: Asked) -> None:
    with triton.InferenceServerClient(mycnn.server.grpc) as client:
        sonic = NuSonic(client, mycnn.model, allowed_tries=1)
        assert sonic.shape == [48, 48, 1]
        before = sonic.statistics()
        x = patches(2 * sonic.most + 3)
        check_patches(x, sonic.classify(x))
        inferences, successes = (b - a for a, b in zip(before, sonic.statistics(), strict=True))
        assert (inferences, successes) == (len(x), 3)


class Flaky(triton.InferenceServerClient):  # type: ignore[misc] # tritonclient has no types
    """Loads the model when a call has failed, as if the server had come back meanwhile."""

    failed = 0

    def infer(self, model_name: str, *args: Any, **named: Any) -> triton.InferResult:
        try:
            return super().infer(model_name, *args, **named)
        except InferenceServerException:
            self.failed += 1
            self.load_model(model_name)
            raise


def test_nusonic_tries_again_in_place(mycnn: Asked) -> None:
    x = patches(5)
    with Flaky(mycnn.server.grpc) as client:
        patient, impatient = (NuSonic(client, mycnn.model, allowed_tries=tries) for tries in (1, 0))
        client.unload_model(mycnn.model)
        check_patches(x, patient.classify(x))
        assert client.failed == 1
        client.unload_model(mycnn.model)
        with pytest.raises(InferenceServerException):
            impatient.classify(x)
        check_patches(x, impatient.classify(x))


@pytest.mark.whole("client", "host", "requirements.lock", "server", "tests/clients/coffea_program.py", "tests/*.txt")
@pytest.mark.parametrize("version", ["", "1"])
def test_coffea_triton_wrapper(network: Network, tmp_path: Path, version: str) -> None:
    """It pads the rows to a whole batch of what the configuration prefers: 16000. Ours has the same answers."""
    python = environment.environment("coffea") / "bin" / "python"
    rows, answers = tmp_path / "rows.npy", tmp_path / "answers.npy"
    np.save(rows, network.rows)
    asked = (network.server.grpc, network.model, version, network.given, network.wanted)
    argv = [str(word) for word in (python, "-P", COFFEA_PROGRAM, *asked, rows, answers)]
    environ = {**os.environ, "PYTHONPATH": str(COFFEA_PROGRAM.parents[2])}
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=300, env=environ)
    assert done.returncode == 0, done.stderr
    network.check(network.rows, np.load(answers))


def test_coffea_where_no_preferred_batch_is_configured(simple: Asked, tmp_path: Path) -> None:
    """`dynamic_batching { }` says max_batch_size as the preferred one, as Triton's configuration does: it reads that."""
    with triton.InferenceServerClient(simple.server.grpc) as client:
        config = client.get_model_config(simple.model, as_json=True)["config"]
    assert config["dynamic_batching"]["preferred_batch_size"] == [8]


def probes(address: str, count: int) -> Iterator[tuple[int, bytes]]:
    """Envoy's HTTP health checks, all on one connection."""
    with closing(http.client.HTTPConnection(address, timeout=WAIT_S)) as connection:
        for _ in range(count):
            connection.request("GET", "/v2/health/ready", headers={"User-Agent": "Envoy/HC", "Accept": "*/*"})
            answer = connection.getresponse()
            yield answer.status, answer.read()


def test_probes_over_http(hypersonic: Served, card: Served) -> None:
    """Kubernetes opens a connection for each; `curl -sf` of the readiness probe fails from 400 on."""
    for server in (hypersonic, card):
        assert list(probes(server.http, 20)) == [(200, b"")] * 20
        for path in ("/v2/health/live", "/v2/health/ready", "/v2/models/facile/ready", "/v2/models/facile/versions/1/ready"):
            with closing(http.client.HTTPConnection(server.http, timeout=WAIT_S)) as connection:
                connection.request("GET", path, headers={"User-Agent": "kube-probe/1.29", "Connection": "close"})
                assert connection.getresponse().status == 200


@pytest.mark.parametrize("service", ["", "inference.GRPCInferenceService"])
def test_probes_over_grpc(hypersonic: Served, card: Served, service: str) -> None:
    for server in (hypersonic, card):
        with grpc.insecure_channel(server.grpc) as channel:
            health = health_pb2_grpc.HealthStub(channel)
            for _ in range(20):
                answer = health.Check(health_pb2.HealthCheckRequest(service=service), timeout=WAIT_S)
                assert answer.status == health_pb2.HealthCheckResponse.SERVING
            stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)  # KServe's
            assert stub.ServerLive(service_pb2.ServerLiveRequest()).live
            assert stub.ServerReady(service_pb2.ServerReadyRequest()).ready
            assert stub.ModelReady(service_pb2.ModelReadyRequest(name="facile")).ready
            assert not stub.ModelReady(service_pb2.ModelReadyRequest(name="nope")).ready


def test_a_request_as_envoy_passes_it_on(network: Network) -> None:
    headers = {
        "x-request-id": "5f0c3c1e-8f3b-9f0c-a9e2-5f4f1d0c2b7a",
        "x-forwarded-for": "192.0.2.7",
        "x-forwarded-proto": "http",
        "x-envoy-expected-rq-timeout-ms": "5000",
        "x-envoy-attempt-count": "2",
        "authorization": "Bearer not-for-this-server",
    }
    put = triton.InferInput(network.given, list(network.rows.shape), "FP32")
    put.set_data_from_numpy(network.rows)
    with triton.InferenceServerClient(network.server.grpc) as client:
        answer = client.infer(network.model, [put], headers=headers)
    network.check(network.rows, answer.as_numpy(network.wanted))


def scraped(server: Served, model: str, names: Sequence[str]) -> Sequence[int]:
    """The named counters of the model. Each is there from load on, else SuperSONIC's autoscaler and rate limiter have nothing."""
    with closing(http.client.HTTPConnection(server.metrics, timeout=WAIT_S)) as connection:
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
    matches = [re.search(rf'^{name}{{[^}}]*model="{model}"[^}}]*}} (\d+)$', text, re.MULTILINE) for name in names]
    return [int(match[1]) for match in matches if match]


def test_the_load_metric_of_supersonic(network: Network) -> None:
    """Mean time in the queue, from two counters over a window."""
    names = ("nv_inference_queue_duration_us", "nv_inference_exec_count")
    before = scraped(network.server, network.model, names)
    put = triton.InferInput(network.given, list(network.rows.shape), "FP32")
    put.set_data_from_numpy(network.rows)
    with triton.InferenceServerClient(network.server.grpc) as client:
        for _ in range(5):
            client.infer(network.model, [put])
    queue_us, executions = (b - a for a, b in zip(before, scraped(network.server, network.model, names), strict=True))
    assert executions == 5
    assert 0 <= queue_us < WAIT_S * 1e6


def test_a_client_that_asks_on_and_on_does_not_grow(network: Network) -> None:
    """This process' largest resident size stays."""
    put = triton.InferInput(network.given, list(network.rows.shape), "FP32")
    put.set_data_from_numpy(network.rows)
    with triton.InferenceServerClient(network.server.grpc) as client:
        for _ in range(100):
            client.infer(network.model, [put])
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in range(300):
            client.infer(network.model, [put])
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 16 << 10  # KiB


def test_many_jobs_with_a_client_each(network: Network) -> None:
    """Each gets the answers to its own rows."""
    failed: list[BaseException] = []

    def work(rows: Floats) -> None:
        put = triton.InferInput(network.given, list(rows.shape), "FP32")
        put.set_data_from_numpy(rows)
        try:
            with triton.InferenceServerClient(network.server.grpc) as client:
                for _ in range(5):
                    network.check(rows, client.infer(network.model, [put]).as_numpy(network.wanted))
        except (AssertionError, RuntimeError, InferenceServerException) as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(rows,)) for rows in np.array_split(network.rows, 8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert not failed
    assert not any(thread.is_alive() for thread in threads)
