# SPDX-License-Identifier: Apache-2.0
"""One question to a server in the words of both protocols, and what it answers in each."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import grpc
from tritonclient.grpc import service_pb2, service_pb2_grpc

from hypersonic.server.app import Server, Signals
from hypersonic.server.core.inference.backend import Backend
from hypersonic.server.observe.log import LogControl, LogSettings
from hypersonic.server.options import Options
from tests.server.conftest import Running, Script, SumBackend, loggers_as_they_were
from tests.server.wire.http.requests import ask, post


class Tensor(NamedTuple):
    """An input as sent, raw."""

    name: str = "x"
    shape: tuple[int, ...] = (2, 3)
    data: bytes = bytes(24)
    datatype: str = "FP32"


class Asked(NamedTuple):
    """One question, both ways. http: (method, path, body); a body that is not bytes is sent as JSON."""

    rpc: str
    message: Any
    method: str
    path: str
    body: Any = None
    headers: Mapping[str, str] = {}


def infer(
    *inputs: Tensor, model: str = "m", version: str = "", outputs: tuple[str, ...] = (), place: Mapping[str, Any] | None = None,
    **parameters: int,
) -> Asked:  # fmt: skip
    """An inference request, raw. place: the shared memory parameters of the first output."""
    message = service_pb2.ModelInferRequest(model_name=model, model_version=version)
    for tensor in inputs:
        message.inputs.add(name=tensor.name, datatype=tensor.datatype, shape=tensor.shape)
        message.raw_input_contents.append(tensor.data)
    for name in outputs:
        message.outputs.add(name=name)
    for key, value in parameters.items():
        message.parameters[key].int64_param = value
    document: dict[str, Any] = {"inputs": [_described(tensor) for tensor in inputs], "parameters": parameters}
    document["outputs"] = [{"name": name} for name in outputs]
    if place is not None:
        _set(message.outputs[0].parameters, place)
        document["outputs"][0]["parameters"] = place
    head = json.dumps(document).encode()
    path = f"/v2/models/{model}{f'/versions/{version}' if version else ''}/infer"
    body = head + b"".join(tensor.data for tensor in inputs)
    return Asked("ModelInfer", message, "POST", path, body, {"Inference-Header-Content-Length": str(len(head))})


def _described(tensor: Tensor) -> dict[str, Any]:
    size = {"binary_data_size": len(tensor.data)}
    return {"name": tensor.name, "datatype": tensor.datatype, "shape": list(tensor.shape), "parameters": size}


def _set(parameters: Any, values: Mapping[str, Any]) -> None:
    for key, value in values.items():
        setattr(parameters[key], "string_param" if isinstance(value, str) else "int64_param", value)


def place(**changes: Any) -> dict[str, Any]:
    """Parameters of a tensor in region r. None: left out."""
    values = {"shared_memory_region": "r", "shared_memory_byte_size": 24} | changes
    return {key: value for key, value in values.items() if value is not None}


def by_json(tensor: dict[str, Any], grpc_message: Any) -> Asked:
    """An inference request whose only input is spelt out in JSON."""
    document = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [2, 3], **tensor}]}
    return Asked("ModelInfer", grpc_message, "POST", "/v2/models/m/infer", document)


def without_raw(values: Mapping[str, Any] | None = None, contents: int = 0, raw: bool = False) -> Any:
    """Request to m. values: parameters of its input; contents: so many typed values."""
    message = service_pb2.ModelInferRequest(model_name="m")
    given = message.inputs.add(name="x", datatype="FP32", shape=[2, 3])
    _set(given.parameters, values or {})
    if contents:
        given.contents.fp32_contents.extend([1.0] * contents)
    if raw:
        message.raw_input_contents.append(bytes(24))
    return message


def in_memory(**changes: Any) -> Asked:
    """Input x in a region."""
    return by_json({"parameters": place(**changes)}, without_raw(place(**changes)))


def control(rpc: str, path: str, body: Any = None, method: str = "POST", **fields: Any) -> Asked:
    """Anything but inference."""
    return Asked(rpc, getattr(service_pb2, f"{rpc}Request")(**fields), method, path, body)


def register(name: str, key: str, size_bytes: int = 64) -> Asked:
    path, body = f"/v2/systemsharedmemory/region/{name}/register", {"key": key, "byte_size": size_bytes}
    return control("SystemSharedMemoryRegister", path, body, name=name, key=key, byte_size=size_bytes)


def load(name: str, **fields: Any) -> Asked:
    repository = "/v2/repository" + (f"/{fields['repository_name']}" if fields else "")
    return control("RepositoryModelLoad", f"{repository}/models/{name}/load", {}, model_name=name, **fields)


def unload(name: str) -> Asked:
    return control("RepositoryModelUnload", f"/v2/repository/models/{name}/unload", {}, model_name=name)


def statistics(name: str, version: str = "") -> Asked:
    path = f"/v2/models/{name}{f'/versions/{version}' if version else ''}/stats"
    return control("ModelStatistics", path, method="GET", name=name, version=version)


@contextmanager
def serving(
    repository: Path, script: Script | None = None, more: Mapping[str, Backend] | None = None, **options: Any
) -> Iterator[Running]:
    """A server of the in-memory backend, and more, on free ports, with a log of its own."""
    ports = dict.fromkeys(("grpc_port", "http_port", "metrics_port"), 0)
    addresses = dict.fromkeys(("grpc_address", "http_address"), "127.0.0.1")
    script = script or Script()
    opts = Options((repository,), **{**ports, **addresses, "exit_on_error": False, **options})
    with loggers_as_they_were():
        log = LogControl(LogSettings(log_info=False, log_error=False))
        server = Server(opts, {"sum": SumBackend(script), **(more or {})}, log)
        server.load()
        server.start()
        try:
            yield Running(server, script)
        finally:
            if script.gate is not None:
                script.gate.set()
            server.stop(Signals())


def by_grpc(running: Running, asked: Asked) -> tuple[str, str]:
    """(code, text)."""
    with grpc.insecure_channel(running.grpc) as channel:
        try:
            getattr(service_pb2_grpc.GRPCInferenceServiceStub(channel), asked.rpc)(asked.message, timeout=60)
        except grpc.RpcError as error:
            return error.code().name, error.details() or ""
    return "OK", ""


def by_http(running: Running, asked: Asked) -> tuple[int, str]:
    """(status, text)."""
    if asked.headers:
        status, _, answer = post(running, asked.body, asked.headers, asked.path)
        return status, "" if status == 200 else json.loads(answer)["error"]
    status, text = ask(running.http, asked.path, asked.method, asked.body)
    return status, "" if status == 200 else json.loads(text)["error"]
