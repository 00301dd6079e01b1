# SPDX-License-Identifier: Apache-2.0
"""Sends events to a running server from several clients at once, each with its own channel, and keeps every answer.

The clients are plain tritonclients, so what works here works for every program that uses Triton's gRPC protocol.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import tritonclient.grpc as triton
from numpy.typing import NDArray
from tritonclient.utils import InferenceServerException


class InferError(RuntimeError):
    """The server could not be reached, or it refused a request. The message has its address or the model, and its reason."""


@dataclass(frozen=True)
class Tensor:
    """An input or output of a model, as the server describes it. shape: of one row. datatype: Triton's name."""

    name: str
    shape: tuple[int, ...]
    datatype: str = "FP32"


@dataclass(frozen=True)
class Model:
    """A model as the server describes it. version: the newest one that is served."""

    name: str
    version: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]

    @property
    def travels_as_float32(self) -> bool:
        """True if all inputs and outputs are FP32, so that numbers need no conversion."""
        return all(tensor.datatype == "FP32" for tensor in (*self.inputs, *self.outputs))


#: one array for each input (or output) of a model, in its order: (rows, *shape), or (rows, elements)
Tensors = tuple[NDArray[Any], ...]


@dataclass(frozen=True)
class LoadResult:
    """The answers to a list of events, and their timing.

    outputs: the answers, in the order of the events. latencies_ns: (events,) int64, as the clients measured them. wall_ns: the
    time for all events.
    """

    outputs: tuple[Tensors, ...]
    latencies_ns: NDArray[np.int64]
    wall_ns: int

    @property
    def events_per_s(self) -> float:
        """The rate of all clients together."""
        return len(self.outputs) / (self.wall_ns * 1e-9)

    def latency_ms(self, quantile: float) -> float:
        """Return a quantile (0 to 1) of the latencies, in ms."""
        return float(np.quantile(self.latencies_ns, quantile)) * 1e-6


def describe_model(url: str, name: str) -> Model:
    """Ask the server at `url` (host:port) for the inputs and outputs of model `name`.

    Raises InferError if the server cannot be reached or does not have the model.
    """
    try:
        with triton.InferenceServerClient(url) as client:
            metadata = client.get_model_metadata(name)
    except InferenceServerException as error:
        raise InferError(
            f"no metadata of model {name!r} from {url}: {error.message()}; is `hypersonic serve` running there?"
        ) from error
    inputs, outputs = (
        tuple(Tensor(tensor.name, tuple(int(n) for n in tensor.shape[1:]), tensor.datatype) for tensor in tensors)
        for tensors in (metadata.inputs, metadata.outputs)
    )
    return Model(name, metadata.versions[-1], inputs, outputs)


def send_events(
    url: str,
    model: Model,
    events: Sequence[Tensors],
    *,
    clients: int = 4,
    timeout_s: float = 60.0,
    on_answer: Callable[[int], None] = lambda _index: None,
) -> LoadResult:
    """Send every event once, from `clients` threads that each take the next event.

    An event is an array for each input, (rows, *shape) or (rows, elements), of the input's dtype (BF16: float32). Answers are
    arrays (rows, *shape) for each output. timeout_s: of one event. The clock starts when all clients are connected.
    on_answer: called with the event's index, in the client's thread. Raises InferError for the first event that fails, after
    those in flight have ended.
    """
    outputs: list[Tensors | None] = [None] * len(events)
    latencies_ns = np.zeros(len(events), dtype=np.int64)
    turn = itertools.count()
    all_connected = threading.Barrier(clients + 1)

    def one_client() -> None:
        try:
            client = _connect(url)
        finally:
            all_connected.wait()
        with client:
            while (index := next(turn)) < len(events):
                begin = time.perf_counter_ns()
                outputs[index] = _infer(client, model, events[index], timeout_s)
                latencies_ns[index] = time.perf_counter_ns() - begin
                on_answer(index)

    with ThreadPoolExecutor(clients, thread_name_prefix="client") as pool:
        running = [pool.submit(one_client) for _ in range(clients)]
        all_connected.wait()
        begin = time.perf_counter_ns()
        for client in running:
            client.result()
        wall_ns = time.perf_counter_ns() - begin
    return LoadResult(tuple(output for output in outputs if output is not None), latencies_ns, wall_ns)


def _connect(url: str) -> triton.InferenceServerClient:
    client = triton.InferenceServerClient(url)
    try:
        client.is_server_live()
    except InferenceServerException as error:
        client.close()
        raise InferError(f"no server answers at {url}: {error.message()}; is `hypersonic serve` running there?") from error
    return client


def _infer(client: triton.InferenceServerClient, model: Model, event: Tensors, timeout_s: float) -> Tensors:
    inputs = [_fill(tensor, x) for tensor, x in zip(model.inputs, event, strict=True)]
    try:
        answer = client.infer(model.name, inputs, client_timeout=timeout_s)
    except InferenceServerException as error:
        raise InferError(f"model {model.name!r} refused {len(event[0])} rows: {error.message()}") from error
    return tuple(answer.as_numpy(tensor.name) for tensor in model.outputs)


def _fill(tensor: Tensor, x: NDArray[Any]) -> triton.InferInput:
    whole = x.reshape(len(x), *tensor.shape) if x.ndim == 2 and x.shape[1] == prod(tensor.shape) else x
    request_input = triton.InferInput(tensor.name, list(whole.shape), tensor.datatype)
    request_input.set_data_from_numpy(np.ascontiguousarray(whole))
    return request_input
