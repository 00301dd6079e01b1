# SPDX-License-Identifier: Apache-2.0
"""The order of calls of the field's own clients: CMSSW's SonicTriton, LArSoft's NuSonic, coffea's triton_wrapper (unchanged)."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException

from tests.clients.conftest import Asked
from tests.clients.test_grpc_programs import WAIT_S, A, B, check_sums, operands
from tests.reference import environment
from tests.reference.servers import Served

X = np.linspace(-1, 1, 4 * 15, dtype=np.float32).reshape(4, 15)


def request_of(model: str, x: np.ndarray) -> service_pb2.ModelInferRequest:
    request = service_pb2.ModelInferRequest(model_name=model)
    request.inputs.add(name="input_1", datatype="FP32", shape=x.shape)
    request.outputs.add(name="output")
    request.raw_input_contents.append(x.tobytes())
    return request


def check_energies(answer: service_pb2.ModelInferResponse, x: np.ndarray) -> None:
    """The size of the raw output is checked exactly, as SonicTriton does."""
    (output,), (raw,) = answer.outputs, answer.raw_output_contents
    assert len(raw) == int(np.prod(output.shape)) * 4
    np.testing.assert_array_equal(np.frombuffer(raw, np.float32), x.sum(axis=1))


@pytest.mark.parametrize("algorithm", [grpc.Compression.NoCompression, grpc.Compression.Gzip, grpc.Compression.Deflate])
def test_sonic_triton(server: Served, algorithm: grpc.Compression) -> None:
    """TritonService asks for the index; TritonClient for configuration, metadata, statistics; then events, with a deadline."""
    with grpc.insecure_channel(server.grpc, [("grpc.max_receive_message_length", -1)]) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        assert stub.ServerLive(service_pb2.ServerLiveRequest()).live
        assert stub.ServerReady(service_pb2.ServerReadyRequest()).ready
        assert stub.ServerMetadata(service_pb2.ServerMetadataRequest()).version
        assert "facile" in {entry.name for entry in stub.RepositoryIndex(service_pb2.RepositoryIndexRequest()).models}
        most = stub.ModelConfig(service_pb2.ModelConfigRequest(name="facile")).config.max_batch_size
        assert most == 16000
        metadata = stub.ModelMetadata(service_pb2.ModelMetadataRequest(name="facile"))
        assert [list(t.shape)[1:] for t in (*metadata.inputs, *metadata.outputs)] == [[15], [1]]
        before = statistics(stub)
        check_energies(stub.ModelInfer(request_of("facile", X), timeout=WAIT_S, compression=algorithm), X)
        futures = [
            stub.ModelInfer.future(request_of("facile", X * i), timeout=WAIT_S, compression=algorithm) for i in range(1, 5)
        ]
        for i, future in enumerate(futures, 1):
            check_energies(future.result(), X * np.float32(i))
        after = statistics(stub)
        assert after.inference_stats.success.count - before.inference_stats.success.count == 5
        assert after.inference_count - before.inference_count == 20
        with pytest.raises(grpc.RpcError) as caught:
            stub.ModelInfer(request_of("facile", np.zeros((most + 1, 15), np.float32)), timeout=WAIT_S)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def statistics(stub: Any) -> Any:
    (found,) = stub.ModelStatistics(service_pb2.ModelStatisticsRequest(name="facile", version="1")).model_stats
    return found


def test_sonic_triton_loads_and_unloads_on_its_fallback_server(server: Served) -> None:
    with grpc.insecure_channel(server.grpc) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        stub.RepositoryModelUnload(service_pb2.RepositoryModelUnloadRequest(model_name="simple_identity"))
        stub.RepositoryModelLoad(service_pb2.RepositoryModelLoadRequest(model_name="simple_identity"))
        assert stub.ModelReady(service_pb2.ModelReadyRequest(name="simple_identity")).ready


def test_larsoft_nusonic(server: Served) -> None:
    """ModelConfig, ModelMetadata, statistics when verbose; one blocking call per batch, tried again in place."""
    with triton.InferenceServerClient(server.grpc) as client:
        assert client.get_model_config("facile", "").config.max_batch_size
        names = [t.name for t in client.get_model_metadata("facile", "").inputs]
        put = triton.InferInput(names[0], list(X.shape), "FP32")
        put.set_data_from_numpy(X)
        for tries_left in (1, 0):
            try:
                result = client.infer("facile", [put], model_version="", client_timeout=WAIT_S)
                break
            except InferenceServerException:
                assert tries_left, "both tries failed"
        np.testing.assert_array_equal(result.as_numpy("output")[:, 0], X.sum(axis=1))
        assert client.get_inference_statistics("facile").model_stats[0].inference_stats.success.count


_COFFEA = """
import importlib, sys, types
import numpy as np
place, url = sys.argv[1:]
package = types.ModuleType("coffea"); package.__path__ = [place + "/coffea"]
tools = types.ModuleType("coffea.ml_tools"); tools.__path__ = [place + "/coffea/ml_tools"]
util = types.ModuleType("coffea.util")
util._import_dask = util._import_dask_awkward = util._isinstance = None
sys.modules |= {"awkward": types.ModuleType("awkward"), "coffea": package, "coffea.ml_tools": tools, "coffea.util": util}
wrapper = importlib.import_module("coffea.ml_tools.triton_wrapper").triton_wrapper
rows = np.arange(100, dtype=np.int32)[:, None] + np.arange(16, dtype=np.int32)
given = {"INPUT0": rows, "INPUT1": np.ones_like(rows)}
arguments = {"ssl": False} if url.startswith("triton+grpc") else None
asked = wrapper(url, arguments)
asked.validate_numpy_input(["OUTPUT0"], given)
np.testing.assert_array_equal(asked.numpy_call(["OUTPUT0"], given)["OUTPUT0"], rows + 1)
assert asked.numpy_call(["OUTPUT0"], {k: v[:0] for k, v in given.items()})["OUTPUT0"].shape == (0, 16)
"""


@pytest.mark.parametrize("version", ["", "1"])
def test_coffea_triton_wrapper(simple: Asked, version: str) -> None:
    """Its arrays are awkward's elsewhere; here its numpy way is called, with nothing of coffea's own dependencies.

    It pads the hundred rows to whole batches of what the configuration says: 8.
    """
    try:
        place = environment.site_packages(environment.environment("coffea"))
    except environment.UnavailableError as error:
        pytest.skip(str(error))
    url = f"triton+grpc://{simple.server.grpc}/{simple.model}/{version}"
    done = subprocess.run(
        [sys.executable, "-c", _COFFEA, str(place), url], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr


def test_a_client_that_asks_on_and_on_does_not_grow(simple: Asked) -> None:
    """memory_growth_test: one client, many requests; this process' largest resident size stays."""
    with triton.InferenceServerClient(simple.server.grpc) as client:
        inputs = operands()
        for _ in range(200):
            check_sums(client.infer(simple.model, inputs))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in range(500):
            check_sums(client.infer(simple.model, inputs))
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 16 << 10  # KiB


def test_many_threads_with_a_client_each(simple: Asked) -> None:
    failed: list[BaseException] = []

    def work(offset: int) -> None:
        try:
            with triton.InferenceServerClient(simple.server.grpc) as client:
                for i in range(10):
                    a = A + offset + i
                    check_sums(client.infer(simple.model, operands(a, B)), a, B)
        except (AssertionError, InferenceServerException) as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(100 * n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert not failed
    assert not any(thread.is_alive() for thread in threads)


def test_the_log_says_what_cms_triton_waits_for(server: Served) -> None:
    assert "Started GRPCInferenceService" in Path(server.log).read_text()
    assert os.fspath(server.log)
