# SPDX-License-Identifier: Apache-2.0
"""One address does whatever it likes; another one is served as if it were alone. All at the level of bytes on a socket.

Attackers come from 127.0.0.2 and, where there are several, from the addresses above 127.0.0.100; honest clients from 127.0.0.3.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
from tritonclient.grpc import service_pb2

from tests.faults.raw import RawGrpc, RefusedError, connect, request
from tests.faults.site import Site, site
from tests.server.python_models import DOUBLE, source, write_python
from tests.support.waiting import wait_until

ATTACKER, HONEST = "127.0.0.2", "127.0.0.3"
MEGABYTE = 1 << 20
BUDGET_BYTES = 64 * MEGABYTE
CONNECTIONS = 128
POST = "POST /v2/models/double/infer HTTP/1.1\r\nHost: t\r\nContent-Length: {}\r\n\r\n"
X = np.arange(3, dtype=np.float32).reshape(1, 3)


@contextmanager
def started(directory: Path, timeout_s: int) -> Iterator[Site]:
    write_python(directory, "double", source(DOUBLE))
    options = {
        "--client-timeout-secs": timeout_s, "--max-inflight-bytes": BUDGET_BYTES, "--grpc-max-connections": 512,
        "--trusted-proxies": "127.0.0.64/28",
    }  # fmt: skip
    with site(directory, *(str(word) for option in options.items() for word in option)) as running:
        yield running


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Clients may be silent for two seconds."""
    with started(tmp_path_factory.mktemp("models"), 2) as site:
        yield site


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Clients may be silent for ten minutes, their messages take ten times as long: no time-out helps anybody here."""
    with started(tmp_path_factory.mktemp("models"), 600) as site:
        yield site


def grpc_client(running: Site, address: str) -> RawGrpc:
    return RawGrpc(running.address("GRPCInferenceService"), address)


def http_client(running: Site, address: str, data: bytes = b"", service: str = "HTTPService") -> socket.socket:
    connection = connect(running.address(service), address)
    connection.sendall(data)
    return connection


def http_answer(connection: socket.socket) -> tuple[int, bytes]:
    """(status, body) of an answer with a Content-Length."""
    with closing(connection), connection.makefile("rb") as stream:
        status = int(stream.readline().split()[1])
        size_bytes = 0
        while (line := stream.readline().strip().lower()) != b"":
            if line.startswith(b"content-length:"):
                size_bytes = int(line.split(b":")[1])
        return status, stream.read(size_bytes)


def get(running: Site, path: str, service: str = "HTTPService", address: str = HONEST) -> int:
    return http_answer(http_client(running, address, f"GET {path} HTTP/1.1\r\nHost: t\r\n\r\n".encode(), service))[0]


def http_infer(running: Site, address: str, size_bytes: int = 0) -> int:
    """The status of a request of about so many bytes, its answer checked."""
    body = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 3], "data": X.tolist()}]}).encode()
    body = body.replace(b"]]", b"]" + b" " * (size_bytes - len(body)) + b"]")
    status, answer = http_answer(http_client(running, address, POST.format(len(body)).encode() + body))
    assert status != 200 or json.loads(answer)["outputs"][0]["data"] == (2 * X).ravel().tolist()
    return status


def grpc_infer(running: Site, address: str, count: int = 1) -> None:
    """So many requests, one after the other, on a new connection each. Raises RefusedError."""
    for _ in range(count):
        with grpc_client(running, address) as client:
            answer = service_pb2.ModelInferResponse.FromString(client.ask("ModelInfer", request("double", X)))
            assert answer.raw_output_contents[0] == (2 * X).tobytes()


def everything_works(running: Site, address: str = HONEST) -> None:
    """Check that a new client is served on every port and with every kind of call."""
    grpc_infer(running, address, 3)
    assert http_infer(running, address, 100_000) == 200
    for method in ("ServerLive", "ServerReady", "/grpc.health.v1.Health/Check", "RepositoryIndex"):
        with grpc_client(running, address) as client:
            client.ask(method)
    with grpc_client(running, address) as client:
        streamed = service_pb2.ModelStreamInferResponse.FromString(client.ask("ModelStreamInfer", request("double", X)))
        assert streamed.infer_response.raw_output_contents[0] == (2 * X).tobytes()
    assert get(running, "/v2/health/live") == get(running, "/v2/health/ready") == 200
    assert get(running, "/metrics", "Metrics Service") == 200


def bytes_in_flight(running: Site) -> float:
    return running.metrics()["hypersonic_server_bytes_in_flight"]


def empty(running: Site) -> None:
    """Wait until nothing of a test is left."""
    running.wait_for(lambda: running.metrics()["hypersonic_server_requests_in_flight"] == 0)


def test_a_claim_of_memory_takes_none(running: Site) -> None:
    """64 bodies of 20 MiB are declared and a byte of each is sent: a megabyte at most is held, and others notice nothing."""
    everything_works(running)
    before = running.resident_bytes
    with ExitStack() as stack:
        for _ in range(64):
            stack.enter_context(http_client(running, ATTACKER, POST.format(20 * MEGABYTE).encode() + b"{"))
        running.wait_for(lambda: running.metrics()["hypersonic_server_requests_in_flight"] >= 64)
        assert bytes_in_flight(running) < MEGABYTE
        assert running.resident_bytes - before < 64 * MEGABYTE
        everything_works(running)
    empty(running)


def test_a_body_or_headers_that_come_byte_by_byte_are_cut_off_after_one_window(running: Site) -> None:
    before = running.cut_off("sends_nothing")
    stop = threading.Event()
    with ExitStack() as stack:
        begun = [POST.format(20 * MEGABYTE), "GET /v2/health/live HTTP/1.1\r\nX-Long:"]
        attackers = [stack.enter_context(http_client(running, ATTACKER, begun[n % 2].encode())) for n in range(16)]

        def trickle() -> None:
            while not stop.wait(0.1):
                for attacker in attackers:
                    with suppress(OSError):
                        attacker.send(b" ")

        thread = threading.Thread(target=trickle)
        thread.start()
        stack.callback(thread.join)
        stack.callback(stop.set)
        running.wait_for(lambda: running.cut_off("sends_nothing") == before + 16)
        everything_works(running)
    empty(running)


def test_what_one_address_really_sends_leaves_room_for_another(running: Site) -> None:
    """Bodies that never end, until the address is refused more; a second address has room at once."""
    with ExitStack() as stack:
        for _ in range(8):
            attacker = stack.enter_context(http_client(running, ATTACKER, POST.format(12 * MEGABYTE).encode()))
            with suppress(OSError):  # refused before all is sent
                attacker.sendall(b" " * (12 * MEGABYTE - 1))
        running.wait_for(lambda: bytes_in_flight(running) > BUDGET_BYTES // 4)
        assert http_infer(running, ATTACKER, 11 * MEGABYTE) == 503
        assert http_infer(running, HONEST, MEGABYTE // 2) == 200
        everything_works(running)
        metrics = running.metrics()
        assert metrics['hypersonic_budget_refusals_total{budget="bytes"}'] > 0
        assert 0 < metrics['hypersonic_budget_used{budget="bytes"}'] < BUDGET_BYTES
        assert metrics["hypersonic_ready"] == 1
        running.wait_for(lambda: "the budget 'bytes' is saturated" in running.program.log)
    empty(running)
    running.wait_for(lambda: "the budget 'bytes' has room again" in running.program.log)


@pytest.mark.parametrize("method", ["ModelInfer", "ServerReady", "/grpc.health.v1.Health/Check"])
def test_half_a_message_on_each_of_many_connections_stops_nobody_else(patient: Site, method: str) -> None:
    with ExitStack() as stack:
        for _ in range(CONNECTIONS * 2 + 4):
            stack.enter_context(grpc_client(patient, ATTACKER)).half(method)
        everything_works(patient)


def test_many_half_sent_calls_on_each_of_a_few_connections_stop_nobody_else(patient: Site) -> None:
    with ExitStack() as stack:
        for _ in range(10):
            client = stack.enter_context(grpc_client(patient, ATTACKER))
            for _ in range(100):
                client.half("ModelInfer")
            time.sleep(0.1)  # each connection takes what the one before has left
        everything_works(patient)


def test_half_sent_calls_from_many_addresses_give_their_places_back_when_another_one_waits(patient: Site) -> None:
    """More addresses than halving the places again and again leaves room for; also behind a trusted proxy, by connection."""
    with ExitStack() as stack:
        for number in range(24):
            client = stack.enter_context(grpc_client(patient, f"127.0.0.{100 + number}"))
            for _ in range(100):
                client.half("ModelInfer")
        for number in range(24):
            client = stack.enter_context(grpc_client(patient, f"127.0.0.{64 + number % 8}"))
            for _ in range(100):
                client.half("ModelInfer")
        grpc_infer(patient, HONEST, 3)
        grpc_infer(patient, "127.0.0.64", 3)


def test_streams_of_one_address_leave_room_for_those_of_another(patient: Site) -> None:
    with ExitStack() as stack:
        for _ in range(48):
            client = stack.enter_context(grpc_client(patient, ATTACKER))
            for _ in range(50):
                client.begin("ModelStreamInfer")
        everything_works(patient)


def test_a_stream_that_finds_no_place_is_refused_and_does_not_wait_for_one(patient: Site) -> None:
    patient.wait_for(lambda: patient.metrics()["hypersonic_streams"] == 0)  # those of the test before
    with ExitStack() as stack:
        numbers = iter(range(100, 250))
        # in whichever order they are served, each new address gets one more, until there is none
        while patient.metrics()['hypersonic_budget_saturated{budget="streams"}'] != 1:
            client = stack.enter_context(grpc_client(patient, f"127.0.0.{next(numbers)}"))
            for _ in range(100):
                client.half("ModelStreamInfer")
        with RawGrpc(patient.address("GRPCInferenceService"), HONEST, 15) as client, pytest.raises(RefusedError):
            client.ask("ModelStreamInfer")


def test_calls_beyond_what_an_address_may_have_waiting_are_refused_at_once(patient: Site) -> None:
    with ExitStack() as stack:
        clients = [stack.enter_context(grpc_client(patient, ATTACKER)) for _ in range(6)]
        for client in clients:
            for _ in range(1000):
                client.half("ModelInfer")
        patient.wait_for(lambda: patient.metrics()['hypersonic_budget_refusals_total{budget="calls"}'] > 0)
        assert b"calls wait" in b"".join(client.read_all() for client in clients)
        everything_works(patient)


def test_idle_connections_of_one_address_leave_room_for_those_of_another(patient: Site) -> None:
    """More of them than the gRPC port takes at all."""
    with ExitStack() as stack:
        for _ in range(1100):
            with suppress(OSError):
                stack.enter_context(grpc_client(patient, ATTACKER))

        def answers() -> bool:
            with suppress(OSError):  # until the server has noticed the closed connections
                everything_works(patient)
                return True
            return False

        wait_until(answers, interval_s=0.2)
