# SPDX-License-Identifier: Apache-2.0
"""What each of tritonclient's published HTTP examples does."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
import tritonclient.http as triton
from tritonclient.http import aio
from tritonclient.utils import InferenceServerException

from tests.clients.conftest import Asked
from tests.clients.test_grpc_programs import SEQUENCES, VALUES, A, B, check_sums, steps
from tests.clients.test_grpc_programs import operands as grpc_operands
from tests.clients.test_grpc_programs import tensor as grpc_tensor
from tests.reference.servers import Served


def tensor(name: str, x: np.ndarray, datatype: str, *, binary: bool = True) -> Any:
    made = triton.InferInput(name, list(x.shape), datatype)
    made.set_data_from_numpy(x, binary_data=binary)
    return made


def operands(*, binary: bool = True) -> list[Any]:
    return [tensor("INPUT0", A, "INT32", binary=binary), tensor("INPUT1", B, "INT32", binary=binary)]


@pytest.mark.parametrize("binary", [True, False])
def test_infer(simple: Asked, binary: bool) -> None:
    outputs = [triton.InferRequestedOutput(name, binary_data=binary) for name in ("OUTPUT0", "OUTPUT1")]
    with triton.InferenceServerClient(simple.server.http) as client:
        check_sums(client.infer(simple.model, operands(binary=binary), outputs=outputs, query_params={"test": 1}))
        check_sums(client.infer(simple.model, operands(binary=binary), headers={"test": "1"}, request_id="5"))
        assert client.get_inference_statistics(simple.model)["model_stats"][0]["inference_stats"]["success"]["count"] >= 2


@pytest.mark.parametrize("algorithm", ["gzip", "deflate"])
def test_infer_compressed_both_ways(simple: Asked, algorithm: str) -> None:
    with triton.InferenceServerClient(simple.server.http) as client:
        result = client.infer(
            simple.model, operands(), request_compression_algorithm=algorithm, response_compression_algorithm=algorithm
        )
        check_sums(result)


def test_async_infer(simple: Asked) -> None:
    with triton.InferenceServerClient(simple.server.http, concurrency=4) as client:
        for request in [client.async_infer(simple.model, operands()) for _ in range(8)]:
            check_sums(request.get_result())


def test_aio_infer(simple: Asked) -> None:
    async def main() -> list[Any]:
        async with aio.InferenceServerClient(simple.server.http) as client:
            assert await client.is_server_ready()
            return await asyncio.gather(*(client.infer(simple.model, operands()) for _ in range(8)))

    for result in asyncio.run(main()):
        check_sums(result)


@pytest.mark.parametrize("binary", [True, False])
def test_strings(server: Served, binary: bool) -> None:
    a, b = (np.array([[str(v).encode() for v in x[0]]], np.object_) for x in (A, B))
    inputs = [tensor("INPUT0", a, "BYTES", binary=binary), tensor("INPUT1", b, "BYTES", binary=binary)]
    with triton.InferenceServerClient(server.http) as client:
        result = client.infer("simple_string", inputs, outputs=[triton.InferRequestedOutput("OUTPUT0", binary_data=binary)])
    assert [int(v) for v in result.as_numpy("OUTPUT0")[0]] == (A + B)[0].tolist()


def test_health_and_metadata(server: Served) -> None:
    with triton.InferenceServerClient(server.http) as client:
        assert client.is_server_live()
        assert client.is_server_ready()
        assert client.is_model_ready("simple")
        assert not client.is_model_ready("wrong_model_name")
        assert client.get_server_metadata()["name"] == "triton"
        assert client.get_model_metadata("simple")["inputs"][0] == {"name": "INPUT0", "datatype": "INT32", "shape": [-1, 16]}
        assert client.get_model_config("simple")["max_batch_size"] == 8
        with pytest.raises(InferenceServerException, match="Request for unknown model: 'wrong_model_name' is not found"):
            client.get_model_metadata("wrong_model_name")
        assert client.get_trace_settings()["trace_rate"] == "1000"
        assert client.get_log_settings()["log_error"] is True


def test_model_control(server: Served) -> None:
    with triton.InferenceServerClient(server.http) as client:
        assert {"simple", "repeat_int32"} <= {entry["name"] for entry in client.get_model_repository_index()}
        client.unload_model("simple_int8")
        assert not client.is_model_ready("simple_int8")
        client.load_model("simple_int8")
        assert client.is_model_ready("simple_int8")
        with pytest.raises(InferenceServerException, match="failed to load 'wrong_model_name'"):
            client.load_model("wrong_model_name")


def test_inputs_and_outputs_used_again(simple: Asked) -> None:
    inputs, outputs = operands(), [triton.InferRequestedOutput("OUTPUT0")]
    with triton.InferenceServerClient(simple.server.http) as client:
        for i in range(5):
            inputs[0].set_data_from_numpy(A + i)
            result = client.infer(simple.model, inputs, outputs=outputs)
            np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), A + i + B)


@pytest.mark.parametrize("model", SEQUENCES)
def test_sequences(server: Served, model: str) -> None:
    seen = []
    with triton.InferenceServerClient(server.http) as client:
        for value, start, end in steps(VALUES):
            x = tensor("X", np.array([[value]], np.int32), "INT32")
            result = client.infer(model, [x], sequence_id=4001, sequence_start=start, sequence_end=end)
            seen.append(int(result.as_numpy("SUM")[0, 0]))
    assert seen == np.cumsum(VALUES).tolist()


def test_both_protocols_answer_the_same(simple: Asked) -> None:
    import tritonclient.grpc as grpc_triton

    with triton.InferenceServerClient(simple.server.http) as client:
        by_http = client.infer(simple.model, operands())
    with grpc_triton.InferenceServerClient(simple.server.grpc) as client:
        by_grpc = client.infer(simple.model, grpc_operands())
    np.testing.assert_array_equal(by_http.as_numpy("OUTPUT0"), by_grpc.as_numpy("OUTPUT0"))
    assert grpc_tensor("X", A, "INT32").datatype() == "INT32"


def test_raw_request_and_answer_bodies(simple: Asked) -> None:
    """Bodies made and read apart from the sending, as a proxy or another language would."""
    body, length = triton.InferenceServerClient.generate_request_body(operands())
    with triton.InferenceServerClient(simple.server.http) as client:
        answer = client._post(f"v2/models/{simple.model}/infer", body, {"Inference-Header-Content-Length": length}, None)
        header = answer.get("Inference-Header-Content-Length")
        result = triton.InferenceServerClient.parse_response_body(
            answer.read(), header_length=None if header is None else int(header)
        )
    check_sums(result)
