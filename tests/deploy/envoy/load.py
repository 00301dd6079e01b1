# SPDX-License-Identifier: Apache-2.0
"""Clients that send rows nobody else has, and compare what they get with 2 x + 1, as integers."""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import grpc
import numpy as np
import tritonclient.grpc as triton
from tritonclient.grpc import service_pb2
from tritonclient.utils import InferenceServerException

from hypersonic.client import Client, ClientError, Limits
from tests.support.waiting import wait_until

_WIDTH = 8
_INFER = "/inference.GRPCInferenceService/ModelInfer"
#: the longest that a job waits for an answer: less than Envoy's per_try_timeout, more than a hung server takes to be noticed
_PATIENCE_S = 45
#: jobs on one connection
_JOBS = 100
#: no two requests of a test process have a number in common
_numbers = itertools.count(1)


def unique_rows(width: int = _WIDTH) -> np.ndarray:
    """Return INT32 numbers that no other request has, from an own thousand on."""
    return (np.arange(width, dtype=np.int64) + 1000 * next(_numbers)).astype(np.int32)


def expected(rows: np.ndarray) -> np.ndarray:
    """Return what model `rows` answers."""
    return 2 * rows + 1


@dataclass
class Outcome:
    """The outcome of a number of requests. strangers: answers to the rows of another request, or to none."""

    answered: int = 0
    strangers: int = 0
    failures: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def asked(self) -> int:
        return self.answered + self.strangers + len(self.failures)

    def add(self, rows: np.ndarray, answer: np.ndarray | None, failure: str = "") -> int:
        """Count one request; return how many there are now."""
        with self.lock:
            if answer is None:
                self.failures.append(failure)
            elif np.array_equal(answer, expected(rows)):
                self.answered += 1
            else:
                self.strangers += 1
            return self.asked


Faults = Mapping[int, Callable[[], object]]


def connect(address: str, **options: Any) -> triton.InferenceServerClient:
    """Return a plain client on a connection of its own."""
    args = [
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_receive_message_length", -1),
    ]
    return triton.InferenceServerClient(address, channel_args=args, **options)


def tensor(rows: np.ndarray) -> triton.InferInput:
    given = triton.InferInput("x", list(rows.shape), "INT32")
    given.set_data_from_numpy(rows)
    return given


def infer(client: triton.InferenceServerClient, rows: np.ndarray, **options: Any) -> np.ndarray:
    return client.infer("rows", [tensor(rows)], client_timeout=60, **options).as_numpy("y")


def plain(address: str, requests: int, faults: Faults, clients: int = 12) -> Outcome:
    """Send requests with tritonclient, which never retries. faults: what happens after so many answers."""
    outcome = Outcome()
    left = iter(range(requests))

    def ask() -> None:
        with connect(address) as client:
            while next(left, None) is not None:
                _one(outcome, lambda rows: infer(client, rows), faults)

    _together([ask] * clients)
    return outcome


def ours(address: str, requests: int, faults: Faults, clients: int = 12) -> Outcome:
    """Send requests with hypersonic.client from several threads."""
    outcome = Outcome()
    left = iter(range(requests))
    with Client([address], limits=Limits(in_flight=clients)) as client:
        model = client.model("rows")

        def ask() -> None:
            while next(left, None) is not None:
                _one(outcome, lambda rows: np.asarray(model.result({"x": rows}).outputs["y"]), faults)

        _together([ask] * clients)
    return outcome


def jobs(address: str, count: int, requests: int, faults: Faults) -> Outcome:
    """Let `count` jobs send requests, each its next one when it has its answer. The client sends none twice."""
    outcome, left, over = Outcome(), iter(range(requests)), threading.Semaphore(0)
    message = service_pb2.ModelInferRequest(model_name="rows")
    message.inputs.add(name="x", datatype="INT32", shape=[_WIDTH])
    with ExitStack() as stack:
        channels = [
            stack.enter_context(grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)]))
            for _ in range(-(-count // _JOBS))
        ]
        calls: list[Any] = [channel.unary_unary(_INFER) for channel in channels]

        def ask(job: int) -> None:
            if next(left, None) is None:
                over.release()
                return
            rows = unique_rows()
            sent = service_pb2.ModelInferRequest(raw_input_contents=[rows.tobytes()])
            sent.MergeFrom(message)
            call = calls[job // _JOBS].future(sent.SerializeToString(), timeout=_PATIENCE_S)
            call.add_done_callback(lambda done: answered(job, rows, done))

        def answered(job: int, rows: np.ndarray, call: Any) -> None:
            if (error := call.exception()) is not None:
                asked = outcome.add(rows, None, f"{error.code().name}: {error.details()}")
            else:
                answer = service_pb2.ModelInferResponse.FromString(call.result())
                asked = outcome.add(rows, np.frombuffer(answer.raw_output_contents[0], np.int32))
            faults.get(asked, lambda: None)()
            ask(job)

        for job in range(count):
            ask(job)
        for _ in range(count):
            over.acquire()
    return outcome


def _one(outcome: Outcome, answer_to: Callable[[np.ndarray], np.ndarray], faults: Faults) -> None:
    rows = unique_rows()
    try:
        count = outcome.add(rows, answer_to(rows))
    except (InferenceServerException, ClientError, grpc.RpcError) as error:
        count = outcome.add(rows, None, str(error))
    faults.get(count, lambda: None)()


def _together(tasks: list[Callable[[], None]]) -> None:
    with ThreadPoolExecutor(len(tasks)) as pool:
        for done in [pool.submit(task) for task in tasks]:
            done.result()


@contextmanager
def crowd(address: str, clients: int = 8) -> Iterator[Outcome]:
    """Keep clients asking until the context ends."""
    outcome, stopping = Outcome(), threading.Event()

    def ask() -> None:
        with connect(address) as client:
            while not stopping.is_set():
                _one(outcome, lambda rows: infer(client, rows), {})

    threads = [threading.Thread(target=ask) for _ in range(clients)]
    for thread in threads:
        thread.start()
    try:
        wait_until(lambda: outcome.asked >= clients)
        yield outcome
    finally:
        stopping.set()
        for thread in threads:
            thread.join()


def stream(address: str, requests: int) -> Outcome:
    """Send requests on one ModelStreamInfer, and take the answers in their order, until it ends."""
    outcome = Outcome()
    got: queue.SimpleQueue[Any] = queue.SimpleQueue()
    with connect(address) as client:
        client.start_stream(lambda result, error: got.put(error or result), stream_timeout=60)
        for _ in range(requests):
            rows = unique_rows()
            with suppress(InferenceServerException):  # the stream has ended: the callback knows why
                client.async_stream_infer("rows", [tensor(rows)])
            answer = got.get(timeout=60)
            if isinstance(answer, InferenceServerException):
                outcome.add(rows, None, str(answer))
                break
            outcome.add(rows, answer.as_numpy("y"))
        client.stop_stream()
    return outcome


def raw(address: str, message: bytes) -> grpc.RpcError | None:
    """Send a serialized ModelInferRequest; return the error, or None."""
    with grpc.insecure_channel(address) as channel:
        infer: Any = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        try:
            infer(message, timeout=120)
        except grpc.RpcError as error:
            return error
    return None
