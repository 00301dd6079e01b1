# SPDX-License-Identifier: Apache-2.0
"""The program under hostile input: every attack is refused by name, takes no memory worth the word, and harms nobody else.

The most memory the process ever had (VmHWM) is compared before and after: what an attack would have taken is far more.
"""

from __future__ import annotations

import gzip
import json
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from tritonclient.grpc import service_pb2

from hypersonic.server.wire.security.groups import RPCS
from tests.server.onnx_graphs import identity, write_onnx
from tests.server.wire.security.conftest import call, fetch
from tests.server.wire.security.raw_messages import INFER, field, most_bytes
from tests.support.server_program import Program, program

#: what a refusal may cost: the message itself, some copies of it and the allocator's slack
SLACK_BYTES = 96 << 20
#: what a compressed message inflates to
BOMB_BYTES = 192 << 20


MESSAGE_BYTES, BODY_BYTES = 16 << 20, 4 << 20


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """The real program with one model, small limits and a talkative log."""
    models = tmp_path_factory.mktemp("models")
    write_onnx(models, "identity", identity("FP32"), "")
    options = (f"--grpc-max-message-bytes={MESSAGE_BYTES}", f"--http-max-input-size={BODY_BYTES}", "--log-verbose=1")
    with program("--model-repository", str(models), *options) as running:
        yield running
        assert "Traceback" not in running.log


@contextmanager
def harmless(server: Program) -> Iterator[grpc.Channel]:
    """Afterwards memory has hardly grown and the server answers on both protocols."""
    before = most_bytes(server)
    with grpc.insecure_channel(server.grpc, [("grpc.max_send_message_length", -1)]) as channel:
        yield channel
        assert call(channel, "/inference.GRPCInferenceService/ServerLive") == ("OK", "")
    assert fetch(f"http://{server.ports['HTTPService']}/v2/health/live")[0] == 200
    assert most_bytes(server) - before < SLACK_BYTES


#: ModelInferRequests of a few MB that would be hundreds in memory
BOMBS = {
    "inputs": (b"\x2a\x00" * (6 << 20), "more than 1024 inputs"),
    "raw contents": (b"\x3a\x00" * (6 << 20), "more than 1024 raw_input_contents"),
    "outputs": (b"\x32\x00" * (6 << 20), "more than 1024 requested outputs"),
    "parameters": (b"".join(field(4, field(1, b"%d" % n)) for n in range(200_000)), "more than 1024 parameters"),
    "dimensions": (field(5, field(3, bytes(12 << 20))), "more than 655360 dimensions"),
    "strings": (field(5, field(5, b"\x42\x00" * (6 << 20))), "expected at most 1048576 (--grpc-max-bytes-elements)"),
    "unknown field, then inputs": (b"\x40\x01" + b"\x2a\x00" * (6 << 20), "more than 1024 inputs"),
    "outputs of an input's parameters": (field(6, b"\x12\x00" * (6 << 20)), "more than 1024 parameters"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_message_that_would_grow_in_memory_is_refused_before_it_does(server: Program, name: str) -> None:
    data, text = BOMBS[name]
    with harmless(server) as channel:
        code, details = call(channel, INFER, data)
        assert (code, text in details) == ("INVALID_ARGUMENT", True), details


def test_a_control_message_of_very_many_parameters_is_refused_before_it_grows(server: Program) -> None:
    many = b"".join(field(2, b"\x0a\x03" + b"%03x" % (n % 4096)) for n in range(500_000))
    with harmless(server) as channel:
        code, text = call(channel, "/inference.GRPCInferenceService/RepositoryModelLoad", many)
        assert (code, text) == ("INVALID_ARGUMENT", "the request has more than 1026 parameters: split it")
        code, text = call(channel, "/inference.GRPCInferenceService/TraceSetting", many)
        assert (code, "expected at most 1048576" in text) == ("INVALID_ARGUMENT", True)


def test_a_compressed_grpc_message_is_refused_at_the_limit_of_what_it_inflates_to(server: Program) -> None:
    with harmless(server) as channel:
        infer: Any = channel.unary_unary(INFER)
        with pytest.raises(grpc.RpcError, match="Decompressed message larger than max") as error:
            infer(field(7, bytes(BOMB_BYTES)), timeout=120, compression=grpc.Compression.Gzip)
        assert error.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_a_message_above_the_limit_is_refused_whole(server: Program) -> None:
    with harmless(server) as channel:
        assert call(channel, INFER, bytes(MESSAGE_BYTES + 1))[0] == "RESOURCE_EXHAUSTED"


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_a_compressed_body_is_refused_at_the_limit_of_what_it_inflates_to(server: Program, encoding: str) -> None:
    bomb = gzip.compress(bytes(BOMB_BYTES), 1)
    url = f"http://{server.ports['HTTPService']}/v2/models/identity/infer"
    with harmless(server):
        status, body, _ = fetch(url, bomb, {"Content-Encoding": encoding})
        assert (status, f"maximum allowed value of {BODY_BYTES} bytes" in body["error"]) == (400, True)


@pytest.mark.parametrize("text", ["[" * 20_000, '{"a":' * 20_000, '{"inputs":' + "[" * 101 + "]" * 101 + "}"])
def test_deep_json_is_refused_on_every_path_that_takes_json(server: Program, text: str) -> None:
    base = f"http://{server.ports['HTTPService']}/v2"
    paths = (
        "models/m/infer",
        "repository/index",
        "repository/models/m/load",
        "logging",
        "systemsharedmemory/region/r/register",
    )
    with harmless(server):
        for path in paths:
            status, _, _ = fetch(f"{base}/{path}", text.encode())
            assert 400 <= status < 500 or status == 501, (path, status)


@pytest.mark.parametrize("method", sorted(RPCS))
def test_bytes_that_are_no_message_end_that_call_alone(server: Program, method: str) -> None:
    with harmless(server) as channel:
        for data in (b"\xff" * 9, b"\x0a\xff\xff\xff\xff\x0f", b"\x0b" * 200, b"\x0a\x02\xc3\x28"):
            code, details = call(channel, method, data)
            assert "Traceback" not in details
            assert code in {"OK", "INTERNAL", "INVALID_ARGUMENT", "UNIMPLEMENTED", "NOT_FOUND", "UNAVAILABLE"}, (code, details)


#: requests that no client library writes; {} = Content-Length and the like
GARBAGE = (
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64),  # TLS where none is spoken
    b"GET /v2/health/live HTTP/9.9\r\n\r\n",
    b"GET " + b"/" * 200_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /v2 HTTP/1.1\r\nHost: x\r\n" + b"".join(b"X-%d: y\r\n" % n for n in range(20_000)) + b"\r\n",
    b"POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
    b"POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n",
    b"POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
    b"POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\n",
    b"POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nInference-Header-Content-Length: 1e9\r\n\r\n{}",
    b"POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Encoding: \xff\xfe\r\n\r\n{}",
    b"GET /v2/models/%ff%fe%00 HTTP/1.1\r\nHost: x\r\nTraceparent: \x80\x81\r\nAuthorization: \xff\r\n\r\n",
)


@pytest.mark.parametrize("request_bytes", GARBAGE, ids=range(len(GARBAGE)))
def test_http_that_is_none_ends_that_connection_alone(server: Program, request_bytes: bytes) -> None:
    host, port = server.ports["HTTPService"].rsplit(":", 1)
    with harmless(server), socket.create_connection((host, int(port)), timeout=30) as connection:
        try:
            connection.sendall(request_bytes)
            connection.shutdown(socket.SHUT_WR)
            answer = connection.recv(65_536)
        except OSError:  # it was cut off while it was still sending
            answer = b""
        assert not answer or re.match(rb"HTTP/1\.1 [1-4]\d\d |HTTP/1\.1 50[15] ", answer), answer[:200]


@pytest.mark.parametrize(
    "headers",
    [
        (("traceparent", "x" * 4000),),
        (("triton_grpc_error", "maybe"),),
        (("grpc-accept-encoding", "lzma,,;"),),
        (("x-bin", "binary"),),
        tuple((f"x-{n}", "y") for n in range(100)),
    ],
    ids=["trace", "switch", "encoding", "binary", "many"],
)
def test_headers_that_mean_nothing_change_nothing(server: Program, headers: tuple[tuple[str, str], ...]) -> None:
    with harmless(server) as channel:
        given = tuple((key, value.encode() if key.endswith("-bin") else value) for key, value in headers)
        code, _ = call(channel, "/inference.GRPCInferenceService/ServerLive", metadata=given)  # type: ignore[arg-type] # a value of type bytes for -bin keys
        assert code in {"OK", "INTERNAL", "UNKNOWN"} if "encoding" in headers[0][0] else code == "OK"


def test_headers_above_the_limit_are_refused(server: Program) -> None:
    with harmless(server) as channel:
        code, text = call(channel, "/inference.GRPCInferenceService/ServerLive", metadata=(("x", "y" * 17_000),))
        assert (code, "metadata size exceeds" in text) == ("RESOURCE_EXHAUSTED", True)


@pytest.mark.parametrize("version", ["9" * 5000, "-1", "1e3", "\u0661", "0x1", " 1", "1\n"])
def test_a_version_that_is_no_number_is_refused(server: Program, version: str) -> None:
    with harmless(server) as channel:
        data = service_pb2.ModelInferRequest(model_name="m", model_version=version).SerializeToString()
        code, text = call(channel, INFER, data)
        assert code in {"INVALID_ARGUMENT", "NOT_FOUND"}, text
        assert len(text) < 5000


def test_a_client_forges_no_line_of_the_log(server: Program) -> None:
    forged = "m\nE1121 09:28:00.054 1 app] \x1b[31mforged\r\u2028line"
    url = f"http://{server.ports['HTTPService']}/v2/models/m%0aE1121%20forged%0d%1b/infer"
    with harmless(server) as channel:
        for name in ("RepositoryModelLoad", "RepositoryModelUnload"):
            message = getattr(service_pb2, f"{name}Request")(model_name=forged)
            call(channel, f"/inference.GRPCInferenceService/{name}", message.SerializeToString())
        code, text = call(channel, INFER, service_pb2.ModelInferRequest(model_name=forged).SerializeToString())
        assert code == "NOT_FOUND"
        assert text.replace("\n", "").isprintable()  # a line break is text to gRPC; the log is what must not be forged
        assert fetch(url, b"{}", {"User-Agent": "x\ty"})[0] >= 400
    assert all(re.match(r"[IWEDV]\d{4} |    ", line) for line in server.lines if line.strip()), server.log
    assert not any(line.startswith("E1121 09:28:00.054 1 app]") for line in server.lines)
    assert all(line.isprintable() for line in server.lines)


def test_an_error_tells_no_path_of_the_server(server: Program, tmp_path: Path) -> None:
    """Texts for clients name neither the repository nor the files of the program."""
    assert isinstance(server.process.args, list)
    repository = next(part for part in server.process.args if str(part).startswith("/") and "models" in str(part))
    with harmless(server) as channel:
        for method in sorted(RPCS):
            _, text = call(channel, method, b"\xff")
            assert str(repository) not in text
            assert ".py" not in text
        for path in ("/v2/models/m", "/v2/repository/models/m/load", "/nothing", "/v2/models/m/infer"):
            _, body, _ = fetch(
                f"http://{server.ports['HTTPService']}{path}", json.dumps({"parameters": {"config": "{"}}).encode()
            )
            assert str(repository) not in str(body)
