# SPDX-License-Identifier: Apache-2.0
"""Clients that stop in the middle of a request or of an answer. Others see nothing, the operator a line and a metric."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import numpy as np
import pytest

from tests.faults.raw import RawGrpc, request
from tests.faults.site import Site, others, site, streamed, write_site
from tests.server.python_models import source, write_python

pytestmark = pytest.mark.whole("server", "requirements.lock", "tests/faults")

#: a model whose answer is larger than every buffer between it and its client
LARGE = """
input [ { name: "x" data_type: TYPE_FP32 dims: [ 1 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ -1 ] } ]
"""
MEGABYTE = 1 << 20
BUDGET_BYTES = 256 << 20
POST = "POST /v2/models/{}/infer HTTP/1.1\r\nHost: t\r\nContent-Length: {}\r\n\r\n"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Clients may be silent for two seconds."""
    repository = write_site(tmp_path_factory.mktemp("site") / "models")
    write_python(repository, "large", source("return [y(np.zeros(int(x_of(r)[0]), np.float32)) for r in requests]"), LARGE)
    with site(repository, "--client-timeout-secs", "2", "--max-inflight-bytes", str(BUDGET_BYTES)) as started:
        yield started


def held(running: Site) -> tuple[float, float]:
    """(requests, bytes) in flight."""
    metrics = running.metrics()
    return metrics["hypersonic_server_requests_in_flight"], metrics["hypersonic_server_bytes_in_flight"]


def grpc_client(running: Site) -> RawGrpc:
    return RawGrpc(running.address("GRPCInferenceService"))


def http_client(running: Site, data: bytes) -> socket.socket:
    """A connection on which so much has been sent."""
    connection = socket.create_connection(running.address("HTTPService"), timeout=60)
    connection.sendall(data)
    return connection


def _to_the_end(connection: socket.socket) -> bytes:
    """Return the bytes that the server sends before it closes or resets the connection."""
    got = b""
    with suppress(ConnectionError):
        while data := connection.recv(1 << 16):
            got += data
    return got


def test_halves_of_requests_hold_up_nobody_and_are_cut_off(running: Site) -> None:
    """Of each kind more than the server has threads for."""
    before = running.cut_off("sends_nothing")
    methods = {"ModelInfer": 300, "ServerReady": 100, "ModelStatistics": 100, "/grpc.health.v1.Health/Check": 300}
    with grpc_client(running) as slow, others(running) as clients, running.client() as client:
        for method, count in methods.items():
            for _ in range(count):
                slow.half(method)
        assert client.is_server_ready()
        assert client.is_model_ready("double")
        clients.more(30)
        running.wait_for(lambda: running.cut_off("sends_nothing") > before)  # a message may take ten times as long as a silence
    assert "is cut off: it sent no more of its request for 2" in running.program.log
    running.wait_for(lambda: held(running) == (0, 0))


def test_halves_of_watches_and_of_streams_hold_up_nobody(running: Site) -> None:
    with grpc_client(running) as slow, others(running) as clients, running.client() as client:
        for _ in range(100):
            slow.half("/grpc.health.v1.Health/Watch")
            slow.half("ModelStreamInfer")
        assert client.is_server_ready()
        clients.more(10)
        assert streamed(running, 3) == [0, 1, 2]


def test_many_streams_of_some_clients_leave_room_for_those_of_others(running: Site) -> None:
    """So many at once that gRPC core by itself would refuse (CANCELLED) calls at random, whosever they are."""
    with ExitStack() as stack, others(running) as clients:
        slow = [stack.enter_context(grpc_client(running)) for _ in range(4)]
        for _ in range(1000):
            for client in slow:
                client.begin("ModelStreamInfer")
        for _ in range(8):
            assert streamed(running, 3) == [0, 1, 2]
        clients.more(10)
        assert b"streams open" in slow[0].read_all()


def test_a_client_that_reads_nothing_of_its_answers_loses_them(running: Site) -> None:
    before = running.cut_off("reads_nothing")
    with grpc_client(running) as slow, others(running) as clients:
        slow.call("ModelInfer", request("large", np.array([MEGABYTE // 4])))
        running.wait_for(lambda: held(running)[1] >= MEGABYTE)
        slow.call("ModelInfer", request("triple", np.zeros((1, 3))))  # small, and behind the large one
        slow.call("ServerReady", b"")
        clients.more(10)
        running.wait_for(lambda: running.cut_off("reads_nothing") == before + 3)
        clients.more(10)
    assert "is cut off: it did not read its answer for" in running.program.log
    running.wait_for(lambda: held(running) == (0, 0))


def test_an_http_client_that_reads_nothing_of_its_answer_loses_it(running: Site) -> None:
    before = running.cut_off("reads_nothing")
    body = b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":[8000000]}]}'
    with others(running) as clients, http_client(running, POST.format("large", len(body)).encode() + body):
        running.wait_for(lambda: held(running)[1] >= 16 * MEGABYTE)
        clients.more(10)
        running.wait_for(lambda: running.cut_off("reads_nothing") == before + 1)
        running.wait_for(lambda: held(running)[1] < 16 * MEGABYTE)
    assert "is cut off: it read nothing of its answer for 2 s" in running.program.log


@pytest.mark.parametrize(
    "sent", ["GET /v2/health/re", POST.format("double", 1000) + "{", "POST /v2/models/double/infer HTTP/1.1\r\n"]
)
def test_an_http_client_that_sends_half_a_request_is_cut_off(running: Site, sent: str) -> None:
    before = running.cut_off("sends_nothing")
    with ExitStack() as stack, others(running) as clients:
        connections = [stack.enter_context(http_client(running, sent.encode())) for _ in range(300)]
        clients.more(10)
        answers = [_to_the_end(connection).partition(b"\r\n")[0] for connection in connections]
        running.wait_for(lambda: running.cut_off("sends_nothing") >= before + 300)
        assert running.cut_off("sends_nothing") == before + 300  # each once, not once more for what it still owes
    assert set(answers) <= {b"", b"HTTP/1.1 400 Bad Request"}
    running.wait_for(lambda: held(running) == (0, 0))


def test_a_stream_that_outruns_its_client_ends_and_the_memory_is_bounded(running: Site) -> None:
    """A gigabyte of answers for a client that reads nothing: no more than the budget is ever kept, and then nothing."""
    # on a loaded machine answers may come so slowly that the client is cut off for reading nothing before the budget is full
    faults = ("reads_too_little", "reads_nothing")
    before = [running.cut_off(fault) for fault in faults]
    with grpc_client(running) as slow, others(running) as clients:
        slow.call("ModelStreamInfer", request("repeat", np.array([1024, 1 << 18, 0])))
        most = 0
        while (after := [running.cut_off(fault) for fault in faults]) == before:
            most = max(most, running.resident_bytes)
        clients.more(10)
        if after[0] > before[0]:
            assert b"too slowly" in slow.read_all()
            assert "is cut off: the client reads its answers too slowly" in running.program.log
    assert most < (3 * BUDGET_BYTES)
    running.wait_for(lambda: held(running) == (0, 0))


def test_a_stream_whose_client_reads_nothing_is_ended(running: Site) -> None:
    before = running.cut_off("reads_nothing")
    with grpc_client(running) as slow, others(running) as clients:
        slow.call("ModelStreamInfer", request("repeat", np.array([20, 1 << 18, 0])))
        running.wait_for(lambda: running.cut_off("reads_nothing") == before + 1)
        clients.more(10)
        running.wait_for(lambda: held(running)[1] < 1 << 20)
    running.wait_for(lambda: held(running) == (0, 0))
