# SPDX-License-Identifier: Apache-2.0
"""Runs in PyTriton's own environment: its clients as its documentation shows them, over gRPC and HTTP."""

from __future__ import annotations

import asyncio

import numpy as np
from program_cases import Answers, Arrays, Case, first, joined, main, refused, stacked
from pytriton.client import AsyncioModelClient, DecoupledModelClient, FuturesModelClient, ModelClient
from pytriton.client.exceptions import PyTritonClientInferenceServerError

WAIT_S = 60.0
SAMPLES = 3


def samples(inputs: Arrays) -> list[Arrays]:
    """The first rows, without the batch's dimension."""
    return [{name: x[i] for name, x in inputs.items()} for i in range(SAMPLES)]


def check_config(case: Case, client: ModelClient) -> None:
    """The fields that the client reads from the model's configuration."""
    config = client.model_config
    assert config.model_name == case.model
    assert config.max_batch_size >= case.most
    assert client.is_batching_supported
    assert not config.decoupled
    assert [(spec.name, spec.shape, np.dtype(spec.dtype)) for spec in config.inputs] == [
        (name, x.shape[1:], x.dtype) for name, x in case.inputs.items()
    ]
    assert [spec.name for spec in config.outputs] == list(case.outputs)


def blocking(case: Case, url: str) -> Answers:
    batch = first(case, case.most)
    with ModelClient(url, case.model, init_timeout_s=WAIT_S, inference_timeout_s=WAIT_S) as client:
        check_config(case, client)
        yield "infer_batch", client.infer_batch(**batch)
        yield "infer_batch, inputs in order", client.infer_batch(*batch.values(), parameters={"tag": "x", "number": 3})
        yield "infer_sample", stacked([client.infer_sample(**sample) for sample in samples(batch)])
        name, x = next(iter(batch.items()))
        with refused(PyTritonClientInferenceServerError, name):
            client.infer_batch(**{**batch, name: x[..., :-1]})
    with ModelClient(url, case.model, "1", lazy_init=False, init_timeout_s=WAIT_S) as client:
        yield "infer_batch of version 1", client.infer_batch(**batch)


def futures(case: Case, url: str) -> Answers:
    """Over gRPC with one worker: of 0.7.0 the others forget the scheme and speak HTTP to that port."""
    workers = 4 if url.startswith("http") else 1
    with FuturesModelClient(url, case.model, max_workers=workers, init_timeout_s=WAIT_S) as client:
        client.wait_for_model(WAIT_S).result(WAIT_S)
        waiting = [client.infer_sample(**sample) for sample in samples(case.inputs)]
        yield "futures of samples", stacked([future.result(WAIT_S) for future in waiting])
        halves = [client.infer_batch(**{name: x[i : i + 4] for name, x in case.inputs.items()}) for i in (0, 4)]
        yield "futures of batches", joined([future.result(WAIT_S) for future in halves])


async def coroutines(case: Case, url: str) -> Arrays:
    async with AsyncioModelClient(url, case.model, init_timeout_s=WAIT_S, inference_timeout_s=WAIT_S) as client:
        return stacked(await asyncio.gather(*(client.infer_sample(**sample) for sample in samples(case.inputs))))


def decoupled(case: Case) -> Answers:
    """One row in, an answer for each of its numbers out."""
    ((name, x),) = case.inputs.items()
    with DecoupledModelClient(f"grpc://{case.grpc}", case.model, init_timeout_s=WAIT_S, inference_timeout_s=WAIT_S) as client:
        assert client.model_config.decoupled
        for _ in range(2):
            results = list(client.infer_sample(**{name: x}))
    yield "decoupled", {output: np.concatenate([answer[output] for answer in results]) for output in case.outputs}


def ask(case: Case) -> Answers:
    if not case.most:
        yield from decoupled(case)
        return
    for url in (f"grpc://{case.grpc}", f"http://{case.http}"):
        for way, answer in (*blocking(case, url), *futures(case, url), ("asyncio", asyncio.run(coroutines(case, url)))):
            yield f"{url} {way}", answer


if __name__ == "__main__":
    main(ask)
