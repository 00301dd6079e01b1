# SPDX-License-Identifier: Apache-2.0
"""Runs in tritony's own environment: its client makes batches as large as the model takes, and asks for them one after another
or several at a time."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
from program_cases import Answers, Arrays, Case, main
from tritony import InferenceClient


def named(case: Case, found: Any) -> Arrays:
    """An array where there is one output, else a list of them."""
    return dict(zip(case.outputs, [found] if isinstance(found, np.ndarray) else found, strict=True))


async def coroutine(case: Case, url: str, protocol: str) -> Any:
    client = InferenceClient.create_with_asyncio(case.model, url, protocol=protocol)
    try:
        return await client.aio_infer(dict(case.inputs))
    finally:
        await client.async_close()


def ask(case: Case) -> Answers:
    # its HTTP client is made for run_async only
    for protocol, url, run_async in (("grpc", case.grpc, True), ("grpc", case.grpc, False), ("http", case.http, True)):
        client = InferenceClient.create_with(case.model, url, protocol=protocol, run_async=run_async)
        assert client.default_model_spec.max_batch_size >= case.most
        yield f"{protocol}, run_async: {run_async}", named(case, client(dict(case.inputs)))
        if len(case.inputs) == 1:
            (x,) = case.inputs.values()
            yield f"{protocol}, run_async: {run_async}, an array", named(case, client(x))
    packed = InferenceClient.create_with(case.model, case.grpc, compression_algorithm="gzip", run_async=False)
    yield "grpc, gzip", named(case, packed(dict(case.inputs)))
    for protocol, url in (("grpc", case.grpc), ("http", case.http)):
        yield f"{protocol}, asyncio", named(case, asyncio.run(coroutine(case, url, protocol)))


if __name__ == "__main__":
    main(ask)
