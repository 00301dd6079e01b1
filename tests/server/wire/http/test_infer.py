# SPDX-License-Identifier: Apache-2.0
"""Inference over HTTP: tritonclient's two clients, JSON and bytes by hand, compression, limits, and clients that go away."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import http.client
import json
import socket
import threading
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import tritonclient.http
import tritonclient.http.aio
from tritonclient.utils import InferenceServerException

from hypersonic.server.errors import BudgetError, InvalidRequestError, ShuttingDownError
from hypersonic.server.limits.admission import Admission, Held
from hypersonic.server.wire.http import body as bodies
from tests.server.conftest import Running, Script, Serve
from tests.server.wire.http.requests import INFER, address, post
from tests.support.waiting import wait_until

X = np.arange(12, dtype=np.float32).reshape(4, 3)
Y = X.sum(axis=1, keepdims=True)


@pytest.fixture
def running(serve: Serve) -> Iterator[Running]:
    with serve() as server:
        yield server


def connected(running: Running) -> socket.socket:
    host, port = address(running).split(":")
    return socket.create_connection((host, int(port)), timeout=60)


def document(x: np.ndarray = X, **more: Any) -> dict[str, Any]:
    return {"inputs": [{"name": "x", "shape": list(x.shape), "datatype": "FP32", "data": x.ravel().tolist()}], **more}


# tritonclient


@pytest.mark.parametrize("binary_input", [False, True])
@pytest.mark.parametrize("binary_output", [False, True])
@pytest.mark.parametrize("compression", [None, "gzip", "deflate"])
def test_tritonclient_infers(running: Running, binary_input: bool, binary_output: bool, compression: str | None) -> None:
    with tritonclient.http.InferenceServerClient(address(running)) as client:
        given = tritonclient.http.InferInput("x", [4, 3], "FP32")
        given.set_data_from_numpy(X, binary_data=binary_input)
        wanted = tritonclient.http.InferRequestedOutput("y", binary_data=binary_output)
        result = client.infer(
            "m",
            [given],
            outputs=[wanted],
            request_id="abc",
            request_compression_algorithm=compression,
            response_compression_algorithm=compression,
        )
        np.testing.assert_array_equal(result.as_numpy("y"), Y)
        answer = result.get_response()
        assert (answer["id"], answer["model_name"], answer["model_version"]) == ("abc", "m", "1")


def test_tritonclient_infers_asynchronously(running: Running) -> None:
    with tritonclient.http.InferenceServerClient(address(running), concurrency=4) as client:
        given = tritonclient.http.InferInput("x", [4, 3], "FP32")
        given.set_data_from_numpy(X)
        waiting = [client.async_infer("m", [given]) for _ in range(8)]
        for request in waiting:
            np.testing.assert_array_equal(request.get_result().as_numpy("y"), Y)


def test_tritonclients_asyncio_client_infers(running: Running) -> None:
    async def ask() -> list[np.ndarray]:
        async with tritonclient.http.aio.InferenceServerClient(address(running)) as client:
            assert await client.is_server_ready()
            given = tritonclient.http.aio.InferInput("x", [4, 3], "FP32")
            given.set_data_from_numpy(X)
            results = await asyncio.gather(*(client.infer("m", [given]) for _ in range(4)))
            return [result.as_numpy("y") for result in results]

    for y in asyncio.run(ask()):
        np.testing.assert_array_equal(y, Y)


def test_errors_of_inference_reach_tritonclient(running: Running) -> None:
    with tritonclient.http.InferenceServerClient(address(running)) as client:
        given = tritonclient.http.InferInput("x", [1, 4], "FP32")
        given.set_data_from_numpy(np.zeros((1, 4), np.float32))
        with pytest.raises(InferenceServerException, match=r"\[request id: q\] unexpected shape for input 'x'"):
            client.infer("m", [given], request_id="q")
        with pytest.raises(InferenceServerException, match="Request for unknown model: 'n' is not found"):
            client.infer("n", [given])


# by hand


def test_an_answer_is_written_as_triton_writes_it(running: Running) -> None:
    status, headers, body = post(running, document(np.ones((1, 3), np.float32), id="a"))
    assert (status, headers["content-type"]) == (200, "application/json")
    output = '{"name":"y","datatype":"FP32","shape":[1,1],"data":[3.0]}'
    assert body.decode() == f'{{"id":"a","model_name":"m","model_version":"1","outputs":[{output}]}}'


def test_tensors_go_both_ways_as_bytes(running: Running) -> None:
    head = json.dumps({
        "inputs": [{"name": "x", "shape": [4, 3], "datatype": "FP32", "parameters": {"binary_data_size": 48}}],
        "parameters": {"binary_data_output": True},
    }).encode()  # fmt: skip
    status, headers, body = post(running, head + X.tobytes(), {"Inference-Header-Content-Length": str(len(head))})
    assert (status, headers["content-type"]) == (200, "application/octet-stream")
    at = int(headers["inference-header-content-length"])
    assert json.loads(body[:at])["outputs"] == [
        {"name": "y", "datatype": "FP32", "shape": [4, 1], "parameters": {"binary_data_size": 16}}
    ]
    np.testing.assert_array_equal(np.frombuffer(body[at:], np.float32), Y.ravel())


def test_the_whole_body_may_be_the_tensor(running: Running) -> None:
    status, headers, body = post(running, X[1].tobytes(), {"Inference-Header-Content-Length": "0"})
    assert status == 200
    at = int(headers["inference-header-content-length"])
    np.testing.assert_array_equal(np.frombuffer(body[at:], np.float32), Y[1])
    status, _, body = post(running, b"")
    assert status == 400
    assert (
        b"[request id: <id_unknown>] input byte size mismatch for input 'raw_input' for model 'm'. Expected 12, got 0" in body
    )


def test_errors_name_their_request_and_have_tritons_codes(running: Running) -> None:
    for body, headers, path, expected in (
        (
            document(np.zeros((201, 3)), id="q"),
            {},
            INFER,
            (400, "[request id: q] inference request batch-size must be <= 200 for 'm'"),
        ),
        (document(), {}, "/v2/models/n/infer", (404, "Request for unknown model: 'n' is not found")),
        (document(), {}, "/v2/models/m/versions/2/infer", (404, "Request for unknown model: 'm' version 2 is not found")),
        (document(), {}, "/v2/models/m/versions/x/infer", (404, "Not Found")),
        (b"x", {}, INFER, (500, "failed to parse the request JSON buffer: Expecting value at 0")),
        (document(), {"Content-Encoding": "br"}, INFER, (501, "Unsupported compression type")),
        (document(), {"Inference-Header-Content-Length": "x"}, INFER, (400, "inference header size should be in range")),
        (document(outputs=[{"name": "y"}, {"name": "y"}]), {}, INFER, (400, "output 'y' already exists in request")),
    ):
        status, _, answer = post(running, body, headers, path)
        assert status == expected[0]
        assert expected[1] in json.loads(answer)["error"]


def test_chunked_bodies_are_read(running: Running) -> None:
    data = json.dumps(document()).encode()
    connection = http.client.HTTPConnection(address(running), timeout=60)
    pieces = [data[at : at + 7] for at in range(0, len(data), 7)]
    connection.request("POST", INFER, iter(pieces), {"Transfer-Encoding": "chunked"}, encode_chunked=True)
    answer = connection.getresponse()
    np.testing.assert_array_equal(json.loads(answer.read())["outputs"][0]["data"], Y.ravel())
    connection.close()


@pytest.mark.parametrize("accept", ["gzip", "deflate", "br, gzip;q=0.5", "gzip;q=0, deflate", "identity;q=0.1, deflate"])
def test_answers_are_compressed_for_who_accepts_it(running: Running, accept: str) -> None:
    status, headers, body = post(running, document(), {"Accept-Encoding": accept})
    assert status == 200
    assert headers["content-encoding"] == ("gzip" if "gzip" in accept and "q=0," not in accept else "deflate")
    plain = zlib.decompress(body, zlib.MAX_WBITS | 32)
    np.testing.assert_array_equal(json.loads(plain)["outputs"][0]["data"], Y.ravel())


@pytest.mark.parametrize("accept", ["", "br", "*", "identity, gzip", "gzip;q=0", "GZIP"])
def test_answers_are_not_compressed_for_others(running: Running, accept: str) -> None:
    assert "content-encoding" not in post(running, document(), {"Accept-Encoding": accept})[1]


# limits


def test_a_body_that_becomes_too_large_is_refused(serve: Serve) -> None:
    with serve(http_max_input_size=100_000) as running:
        text = "exceeds the maximum allowed value of 100000 bytes. Use --http-max-input-size to increase the limit."
        bomb = gzip.compress(bytes(50_000_000))
        assert len(bomb) < 100_000
        for body, headers in ((bomb, {"Content-Encoding": "gzip"}), (bytes(100_001), {})):
            status, _, answer = post(running, body, headers)
            assert status == 400
            assert text in json.loads(answer)["error"]
        assert post(running, document())[0] == 200
        wait_until(lambda: running.server.service.admission.size_bytes == 0)


def test_a_chunked_body_that_becomes_too_large_is_refused(serve: Serve) -> None:
    with serve(http_max_input_size=100_000) as running, connected(running) as connection:
        connection.sendall(f"POST {INFER} HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        connection.sendall((b"%x\r\n" % 60_000 + bytes(60_000) + b"\r\n") * 2)  # and no end
        assert connection.recv(4096).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize("answered", [False, True])
def test_a_body_in_tiny_chunks_is_refused(running: Running, answered: bool) -> None:
    path = "/v2/models/n/infer" if answered else INFER  # an unknown model is answered before its body is there
    with connected(running) as connection:
        connection.sendall(f"POST {path} HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        received = connection.recv(4096) if answered else b""
        with contextlib.suppress(ConnectionError):  # it is closed while we send
            for _ in range(100):
                connection.sendall(b"1\r\nx\r\n" * 1000)
            while piece := connection.recv(4096):
                received += piece
        assert received.startswith(b"HTTP/1.1 404 " if answered else b"")
        assert received.count(b"HTTP/1.1") <= 1
    wait_until(lambda: running.server.service.admission.requests == 0)
    assert post(running, document())[0] == 200


def test_headers_are_bounded(running: Running) -> None:
    with connected(running) as connection:
        connection.sendall(f"POST {INFER} HTTP/1.1\r\nHost: h\r\nX-Long: {'x' * 100_000}".encode())
        assert connection.recv(4096).startswith(b"HTTP/1.1 400 ")


def test_a_body_is_refused_before_it_is_sent(serve: Serve) -> None:
    with serve(http_max_input_size=100_000) as running, connected(running) as connection:
        connection.sendall(f"POST {INFER} HTTP/1.1\r\nHost: h\r\nContent-Length: 100001\r\n\r\n".encode())
        assert connection.recv(4096).startswith(b"HTTP/1.1 400 ")


def test_the_budget_is_asked_before_a_body_is_read(serve: Serve) -> None:
    gate = threading.Event()
    with serve(Script(gate=gate), max_inflight_bytes=20_000) as running, ThreadPoolExecutor(1) as pool:
        first = pool.submit(post, running, document())
        wait_until(lambda: bool(running.script.batches))
        with connected(running) as connection:
            connection.sendall(f"POST {INFER} HTTP/1.1\r\nHost: h\r\nContent-Length: 19990\r\n\r\n".encode())
            answer = connection.recv(4096)
            assert answer.startswith(b"HTTP/1.1 503 ")
        gate.set()
        assert first.result(60)[0] == 200
        wait_until(lambda: running.server.service.admission.size_bytes == running.server.service.admission.requests == 0)


def test_a_client_cannot_name_itself_another_address(serve: Serve) -> None:
    gate = threading.Event()
    body = json.dumps(document()).encode()
    head = f"POST {INFER} HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 10.0.0.1\r\nContent-Length: {len(body)}\r\n\r\n"
    with serve(Script(gate=gate)) as running, connected(running) as connection:
        budget = running.server.service.admission.budget
        connection.sendall(head.encode() + body)
        wait_until(lambda: bool(running.script.batches))
        assert (budget.held("10.0.0.1:0")[0], budget.held("127.0.0.1:0")[0]) == (0, budget.used)
        gate.set()
        assert connection.recv(4096).startswith(b"HTTP/1.1 200 ")


def test_health_and_metadata_answer_while_every_thread_waits(serve: Serve) -> None:
    gate = threading.Event()
    with serve(Script(gate=gate, slots=1), http_infer_thread_count=2) as running, ThreadPoolExecutor(5) as pool:
        waiting = [pool.submit(post, running, document()) for _ in range(5)]
        wait_until(lambda: running.server.service.admission.requests == 5)
        with tritonclient.http.InferenceServerClient(address(running)) as client:
            assert client.is_server_live()
            assert client.is_server_ready()
            assert client.get_model_metadata("m")["name"] == "m"
            assert client.get_model_repository_index()[0]["state"] == "READY"
        gate.set()
        assert [answer.result(60)[0] for answer in waiting] == [200] * 5


def test_a_client_that_goes_away_gives_its_request_up(serve: Serve) -> None:
    gate = threading.Event()
    body = json.dumps(document()).encode()
    request = f"POST {INFER} HTTP/1.1\r\nHost: h\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    with serve(Script(gate=gate, slots=1), http_infer_thread_count=2) as running, ThreadPoolExecutor(1) as pool:
        admission, statistics = running.server.service.admission, running.server.repository.model("m").statistics
        first = pool.submit(post, running, document())
        wait_until(lambda: bool(running.script.batches))
        queued = [connected(running) for _ in range(10)]  # more than there are threads
        for connection in queued:
            connection.sendall(request)
        wait_until(lambda: running.server.repository.model("m").waiting == 10)
        for left, connection in zip(range(10, 0, -1), queued, strict=True):
            connection.close()
            wait_until(lambda left=left: admission.requests == left)
        assert statistics.snapshot().fail.count == 10
        gate.set()
        assert first.result(60)[0] == 200
        assert running.script.batches == [(4,)]


def test_a_body_that_ends_early_is_nobodys(running: Running) -> None:
    connection = connected(running)
    connection.sendall(f"POST {INFER} HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\nabc".encode())
    wait_until(lambda: running.server.service.admission.requests == 1)
    connection.close()
    wait_until(lambda: running.server.service.admission.requests == 0)
    assert post(running, document())[0] == 200


def test_a_draining_server_refuses(running: Running) -> None:
    running.server.service.admission.close()
    status, _, body = post(running, document())
    assert status == 503
    assert "shutting down" in json.loads(body)["error"]


# decompression and accounting


@pytest.mark.parametrize("data", [b"", b"a" * 10, bytes(range(256)) * 20_000])
def test_compressed_bodies_are_as_they_were(data: bytes) -> None:
    for packed in (gzip.compress(data), zlib.compress(data), gzip.compress(data) + b"\0trailing", gzip.compress(data, 0)):
        held = Held(Admission(0), "c", len(packed))
        assert bytes(bodies.decompress(memoryview(packed), "gzip", len(data), held)) == data
    members = gzip.compress(data) * 3
    held = Held(Admission(0), "c", len(members))
    assert bytes(bodies.decompress(memoryview(members), "deflate", 3 * len(data), held)) == data * 3


def test_compressed_bodies_that_are_broken_are_refused() -> None:
    packed = gzip.compress(bytes(range(256)) * 100)
    held = Held(Admission(0), "c", 0)
    for broken in (packed[:-9], packed[:5], b"x" + packed, packed[:40] + b"\xff" * 20 + packed[60:]):
        with pytest.raises(InvalidRequestError, match=r"is incomplete|cannot be decompressed"):
            bodies.decompress(memoryview(broken), "gzip", 1 << 20, held)


def test_decompressed_bytes_count_before_they_take_memory() -> None:
    admission = Admission(4 << 20)
    held = Held(admission, "c", 100)
    with pytest.raises(BudgetError):
        bodies.decompress(memoryview(gzip.compress(bytes(100 << 20))), "gzip", 1 << 30, held)
    assert admission.size_bytes <= 4 << 20
    held.leave()
    assert admission.size_bytes == admission.requests == 0


def test_a_request_that_is_in_may_grow_while_the_server_drains() -> None:
    admission = Admission(1000)
    held = Held(admission, "c", 100)
    admission.close()
    held.take(50)
    held.add(7)
    assert admission.size_bytes == 157
    held.leave()
    assert admission.wait_empty(0)
    with pytest.raises(ShuttingDownError):
        Held(admission, "c", 1)
