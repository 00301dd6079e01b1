# SPDX-License-Identifier: Apache-2.0
"""Triton's HTTP calls other than inference and health: the path of each, and how JSON becomes the same calls as gRPC's."""

from __future__ import annotations

import binascii
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from google.protobuf.message import Message
from tritonclient.grpc import service_pb2

from hypersonic.server.core.inference.shm import allowed
from hypersonic.server.errors import InvalidRequestError, MalformedJsonError, escaped
from hypersonic.server.wire.http import jsontext
from hypersonic.server.wire.http.tojson import to_json
from hypersonic.server.wire.security.groups import Group
from hypersonic.server.wire.service.operations import Operations

MODEL_PATHS = ("/v2/models/{model}", "/v2/models/{model}/versions/{version}")
_REGION_FIELDS = ("key", "byte_size")
_GET, _POST = ("GET",), ("POST",)
#: (the path's parameters, the parsed body or None for a GET) -> the answer as JSON, None = no body. Raises ServerError
Serve = Callable[[Mapping[str, str], Any], Any]


class Call(NamedTuple):
    """A call.

    Attributes:
        waits: it may wait for the model in its path, which is being loaded or replaced.
    """

    group: Group
    path: str
    serve: Serve
    methods: tuple[str, ...] = _GET
    waits: bool = False


def calls(operations: Operations) -> Iterator[Call]:
    """Yield all calls. Of two paths that match, the first one is used."""
    yield from _model_calls(operations)
    yield from _repository_calls(operations)
    yield from _shared_memory_calls(operations)
    for path in ("/v2", "/v2/models/{model}"):
        yield Call(Group.TRACE, f"{path}/trace/setting", partial(_trace_setting, operations), ("GET", "POST"))
    yield Call(Group.LOGGING, "/v2/logging", lambda _, document: operations.http_log_settings(document), ("GET", "POST"))


def _trace_setting(operations: Operations, path: Mapping[str, str], document: Any) -> Any:
    return operations.http_trace_setting(path.get("model", ""), document)


def document_of(body: memoryview) -> Any:
    """Parse the body of a call other than inference. An empty body counts as an empty object."""
    return jsontext.parse(body) if len(body) else {}


def _model_calls(operations: Operations) -> Iterator[Call]:
    """Yield the calls whose answers are the messages of the gRPC service as JSON."""

    def about(operation: Callable[[Any], Message], request_type: Any) -> Serve:
        def serve(path: Mapping[str, str], _document: Any) -> Any:
            return to_json(operation(request_type(name=path.get("model", ""), version=path.get("version", ""))))

        return serve

    metadata = about(operations.model_metadata, service_pb2.ModelMetadataRequest)
    config = about(lambda request: operations.model_config(request).config, service_pb2.ModelConfigRequest)
    statistics = about(operations.model_statistics, service_pb2.ModelStatisticsRequest)
    server = service_pb2.ServerMetadataRequest()
    yield Call(Group.METADATA, "/v2", lambda _path, _document: to_json(operations.server_metadata(server)))
    yield Call(Group.STATISTICS, "/v2/models/stats", statistics)  # before /v2/models/{model}
    for path in MODEL_PATHS:
        yield Call(Group.METADATA, path, metadata, waits=True)
        yield Call(Group.MODEL_CONFIG, f"{path}/config", config, waits=True)
        yield Call(Group.STATISTICS, f"{path}/stats", statistics)


def _repository_calls(operations: Operations) -> Iterator[Call]:
    group = Group.MODEL_REPOSITORY
    for path in ("/v2/repository", "/v2/repository/{repository}"):
        model = f"{path}/models/{{model}}"
        yield Call(group, f"{path}/index", partial(_index, operations), _POST)
        yield Call(group, f"{model}/load", partial(_load, operations), _POST, waits=True)
        yield Call(group, f"{model}/unload", partial(_unload, operations), _POST, waits=True)


def _index(operations: Operations, _path: Mapping[str, str], document: Any) -> Any:
    """Return the repository index: one object for each version, without empty members.

    The repository's name is not checked, because Triton's HTTP index accepts any name; its gRPC index accepts none.
    """
    ready = jsontext.optional(document, "ready")
    request = service_pb2.RepositoryIndexRequest(ready=False if ready is None else jsontext.boolean(ready, ""))
    rows = to_json(operations.repository_index(request))["models"]
    return [{key: value for key, value in row.items() if value} for row in rows]


def _load(operations: Operations, path: Mapping[str, str], document: Any) -> None:
    """Load a model. The body's parameters are `config` (JSON text) and `file:<version>/<path>` (base64)."""
    request = service_pb2.RepositoryModelLoadRequest(repository_name=path.get("repository", ""), model_name=path["model"])
    for key, value in jsontext.members(jsontext.optional(document, "parameters"), "").items():
        text = jsontext.string(value, "")
        if key == "config":
            request.parameters[key].string_param = text
        elif key.startswith("file:"):
            request.parameters[key].bytes_param = _file(key, text)
        else:
            raise MalformedJsonError("unexpected error on creating Triton parameter")
    operations.repository_model_load(request)


def _file(key: str, text: str) -> bytes:
    """Decode base64, with or without line breaks and the "=" at the end. Raises InvalidRequestError.

    Triton's C++ client writes lines of 72 characters.
    """
    packed = text.replace("\n", "").replace("\r", "")  # a text without line breaks is not copied
    if missing := -len(packed) % 4:
        packed += "=" * missing
    try:
        return binascii.a2b_base64(packed, strict_mode=True)
    except ValueError as error:
        raise InvalidRequestError(
            f"parameter '{escaped(key)}' is not base64: {error}; expected letters, digits, '+' and '/'; line breaks are "
            "ignored, and the '=' at the end may be missing"
        ) from error


def _unload(operations: Operations, path: Mapping[str, str], document: Any) -> None:
    """Unload a model. The body may have the parameter `unload_dependents`."""
    request = service_pb2.RepositoryModelUnloadRequest(repository_name=path.get("repository", ""), model_name=path["model"])
    parameters = jsontext.members(jsontext.optional(document, "parameters"), "")
    if "unload_dependents" in parameters:
        request.parameters["unload_dependents"].bool_param = jsontext.boolean(parameters["unload_dependents"], "")
    operations.repository_model_unload(request)


def _shared_memory_calls(operations: Operations) -> Iterator[Call]:
    def asking(operation: Callable[[Any], Any], request_type: Any, answer: list[Any] | None = None) -> Serve:
        """Return what makes a call about the region in the path, and answers with `answer`."""

        def serve(path: Mapping[str, str], _document: Any) -> Any:
            operation(request_type(name=path.get("region", "")))
            return answer

        return serve

    unregister = asking(operations.system_shared_memory_unregister, service_pb2.SystemSharedMemoryUnregisterRequest)
    cuda_status = asking(operations.cuda_shared_memory_status, service_pb2.CudaSharedMemoryStatusRequest, [])
    cuda_register = asking(operations.cuda_shared_memory_register, service_pb2.CudaSharedMemoryRegisterRequest)
    cuda_unregister = asking(operations.cuda_shared_memory_unregister, service_pb2.CudaSharedMemoryUnregisterRequest)
    group = Group.SHARED_MEMORY
    for path in ("sharedmemory", "sharedmemory/region/{region}"):
        yield Call(group, f"/v2/system{path}/status", partial(_status, operations))
        yield Call(group, f"/v2/system{path}/register", partial(_register, operations), _POST)
        yield Call(group, f"/v2/system{path}/unregister", unregister, _POST)
        yield Call(group, f"/v2/cuda{path}/status", cuda_status)
        yield Call(group, f"/v2/cuda{path}/register", cuda_register, _POST)
        yield Call(group, f"/v2/cuda{path}/unregister", cuda_unregister, _POST)


def _status(operations: Operations, path: Mapping[str, str], _document: Any) -> Any:
    regions = allowed(operations.regions).status(path.get("region", ""))
    return [dict(zip(("name", "key", "offset", "byte_size"), region, strict=True)) for region in regions]


def _register(operations: Operations, path: Mapping[str, str], document: Any) -> None:
    """Register a region. The body has `key`, `byte_size` and optionally `offset`, both in bytes."""
    allowed(operations.regions)
    for field in _REGION_FIELDS:
        if jsontext.optional(document, field) is None:
            raise InvalidRequestError(f"Shared memory register request has no '{field}' field")
    key = jsontext.string(document["key"], "")
    offset = jsontext.unsigned(document.get("offset", 0), "")
    size_bytes = jsontext.unsigned(document["byte_size"], "")
    operations.system_shared_memory_register(
        service_pb2.SystemSharedMemoryRegisterRequest(name=path.get("region", ""), key=key, offset=offset, byte_size=size_bytes)
    )
