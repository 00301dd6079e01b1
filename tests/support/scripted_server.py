# SPDX-License-Identifier: Apache-2.0
"""A gRPC server of Triton's protocol that fails as a test says. Version n of its models answers y = 2 n x.

A model is called `double` and has rows of four FP32, unless a test chooses other names and another number.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
import numpy as np
from tritonclient.grpc import service_pb2

SERVICE = "inference.GRPCInferenceService"


@dataclass
class Script:
    """The behaviour of the server.

    Attributes:
        versions: of each model; a request without a version gets the last one.
        infer: called with each request and its context before the answer.
        damage: called with each request and its answer, which it may change.
        streamed: called with each request of a stream and its answer; the answers that are sent.
        describe: called with each ModelMetadataResponse, which it may change.
    """

    models: tuple[str, ...] = ("double",)
    versions: tuple[str, ...] = ("1",)
    max_batch_size: int = 8
    columns: int = 4
    tensors: tuple[str, str] = ("x", "y")
    ready: bool = True
    infer: Callable[[Any, grpc.ServicerContext], None] = lambda _request, _context: None
    damage: Callable[[Any, Any], object] = lambda _request, _answer: None
    streamed: Callable[[Any, Any], Sequence[Any]] = lambda _request, answer: [answer]
    describe: Callable[[Any], object] = lambda _metadata: None
    stateful: bool = False
    index_code: grpc.StatusCode | None = None
    calls: Counter[str] = field(default_factory=Counter)
    headers: list[dict[str, str]] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)


@contextmanager
def scripted_server(script: Script, port: int = 0, credentials: grpc.ServerCredentials | None = None) -> Iterator[str]:
    """Run the server; yields its address."""
    methods = {
        "ServerReady": lambda _request, _context: service_pb2.ServerReadyResponse(ready=script.ready),
        "RepositoryIndex": lambda _request, context: _index(script, context),
        "ModelMetadata": lambda request, context: _metadata(script, request, context),
        "ModelConfig": lambda _request, _context: _config(script),
        "ModelInfer": lambda request, context: _infer(script, request, context),
    }

    def handler(name: str, answer: Callable[..., Any]) -> grpc.RpcMethodHandler:
        def handle(message: bytes, context: grpc.ServicerContext) -> bytes:
            with script.lock:
                script.calls[name] += 1
                script.headers.append({key: str(value) for key, value in context.invocation_metadata()})
            request = getattr(service_pb2, f"{name}Request").FromString(message)
            return bytes(answer(request, context).SerializeToString())

        return grpc.unary_unary_rpc_method_handler(handle)

    def stream(messages: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        for message in messages:
            request = service_pb2.ModelInferRequest.FromString(message)
            for answer in script.streamed(request, _infer(script, request, context)):
                yield service_pb2.ModelStreamInferResponse(infer_response=answer).SerializeToString()

    server = grpc.server(ThreadPoolExecutor(32), options=[("grpc.max_receive_message_length", -1), ("grpc.so_reuseport", 0)])
    handlers = {name: handler(name, answer) for name, answer in methods.items()}
    handlers["ModelStreamInfer"] = grpc.stream_stream_rpc_method_handler(stream)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    listening = f"127.0.0.1:{port}"
    bound = server.add_secure_port(listening, credentials) if credentials else server.add_insecure_port(listening)
    server.start()
    try:
        yield f"127.0.0.1:{bound}"
    finally:
        server.stop(0).wait()


def fail(code: grpc.StatusCode, text: str = "scripted") -> Callable[[Any, grpc.ServicerContext], None]:
    """Every request ends with this code."""
    return lambda _request, context: context.abort(code, text)


def wait(seconds: float) -> Callable[[Any, grpc.ServicerContext], None]:
    """Every request takes this long."""
    return lambda _request, _context: time.sleep(seconds)


def _index(script: Script, context: grpc.ServicerContext) -> Any:
    if script.index_code is not None:
        context.abort(script.index_code, "no new work")
    index = service_pb2.RepositoryIndexResponse()
    for name in script.models:
        index.models.add(name=name, version="1", state="READY")
    return index


def _metadata(script: Script, request: Any, context: grpc.ServicerContext) -> Any:
    if request.name not in script.models:
        context.abort(grpc.StatusCode.NOT_FOUND, f"Request for unknown model: '{request.name}' is not found")
    _version(script, request.name, request.version, context)
    answer = service_pb2.ModelMetadataResponse(name=request.name, versions=script.versions, platform="scripted")
    rows = [-1] if script.max_batch_size else []
    given, wanted = script.tensors
    answer.inputs.add(name=given, datatype="FP32", shape=[*rows, script.columns])
    answer.outputs.add(name=wanted, datatype="FP32", shape=[*rows, script.columns])
    script.describe(answer)
    return answer


def _version(script: Script, name: str, version: str, context: grpc.ServicerContext) -> str:
    """The version that answers; NOT_FOUND if there is no such one."""
    if version not in {"", *script.versions}:
        context.abort(grpc.StatusCode.NOT_FOUND, f"Request for unknown model: '{name}' version {version} is not found")
    return version or script.versions[-1]


def _config(script: Script) -> Any:
    answer = service_pb2.ModelConfigResponse()
    answer.config.max_batch_size = script.max_batch_size
    if script.stateful:
        answer.config.sequence_batching.SetInParent()
    return answer


def _infer(script: Script, request: Any, context: grpc.ServicerContext) -> Any:
    script.infer(request, context)
    if request.model_name not in script.models:
        context.abort(grpc.StatusCode.NOT_FOUND, f"Request for unknown model: '{request.model_name}' is not found")
    version = _version(script, request.model_name, request.model_version, context)
    shape = list(request.inputs[0].shape)
    with script.lock:
        script.rows.append(shape[0])
    answer = service_pb2.ModelInferResponse(model_name=request.model_name, model_version=version, id=request.id)
    answer.outputs.add(name=script.tensors[1], datatype="FP32", shape=shape)
    answer.raw_output_contents.append((np.frombuffer(request.raw_input_contents[0], "<f4") * (2 * int(version))).tobytes())
    script.damage(request, answer)
    return answer
