# SPDX-License-Identifier: Apache-2.0
"""SIGTERM while clients are in the middle of something: whole requests are served, halves get a little time and are cut."""

from __future__ import annotations

import signal
import socket
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from tests.faults.large_answers import write_models
from tests.faults.raw import RawGrpc, request
from tests.faults.site import Site, site
from tests.server.python_models import source, write_python
from tests.server.wire.security.conftest import Certificates

POST = "POST /v2/{} HTTP/1.1\r\nHost: t\r\nContent-Length: {}\r\n\r\n"
BODY = '{"inputs":[{"name":"x","datatype":"FP32","shape":[1,3],"data":[1,2,3]}]}'
INFER = POST.format("models/triple/infer", len(BODY))
LARGE_BODY = '{"inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":[%d]}],"parameters":{"binary_data_output":true}}'
#: floats of an answer that is larger than every buffer between server and client: TCP's over HTTP, HTTP/2's window over gRPC
OVER_HTTP, OVER_GRPC = 4 << 20, 1 << 17
#: who waits for the exit timeout fails by the time the tests wait for the program
OPTIONS = ("--exit-timeout-secs", "600")
WHOLE = "All requests are answered and all models unloaded."


def send(running: Site, stack: ExitStack, text: str, port: str = "HTTPService") -> socket.socket:
    """A connection on which so much has been sent."""
    connection = stack.enter_context(socket.create_connection(running.address(port), timeout=60))
    connection.sendall(text.encode())
    return connection


def in_flight(running: Site) -> float:
    return running.metrics()["hypersonic_server_requests_in_flight"]


def terminate(running: Site) -> None:
    """SIGTERM, and until the server says that it has heard it."""
    running.program.process.send_signal(signal.SIGTERM)
    running.wait_for(lambda: "Waiting for in-flight" in running.program.log)


def test_whole_requests_are_served_and_halves_of_every_kind_are_cut(tmp_path: Path) -> None:
    """Two requests are completed after the signal; seven clients have to be cut off, and the log says how many."""
    with site(write_models(tmp_path / "models"), *OPTIONS) as running, ExitStack() as stack:
        bodies = [send(running, stack, text) for text in (INFER + BODY[:9], POST.format("repository/index", 100) + "{")]
        large = LARGE_BODY % OVER_HTTP
        send(running, stack, POST.format("models/large/infer", len(large)) + large)
        completed = send(running, stack, INFER + BODY[:-1])
        for text in ("GET /v2/hea", "POST /v2/models/triple/infer HTTP/1.1\r\nContent-", "", "GET /metr"):
            send(running, stack, text, "Metrics Service" if "metr" in text else "HTTPService")
        idle = send(running, stack, "GET /v2/health/live HTTP/1.1\r\nHost: t\r\n\r\n")
        assert idle.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
        calls = stack.enter_context(RawGrpc(running.address("GRPCInferenceService")))
        message = request("triple", np.ones((1, 3)))
        late = calls.begin("ModelInfer")
        calls.half("ModelInfer")
        calls.half("RepositoryModelLoad")
        calls.half("ModelStreamInfer")
        calls.begin("ModelStreamInfer")
        slow = stack.enter_context(RawGrpc(running.address("GRPCInferenceService")))
        slow.call("ModelInfer", request("large", np.array([OVER_GRPC])))
        slow.call("ModelStreamInfer", request("large", np.array([OVER_GRPC])))
        running.wait_for(lambda: in_flight(running) == 6)
        running.wait_for(lambda: running.metrics()["hypersonic_streams"] == 3)
        terminate(running)
        completed.sendall(BODY[-1:].encode())
        calls.finish(late, message)
        assert b'"data":[3.0,6.0,9.0]' in completed.makefile("rb").read()
        assert np.array([3, 3, 3], np.float32).tobytes() in calls.read_all()
        for body in bodies:
            assert body.recv(1 << 16).startswith(b"HTTP/1.1 503 ")
        assert running.program.process.wait(60) == 0, running.program.log
    log = running.program.log
    assert "7 clients were cut off" in log, log
    assert "2 open streams were ended" in log, log
    assert WHOLE in log
    assert not [line for line in running.program.lines if line.startswith("E") or "Traceback" in line]


def test_a_handshake_that_was_begun_and_left_holds_up_nothing(tmp_path: Path, certificates: Certificates) -> None:
    """Of TLS, on all ports: nothing sent, and half a ClientHello."""
    (tmp_path / "models").mkdir()
    certificate, key = map(str, certificates.server)
    files = {"server-cert": certificate, "server-key": key}
    tls = [f"--{port}-{name}={file}" for port in ("http", "grpc") for name, file in files.items()]
    with site(tmp_path / "models", *OPTIONS, "--grpc-use-ssl=true", *tls) as running, ExitStack() as stack:
        for port in running.program.ports:
            for text in ("", "\x16\x03\x01\x02"):
                send(running, stack, text, port)
        assert running.program.stop() == 0, running.program.log
    assert WHOLE in running.program.log


EXECUTES = """
if x_of(requests[0])[0][0] < 0:
    time.sleep(3600)
return [y(2 * x_of(request)) for request in requests]
"""


def test_a_model_that_hangs_is_named_also_when_its_client_has_left(tmp_path: Path) -> None:
    write_python(tmp_path / "models", "hung", source(EXECUTES))
    with site(tmp_path / "models", "--exit-timeout-secs", "2") as running:
        with RawGrpc(running.address("GRPCInferenceService")) as client:
            client.call("ModelInfer", request("hung", -np.ones((1, 3))))
            running.wait_for(lambda: in_flight(running) == 1)
        running.wait_for(lambda: in_flight(running) == 0)
        running.program.process.send_signal(signal.SIGTERM)
        assert running.program.process.wait(60) == 1
    named = [line for line in running.program.lines if "model 'hung' version 1" in line]
    assert [line[0] for line in named][-2:] == ["W", "E"], running.program.log
    assert "Requests that did not end: model 'hung' version 1 (requests: 1)" in named[-1]
