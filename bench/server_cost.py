# SPDX-License-Identifier: Apache-2.0
"""Measures the server's CPU time per request, and compares it with a bare raw-bytes grpcio echo server in the same minute.

    python bench/server_cost.py [--requests 2000] [--json]

Each server runs in a process of its own. The card is a null device, with slots in host memory that are written and read like a
card's, and without computation, so the ratio is the cost of protocol, checks, batching, scheduling and statistics. CPU time is
the process's clock, read before and after. Rounds of the two servers alternate, and the figures are medians over the rounds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import grpc
import numpy as np
from tritonclient.grpc.service_pb2 import ModelInferRequest

from hypersonic.server.app import Server, Signals
from hypersonic.server.core.config.schema import ModelConfig
from hypersonic.server.core.inference.answer import Answer, Output
from hypersonic.server.core.inference.backend import Execution
from hypersonic.server.core.inference.card import CardStatus
from hypersonic.server.core.inference.pending import Share
from hypersonic.server.memory import copy_into, raise_malloc_thresholds
from hypersonic.server.options import Options

METHOD = "/inference.GRPCInferenceService/ModelInfer"
CHANNEL = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1), ("grpc.so_reuseport", 0)]


@dataclass(frozen=True)
class Load:
    """A kind of request: `rows` rows of n_in FP32 numbers, answered by n_out numbers per row."""

    name: str
    rows: int
    n_in: int
    n_out: int

    @property
    def out_bytes(self) -> int:
        return 4 * self.rows * self.n_out

    def request(self) -> bytes:
        message = ModelInferRequest(model_name=self.name)
        message.inputs.add(name="x", datatype="FP32", shape=[self.rows, self.n_in])
        message.raw_input_contents.append(np.ones((self.rows, self.n_in), np.float32).tobytes())
        return message.SerializeToString()


LOADS = (Load("event", 16_000, 15, 1), Load("facile", 16_000, 18, 1), Load("small", 1, 16, 16))
CONFIG = """backend: "null" max_batch_size: 160000
input [ {{ name: "x" data_type: TYPE_FP32 dims: [ {n_in} ] }} ]
output [ {{ name: "y" data_type: TYPE_FP32 dims: [ {n_out} ] }} ]
dynamic_batching {{ preferred_batch_size: [ 16000 ] }}
"""


class NullSlot:
    """A slot with buffers of 16384 rows, whose runs end as soon as they start."""

    capacity_rows = 16384

    def __init__(self, n_in: int, n_out: int) -> None:
        self._x = np.zeros(4 * n_in * self.capacity_rows, np.uint8).data
        self._y = np.zeros(4 * n_out * self.capacity_rows, np.uint8).data
        self._row_bytes = 4 * n_out
        self._now_ns = 0
        self._rows: list[tuple[int, int]] = []

    def start(self, shares: Sequence[Share]) -> None:
        at = rows = 0
        self._rows.clear()
        for share in shares:
            (data,) = share.tensors
            assert data is not None
            at = copy_into(self._x, at, data)
            self._rows.append((rows, share.rows))
            rows += share.rows
        self._now_ns = time.monotonic_ns()

    def finish(self) -> Execution:
        return Execution(self._now_ns, self._now_ns)

    def answer(self, index: int) -> Answer:
        first_row, rows = self._rows[index]
        data = self._y[first_row * self._row_bytes : (first_row + rows) * self._row_bytes]
        return Answer((Output(0, "FP32", (rows, self._row_bytes // 4), (data,), len(data)),))


class NullInstance:
    """An instance with two null slots, which never fails."""

    name = "null_1"
    in_service = True

    def __init__(self, n_in: int, n_out: int) -> None:
        self.slots = (NullSlot(n_in, n_out), NullSlot(n_in, n_out))

    def busy_clocks(self) -> int:
        return 0

    def revive(self) -> bool:
        return False

    def close(self) -> None: ...


class NullModel:
    """A loaded model with one null instance."""

    def __init__(self, config: ModelConfig) -> None:
        self.instances = (NullInstance(config.inputs[0].dims[0], config.outputs[0].dims[0]),)

    @property
    def standby(self) -> Sequence[NullInstance]:
        return ()

    def card(self, _instance: object) -> CardStatus | None:
        return None

    def close(self) -> None: ...


class NullBackend:
    """A backend that loads null models."""

    def complete(self, directory: Path, message: object) -> None: ...

    def load(self, _directory: Path, config: ModelConfig) -> NullModel:
        return NullModel(config)


def serve_hypersonic() -> None:
    """Run this project's server with the null device: print its address, and stop at the end of standard input."""
    with tempfile.TemporaryDirectory() as scratch:
        for load in LOADS:
            (Path(scratch) / load.name / "1").mkdir(parents=True)
            (Path(scratch) / load.name / "config.pbtxt").write_text(CONFIG.format(n_in=load.n_in, n_out=load.n_out))
        options = Options(
            (Path(scratch),),
            grpc_port=0,
            grpc_address="127.0.0.1",
            allow_http=False,
            allow_metrics=False,
            allow_client_shm=True,
        )
        server = Server(options, {"null": NullBackend()})
        server.load()
        server.start()
        print(server.addresses["GRPCInferenceService"], flush=True)
        sys.stdin.read()
        server.stop(Signals())


def serve_echo() -> None:
    """Run the simplest grpcio server, which answers with bytes of the right size: print its address, stop at end of input."""
    answers = {load.name.encode(): bytes(load.out_bytes) for load in LOADS}

    def handle(data: bytes, _context: grpc.ServicerContext) -> bytes:
        return answers[data[2 : 2 + data[1]]]

    handlers: dict[str, Any] = {METHOD.rsplit("/", 1)[1]: grpc.unary_unary_rpc_method_handler(handle)}
    server = grpc.server(ThreadPoolExecutor(256), options=CHANNEL)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(METHOD.split("/")[1], handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(f"127.0.0.1:{port}", flush=True)
    sys.stdin.read()
    server.stop(0)


SERVERS = {"hypersonic": serve_hypersonic, "echo": serve_echo}


@dataclass(frozen=True)
class Running:
    """A running server process and its gRPC address."""

    process: subprocess.Popen[str]
    address: str

    def cpu_ns(self) -> int:
        """Return the process's CPU time in ns, from the clock id that Linux derives from the pid (clock_getcpuclockid(3))."""
        return time.clock_gettime_ns(~self.process.pid << 3 | 2)


@contextmanager
def running(name: str) -> Iterator[Running]:
    """Run one of SERVERS in a process of its own inside the context."""
    argv = [sys.executable, __file__, "--serve", name]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield Running(process, process.stdout.readline().strip())
        process.stdin.close()


def cost_us(server: Running, load: Load, in_flight: int, requests: int) -> float:
    """Return the server's CPU time per request, in us, with `in_flight` clients that each have a channel."""
    data = load.request()
    before = 0

    def client(count: int, barrier: threading.Barrier) -> None:
        with grpc.insecure_channel(server.address, options=[*CHANNEL, ("grpc.use_local_subchannel_pool", 1)]) as channel:
            call: Any = channel.unary_unary(METHOD)
            for _ in range(3):
                call(data)
            barrier.wait()
            barrier.wait()
            for _ in range(count):
                call(data)

    barrier = threading.Barrier(in_flight + 1)
    with ThreadPoolExecutor(in_flight) as pool:
        done = [pool.submit(client, requests // in_flight, barrier) for _ in range(in_flight)]
        barrier.wait()
        before = server.cpu_ns()
        barrier.wait()
        for future in done:
            future.result()
    return (server.cpu_ns() - before) / (requests // in_flight * in_flight) / 1000


@dataclass(frozen=True)
class Cost:
    """The CPU time per request of both servers in us, and their ratio; each is the median over the rounds."""

    load: str
    in_flight: int
    echo_us: float
    hypersonic_us: float
    ratio: float


def measure(requests: int, rounds: int) -> list[Cost]:
    """Measure every load with 1, 4 and 16 requests in flight; print a line for each on standard error."""
    costs = []
    with running("echo") as echo, running("hypersonic") as ours:
        for load in LOADS:
            for in_flight in (1, 4, 16):
                pairs = [tuple(cost_us(server, load, in_flight, requests) for server in (echo, ours)) for _ in range(rounds)]
                ratio = statistics.median(mine / bare for bare, mine in pairs)
                bare, mine = (statistics.median(values) for values in zip(*pairs, strict=True))
                costs.append(Cost(load.name, in_flight, round(bare, 1), round(mine, 1), round(ratio, 2)))
                figures = f"echo {bare:7.1f} us  hypersonic {mine:7.1f} us  ratio {ratio:.2f}"
                print(f"{load.name:8} {in_flight:3} in flight  {figures}", file=sys.stderr)
    return costs


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--serve", choices=sorted(SERVERS), help=argparse.SUPPRESS)
    parser.add_argument("--requests", type=int, default=1000, help="requests per round (default: 1000)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each measurement (default: 3)")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON on standard output")
    args = parser.parse_args()
    if args.serve:
        raise_malloc_thresholds()
        SERVERS[args.serve]()
        return
    costs = measure(args.requests, args.rounds)
    if args.json:
        print(json.dumps([asdict(cost) for cost in costs], indent=2))


if __name__ == "__main__":
    main()
