# SPDX-License-Identifier: Apache-2.0
"""Counts lost requests while two of three servers go away and the third fails 30 % of its calls.

    python bench/client_faults.py [--requests 10000] [--json]

FACILE runs in sw_emu on three servers. After a quarter of the requests the first server is killed with signal 9; after half of
them the second one is told to drain (signal 15). A proxy in front of the third ends 30 % of its ModelInfer calls with UNAVAILABLE
from the start. 50 distinct events are sent with map(), 16 in flight, and every answer is compared with csim as integers.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import grpc
import numpy as np

from hypersonic.building.model import build
from hypersonic.client import Client
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
                forward = channel.unary_unary(call.method)

                def handle(message: bytes, context: grpc.ServicerContext) -> bytes:
                    if call.method.endswith("/ModelInfer") and rng.random() < FAILING_SHARE:
                        context.abort(grpc.StatusCode.UNAVAILABLE, "one of the failing 30 %")
                    try:
                        answer: bytes = forward(message, timeout=60)
                    except grpc.RpcError as error:
                        context.abort(error.code(), error.details())
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


def run(requests: int) -> dict[str, Any]:
    """Send the requests and return the figures."""
    rows = log_flat_events(1, seed=3).rows
    events = [np.ascontiguousarray(rows[ROWS * n : ROWS * (n + 1)]) for n in range(EVENTS)]
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
        build("facile", target="sw_emu", repository=Path(directory))
        servers = [stack.enter_context(server(Path(directory))) for _ in range(3)]
        addresses = [servers[0][1], servers[1][1], stack.enter_context(failing_proxy(servers[2][1]))]
        client = stack.enter_context(Client(addresses))
        model = client.model("facile")
        expected = [model.infer(event) for event in events]
        golden = load_golden("facile", model.spec)
        compared = golden.compare((np.concatenate(events),), (np.concatenate(expected),))
        answered: Counter[int] = Counter()
        wrong = 0
        begin = time.monotonic()
        for count, result in enumerate(model.map(events[n % EVENTS] for n in range(requests))):
            answered[result.index] += 1
            wrong += result.output.tobytes() != expected[result.index % EVENTS].tobytes()
            if count == requests // 4:
                servers[0][0].kill()
            if count == requests // 2:
                servers[1][0].send_signal(signal.SIGTERM)
        seconds = time.monotonic() - begin
        statistics = client.statistics()
    return {
        "requests": requests,
        "lost": requests - len(answered),
        "answered_twice": sum(times > 1 for times in answered.values()),
        "wrong": wrong,
        "integers_equal_to_csim": compared,
        "attempts_per_request": sum(one.sent for one in statistics.servers) / (requests + EVENTS),
        "failed_attempts": {
            name: one.failed for name, one in zip(("killed", "drained", "failing 30 %"), statistics.servers, strict=True)
        },
        "seconds": round(seconds, 1),
    }


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
