# SPDX-License-Identifier: Apache-2.0
"""Requests as plain bytes, answers as plain values that compare: what two servers said to the same thing."""

from __future__ import annotations

import http.client
import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import grpc
import numpy as np
from google.protobuf import json_format
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tritonclient.grpc import service_pb2, service_pb2_grpc

from tests.reference.servers import Served

TIMEOUT_S = 60
Value = bool | int | float | str


class Tensor(NamedTuple):
    """An input as sent. data: its bytes, or None for none; typed: (field of contents, values)."""

    name: str
    datatype: str
    shape: Sequence[int]
    data: bytes | None = None
    typed: tuple[str, Sequence[Any]] | None = None
    parameters: Mapping[str, Value] = {}


def given(name: str, x: np.ndarray, datatype: str) -> Tensor:
    return Tensor(name, datatype, x.shape, x.tobytes())


def texts(*elements: bytes) -> bytes:
    """BYTES on the wire: each element after its length in four bytes, little endian."""
    return b"".join(struct.pack("<I", len(e)) + e for e in elements)


def untexts(data: bytes) -> list[bytes]:
    values, at = [], 0
    while at < len(data):
        (size,) = struct.unpack_from("<I", data, at)
        values.append(data[at + 4 : at + 4 + size])
        at += 4 + size
    return values


def parameter(value: Value) -> service_pb2.InferParameter:
    kind = {bool: "bool_param", int: "int64_param", float: "double_param", str: "string_param"}[type(value)]
    return service_pb2.InferParameter(**{kind: value})


def message(
    model: str, inputs: Iterable[Tensor] = (), outputs: Iterable[str] = (), *, version: str = "", id: str = "",  # noqa: A002
    extra: Sequence[bytes] = (), classification: int = 0, **parameters: Value,
) -> service_pb2.ModelInferRequest:  # fmt: skip
    """A ModelInferRequest; `extra` are raw contents after those of the inputs."""
    request = service_pb2.ModelInferRequest(model_name=model, model_version=version, id=id)
    for tensor in inputs:
        _add(request, tensor)
    request.raw_input_contents.extend(extra)
    for name in outputs:
        wanted = request.outputs.add(name=name)
        if classification:
            wanted.parameters["classification"].int64_param = classification
    for key, value in parameters.items():
        request.parameters[key].CopyFrom(parameter(value))
    return request


def _add(made: service_pb2.ModelInferRequest, tensor: Tensor) -> None:
    put = made.inputs.add(name=tensor.name, datatype=tensor.datatype, shape=tensor.shape)
    if tensor.typed is not None:
        getattr(put.contents, tensor.typed[0]).extend(tensor.typed[1])
    if tensor.data is not None:
        made.raw_input_contents.append(tensor.data)
    for key, value in tensor.parameters.items():
        put.parameters[key].CopyFrom(parameter(value))


class Reply(NamedTuple):
    """HTTP: what came back. body: parsed when it is JSON."""

    status: int
    headers: Mapping[str, str]
    body: Any


class Wire:
    """Both front ends of one server, without any client library between."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self.channel = grpc.insecure_channel(served.grpc, [("grpc.max_receive_message_length", -1)])
        self.stub = service_pb2_grpc.GRPCInferenceServiceStub(self.channel)
        self.health = health_pb2_grpc.HealthStub(self.channel)

    def close(self) -> None:
        self.channel.close()

    def infer(self, request: service_pb2.ModelInferRequest, **keywords: Any) -> dict[str, Any]:
        """The answer as plain values, or code and text."""
        try:
            return plain(self.stub.ModelInfer(request, timeout=TIMEOUT_S, **keywords))
        except grpc.RpcError as error:
            return refused(error)

    def begin(self, request: service_pb2.ModelInferRequest, timeout_s: float = TIMEOUT_S) -> grpc.Future:
        return self.stub.ModelInfer.future(request, timeout=timeout_s)

    def rpc(self, rpc: str, /, **fields: Any) -> dict[str, Any]:
        """Any other RPC by its name."""
        return self.call(rpc, getattr(service_pb2, f"{rpc}Request")(**fields))

    def call(self, rpc: str, request: Any) -> dict[str, Any]:
        """The answer as plain values, or code and text."""
        try:
            answer = getattr(self.stub, rpc)(request, timeout=TIMEOUT_S)
        except grpc.RpcError as error:
            return refused(error)
        return json_format.MessageToDict(answer, preserving_proto_field_name=True)

    def check_health(self, service: str) -> dict[str, Any]:
        try:
            answer = self.health.Check(health_pb2.HealthCheckRequest(service=service), timeout=TIMEOUT_S)
        except grpc.RpcError as error:
            return refused(error)
        return json_format.MessageToDict(answer)

    def stream(self, requests: Sequence[service_pb2.ModelInferRequest], metadata: Any = None) -> list[dict[str, Any]]:
        """Every answer of one stream that sends `requests` and ends; the last may be its status."""
        seen: list[dict[str, Any]] = []
        try:
            for answer in self.stub.ModelStreamInfer(iter(requests), timeout=TIMEOUT_S, metadata=metadata):
                seen.append({"error": answer.error_message, **plain(answer.infer_response)})
        except grpc.RpcError as error:
            seen.append(refused(error))
        return seen

    def http(self, method: str, path: str, body: Any = None, **headers: str) -> Reply:
        """body: bytes as they are, anything else as JSON. Header names are given with _ for -."""
        sent = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        connection = http.client.HTTPConnection(self.served.http, timeout=TIMEOUT_S)
        try:
            connection.request(method, path, sent, {key.replace("_", "-"): value for key, value in headers.items()})
            answer = connection.getresponse()
            data = answer.read()
        finally:
            connection.close()
        kept = {key.lower(): value for key, value in answer.getheaders()}
        return Reply(answer.status, kept, _body(data, kept))

    def pending(self, model: str) -> int:
        """Requests of a model that wait for an execution, from the metrics."""
        for line in self.metrics().splitlines():
            if line.startswith("nv_inference_pending_request_count") and f'model="{model}"' in line:
                return int(float(line.rsplit(" ", 1)[1]))
        return 0

    def metrics(self) -> str:
        connection = http.client.HTTPConnection(self.served.metrics, timeout=TIMEOUT_S)
        try:
            connection.request("GET", "/metrics")
            return connection.getresponse().read().decode()
        finally:
            connection.close()


def _body(data: bytes, headers: Mapping[str, str]) -> Any:
    size = headers.get("inference-header-content-length")
    if size is not None:
        return json.loads(data[: int(size)]), data[int(size) :]
    try:
        return json.loads(data) if data else b""
    except ValueError:
        return data


def refused(error: grpc.RpcError) -> dict[str, Any]:
    return {"code": error.code().name, "text": error.details()}


def plain(answer: service_pb2.ModelInferResponse) -> dict[str, Any]:
    """Everything an inference answer says."""
    raw = list(answer.raw_output_contents)
    outputs = [
        (o.name, o.datatype, list(o.shape), parameters_of(o.parameters), raw[i] if i < len(raw) else None)
        for i, o in enumerate(answer.outputs)
    ]
    return {
        "model": answer.model_name, "version": answer.model_version, "id": answer.id,
        "parameters": parameters_of(answer.parameters), "outputs": outputs, "more": raw[len(outputs) :],
    }  # fmt: skip


def parameters_of(found: Mapping[str, service_pb2.InferParameter]) -> dict[str, tuple[str | None, Any]]:
    kinds = {key: value.WhichOneof("parameter_choice") for key, value in found.items()}
    return {key: (kind, getattr(found[key], kind) if kind else None) for key, kind in sorted(kinds.items())}
