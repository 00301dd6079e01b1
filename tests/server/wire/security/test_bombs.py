# SPDX-License-Identifier: Apache-2.0
"""Small requests that stand for a lot, against the real program: refused before memory is taken for what they stand for.

All of them together may not lift the most memory the process ever had (VmHWM) by more than a few copies of one message.
"""

from __future__ import annotations

import gzip
import json
import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import grpc
import pytest
from tritonclient.grpc import service_pb2

from tests.server.onnx_graphs import identity, tensors, write_onnx
from tests.server.python_models import source, write_python
from tests.server.wire.security.conftest import call, fetch
from tests.server.wire.security.raw_messages import INFER, field, most_bytes
from tests.support.server_program import Program, program

LIMIT_BYTES = 16 << 20
STREAM = "/inference.GRPCInferenceService/ModelStreamInfer"
#: what is compressed into a few hundred kilobytes
BOMB_BYTES = 192 << 20
#: beside the message itself some copies of it, and what the allocator keeps
SLACK_BYTES = 112 << 20
MODELS = ("floats", "strings", "python")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """Identities of any shape."""
    models = tmp_path_factory.mktemp("models")
    for name, datatype in (("floats", "FP32"), ("strings", "BYTES")):
        config = tensors("input", ("x", datatype, [-1, -1])) + tensors("output", ("y", datatype, [-1, -1]))
        write_onnx(models, name, identity(datatype, ("N", "M")), config)
    config = tensors("input", ("x", "BYTES", [-1, -1])) + tensors("output", ("y", "BYTES", [-1, -1]))
    write_python(models, "python", source("return [y(x_of(request)) for request in requests]"), config)
    options = (f"--grpc-max-message-bytes={LIMIT_BYTES}", f"--http-max-input-size={LIMIT_BYTES}", "--log-verbose=1")
    with program("--model-repository", str(models), *options) as running:
        before = most_bytes(running)
        for model in MODELS:  # what a first request loads is nobody's bomb
            assert by_grpc(running, model, [1, 1], SMALL[model]) == ("OK", "")
            assert by_http(running, model, [1, 1], SMALL[model])[0] == 200
        yield running
        assert most_bytes(running) - before < SLACK_BYTES
        assert "Traceback" not in running.log


BESIDE = "bytes outside its tensors' data, expected at most 262144"
SMALL: Mapping[str, bytes] = {"floats": bytes(4), "strings": bytes(4), "python": bytes(4)}


@pytest.fixture(autouse=True)
def _everybody_else_is_served(server: Program) -> Iterator[None]:
    yield
    for model in MODELS:
        assert by_grpc(server, model, [1, 1], SMALL[model]) == ("OK", "")


def by_grpc(server: Program, model: str, shape: list[int], data: bytes) -> tuple[str, str]:
    """(code, text) of input x."""
    message = service_pb2.ModelInferRequest(model_name=model, raw_input_contents=[data])
    message.inputs.add(name="x", datatype="FP32" if model == "floats" else "BYTES", shape=shape)
    with grpc.insecure_channel(server.grpc) as channel:
        return call(channel, INFER, message.SerializeToString())


def by_http(server: Program, model: str, shape: list[int], data: bytes) -> tuple[int, str]:
    """(status, body)."""
    tensor = {"name": "x", "datatype": "FP32" if model == "floats" else "BYTES", "shape": shape}
    head = json.dumps({"inputs": [{**tensor, "parameters": {"binary_data_size": len(data)}}]}).encode()
    return posted(server, model, head + data, {"Inference-Header-Content-Length": str(len(head))})


def posted(server: Program, model: str, body: bytes, headers: Mapping[str, str] | None = None) -> tuple[int, str]:
    """(status, error or body)."""
    status, answer, _ = fetch(f"http://{server.ports['HTTPService']}/v2/models/{model}/infer", body, headers)
    return status, answer["error"] if status != 200 else str(answer)


# compression


@pytest.mark.parametrize("method", [INFER, STREAM, "/inference.GRPCInferenceService/ModelMetadata"])
@pytest.mark.parametrize("compression", [grpc.Compression.Gzip, grpc.Compression.Deflate], ids=["gzip", "deflate"])
def test_a_compressed_message_is_refused_at_the_limit_on_every_kind_of_call(
    server: Program, method: str, compression: grpc.Compression
) -> None:
    bomb = field(7, bytes(BOMB_BYTES))
    with grpc.insecure_channel(server.grpc, [("grpc.max_send_message_length", -1)]) as channel:
        ask: Any = channel.stream_stream(method) if method == STREAM else channel.unary_stream(method)
        answers = ask(iter([bomb]) if method == STREAM else bomb, timeout=120, compression=compression)
        with pytest.raises(grpc.RpcError, match="Decompressed message larger than max") as caught:
            next(answers)
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


@pytest.mark.parametrize("pack", [lambda data: gzip.compress(data, 9), zlib.compress], ids=["gzip", "deflate"])
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"[" * (15 << 20), "nested deeper than 100 levels"),
        (b'{"inputs":[' + b"[" * (15 << 20), "nested deeper than 100 levels"),
        (b'{"a":[' + b"0," * (7 << 20) + b"0]}", BESIDE),
        (b'{"inputs":[{"data":[' + b'"",' * (5 << 20) + b'""]}]}', "'name'"),
        (b" " * (15 << 20), BESIDE),
    ],
    ids=["depth", "depth of inputs", "values", "texts", "blanks"],
)
def test_what_a_compressed_body_holds_is_bounded_too(server: Program, pack: Any, text: bytes, reason: str) -> None:
    body = pack(text)
    assert len(body) < 100_000
    status, error = posted(server, "strings", body, {"Content-Encoding": "gzip"})
    assert (status in (400, 500), reason in error) == (True, True), error


# counts


def many(what: str, count: int = 10**6) -> bytes:
    """A JSON request with so many of one thing."""
    parts: dict[str, Any] = {"inputs": "{}", "outputs": '{"name":"y"}', "dimensions": "1"}
    if what == "parameters":
        return b'{"inputs":[],"parameters":{' + b",".join(b'"%x":1' % n for n in range(count)) + b"}}"
    array = ",".join([parts[what]] * count)
    if what == "dimensions":  # of which nothing is parsed: a long array is a tensor's data or none
        return f'{{"inputs":[{{"name":"x","datatype":"FP32","shape":[{array}],"data":[1]}}]}}'.encode()
    return f'{{"inputs":[],"{what}":[{array}]}}'.encode()


@pytest.mark.parametrize(
    ("what", "status", "reason"),
    [
        ("inputs", 400, BESIDE),
        ("outputs", 400, BESIDE),
        ("parameters", 400, BESIDE),
        ("dimensions", 500, "Unable to parse 'shape': attempt to access JSON non-array as array"),
    ],
)
def test_a_million_of_anything_is_refused(server: Program, what: str, status: int, reason: str) -> None:
    text = many(what)
    assert len(text) < LIMIT_BYTES
    code, error = posted(server, "floats", text)
    assert (code, reason in error) == (status, True), error


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("outputs", "the request has more than 1024 requested outputs: split it"),
        ("parameters", "the request has more than 1024 parameters: split it"),
    ],
)
def test_somewhat_too_many_are_refused_alike_on_both_protocols(server: Program, what: str, text: str) -> None:
    message = service_pb2.ModelInferRequest(model_name="floats", raw_input_contents=[bytes(4)])
    message.inputs.add(name="x", datatype="FP32", shape=[1, 1])
    for n in range(1025):
        if what == "outputs":
            message.outputs.add(name="y")
        else:
            message.parameters[str(n)].int64_param = 1
    with grpc.insecure_channel(server.grpc) as channel:
        assert call(channel, INFER, message.SerializeToString()) == ("INVALID_ARGUMENT", text)
    tensor = b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1,1],"data":[1]}]'
    assert posted(server, "floats", many(what, 1025).replace(b'{"inputs":[]', tensor)) == (400, text)


# shapes and lengths

SHAPES = ([2**32, 2**32], [2**62, 4], [2**63 - 1, 2**63 - 1], [2**61 + 1, 8], [3, 2**62])


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_shape_whose_size_overflows_is_refused(server: Program, model: str, shape: list[int]) -> None:
    (code, text), (status, http_text) = (ask(server, model, shape, SMALL[model]) for ask in (by_grpc, by_http))
    wanted = "input byte size mismatch" if model == "floats" else f"expected {shape[0] * shape[1]} string elements"
    assert (code, wanted in text) == ("INVALID_ARGUMENT", True), text
    assert (status, wanted in http_text) == (400, True), http_text


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("shape", [[0, 2**63 - 1], [2**40, 0]], ids=str)
def test_a_huge_shape_of_nothing_is_refused(server: Program, model: str, shape: list[int]) -> None:
    text = f"input 'x' for model '{model}' has shape {str(shape).replace(' ', '')}; expected a product of at most"
    for code, error in (by_grpc(server, model, shape, b""), by_http(server, model, shape, b"")):
        assert (code in ("INVALID_ARGUMENT", 400), text in error) == (True, True), error
    assert by_grpc(server, model, [0, 2**31 - 1], b"") == ("OK", "")


@pytest.mark.parametrize("model", ["strings", "python"])
@pytest.mark.parametrize("length", [5, 2**31 - 1, 2**31, 2**32 - 1])
def test_a_string_longer_than_its_tensor_is_refused(server: Program, model: str, length: int) -> None:
    data = struct.pack("<I", length) + b"abcd"
    text = f"incomplete string data for inference input 'x', expecting string of length {length} but only 4 bytes available"
    assert by_grpc(server, model, [1, 1], data) == ("INVALID_ARGUMENT", f"[request id: <id_unknown>] {text}")
    assert by_http(server, model, [1, 1], data) == (400, f"[request id: <id_unknown>] {text}")


def test_sizes_past_the_body_are_refused(server: Program) -> None:
    for size_bytes in (5, 2**31, 2**63, 2**64 - 1):
        tensor = {"name": "x", "datatype": "FP32", "shape": [1, 1], "parameters": {"binary_data_size": size_bytes}}
        head = json.dumps({"inputs": [tensor]}).encode()
        status, error = posted(server, "floats", head + bytes(4), {"Inference-Header-Content-Length": str(len(head))})
        assert (status, error) == (
            400,
            f"unexpected size for input 'x', expecting {size_bytes - 4} additional bytes for model 'floats'",
        )
