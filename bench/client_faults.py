# SPDX-License-Identifier: Apache-2.0
"""Counts lost requests and wrong rows while two of five servers shut down, and the others fail, lie or change versions.

    python bench/client_faults.py [--requests 10000] [--json]

FACILE runs in sw_emu on three servers. After a quarter of the requests the first server is killed with signal 9; after half
of them the second one is told to drain (signal 15). The third has three proxies in front of it: one ends 30 % of its ModelInfer
calls with UNAVAILABLE, one drops the last row of each answer, and one answers in turn as version 1 and as a version 2 with
the opposite outputs. 50 distinct events are sent with map(), each as several requests, 16 in flight. The rows of version 1 are
compared with csim as integers, and those of version 2 have to be their opposites.
"""

from __future__ import annotations

import argparse
import itertools
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
from tritonclient.grpc import service_pb2

from hypersonic.building.model import build
from hypersonic.client import Client, Limits, Result
from hypersonic.events.golden import load_golden
from hypersonic.hls.zoo.facile.events import log_flat_events

EVENTS, ROWS = 50, 40
FAILING_SHARE = 0.3
#: so few that an event is several requests of about ten rows: 64 KiB are for names and shapes
MESSAGE_BYTES = (1 << 16) + 800
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


#: takes a request, its context and what sends it on; returns the answer
Inference = Callable[[Any, grpc.ServicerContext, Callable[[Any], Any]], Any]


def failing() -> Inference:
    """End a share of the calls with UNAVAILABLE."""
    rng = random.Random(1)

    def infer(request: Any, context: grpc.ServicerContext, forward: Callable[[Any], Any]) -> Any:
        if rng.random() < FAILING_SHARE:
            context.abort(grpc.StatusCode.UNAVAILABLE, "one of the failing 30 %")
        return forward(request)

    return infer


def dropping(request: Any, _context: grpc.ServicerContext, forward: Callable[[Any], Any]) -> Any:
    """Drop the last row of each output."""
    answer = forward(request)
    for place, output in enumerate(answer.outputs):
        row_bytes = len(answer.raw_output_contents[place]) // output.shape[0]
        output.shape[0] -= 1
        answer.raw_output_contents[place] = answer.raw_output_contents[place][:-row_bytes]
    return answer


def alternating() -> Inference:
    """Answer as version 1 and 2 in turn, or as the version that is asked for. Version 2 has the opposite outputs."""
    turns = itertools.cycle(("1", "2"))

    def infer(request: Any, _context: grpc.ServicerContext, forward: Callable[[Any], Any]) -> Any:
        version = request.model_version or next(turns)
        request.model_version = ""
        answer = forward(request)
        answer.model_version = version
        if version == "2":
            for place, raw in enumerate(answer.raw_output_contents):
                answer.raw_output_contents[place] = (-np.frombuffer(raw, "<f4")).tobytes()
        return answer

    return infer


@contextmanager
def proxy_of(address: str, infer: Inference) -> Iterator[str]:
    """A proxy that passes everything but ModelInfer on."""
    with grpc.insecure_channel(address, OPTIONS) as channel:

        class Handler(grpc.GenericRpcHandler):
            def service(self, call: Any) -> grpc.RpcMethodHandler:
                send: Any = channel.unary_unary(call.method)

                def forward(request: Any) -> Any:
                    return service_pb2.ModelInferResponse.FromString(send(request.SerializeToString(), timeout=60))

                def handle(message: bytes, context: grpc.ServicerContext) -> bytes:
                    try:
                        if call.method.endswith("/ModelInfer"):
                            request = service_pb2.ModelInferRequest.FromString(message)
                            return bytes(infer(request, context, forward).SerializeToString())
                        answer: bytes = send(message, timeout=60)
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
    """Send the events in turn with map() and compare each answer with that of version 1 for its event.

    events: what map() takes. faults: what happens after a quarter and after half of the requests.
    """
    model = client.model(name)
    expected = [model.result(event, version=1) for event in events]
    answered: Counter[int] = Counter()
    versions: Counter[str] = Counter()
    wrong = 0
    begin = time.monotonic()
    for count, result in enumerate(model.map(events[n % len(events)] for n in range(requests))):
        answered[result.index] += 1
        wrong += not agrees(result, expected[result.index % len(events)])
        versions[result.version] += 1
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
        "versions": dict(versions),
        "attempts_per_request": sum(one.sent for one in servers) / (requests + len(events)),
        "failed_attempts": [one.failed for one in servers],
        "seconds": round(seconds, 1),
    }


def agrees(result: Result, expected: Result) -> bool:
    """Whether all rows are those of version 1, or all are the opposite ones of version 2."""
    sign = {"1": 1, "2": -1}[result.version]
    return all((sign * result.outputs[name]).tobytes() == array.tobytes() for name, array in expected.outputs.items())


def run(requests: int) -> dict[str, Any]:
    """Send FACILE's events and return the figures."""
    rows = log_flat_events(1, seed=3).rows
    events = [np.ascontiguousarray(rows[ROWS * n : ROWS * (n + 1)]) for n in range(EVENTS)]
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
        build("facile", target="sw_emu", repository=Path(directory))
        (killed, a), (drained, b), (_, c) = (stack.enter_context(server(Path(directory))) for _ in range(3))
        proxies = [stack.enter_context(proxy_of(c, infer)) for infer in (failing(), dropping, alternating())]
        client = stack.enter_context(Client([a, b, *proxies], limits=Limits(message_bytes=MESSAGE_BYTES)))
        model = client.model("facile")
        answers = np.concatenate([model.infer(event, version=1) for event in events])
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
