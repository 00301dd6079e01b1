# SPDX-License-Identifier: Apache-2.0
"""Every datatype through identities of backends onnxruntime and python, each way a tensor travels: what is sent comes back.

Edge values: NaNs with payloads, signalling ones too, -0.0, denormals, the largest and least integers, strings that are empty,
hold zero bytes or no text.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import grpc
import numpy as np
import pytest
import tritonclient.http
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tritonclient.grpc import service_pb2, service_pb2_grpc

from hypersonic.server.app import Server, Signals
from hypersonic.server.backends.onnxruntime.backend import OnnxRuntimeBackend
from hypersonic.server.backends.python.backend import PythonBackend
from hypersonic.server.core.datatype import DATATYPES
from hypersonic.server.core.inference.backend import Backend
from hypersonic.server.options import Options
from tests.server.conftest import Running, Script
from tests.server.onnx_graphs import identity, tensors, write_onnx
from tests.server.python_models import source, write_python
from tests.server.questions import Asked, Tensor, by_grpc, by_http, infer
from tests.server.wire.http.requests import post

ENGINES = ("onnxruntime", "python")
#: what each datatype's bits may look like, little endian
EDGES: dict[str, list[bytes]] = {
    "BOOL": [b"\0", b"\1"],
    "FP16": [bytes.fromhex(h)[::-1] for h in ("0000", "8000", "7c00", "fc00", "7e01", "fe55", "7d01", "0001", "7bff", "3c00")],
    "BF16": [bytes.fromhex(h)[::-1] for h in ("0000", "8000", "7f80", "ff80", "7fc1", "ffd5", "7f81", "0001", "7f7f", "3f80")],
    "FP32": [
        struct.pack("<I", bits)
        for bits in (0, 1 << 31, 0x7F800000, 0xFF800000, 0x7FC00001, 0xFFD55555, 0x7F800001, 1, 0x7F7FFFFF, 0x3DCCCCCD)
    ],
    "FP64": [
        struct.pack("<Q", bits)
        for bits in (0, 1 << 63, 0x7FF << 52, 0xFFF << 52, 0x7FF8 << 48 | 1, 0xFFF8 << 48 | 5, 0x7FF << 52 | 1, 1, 0x7FEF << 48)
    ],
    "BYTES": [struct.pack("<I", len(s)) + s for s in (b"", b"\0", b"a\0b\0", "Größe ∞ 𝄞".encode(), b'"\\\n\x7f', b"x" * 1000)],
}
for _name, _datatype in DATATYPES.items():
    if _name not in EDGES:
        _limits, _width = np.iinfo(_datatype.numpy), _datatype.size_bytes
        EDGES[_name] = [int(n).to_bytes(_width, "little", signed=n < 0) for n in {int(_limits.min), 0, 1, 42, int(_limits.max)}]
TYPED = [name for name, datatype in DATATYPES.items() if datatype.contents]
JSON = [name for name in DATATYPES if name not in ("FP16", "BF16")]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Models onnxruntime_<datatype>, and python with an input x_<datatype> and an output y_<datatype> of each."""
    repository = tmp_path_factory.mktemp("models")
    for name in DATATYPES:
        config = tensors("input", ("x", name, [-1])) + tensors("output", ("y", name, [-1]))
        write_onnx(repository, f"onnxruntime_{name}", identity(name, ("N",)), config)
    ins = tensors("input", *[(f"x_{name}", name, [-1]) for name in DATATYPES], extra="optional: true")
    outs = tensors("output", *[(f"y_{name}", name, [-1]) for name in DATATYPES])
    write_python(repository, "python", source(ECHO), ins + outs)
    refusing = tensors("input", ("x", "BYTES", [1])) + tensors("output", ("y", "FP32", [1]))
    write_python(repository, "codes", source(CODES), refusing)
    ports: dict[str, Any] = dict.fromkeys(("grpc_port", "http_port", "metrics_port"), 0)
    addresses: dict[str, Any] = dict.fromkeys(("grpc_address", "http_address"), "127.0.0.1")
    backends: dict[str, Backend] = {"onnxruntime": OnnxRuntimeBackend(), "python": PythonBackend()}
    server = Server(Options((repository,), **ports, **addresses), backends)
    server.load()
    server.start()
    try:
        yield Running(server, Script())
    finally:
        server.stop(Signals())


ECHO = """
def again(x):
    name = "y" + x.name()[1:]
    return pb_utils.Tensor.from_dlpack(name, x) if name == "y_BF16" else pb_utils.Tensor(name, x.as_numpy())

def echo(request):
    return pb_utils.InferenceResponse([again(x) for x in request.inputs()])
return [echo(request) for request in requests]
"""
CODES = """
def refuse(request):
    code = x_of(request)[0].decode()
    return pb_utils.InferenceResponse([], pb_utils.TritonError("this is " + code, getattr(pb_utils.TritonError, code)))
return [refuse(request) for request in requests]
"""


class Model(NamedTuple):
    """Which model to ask, and its tensors' names."""

    name: str
    x: str
    y: str


def model_of(engine: str, datatype: str) -> Model:
    return Model(engine, f"x_{datatype}", f"y_{datatype}") if engine == "python" else Model(f"{engine}_{datatype}", "x", "y")


def by_raw(running: Running, model: Model, datatype: str, elements: list[bytes]) -> bytes:
    message = service_pb2.ModelInferRequest(model_name=model.name)
    message.inputs.add(name=model.x, datatype=datatype, shape=[len(elements)])
    message.raw_input_contents.append(b"".join(elements))
    return _answer(running, message, model)


def by_contents(running: Running, model: Model, datatype: str, elements: list[bytes]) -> bytes:
    """Floats go into the message by its serialized form: as Python's floats, some NaNs would not stay what they are."""
    message = service_pb2.ModelInferRequest(model_name=model.name)
    tensor = message.inputs.add(name=model.x, datatype=datatype, shape=[len(elements)])
    tensor.contents.SetInParent()
    if datatype in ("FP32", "FP64"):
        data = b"".join(elements)
        field = {"FP32": 6, "FP64": 7}[datatype] << 3 | 2
        tensor.contents.MergeFromString(bytes((field, len(data))) + data if data else b"")
    else:
        values = [element[4:] for element in elements] if datatype == "BYTES" else values_of(datatype, elements)
        getattr(tensor.contents, DATATYPES[datatype].contents).extend(values)
    return _answer(running, message, model)


def _answer(running: Running, message: Any, model: Model) -> bytes:
    with grpc.insecure_channel(running.grpc) as channel:
        answer = service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer(message, timeout=60)
    (output,), (data,) = answer.outputs, answer.raw_output_contents
    given = message.inputs[0]
    assert (output.name, output.datatype, list(output.shape)) == (model.y, given.datatype, list(given.shape))
    return data


def by_binary(running: Running, model: Model, datatype: str, elements: list[bytes]) -> bytes:
    data = b"".join(elements)
    document = described(model, datatype, elements, parameters={"binary_data_size": len(data)})
    head = json.dumps(document | {"parameters": {"binary_data_output": True}}).encode()
    path = f"/v2/models/{model.name}/infer"
    status, headers, body = post(running, head + data, {"Inference-Header-Content-Length": str(len(head))}, path)
    assert status == 200, body
    at = int(headers["inference-header-content-length"]) if data else len(body)
    assert ("inference-header-content-length" in headers) == bool(data)
    assert headers["content-type"] == ("application/octet-stream" if data else "application/json")
    (output,) = json.loads(body[:at])["outputs"]
    assert (output["name"], output["shape"], output["parameters"]["binary_data_size"]) == (model.y, [len(elements)], len(data))
    return body[at:]


def by_json(running: Running, model: Model, datatype: str, elements: list[bytes]) -> bytes:
    document = described(model, datatype, elements, data=values_of(datatype, elements))
    status, _, body = post(running, document, path=f"/v2/models/{model.name}/infer")
    assert status == 200, body
    (output,) = json.loads(body)["outputs"]
    assert (output["name"], output["datatype"], output["shape"]) == (model.y, datatype, [len(elements)])
    if datatype == "BYTES":
        return b"".join(struct.pack("<I", len(text.encode())) + text.encode() for text in output["data"])
    return np.array(output["data"], DATATYPES[datatype].numpy).tobytes()


def described(model: Model, datatype: str, elements: list[bytes], **more: Any) -> dict[str, Any]:
    return {"inputs": [{"name": model.x, "datatype": datatype, "shape": [len(elements)], **more}]}


def values_of(datatype: str, elements: list[bytes]) -> list[Any]:
    """As Python's values; BYTES as text where JSON needs that."""
    if datatype == "BYTES":
        return [element[4:].decode() for element in elements]
    return np.frombuffer(b"".join(elements), DATATYPES[datatype].numpy).tolist()


Way = Callable[[Running, Model, str, list[bytes]], bytes]
WAYS: list[tuple[Way, str]] = [
    *((way, name) for way in (by_raw, by_binary) for name in DATATYPES),
    *((by_contents, name) for name in TYPED),
    *((by_json, name) for name in JSON),
]
CASES = [(engine, way, name) for engine in ENGINES for way, name in WAYS]


def element(datatype: str) -> st.SearchStrategy[bytes]:
    """One element's bytes: an edge, or any bits."""
    edges = st.sampled_from(EDGES[datatype])
    if datatype == "BOOL":
        return edges
    if datatype == "BYTES":
        texts = st.text(max_size=20).map(lambda text: text.encode(errors="ignore"))
        return edges | texts.map(lambda text: struct.pack("<I", len(text)) + text)
    width = DATATYPES[datatype].size_bytes
    return edges | st.binary(min_size=width, max_size=width)


@pytest.mark.parametrize(("engine", "way", "datatype"), CASES, ids=[f"{e}-{way.__name__}-{name}" for e, way, name in CASES])
def test_what_comes_back_is_what_was_sent(running: Running, engine: str, way: Way, datatype: str) -> None:
    model = model_of(engine, datatype)

    @given(st.lists(element(datatype), max_size=10))
    @example(EDGES[datatype])
    @example([])
    @settings(max_examples=12)
    def sent(elements: list[bytes]) -> None:
        got, expected = way(running, model, datatype, elements), b"".join(elements)
        assert got == expected or (way is by_json and same_numbers(datatype, got, expected))

    sent()


def same_numbers(datatype: str, got: bytes, expected: bytes) -> bool:
    """Bit for bit but for NaNs: in JSON one is like another."""
    if not datatype.startswith("FP"):
        return False
    pairs = zip(values_of(datatype, [got]), values_of(datatype, [expected]), strict=True)
    return all((math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b)) for a, b in pairs)


# what a datatype cannot do


def test_tritonclient_reads_a_tensor_of_no_bytes(running: Running) -> None:
    """Such an answer is JSON only, as Triton's."""
    with tritonclient.http.InferenceServerClient(running.http.removeprefix("http://")) as client:
        tensor = tritonclient.http.InferInput("x", [0], "FP32")
        tensor.set_data_from_numpy(np.empty(0, np.float32))
        assert client.infer("onnxruntime_FP32", [tensor]).as_numpy("y").shape == (0,)


@pytest.mark.parametrize("datatype", ["FP16", "BF16"])
def test_half_floats_travel_as_bytes_only(running: Running, datatype: str) -> None:
    model = model_of("onnxruntime", datatype)
    message = service_pb2.ModelInferRequest(model_name=model.name)
    message.inputs.add(name="x", datatype=datatype, shape=[1]).contents.fp32_contents.append(1)
    document = described(model, datatype, [b""], data=[1.5])
    question = Asked("ModelInfer", message, "POST", f"/v2/models/{model.name}/infer", document)
    assert by_grpc(running, question) == (
        "INVALID_ARGUMENT",
        f"unable to find data for input tensor 'x' for model '{model.name}' in request.",
    )
    needed = "Please use the binary data format for input x"
    assert by_http(running, question) == (400, f"receiving {datatype} data via JSON is not supported. {needed}")


def test_strings_that_are_no_text_travel_as_bytes(running: Running) -> None:
    """Python models see any bytes; ONNX Runtime's Python interface and JSON have text only, and say so."""
    elements = [struct.pack("<I", 3) + b"\xff\0\xfe"]
    python, onnx = model_of("python", "BYTES"), model_of("onnxruntime", "BYTES")
    for way in (by_raw, by_binary):
        assert way(running, python, "BYTES", elements) == elements[0]
    for model, by_json_too in ((onnx, True), (python, False)):
        question = infer(Tensor(model.x, (1,), elements[0], "BYTES"), model=model.name)
        if by_json_too:
            assert by_grpc(running, question)[0] == "INVALID_ARGUMENT"
        status, text = by_http(running, question)
        assert status == 400
        assert "UTF-8" in text


@pytest.mark.parametrize(
    ("code", "grpc_code", "status"),
    [
        ("UNKNOWN", "UNKNOWN", 400),
        ("INTERNAL", "INTERNAL", 500),
        ("NOT_FOUND", "NOT_FOUND", 404),
        ("INVALID_ARG", "INVALID_ARGUMENT", 400),
        ("UNAVAILABLE", "UNAVAILABLE", 503),
        ("UNSUPPORTED", "UNIMPLEMENTED", 501),
        ("ALREADY_EXISTS", "ALREADY_EXISTS", 400),
        ("CANCELLED", "CANCELLED", 400),
    ],
)
def test_each_code_of_a_model_is_tritons_on_both_protocols(running: Running, code: str, grpc_code: str, status: int) -> None:
    question = infer(Tensor("x", (1,), struct.pack("<I", len(code)) + code.encode(), "BYTES"), model="codes")
    assert by_grpc(running, question) == (grpc_code, f"this is {code}")
    assert by_http(running, question) == (status, f"this is {code}")
