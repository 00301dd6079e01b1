# SPDX-License-Identifier: Apache-2.0
"""Model control as Triton's clients see it: codes and texts of a real tritonserver, and no failed request meanwhile."""

from __future__ import annotations

import argparse
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton
import tritonclient.http as triton_http
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException

from hypersonic.server.arguments import add_arguments
from hypersonic.server.options import Options
from tests.server.conftest import CONFIG, Serve, tensor, write_model
from tests.server.repository.opened_repository import CONFIG as OVERRIDE


def test_clients_load_configure_and_unload(tmp_path: Path, serve: Serve) -> None:
    write_model(tmp_path / "models")
    with (
        serve(model_control_mode="explicit") as running,
        triton.InferenceServerClient(running.grpc) as client,
    ):
        assert client.get_model_repository_index(as_json=True)["models"] == [{"name": "m"}]
        client.load_model("m")
        assert client.is_model_ready("m")
        config = {
            "backend": "sum",
            "max_batch_size": "3",
            "input": [{"name": "x", "data_type": "TYPE_FP32", "dims": [3]}],
            "output": [{"name": "y", "data_type": "TYPE_FP32", "dims": [1]}],
        }
        client.load_model("m", config=json.dumps(config), files={"file:4/weights": b"0"})
        assert client.get_model_config("m").config.max_batch_size == 3
        assert client.get_model_metadata("m").versions == ["4"]
        client.unload_model("m")
        assert not client.is_model_ready("m")


def test_http_clients_do_the_same(tmp_path: Path, serve: Serve) -> None:
    write_model(tmp_path / "models")
    with serve(model_control_mode="explicit") as running:
        client = triton_http.InferenceServerClient(running.http.removeprefix("http://"))
        client.load_model("m")
        assert client.is_model_ready("m")
        with pytest.raises(
            InferenceServerException, match="failed to load 'nope', failed to poll from model repository"
        ) as caught:
            client.load_model("nope")
        assert caught.value.status() == "500"
        client.unload_model("m")
        assert not client.is_model_ready("m")
        client.close()


@pytest.mark.parametrize(
    ("name", "code", "text"),
    [
        ("nope", grpc.StatusCode.INTERNAL, "failed to load 'nope', failed to poll from model repository"),
        (
            "empty",
            grpc.StatusCode.INTERNAL,
            (
                "failed to load 'empty', failed to poll from model repository: at least one version must be available under "
                "the version policy of model 'empty'"
            ),
        ),
        (
            "untyped",
            grpc.StatusCode.INVALID_ARGUMENT,
            (
                "load failed for model 'untyped': version 1 is at UNAVAILABLE state: Invalid argument: model input 'x' must "
                "specify 'data_type' for untyped;\n"
            ),
        ),
    ],
)
def test_a_load_that_fails_has_tritons_code_and_text(
    tmp_path: Path, serve: Serve, name: str, code: grpc.StatusCode, text: str
) -> None:
    models = tmp_path / "models"
    write_model(models, "empty", versions=())
    (write_model(models, "untyped") / "config.pbtxt").write_text(CONFIG.replace("TYPE_FP32", "TYPE_INVALID", 1))
    with serve(model_control_mode="explicit") as running, grpc.insecure_channel(running.grpc) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        with pytest.raises(grpc.RpcError) as caught:
            stub.RepositoryModelLoad(service_pb2.RepositoryModelLoadRequest(model_name=name))
        assert (caught.value.code(), caught.value.details()) == (code, text)


def test_a_wrong_unload_parameter_has_tritons_text(tmp_path: Path, serve: Serve) -> None:
    write_model(tmp_path / "models")
    with serve(model_control_mode="explicit") as running, grpc.insecure_channel(running.grpc) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        request = service_pb2.RepositoryModelUnloadRequest(model_name="m")
        request.parameters["unload_dependents"].string_param = "x"
        with pytest.raises(grpc.RpcError) as caught:
            stub.RepositoryModelUnload(request)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert caught.value.details() == "invalid value type for 'unload_dependents' parameter, expected bool_param."


def test_no_client_notices_a_replacement(tmp_path: Path, serve: Serve) -> None:
    directory = write_model(tmp_path / "models")
    x = np.ones((2, 3), np.float32)
    ended, seen = threading.Event(), [set[str]() for _ in range(8)]
    with serve(model_control_mode="explicit", load_model=("m",)) as running, ThreadPoolExecutor(8) as pool:

        def send(versions: set[str]) -> None:
            with triton.InferenceServerClient(running.grpc) as client:
                while not ended.is_set():
                    result = client.infer("m", [tensor(x)])
                    np.testing.assert_array_equal(result.as_numpy("y"), [[3.0], [3.0]])
                    versions.add(result.get_response().model_version)

        senders = [pool.submit(send, versions) for versions in seen]
        with triton.InferenceServerClient(running.grpc) as client:
            for version in range(2, 7):
                (directory / str(version)).mkdir()
                client.load_model("m")
                assert client.infer("m", [tensor(x)]).get_response().model_version == str(version)
        ended.set()
        for sender in senders:
            sender.result(30)
    assert set.union(*seen) <= {"1", "2", "3", "4", "5", "6"}


def test_an_operator_bounds_the_files_of_a_load_request(tmp_path: Path, serve: Serve) -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    options = Options.of(parser.parse_args(["--model-repository=x", "--model-load-override-limit-bytes=11"]))
    assert options.model_control.override.limit_bytes == 11
    write_model(tmp_path / "models")
    limit = {"model_load_override_limit_bytes": options.model_load_override_limit_bytes}
    with (
        serve(model_control_mode="explicit", **limit) as running,
        triton.InferenceServerClient(running.grpc) as client,
    ):
        config = OVERRIDE
        client.load_model("m", config=config, files={"file:1/a": b"12345", "file:1/b": b"123456"})
        with pytest.raises(InferenceServerException) as caught:
            client.load_model("m", config=config, files={"file:1/a": b"12345", "file:1/b": b"1234567"})
        assert caught.value.message() == (
            "the load request has 2 files of 12 bytes together, expected at most 256 files of 11 bytes together "
            "(--model-load-override-limit-bytes)"
        )
        assert client.is_model_ready("m")
