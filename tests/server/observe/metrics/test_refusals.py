# SPDX-License-Identifier: Apache-2.0
"""Calls refused before a model saw them, by protocol and reason; open connections and streams."""

from __future__ import annotations

import queue
import re
import socket
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton
from tritonclient.grpc import service_pb2
from tritonclient.utils import InferenceServerException

from hypersonic.server.errors import BackendError, ForbiddenError, ModelLoadError, ServerError
from hypersonic.server.limits.sockets import open_connections
from hypersonic.server.statistics.refusals import Protocol, Refusal, Refusals, reason_of
from tests.server.conftest import Running, Script, Serve, tensor
from tests.support.waiting import wait_until

X = np.ones((5, 3), np.float32)


def scraped(running: Running) -> dict[str, float]:
    with urllib.request.urlopen(running.metrics, timeout=20) as answer:
        lines = [line for line in answer.read().decode().splitlines() if line[0] != "#"]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def refused(running: Running) -> dict[tuple[str, str], float]:
    """(protocol, reason) -> calls, of those there were."""
    label = re.compile(r'hypersonic_calls_refused_total\{protocol="(\w+)",reason="(\w+)"\}')
    counts = {match.groups(): value for name, value in scraped(running).items() if (match := label.fullmatch(name))}
    assert counts.keys() == {(str(protocol), str(reason)) for protocol in Protocol for reason in Refusal}
    return {(protocol, reason): value for (protocol, reason), value in counts.items() if value}


def post(running: Running, path: str, body: bytes = b"{}", **headers: str) -> int:
    request = urllib.request.Request(f"{running.http}{path}", body, {k.replace("_", "-"): v for k, v in headers.items()})
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_each_reason_is_counted_under_its_name_on_grpc(serve: Serve) -> None:
    with serve() as running, triton.InferenceServerClient(running.grpc) as client:
        assert refused(running) == {}
        for name, x in (("nosuch", X), ("m", np.ones((5, 4), np.float32)), ("m", np.ones((999, 3), np.float32))):
            with pytest.raises(InferenceServerException):
                client.infer(name, [tensor(x)])
        with pytest.raises(InferenceServerException, match="NOT_FOUND"):
            client.get_model_metadata("nosuch")
        with pytest.raises(grpc.RpcError, match="UNIMPLEMENTED"):
            client._client_stub.RepositoryIndex(service_pb2.RepositoryIndexRequest(repository_name="x"))
        assert refused(running) == {("grpc", "not_found"): 2, ("grpc", "bad_request"): 2, ("grpc", "unsupported"): 1}


def test_each_reason_is_counted_under_its_name_on_http(serve: Serve) -> None:
    with serve(http_max_input_size=1000) as running:
        assert post(running, "/v2/models/nosuch/infer") == 404
        assert post(running, "/v2/models/m/infer", b"not json") in (400, 500)
        assert post(running, "/v2/models/m/infer", bytes(1001)) == 400
        assert post(running, "/v2/models/m/infer", b"x", Content_Encoding="zstd") == 501
        assert post(running, "/v2/nosuchpath") == 404
        assert refused(running) == {
            ("http", "not_found"): 1, ("http", "bad_request"): 2, ("http", "too_large"): 1, ("http", "unsupported"): 1,
        }  # fmt: skip


def test_what_a_model_refuses_or_fails_is_the_models(serve: Serve) -> None:
    with serve(Script(fail_runs={1})) as running:
        with pytest.raises(InferenceServerException, match="run 1 failed"):
            running.infer(X)
        values = scraped(running)
        assert refused(running) == {}
    assert values['nv_inference_request_failure{gpu_uuid="FPGA-test",model="m",reason="BACKEND",version="1"}'] == 1


def test_a_full_queue_is_the_models_and_a_model_out_of_service_is_not(serve: Serve) -> None:
    with serve(Script(hang_from_run={"sum_1": 1}), strict_readiness=False) as running:
        for _ in range(2):
            with pytest.raises(InferenceServerException):
                running.infer(X)
        assert refused(running) == {("grpc", "unavailable"): 1}


def test_callers_without_rights_are_counted_on_both_front_ends(serve: Serve, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("a-secret-of-enough-characters\n")
    tokens.chmod(0o600)
    restricted = {"grpc_restricted_protocol": ("inference:key=value",), "http_restricted_api": ("inference:key=value",)}
    with serve(**restricted) as running:
        with pytest.raises(InferenceServerException, match="restricted"):
            running.infer(X)
        assert post(running, "/v2/models/m/infer") == 403
        assert refused(running) == {("grpc", "restricted"): 1, ("http", "restricted"): 1}
    with serve(auth_token_file=tokens, auth_exempt=("health", "metrics")) as running:
        with pytest.raises(InferenceServerException, match="UNAUTHENTICATED"):
            running.infer(X)
        assert post(running, "/v2/models/m/infer") == 401
        assert refused(running) == {("grpc", "unauthenticated"): 1, ("http", "unauthenticated"): 1}


def test_a_full_server_and_a_client_that_has_its_share_are_told_apart(serve: Serve) -> None:
    script = Script(gate=threading.Event())
    big = np.ones((64, 3), np.float32)
    answers: queue.SimpleQueue[object] = queue.SimpleQueue()
    with serve(script, max_inflight_bytes=2000) as running, triton.InferenceServerClient(running.grpc) as client:
        client.async_infer("m", [tensor(big)], lambda result, error: answers.put(error))
        assert script.started.acquire(timeout=30)
        with pytest.raises(InferenceServerException, match="RESOURCE_EXHAUSTED"):
            client.infer("m", [tensor(big)])
        with pytest.raises(InferenceServerException, match="RESOURCE_EXHAUSTED"):
            running.infer(np.ones((128, 3), np.float32))
        assert refused(running) == {("grpc", "client_share"): 1, ("grpc", "byte_budget"): 1}
        assert scraped(running)["hypersonic_server_requests_refused_total"] == 2
        assert script.gate is not None
        script.gate.set()
        assert answers.get(timeout=30) is None


def test_a_streams_requests_are_counted_and_so_is_the_stream_while_it_is_open(serve: Serve) -> None:
    answers: queue.SimpleQueue[object] = queue.SimpleQueue()
    with serve() as running, triton.InferenceServerClient(running.grpc) as client:
        assert scraped(running)["hypersonic_streams"] == 0
        client.start_stream(lambda result, error: answers.put(error))
        client.async_stream_infer("nosuch", [tensor(X)])
        client.async_stream_infer("m", [tensor(X)])
        assert [answers.get(timeout=30) is None for _ in range(2)] == [False, True]
        assert scraped(running)["hypersonic_streams"] == 1
        assert refused(running) == {("grpc", "not_found"): 1}
        client.stop_stream()
        wait_until(lambda: scraped(running)["hypersonic_streams"] == 0)


def test_a_stream_whose_client_vanishes_is_not_open_any_more(serve: Serve) -> None:
    with serve() as running:
        channel = grpc.insecure_channel(running.grpc)
        stream: Any = channel.stream_stream("/inference.GRPCInferenceService/ModelStreamInfer")
        opened = stream(iter(threading.Event().wait, None))
        wait_until(lambda: scraped(running)["hypersonic_streams"] == 1)
        opened.cancel()
        channel.close()
        wait_until(lambda: scraped(running)["hypersonic_streams"] == 0)


def test_connections_are_counted_while_they_are_open_also_those_that_say_nothing(serve: Serve) -> None:
    with serve() as running:
        address = {name: tuple(running.server.addresses[full].rsplit(":", 1)) for name, full in (
            ("grpc", "GRPCInferenceService"), ("http", "HTTPService"),
        )}  # fmt: skip
        opened = [socket.create_connection((host, int(port))) for host, port in address.values() for _ in range(3)]
        for name in address:
            wait_until(lambda name=name: scraped(running)[f'hypersonic_connections{{front_end="{name}"}}'] == 3)
        assert scraped(running)['hypersonic_connections{front_end="metrics"}'] >= 1
        for connection in opened:
            connection.close()
        for name in address:
            wait_until(lambda name=name: scraped(running)[f'hypersonic_connections{{front_end="{name}"}}'] == 0)


def test_sockets_are_asked_and_left_alone() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socketpair()[0]:
        port = listener.getsockname()[1]
        assert open_connections([port, 1]) == {port: 0, 1: 0}
        client = socket.create_connection(listener.getsockname())
        served, _ = listener.accept()
        with client, served:
            assert open_connections([port]) == {port: 1}
            served.sendall(b"still there")
            assert client.recv(64) == b"still there"
        assert open_connections([port]) == {port: 0}
    assert open_connections([]) == {}


def test_a_udp_socket_on_the_number_of_a_tcp_port_is_not_a_connection() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as resolver:
        resolver.connect(("127.0.0.1", 53))  # a resolver's sockets are connected, too
        port = resolver.getsockname()[1]
        assert open_connections([port]) == {port: 0}


def test_failures_are_no_refusals_and_every_kind_of_refusal_has_its_reason() -> None:
    assert reason_of(BackendError("x")) is reason_of(ModelLoadError("x")) is None
    assert reason_of(ForbiddenError("x")) is Refusal.RESTRICTED
    counted = Refusals()
    counted.add(Protocol.HTTP, ServerError("x"))
    assert not any(counted.counts.values())
