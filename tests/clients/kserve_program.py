# SPDX-License-Identifier: Apache-2.0
"""Runs in KServe's own environment: its REST client with JSON and with binary tensors, and its gRPC client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx
import numpy as np
from kserve import InferenceGRPCClient, InferenceRESTClient, InferInput, InferRequest, InferResponse, RESTConfig
from kserve.protocol.infer_type import RequestedOutput
from program_cases import Answers, Arrays, Case, first, main, refused

DATATYPES = {np.dtype(np.float32): "FP32", np.dtype(np.int32): "INT32"}


def request(case: Case, *, binary: bool, binary_answer: bool | None = None) -> InferRequest:
    """binary_answer: whether each output is requested as binary data; None requests no output by name."""
    inputs = []
    for name, x in first(case, case.most).items():
        tensor = InferInput(name, list(x.shape), DATATYPES[x.dtype])
        tensor.set_data_from_numpy(x, binary_data=binary)
        inputs.append(tensor)
    wanted = [RequestedOutput(name, {"binary_data": binary_answer}) for name in case.outputs]
    return InferRequest(
        case.model, inputs, request_id="42", request_outputs=None if binary_answer is None else wanted, parameters={"tag": "x"}
    )


def arrays(case: Case, response: InferResponse) -> Arrays:
    assert (response.model_name, response.id) == (case.model, "42")
    return {name: response.get_output_by_name(name).as_numpy() for name in case.outputs}


async def by_rest(case: Case) -> AsyncIterator[tuple[str, Arrays]]:
    url = f"http://{case.http}"
    async with InferenceRESTClient(RESTConfig(protocol="v2", retries=1, timeout=60)) as client:
        assert await client.is_model_ready(url, case.model)
        assert not await client.is_model_ready(url, "nope")
        for health in (client.is_server_live, client.is_server_ready):
            with refused(ValueError):  # it reads a body, which Triton leaves empty
                await health(url)
        for binary in (False, True):
            for answer in (None, False, True):
                sent = request(case, binary=binary, binary_answer=answer)
                got = await client.infer(url, sent, model_name=case.model)
                yield f"REST, binary: {binary}, binary answer: {answer}", arrays(case, got)
        with refused(httpx.HTTPStatusError, "404 Not Found"):
            await client.infer(url, request(case, binary=True), model_name="nope")


async def by_grpc(case: Case) -> AsyncIterator[tuple[str, Arrays]]:
    async with InferenceGRPCClient(case.grpc, timeout=60) as client:
        assert await client.is_server_live()
        assert await client.is_server_ready()
        assert await client.is_model_ready(case.model)
        for binary in (False, True):
            yield f"gRPC, binary: {binary}", arrays(case, await client.infer(request(case, binary=binary)))


async def answers(case: Case) -> list[tuple[str, Arrays]]:
    return [answer for way in (by_rest, by_grpc) async for answer in way(case)]


def ask(case: Case) -> Answers:
    yield from asyncio.run(answers(case))


if __name__ == "__main__":
    main(ask)
