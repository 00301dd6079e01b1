# SPDX-License-Identifier: Apache-2.0
"""inference.GRPCInferenceService: Triton's RPCs over the service.

ModelInfer takes and gives raw bytes (wire.py); the other RPCs are ordinary protobuf. Each handler runs on a thread of its
own pool: a thousand waiting inferences leave threads for health checks.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import grpc
from google.protobuf.message import Message
from tritonclient.grpc import service_pb2

from hypersonic import __version__
from hypersonic.server import messages
from hypersonic.server.contents import to_infer_request
from hypersonic.server.errors import (
    BackendError,
    BudgetError,
    CancelledError,
    InvalidRequestError,
    ModelLoadError,
    NotFoundError,
    ServerError,
    UnavailableError,
    UnsupportedError,
)
from hypersonic.server.model import ModelVersion
from hypersonic.server.repository import parse_version
from hypersonic.server.request import check
from hypersonic.server.service import InferenceService
from hypersonic.server.wire import split

_LOG = logging.getLogger(__name__)
SERVICE = "inference.GRPCInferenceService"
#: what ServerMetadata advertises: exactly what works
EXTENSIONS = ("model_repository", "model_configuration", "parameters", "statistics")
#: longest error text sent: it travels in a header, and clients' names are in it
_MAX_DETAILS = 4096

#: the one place where errors become gRPC's codes; the first match counts
STATUS: tuple[tuple[type[ServerError], grpc.StatusCode], ...] = (
    (InvalidRequestError, grpc.StatusCode.INVALID_ARGUMENT),
    (NotFoundError, grpc.StatusCode.NOT_FOUND),
    (UnavailableError, grpc.StatusCode.UNAVAILABLE),
    (BudgetError, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (CancelledError, grpc.StatusCode.CANCELLED),
    (UnsupportedError, grpc.StatusCode.UNIMPLEMENTED),
    (ModelLoadError, grpc.StatusCode.INTERNAL),
    (BackendError, grpc.StatusCode.INTERNAL),
)

#: RPCs of the service that this server does not do, and what it says
_UNIMPLEMENTED = {
    "ModelStreamInfer": "streaming inference is not supported; use ModelInfer",
    "SystemSharedMemoryStatus": "Client shared memory is disabled: this server takes tensors in the request only.",
    "SystemSharedMemoryRegister": "Client shared memory is disabled: this server takes tensors in the request only.",
    "SystemSharedMemoryUnregister": "Client shared memory is disabled: this server takes tensors in the request only.",
    "CudaSharedMemoryStatus": "CUDA shared memory is not supported: there is no GPU",
    "CudaSharedMemoryRegister": "CUDA shared memory is not supported: there is no GPU",
    "CudaSharedMemoryUnregister": "CUDA shared memory is not supported: there is no GPU",
    "TraceSetting": "tracing is not supported",
    "LogSettings": "log settings cannot be read or changed over the network",
}


def status_of(error: ServerError) -> grpc.StatusCode:
    """gRPC's code for an error."""
    return next((code for kind, code in STATUS if isinstance(error, kind)), grpc.StatusCode.INTERNAL)


class Context(Protocol):
    """What is used of grpc.ServicerContext."""

    def abort(self, code: grpc.StatusCode, details: str) -> Any: ...

    def is_active(self) -> bool: ...

    def add_callback(self, callback: Callable[[], None]) -> bool: ...


class Servicer:
    """The RPCs. ModelInfer is infer(): request bytes in, response bytes out."""

    def __init__(self, service: InferenceService, *, server_id: str = "triton") -> None:
        self._service = service
        self._server_id = server_id

    def infer(self, data: bytes, context: Context) -> bytes:
        """A serialized ModelInferRequest -> a serialized ModelInferResponse. Raises ServerError."""
        arrived_ns = time.monotonic_ns()
        with self._service.admitted(len(data)):
            message, raw = split(data)
            try:
                model = self._service.repository.model(message.model_name, message.model_version)
                request = check(to_infer_request(message, raw), model.config)
                return model.infer(request, model.frame, context, arrived_ns)
            except ServerError as error:
                error.request_id = message.id
                raise

    def server_live(self, _request: Message) -> Any:
        return service_pb2.ServerLiveResponse(live=True)

    def server_ready(self, _request: Message) -> Any:
        return service_pb2.ServerReadyResponse(ready=self._service.ready)

    def model_ready(self, request: service_pb2.ModelReadyRequest) -> Any:
        return service_pb2.ModelReadyResponse(ready=self._service.model_ready(request.name, request.version))

    def server_metadata(self, _request: Message) -> Any:
        return service_pb2.ServerMetadataResponse(name=self._server_id, version=__version__, extensions=EXTENSIONS)

    def model_metadata(self, request: service_pb2.ModelMetadataRequest) -> Any:
        repository = self._service.repository
        model = repository.model(request.name, request.version)
        return messages.model_metadata(model, repository.loaded_versions(request.name))

    def model_config(self, request: service_pb2.ModelConfigRequest) -> Any:
        model = self._service.repository.model(request.name, request.version)
        return service_pb2.ModelConfigResponse(config=model.config.message)

    def model_statistics(self, request: service_pb2.ModelStatisticsRequest) -> Any:
        return messages.model_statistics(self._with_statistics(request.name, request.version))

    def _with_statistics(self, name: str, version: str) -> list[ModelVersion]:
        """All versions that fit; a model out of service still has its figures. Raises InvalidRequestError as Triton does."""
        number = parse_version(version)
        models = [model for model in self._service.repository if not name or model.name == name]
        if name and not models:
            raise InvalidRequestError(f"requested model '{name}' is not available")
        if name and number is not None:
            models = [model for model in models if model.version == number]
            if not models:
                raise InvalidRequestError(f"requested model version is not available for model '{name}'")
        return models

    def repository_index(self, request: service_pb2.RepositoryIndexRequest) -> Any:
        if request.repository_name:
            raise UnsupportedError("'repository_name' specification is not supported")
        return messages.repository_index(self._service.repository.index(), ready_only=request.ready)

    def model_control(self, _request: Message) -> Any:
        """RepositoryModelLoad and -Unload: what Triton says in model control mode none."""
        raise UnavailableError("explicit model load / unload is not allowed if polling is enabled")


def generic_handler(servicer: Servicer, control_threads: int = 8) -> grpc.GenericRpcHandler:
    """The service as grpc.Server.add_generic_rpc_handlers takes it. ModelInfer runs on the server's own pool."""
    pool = ThreadPoolExecutor(control_threads, thread_name_prefix="grpc-control")
    handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
        "ModelInfer": grpc.unary_unary_rpc_method_handler(_inferring(servicer.infer)),
    }
    for name, (method, request) in _control_methods(servicer).items():
        handlers[name] = grpc.unary_unary_rpc_method_handler(
            _control(method, pool), request_deserializer=request.FromString, response_serializer=_serialize
        )
    for name, text in _UNIMPLEMENTED.items():
        handlers[name] = _unimplemented(text, pool, streams=name == "ModelStreamInfer")
    return grpc.method_handlers_generic_handler(SERVICE, handlers)


def _control_methods(servicer: Servicer) -> Mapping[str, tuple[Callable[[Any], Any], Any]]:
    return {
        "ServerLive": (servicer.server_live, service_pb2.ServerLiveRequest),
        "ServerReady": (servicer.server_ready, service_pb2.ServerReadyRequest),
        "ModelReady": (servicer.model_ready, service_pb2.ModelReadyRequest),
        "ServerMetadata": (servicer.server_metadata, service_pb2.ServerMetadataRequest),
        "ModelMetadata": (servicer.model_metadata, service_pb2.ModelMetadataRequest),
        "ModelConfig": (servicer.model_config, service_pb2.ModelConfigRequest),
        "ModelStatistics": (servicer.model_statistics, service_pb2.ModelStatisticsRequest),
        "RepositoryIndex": (servicer.repository_index, service_pb2.RepositoryIndexRequest),
        "RepositoryModelLoad": (servicer.model_control, service_pb2.RepositoryModelLoadRequest),
        "RepositoryModelUnload": (servicer.model_control, service_pb2.RepositoryModelUnloadRequest),
    }


def _serialize(message: Message) -> bytes:
    return message.SerializeToString()


def _inferring(infer: Callable[[bytes, Context], bytes]) -> Callable[[bytes, Context], bytes]:
    def handle(data: bytes, context: Context) -> bytes:
        try:
            return infer(data, context)
        except ServerError as error:
            abort(context, error)
            raise

    return handle


def _control(method: Callable[[Any], Any], pool: ThreadPoolExecutor) -> Any:
    def handle(request: Any, context: Context) -> Any:
        try:
            return method(request)
        except ServerError as error:
            abort(context, error)
            raise

    return on_pool(handle, pool)


def _unimplemented(text: str, pool: ThreadPoolExecutor, *, streams: bool) -> grpc.RpcMethodHandler[Any, Any]:
    def handle(_request: Any, context: Context) -> Any:
        abort(context, UnsupportedError(text))

    if streams:
        return grpc.stream_stream_rpc_method_handler(on_pool(handle, pool))
    return grpc.unary_unary_rpc_method_handler(on_pool(handle, pool))


def on_pool(handle: Any, pool: ThreadPoolExecutor) -> Any:
    """Mark a handler for a pool of its own; grpcio looks for this attribute."""
    handle.experimental_thread_pool = pool
    return handle


def abort(context: Context, error: ServerError) -> None:
    """End the call with the error's code and text; control characters escaped, length bounded. Raises what gRPC raises."""
    code = status_of(error)
    if code is grpc.StatusCode.INTERNAL:
        _LOG.error("%s", error)
    text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in error.text[:_MAX_DETAILS])
    context.abort(code, text)
