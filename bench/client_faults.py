# SPDX-License-Identifier: Apache-2.0
"""Counts lost requests while two of three servers shut down and the third fails 30 % of its calls.

    python bench/client_faults.py [--requests 10000] [--json]

FACILE runs in sw_emu on three servers. After a quarter of the requests the first server is killed with signal 9; after half
of them the second one is told to drain (signal 15). A proxy in front of the third ends 30 % of its ModelInfer calls with
UNAVAILABLE. 50 distinct events are sent with map(), 16 in flight, and every answer is compared with csim as integers.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import grpc
import numpy as np

from hypersonic.building.model import build
from hypersonic.client import Client, Result
from hypersonic.events.golden import load_golden
from hypersonic.hls.zoo.facile.events import log_flat_events

EVENTS, ROWS = 50, 40
FAILING_SHARE = 0.3
OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


@contextmanager
def server(repository: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server process and its gRPC address."""
    argv = [sys.executable, "-m", "hypersonic.server.app", "--model-repository", str(repository), "--exit-timeout-secs", "20"]
    for port in ("grpc", "http", "metrics"):
        argv += [f"--{port}-port", "0", f"--{port}-address", "127.0.0.1"]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        for line in process.stderr:
            if "Started GRPCInferenceService at " in line:
                break
        else:
            raise RuntimeError(f"the server ended with {process.wait()}")
        threading.Thread(target=process.stderr.read, daemon=True).start()
        try:
            yield process, line.split()[-1]
        finally:
            process.kill()


@contextmanager
def failing_proxy(address: str) -> Iterator[str]:
    """A proxy that ends a share of the ModelInfer calls with UNAVAILABLE and passes everything else on."""
    rng = random.Random(1)
    with grpc.insecure_channel(address, OPTIONS) as channel:

        class Handler(grpc.GenericRpcHandler):
            def service(self, call: Any) -> grpc.RpcMethodHandler:
                forward: Any = channel.unary_unary(call.method)

                def handle(message: bytes, context: grpc.ServicerContext) -> bytes:
                    if call.method.endswith("/ModelInfer") and rng.random() < FAILING_SHARE:
                        context.abort(grpc.StatusCode.UNAVAILABLE, "one of the failing 30 %")
                    try:
                        answer: bytes = forward(message, timeout=60)
                    except grpc.RpcError as error:
                        context.abort(error.code(), error.details() or "")
                    return answer

                return grpc.unary_unary_rpc_method_handler(handle)

        proxy = grpc.server(ThreadPoolExecutor(32), options=OPTIONS)
        proxy.add_generic_rpc_handlers((Handler(),))
        port = proxy.add_insecure_port("127.0.0.1:0")
        proxy.start()
        try:
            yield f"127.0.0.1:{port}"
        finally:
            proxy.stop(0).wait()


def send(
    client: Client, name: str, events: Sequence[Any], requests: int, faults: Sequence[Callable[[], object]]
) -> dict[str, Any]:
    """Send the events in turn with map() and compare each answer with that of the first request for its event.

    events: what map() takes. faults: what happens after a quarter and after half of the requests.
    """
    model = client.model(name)
    expected = [as_bytes(model.result(event)) for event in events]
    answered: Counter[int] = Counter()
    wrong = 0
    begin = time.monotonic()
    for count, result in enumerate(model.map(events[n % len(events)] for n in range(requests))):
        answered[result.index] += 1
        wrong += as_bytes(result) != expected[result.index % len(events)]
        for place, fault in zip((requests // 4, requests // 2), faults, strict=True):
            if count == place:
                fault()
    seconds = time.monotonic() - begin
    servers = client.statistics().servers
    return {
        "requests": requests,
        "lost": requests - len(answered),
        "answered_twice": sum(times > 1 for times in answered.values()),
        "wrong": wrong,
        "attempts_per_request": sum(one.sent for one in servers) / (requests + len(events)),
        "failed_attempts": [one.failed for one in servers],
        "seconds": round(seconds, 1),
    }


def as_bytes(result: Result) -> dict[str, bytes]:
    """The bytes of each output."""
    return {name: array.tobytes() for name, array in result.outputs.items()}


def run(requests: int) -> dict[str, Any]:
    """Send FACILE's events and return the figures. The first server is killed, the second drains, and the third fails calls."""
    rows = log_flat_events(1, seed=3).rows
    events = [np.ascontiguousarray(rows[ROWS * n : ROWS * (n + 1)]) for n in range(EVENTS)]
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
        build("facile", target="sw_emu", repository=Path(directory))
        (killed, a), (drained, b), (_, c) = (stack.enter_context(server(Path(directory))) for _ in range(3))
        client = stack.enter_context(Client([a, b, stack.enter_context(failing_proxy(c))]))
        model = client.model("facile")
        answers = np.concatenate([model.infer(event) for event in events])
        compared = load_golden("facile", model.spec).compare((np.concatenate(events),), (answers,))
        figures = send(client, "facile", events, requests, [killed.kill, drained.terminate])
    return {**figures, "integers_equal_to_csim": compared}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    figures = run(args.requests)
    if args.json:
        print(json.dumps(figures))
        return
    for name, value in figures.items():
        print(f"{name:24} {value}")


if __name__ == "__main__":
    main()
