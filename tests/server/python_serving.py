# SPDX-License-Identifier: Apache-2.0
"""Serve models of the python backend in this process, and send requests to them."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from hypersonic.server.app import Server, Signals
from hypersonic.server.options import Options


@contextmanager
def serving(repository: Path, **options: Any) -> Iterator[Server]:
    """The server with all its backends, on free ports of the loopback interface."""
    addresses: dict[str, Any] = dict.fromkeys(("grpc_address", "http_address"), "127.0.0.1")
    ports = dict.fromkeys(("grpc_port", "http_port", "metrics_port"), 0)
    server = Server(Options((repository,), **{**ports, **addresses, "exit_on_error": False, **options}))
    server.load()
    server.start()
    try:
        yield server
    finally:
        server.stop(Signals())


def client_of(server: Server) -> triton.InferenceServerClient:
    return triton.InferenceServerClient(server.addresses["GRPCInferenceService"])


def tensor(x: np.ndarray) -> triton.InferInput:
    given = triton.InferInput("x", list(x.shape), {"f": "FP32", "O": "BYTES"}[x.dtype.kind])
    given.set_data_from_numpy(x)
    return given


def infer(client: triton.InferenceServerClient, x: np.ndarray, model: str = "m", **keywords: Any) -> np.ndarray:
    return client.infer(model, [tensor(x)], **keywords).as_numpy("y")


def streamed(server: Server, x: np.ndarray, model: str = "m") -> list[Any]:
    """Every answer to one request, as lists; an error as its text."""
    got: queue.SimpleQueue[Any] = queue.SimpleQueue()
    with client_of(server) as client:
        client.start_stream(lambda result, error: got.put(error or result))
        client.async_stream_infer(model, [tensor(x)], enable_empty_final_response=True)
        answers: list[Any] = []
        while True:
            answer = got.get(timeout=60)
            if isinstance(answer, InferenceServerException):
                return [*answers, answer.message()]
            if answer.as_numpy("y") is not None:
                answers.append(answer.as_numpy("y").tolist())
            if answer.get_response().parameters["triton_final_response"].bool_param:
                return answers


def ended_requests(client: triton.InferenceServerClient, model: str) -> int:
    """The number of the model's requests that have succeeded or failed so far."""
    counts = client.get_inference_statistics(model).model_stats[0].inference_stats
    return int(counts.success.count + counts.fail.count)
