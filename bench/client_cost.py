# SPDX-License-Identifier: Apache-2.0
"""Measures the client's CPU time per FACILE request (16 000 rows of 18 FP32, 1.15 MB), and compares it with tritonclient's.

    python bench/client_cost.py [--requests 200] [--rounds 5] [--json]

The server is a null server in a process of its own: it answers every request with the same 64 kB. CPU time is that of this
process with all its threads. Rounds of the clients alternate, and the figures are medians over the rounds. "bare grpcio" sends
the same bytes again and again without retries, statistics or views. "16": 16 requests in flight, compared with tritonclient's
async_infer. "message": only the building of the request.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
import numpy as np
import tritonclient.grpc as triton
from tritonclient.grpc import service_pb2

from hypersonic.client import Client, Limits
from hypersonic.client.messages.elements import to_buffer
from hypersonic.client.messages.request import HeadKey, kept, make_head, make_request

ROWS, FEATURES = 16_000, 18
SERVICE = "inference.GRPCInferenceService"
OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


def serve() -> None:
    """The null server. It prints its port, and ends with its standard input."""
    answer = service_pb2.ModelInferResponse(model_name="facile", model_version="1")
    answer.outputs.add(name="energy", datatype="FP32", shape=[ROWS, 1])
    answer.raw_output_contents.append(bytes(4 * ROWS))
    metadata = service_pb2.ModelMetadataResponse(name="facile", versions=["1"])
    metadata.inputs.add(name="input", datatype="FP32", shape=[-1, FEATURES])
    metadata.outputs.add(name="energy", datatype="FP32", shape=[-1, 1])
    config = service_pb2.ModelConfigResponse()
    config.config.max_batch_size = 1 << 20
    index = service_pb2.RepositoryIndexResponse()
    index.models.add(name="facile", version="1", state="READY")
    answers = {
        "ModelInfer": answer.SerializeToString(),
        "ModelMetadata": metadata.SerializeToString(),
        "ModelConfig": config.SerializeToString(),
        "RepositoryIndex": index.SerializeToString(),
        "ServerReady": service_pb2.ServerReadyResponse(ready=True).SerializeToString(),
    }
    handlers: dict[str, Any] = {
        name: grpc.unary_unary_rpc_method_handler(_constant(message)) for name, message in answers.items()
    }
    server = grpc.server(ThreadPoolExecutor(16), options=OPTIONS)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    server.start()
    sys.stdin.read()


def _constant(message: bytes) -> Callable[[bytes, grpc.ServicerContext], bytes]:
    return lambda _request, _context: message


@contextmanager
def null_server() -> Iterator[str]:
    """Run the null server; yields its address."""
    with subprocess.Popen(
        [sys.executable, __file__, "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin
        assert process.stdout
        yield f"127.0.0.1:{process.stdout.readline().strip()}"
        process.stdin.close()


def per_request_us(call: Callable[[int], None], requests: int) -> float:
    """Return the CPU time of a request, in us. call: makes the number of requests that it is given."""
    begin = time.process_time_ns()
    call(requests)
    return (time.process_time_ns() - begin) / 1000 / requests


def repeat(call: Callable[[], object]) -> Callable[[int], None]:
    """Return a function that makes the call a given number of times."""

    def calls(times: int) -> None:
        for _ in range(times):
            call()

    return calls


def measure(address: str, requests: int, rounds: int) -> dict[str, float]:
    """The CPU time of a request with each client, in us: medians over the rounds."""
    rows = np.random.default_rng(0).normal(size=(ROWS, FEATURES)).astype(np.float32)
    with (
        triton.InferenceServerClient(address) as theirs,
        Client(address, limits=Limits(in_flight=16)) as ours,
        grpc.insecure_channel(address, OPTIONS) as channel,
    ):
        bare: Any = channel.unary_unary(f"/{SERVICE}/ModelInfer")
        model = ours.model("facile")
        head = kept(make_head)
        message = build_ours(rows, head)
        cases = {
            "tritonclient": repeat(lambda: infer_theirs(theirs, rows)),
            "bare grpcio": repeat(lambda: bare(message, timeout=60)),
            "infer": repeat(lambda: model.infer(rows)),
            "tritonclient, 16": lambda times: infer_theirs_async(theirs, rows, times),
            "map, 16": lambda times: deque(model.map(rows for _ in range(times)), maxlen=0).clear(),
            "message, tritonclient": repeat(lambda: build_theirs(rows)),
            "message": repeat(lambda: build_ours(rows, head)),
        }
        for call in cases.values():
            call(10)
        seen: dict[str, list[float]] = {name: [] for name in cases}
        for _ in range(rounds):
            for name, call in cases.items():
                seen[name].append(per_request_us(call, requests))
    return {name: statistics.median(values) for name, values in seen.items()}


def infer_theirs(client: triton.InferenceServerClient, rows: np.ndarray) -> np.ndarray:
    """One request with tritonclient."""
    x = triton.InferInput("input", list(rows.shape), "FP32")
    x.set_data_from_numpy(rows)
    return client.infer("facile", [x], client_timeout=60).as_numpy("energy")


def infer_theirs_async(client: triton.InferenceServerClient, rows: np.ndarray, times: int) -> None:
    """Requests with tritonclient's async_infer, 16 in flight."""
    room = threading.Semaphore(16)
    failed = []

    def ended(result: triton.InferResult, error: Exception | None) -> None:
        if error is None:
            result.as_numpy("energy")
        else:
            failed.append(error)
        room.release()

    for _ in range(times):
        x = triton.InferInput("input", list(rows.shape), "FP32")
        x.set_data_from_numpy(rows)
        room.acquire()
        client.async_infer("facile", [x], ended, client_timeout=60)
    for _ in range(16):
        room.acquire()
    assert not failed, failed[0]


def build_theirs(rows: np.ndarray) -> bytes:
    """The bytes of a request, as tritonclient makes them."""
    x = triton.InferInput("input", list(rows.shape), "FP32")
    x.set_data_from_numpy(rows)
    request = service_pb2.ModelInferRequest(model_name="facile")
    request.inputs.extend([x._get_tensor()])
    request.raw_input_contents.extend([x._get_content()])
    return bytes(request.SerializeToString())


def build_ours(rows: np.ndarray, head: Callable[[HeadKey], bytes]) -> bytes:
    """The same bytes, as this client makes them."""
    key = HeadKey("facile", "", (("input", "FP32", rows.shape),), (), ())
    return make_request(head(key), [to_buffer("input", "FP32", rows)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=200, help="requests a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        serve()
        return
    with null_server() as address:
        figures = measure(address, args.requests, args.rounds)
    rows = np.ones((ROWS, FEATURES), np.float32)
    assert build_ours(rows, make_head) == build_theirs(rows), "the two messages differ"
    if args.json:
        print(json.dumps(figures))
        return
    print(f"{'CPU time of a request':24} {'us':>8} {'of tritonclient':>16}")
    for name, value in figures.items():
        kind = "message, tritonclient" if name.startswith("message") else "tritonclient"
        whole = figures["tritonclient, 16" if name.endswith("16") else kind]
        print(f"{name:24} {value:8.0f} {value / whole:16.2f}")


if __name__ == "__main__":
    main()
