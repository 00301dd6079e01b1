# SPDX-License-Identifier: Apache-2.0
"""Events through a running server: several clients at once, each with a channel of its own, every answer kept.

The client is tritonclient as it comes: what works here works for every program that speaks Triton's gRPC protocol.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import tritonclient.grpc as triton
from numpy.typing import NDArray
from tritonclient.utils import InferenceServerException


class InferError(RuntimeError):
    """The server could not be reached or refused a request: which server, what it said, what to do."""


@dataclass(frozen=True)
class Model:
    """What the server says of a model with one input and one output."""

    name: str
    version: str
    input_name: str
    input_shape: tuple[int, ...]
    output_name: str
    input_datatype: str = "FP32"
    output_datatype: str = "FP32"

    @property
    def travels_as_float32(self) -> bool:
        """Nothing has to be known of the model to send it numbers and to read its answers."""
        return self.input_datatype == self.output_datatype == "FP32"


@dataclass(frozen=True)
class LoadResult:
    """What came back: outputs[i] answers events[i]; latencies (events,) int64 ns as the client saw them; wall_ns in all."""

    outputs: tuple[NDArray[Any], ...]
    latencies_ns: NDArray[np.int64]
    wall_ns: int

    @property
    def events_per_s(self) -> float:
        return len(self.outputs) / (self.wall_ns * 1e-9)

    def latency_ms(self, quantile: float) -> float:
        """The latency below which that share of the events was answered, in ms."""
        return float(np.quantile(self.latencies_ns, quantile)) * 1e-6


def describe_model(url: str, name: str) -> Model:
    """Ask the server what `name` takes and gives. Raises InferError when it cannot say or has more than one of either."""
    try:
        with triton.InferenceServerClient(url) as client:
            metadata = client.get_model_metadata(name)
    except InferenceServerException as error:
        raise InferError(
            f"no metadata of model {name!r} from {url}: {error.message()}; is `hypersonic serve` running there?"
        ) from error
    if len(metadata.inputs) != 1 or len(metadata.outputs) != 1:
        raise InferError(
            f"model {name!r} has {len(metadata.inputs)} inputs and {len(metadata.outputs)} outputs, expected one of each"
        )
    shape = tuple(int(n) for n in metadata.inputs[0].shape[1:])
    (x,), (y,) = metadata.inputs, metadata.outputs
    return Model(name, metadata.versions[-1], x.name, shape, y.name, x.datatype, y.datatype)


def send_events(
    url: str,
    model: Model,
    events: Sequence[NDArray[Any]],
    *,
    clients: int = 4,
    timeout_s: float = 60.0,
    on_answer: Callable[[int], None] = lambda _index: None,
) -> LoadResult:
    """Send every event once; each of `clients` threads takes the next event that is left.

    An event is (rows, *input_shape) of the input's dtype (BF16: float32). The clock starts when every client is connected.
    `on_answer` is called from the clients' threads. Raises InferError at the first event that fails, once the others in flight
    have ended.
    """
    outputs: list[NDArray[Any] | None] = [None] * len(events)
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


def _infer(client: triton.InferenceServerClient, model: Model, x: NDArray[Any], timeout_s: float) -> NDArray[Any]:
    tensor = triton.InferInput(model.input_name, list(x.shape), model.input_datatype)
    tensor.set_data_from_numpy(x)
    try:
        answer = client.infer(model.name, [tensor], client_timeout=timeout_s)
    except InferenceServerException as error:
        raise InferError(f"model {model.name!r} refused {x.shape[0]} rows: {error.message()}") from error
    y: NDArray[Any] = answer.as_numpy(model.output_name)
    return y
