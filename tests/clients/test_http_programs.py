# SPDX-License-Identifier: Apache-2.0
"""The published examples that exist only for HTTP, and other features of the HTTP client.

simple_http_async_infer_client, the parallel half of simple_http_aio_infer_client; request and response bodies made apart.
"""

from __future__ import annotations

import asyncio
import json
import urllib.request
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http as triton
from tritonclient.http import aio
from tritonclient.utils import InferenceServerException

from tests.clients.calls.grpc_examples import A, B, check_sums
from tests.clients.calls.grpc_examples import operands as grpc_operands
from tests.clients.conftest import Asked


def tensor(name: str, x: np.ndarray, datatype: str, *, binary: bool = True) -> Any:
    tensor = triton.InferInput(name, list(x.shape), datatype)
    tensor.set_data_from_numpy(x, binary_data=binary)
    return tensor


def operands(*, binary: bool = True) -> list[Any]:
    return [tensor("INPUT0", A, "INT32", binary=binary), tensor("INPUT1", B, "INT32", binary=binary)]


def test_requests_in_greenlets(simple: Asked) -> None:
    outputs = [triton.InferRequestedOutput(name, binary_data=True) for name in ("OUTPUT0", "OUTPUT1")]
    with triton.InferenceServerClient(simple.server.http, concurrency=2) as client:
        for request in [client.async_infer(simple.model, operands(), outputs=outputs) for _ in range(8)]:
            check_sums(request.get_result())


def test_errors_in_greenlets(simple: Asked) -> None:
    with triton.InferenceServerClient(simple.server.http) as client:
        request = client.async_infer("wrong_model_name", operands())
        with pytest.raises(InferenceServerException, match="Request for unknown model: 'wrong_model_name' is not found"):
            request.get_result()


def test_coroutines_at_the_same_time(simple: Asked) -> None:
    outputs = [aio.InferRequestedOutput(name, binary_data=False) for name in ("OUTPUT0", "OUTPUT1")]

    async def main() -> list[Any]:
        async with aio.InferenceServerClient(simple.server.http) as client:
            with_outputs = [client.infer(simple.model, operands(binary=False), outputs=outputs) for _ in range(4)]
            without = [client.infer(simple.model, operands(), request_id=str(i)) for i in range(4)]
            return await asyncio.gather(*with_outputs, *without)

    results = asyncio.run(main())
    for result in results:
        check_sums(result)
    assert [result.get_response().get("id") for result in results[4:]] == ["0", "1", "2", "3"]


def test_both_protocols_answer_the_same(simple: Asked) -> None:
    with triton.InferenceServerClient(simple.server.http) as client:
        by_http = client.infer(simple.model, operands())
    with tritonclient.grpc.InferenceServerClient(simple.server.grpc) as client:
        by_grpc = client.infer(simple.model, grpc_operands())
    for name in ("OUTPUT0", "OUTPUT1"):
        np.testing.assert_array_equal(by_http.as_numpy(name), by_grpc.as_numpy(name))


def test_bodies_made_and_read_apart_from_the_sending(simple: Asked) -> None:
    """As a proxy does, or another language."""
    body, length = triton.InferenceServerClient.generate_request_body(operands())
    request = urllib.request.Request(
        f"http://{simple.server.http}/v2/models/{simple.model}/infer",
        bytes(body),
        {"Inference-Header-Content-Length": str(length), "Content-Type": "application/octet-stream"},
    )
    with urllib.request.urlopen(request) as answer:
        header = answer.headers.get("Inference-Header-Content-Length")
        result = triton.InferenceServerClient.parse_response_body(
            answer.read(), header_length=None if header is None else int(header)
        )
    check_sums(result)


def test_a_page_of_json_and_nothing_else(simple: Asked) -> None:
    """The request that curl sends."""
    inputs = [{"name": f"INPUT{i}", "datatype": "INT32", "shape": [1, 16], "data": x.tolist()} for i, x in enumerate((A, B))]
    body = json.dumps({"id": "curl", "inputs": inputs}).encode()
    url = f"http://{simple.server.http}/v2/models/{simple.model}/versions/1/infer"
    with urllib.request.urlopen(url, body) as answer:
        reply = json.load(answer)
    assert (reply["id"], reply["model_name"], reply["model_version"]) == ("curl", simple.model, "1")
    data = {output["name"]: output["data"] for output in reply["outputs"]}
    assert data == {"OUTPUT0": (A + B)[0].tolist(), "OUTPUT1": (A - B)[0].tolist()}
