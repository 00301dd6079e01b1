# SPDX-License-Identifier: Apache-2.0
"""Measures the server's CPU time per request, and compares it with two bare grpcio servers in the same minute.

The echo answers with bytes that it has already, and reads nothing. The minimal server does what no server of the protocol can
leave out: it parses the message, copies the input into a slot, copies the output into the answer, and serializes that.

    python bench/server_cost.py [--requests 2000] [--loads facile,packed] [--json]

Each server runs in a process of its own. The card of `hypersonic serve` is a null device: its slots are in host memory, are
written and read like a card's, and compute nothing. So the ratio is the cost of protocol, checks, batching, scheduling and
statistics. CPU time is the process's clock, read before and after. Rounds of the servers alternate, and the figures are medians
over the rounds.
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
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import grpc
import numpy as np
from tritonclient.grpc.service_pb2 import ModelInferRequest, ModelInferResponse
from tritonclient.utils import triton_to_np_dtype

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
    """A kind of request: `rows` rows of n_in numbers of `datatype`, answered by n_out FP32 numbers per row."""

    name: str
    rows: int
    n_in: int
    n_out: int
    datatype: str = "FP32"

    @property
    def out_bytes(self) -> int:
        return 4 * self.rows * self.n_out

    def request(self) -> bytes:
        message = ModelInferRequest(model_name=self.name)
        message.inputs.add(name="x", datatype=self.datatype, shape=[self.rows, self.n_in])
        message.raw_input_contents.append(np.ones((self.rows, self.n_in), triton_to_np_dtype(self.datatype)).tobytes())
        return message.SerializeToString()


#: 1.152 MB, 176 kB, 2.176 MB and 64 B of input
LOADS = (
    Load("facile", 16_000, 18, 1),
    Load("packed", 16_000, 11, 1, "UINT8"),
    Load("large", 16_000, 34, 1),
    Load("small", 1, 16, 16),
)
CONFIG = """backend: "null" max_batch_size: 160000
input [ {{ name: "x" data_type: TYPE_{datatype} dims: [ {n_in} ] }} ]
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
            (Path(scratch) / load.name / "config.pbtxt").write_text(CONFIG.format(**asdict(load)))
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
    serve_bare(lambda data, _context: answers[data[2 : 2 + data[1]]])


def serve_minimal() -> None:
    """Run a grpcio server with nothing but the protocol and two copies: print its address, stop at end of input."""
    loads = {load.name: load for load in LOADS}
    slots = threading.local()  # one for each thread: a server would hand them out

    def handle(data: bytes, _context: grpc.ServicerContext) -> bytes:
        request = ModelInferRequest.FromString(data)
        load = loads[request.model_name]
        if not hasattr(slots, "x"):
            slots.x, slots.y = bytearray(max(len(one.request()) for one in LOADS)), bytes(max(one.out_bytes for one in LOADS))
        copy_into(memoryview(slots.x), 0, request.raw_input_contents[0])
        response = ModelInferResponse(model_name=request.model_name, model_version="1", id=request.id)
        response.outputs.add(name="y", datatype="FP32", shape=[load.rows, load.n_out])
        response.raw_output_contents.append(slots.y[: load.out_bytes])
        return response.SerializeToString()

    serve_bare(handle)


def serve_bare(handle: Callable[[bytes, grpc.ServicerContext], bytes]) -> None:
    """Run a server of grpcio's own with one method: print its address, stop at end of input."""
    handlers: dict[str, Any] = {METHOD.rsplit("/", 1)[1]: grpc.unary_unary_rpc_method_handler(handle)}
    server = grpc.server(ThreadPoolExecutor(256), options=CHANNEL)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(METHOD.split("/")[1], handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(f"127.0.0.1:{port}", flush=True)
    sys.stdin.read()
    server.stop(0)


SERVERS = {"hypersonic": serve_hypersonic, "echo": serve_echo, "minimal": serve_minimal}


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


@dataclass(frozen=True)
class Measured:
    """One round on one server: CPU time per request in us, and answers per second of wall time."""

    cpu_us: float
    per_s: float


def measured(server: Running, load: Load, in_flight: int, requests: int) -> Measured:
    """Measure the server with `in_flight` clients that each have a channel and send one request after the other."""
    data = load.request()
    count = requests // in_flight * in_flight

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
        before, begin = server.cpu_ns(), time.monotonic_ns()
        barrier.wait()
        for future in done:
            future.result()
    return Measured((server.cpu_ns() - before) / count / 1000, count / (time.monotonic_ns() - begin) * 1e9)


@dataclass(frozen=True)
class Cost:
    """The CPU time per request of each server in us, and hypersonic's ratio to the others; medians over the rounds."""

    load: str
    in_flight: int
    echo_us: float
    minimal_us: float
    hypersonic_us: float
    ratio: float
    to_minimal: float


def measure(loads: Sequence[Load], requests: int, rounds: int) -> list[Cost]:
    """Measure the loads with 1, 4 and 16 requests in flight; print a line for each on standard error."""
    costs = []
    with running("echo") as echo, running("minimal") as minimal, running("hypersonic") as ours:
        for load in loads:
            for in_flight in (1, 4, 16):
                servers = (echo, minimal, ours)
                measures = [
                    tuple(measured(server, load, in_flight, requests).cpu_us for server in servers) for _ in range(rounds)
                ]
                ratio, to_minimal = (round(statistics.median(one[2] / one[bare] for one in measures), 2) for bare in (0, 1))
                bare_us, minimal_us, ours_us = (round(statistics.median(one), 1) for one in zip(*measures, strict=True))
                costs.append(Cost(load.name, in_flight, bare_us, minimal_us, ours_us, ratio, to_minimal))
                figures = f"echo {bare_us:7.1f} us  minimal {minimal_us:7.1f} us  hypersonic {ours_us:7.1f} us"
                ratios = f"ratio {ratio:.2f} to the echo, {to_minimal:.2f} to minimal"
                print(f"{load.name:8} {in_flight:3} in flight  {figures}  {ratios}", file=sys.stderr)
    return costs


def chosen(names: str) -> list[Load]:
    """Return the loads with these names, which commas separate. Raises KeyError for another name."""
    by_name = {load.name: load for load in LOADS}
    return [by_name[name] for name in names.split(",")]


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--serve", choices=sorted(SERVERS), help=argparse.SUPPRESS)
    parser.add_argument("--requests", type=int, default=1000, help="requests per round (default: 1000)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each measurement (default: 3)")
    parser.add_argument("--loads", default=",".join(load.name for load in LOADS), help="which ones (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON on standard output")
    args = parser.parse_args()
    if args.serve:
        raise_malloc_thresholds()
        SERVERS[args.serve]()
        return
    costs = measure(chosen(args.loads), args.requests, args.rounds)
    if args.json:
        print(json.dumps([asdict(cost) for cost in costs], indent=2))


if __name__ == "__main__":
    main()
