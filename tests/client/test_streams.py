# SPDX-License-Identifier: Apache-2.0
"""Streams of the client, against the real server: decoupled models and sequences."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from tritonclient.grpc import service_pb2

from hypersonic.client import (
    AnswerError,
    AsyncClient,
    Client,
    ClosedError,
    Code,
    InputError,
    StreamError,
    Timeout,
    UnavailableError,
    UnknownModelError,
)
from hypersonic.client.streams import split_answer
from hypersonic.server.app import Server
from tests.server.python_models import DECOUPLED, DOUBLE, FLOATS, source, write_python
from tests.server.python_serving import serving
from tests.support.server_program import program
from tests.support.waiting import wait_until

X = np.arange(3, dtype=np.float32)
#: an answer for each number; a negative one takes that many seconds, and 99 is an error
REPEAT = """
for request in requests:
    sender = request.get_response_sender()
    for value in x_of(request):
        end = time.monotonic() - value
        while time.monotonic() < end and not request.is_cancelled():
            time.sleep(0.02)
        if value == 99:
            sender.send(pb_utils.InferenceResponse([], pb_utils.TritonError("it is 99")))
        else:
            sender.send(y(np.full(2, value, np.float32)))
    sender.send(flags=FINAL)
"""
#: the sum of all rows of a sequence
ADD = """
def answer(request):
    x, key = x_of(request), request.correlation_id()
    time.sleep(max(0, -float(x.min())))
    if x.max() == 99:
        return pb_utils.InferenceResponse([], pb_utils.TritonError("it is 99"))
    self.sums[key] = self.sums.get(key, 0) + x
    return y(self.sums[key])
return [answer(request) for request in requests]
"""


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("streams")
    write_python(directory, "repeat", source(REPEAT), DECOUPLED)
    write_python(directory, "add", source(ADD, "self.sums = {}"), FLOATS + "sequence_batching { }")
    return directory


@pytest.fixture(scope="module")
def server(repository: Path) -> Iterator[Server]:
    write_python(repository, "double", source(DOUBLE))
    with serving(repository) as running:
        yield running


@pytest.fixture
def address(server: Server) -> str:
    return server.addresses["GRPCInferenceService"]


@pytest.fixture
def client(address: str) -> Iterator[Client]:
    before = client_threads()
    with Client(address, timeout=Timeout(total_s=30)) as made:
        yield made
    wait_until(lambda: client_threads() <= before, 10, explain=client_threads)


def client_threads() -> set[threading.Thread]:
    """All threads but those of the server, which runs in this process."""
    ours = ("grpc-", "http", "model", "slow-clients")
    return {thread for thread in threading.enumerate() if not thread.name.startswith(ours)}


def numbers(results: Iterator) -> list[float]:
    return [float(result.output[0]) for result in results]


def test_a_decoupled_model_answers_any_number_of_times(client: Client) -> None:
    model = client.model("repeat")
    results = list(model.stream(X))
    assert [result.output.tolist() for result in results] == [[0, 0], [1, 1], [2, 2]]
    assert [(result.index, result.attempts) for result in results] == [(0, 1), (1, 1), (2, 1)]
    assert len({result.server for result in results}) == 1
    assert list(model.stream(X[:0])) == []
    with ThreadPoolExecutor(4) as pool:
        for k, got in enumerate(pool.map(lambda k: numbers(model.stream(np.full(k, k, np.float32))), range(12))):
            assert got == [k] * k
    (counted,) = client.statistics().servers
    assert (counted.sent, counted.failed) == (14, 0)
    assert client.engine.pool.members[0].in_flight == 0


def test_an_ordinary_model_streams_one_answer(client: Client) -> None:
    (result,) = client.model("double").stream(X[None])
    np.testing.assert_array_equal(result.output, 2 * X[None])


def test_answers_arrive_one_by_one(client: Client) -> None:
    answers = client.model("repeat").stream(np.array([1, -20], np.float32))
    begin = time.monotonic()
    assert next(answers).output[0] == 1
    assert time.monotonic() - begin < 15
    answers.close()
    assert list(answers) == []


@pytest.mark.parametrize("how", ["close", "forget", "other thread"])
def test_an_iterator_that_is_left_early_cancels_the_call(client: Client, server: Server, how: str) -> None:
    slow = np.array([1, -20, 5, 6], np.float32)
    answers = client.model("repeat").stream(slow)
    before = client_threads()
    assert numbers(islice(answers, 1)) == [1]
    if how == "close":
        answers.close()
        assert next(answers, None) is None
    elif how == "forget":
        del answers
    else:
        threading.Timer(0.3, answers.close).start()
        assert list(answers) == []
    wait_until(lambda: client_threads() <= before, 10, explain=client_threads)
    assert client.engine.pool.members[0].in_flight == 0
    assert numbers(client.model("repeat").stream(X)) == [0, 1, 2]  # the server has gone on


def test_an_error_of_the_model_ends_the_iteration(client: Client) -> None:
    answers = client.model("repeat").stream(np.array([1, 99, 2], np.float32))
    assert next(answers).output[0] == 1
    with pytest.raises(StreamError, match=r"it is 99.*a stream is not tried again") as raised:
        next(answers)
    assert raised.value.code == Code.UNKNOWN
    assert list(answers) == []


def test_a_stream_has_a_time_limit(client: Client) -> None:
    answers = client.model("repeat").stream(np.array([1, -20], np.float32), timeout_s=3)
    with pytest.raises(StreamError) as raised:
        list(answers)
    assert raised.value.code == Code.DEADLINE_EXCEEDED


def test_inputs_and_models_are_checked_before_anything_is_sent(client: Client) -> None:
    with pytest.raises(InputError, match="make 2 requests, expected 1 to 8 rows"):
        client.model("double").stream(np.zeros((9, 3), np.float32))
    with pytest.raises(InputError, match="make 0 requests"):
        client.model("double").stream(np.zeros((0, 3), np.float32))
    with pytest.raises(UnknownModelError):
        client.model("triple").stream(X)
    with pytest.raises(InputError, match=r"use stream\(\)"):
        client.model("repeat").infer(X)
    with pytest.raises(InputError, match=r"use sequence\(\)"):
        client.model("add").submit(X[None], parameters={"sequence_id": 1})
    with pytest.raises(InputError, match="is decoupled"):
        client.model("repeat").sequence().infer(X)
    with pytest.raises(InputError, match="expected a number above 0 or a text"):
        client.model("add").sequence(0)
    assert client.engine.pool.members[0].counters.sent == 0


def test_the_requests_of_a_sequence_share_state(client: Client) -> None:
    model = client.model("add")
    with model.sequence() as one, model.sequence("run 7") as other:
        assert one.id != model.sequence().id
        for k in range(1, 5):
            np.testing.assert_array_equal(one.infer(X[None], last=k == 4), k * X[None])
            np.testing.assert_array_equal(other.infer(2 * X[None]), 2 * k * X[None])
        with pytest.raises(ClosedError, match="is over: its last request was answered"):
            one.infer(X[None])
    with pytest.raises(ClosedError, match="it was closed"):
        other.infer(X[None])


def test_a_sequence_stays_on_its_server(address: str, server: Server) -> None:
    port = address.rpartition(":")[2]
    with Client([address, f"localhost:{port}"]) as client:
        for _ in range(5):
            with client.model("add").sequence() as sequence:
                assert len({sequence.result(X[None], last=k == 3).server for k in range(4)}) == 1


def test_an_error_ends_a_sequence_and_says_that_it_is_not_retried(client: Client) -> None:
    with client.model("add").sequence() as sequence:
        sequence.infer(X[None])
        with pytest.raises(StreamError, match=r"it is 99.*a stream is not tried again"):
            sequence.infer(np.full((1, 3), 99, np.float32))
        with pytest.raises(ClosedError, match="it is 99"):
            sequence.infer(X[None])
    assert client.statistics().servers[0].retried == 0


def test_a_request_of_a_sequence_has_a_time_limit(address: str) -> None:
    with Client(address, timeout=Timeout(total_s=3)) as client, client.model("add").sequence() as sequence:
        for _ in range(3):
            sequence.infer(X[None])
        begin = time.monotonic()
        with pytest.raises(StreamError):
            sequence.infer(np.full((1, 3), -15, np.float32))
        assert time.monotonic() - begin < 13
        with pytest.raises(ClosedError, match="had no answer after 3 s"):
            sequence.infer(X[None])


def test_closing_the_client_ends_its_streams(address: str) -> None:
    client = Client(address)
    answers = client.model("repeat").stream(np.array([1, -20], np.float32))
    next(answers)
    sequence = client.model("add").sequence()
    sequence.infer(X[None])
    client.close()
    with pytest.raises(StreamError):
        next(answers)
    with pytest.raises(StreamError):
        sequence.infer(X[None])
    with pytest.raises(ClosedError):
        next(client.model("repeat").stream(X))


async def in_asyncio(address: str) -> None:
    async with AsyncClient(address) as client:
        assert [float(result.output[0]) async for result in client.model("repeat").stream(X)] == [0, 1, 2]
        async with client.model("add").sequence() as sequence:
            for k in range(1, 4):
                np.testing.assert_array_equal(await sequence.infer(X[None], last=k == 3), k * X[None])

        async def read() -> None:
            async for _ in client.model("repeat").stream(np.array([1, -20], np.float32)):
                pass

        task = asyncio.create_task(read())
        await asyncio.sleep(1)
        begin = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert time.monotonic() - begin < 10


def test_asyncio_streams_too(address: str) -> None:
    begin = time.monotonic()
    asyncio.run(in_asyncio(address))  # it waits for its threads
    assert time.monotonic() - begin < 15


def test_a_server_that_is_killed_ends_its_streams(repository: Path) -> None:
    before = client_threads()
    with program("--model-repository", str(repository)) as running, Client(running.grpc) as client:
        answers = client.model("repeat").stream(np.array([1, -20], np.float32))
        next(answers)
        with client.model("add").sequence() as sequence:
            sequence.infer(X[None])
            running.process.send_signal(signal.SIGKILL)
            for ask in (lambda: next(answers), lambda: sequence.infer(X[None])):
                with pytest.raises(StreamError, match="a stream is not tried again") as raised:
                    ask()
                assert raised.value.code == Code.UNAVAILABLE
        with pytest.raises((StreamError, UnavailableError)):
            next(client.model("repeat").stream(X))
    wait_until(lambda: client_threads() <= before, 10, explain=client_threads)


def test_a_message_that_is_not_an_answer_of_a_stream_is_refused() -> None:
    inner = service_pb2.ModelInferResponse(model_name="m").SerializeToString()
    message = service_pb2.ModelStreamInferResponse(error_message="e" * 300)
    message.infer_response.model_name = "m"
    assert split_answer(message.SerializeToString()) == ("e" * 300, inner)
    assert split_answer(b"") == ("", b"")
    for bad in (b"\x0a", b"\x0a\x05abc", b"\x1a\x00", b"\x08\x01", b"\x12" + b"\xff" * 20, b"\xff" * 11):
        with pytest.raises(AnswerError, match="is not a ModelStreamInferResponse"):
            split_answer(bad)
