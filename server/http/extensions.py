# SPDX-License-Identifier: Apache-2.0
"""JSON bodies of Triton's extensions, the model repository and shared memory -> the same calls as gRPC's."""

from __future__ import annotations

import binascii
from typing import Any

from tritonclient.grpc import service_pb2

from hypersonic.server.errors import InvalidRequestError, MalformedJsonError, escaped
from hypersonic.server.http import jsontext
from hypersonic.server.http.tojson import to_json
from hypersonic.server.inference.shm import Region
from hypersonic.server.service.operations import Operations
from hypersonic.server.service.shared_memory import SharedMemoryCalls

_REGION_FIELDS = ("key", "byte_size")


def document_of(body: memoryview) -> Any:
    """The body of a call besides inference; an empty one is an empty object."""
    return jsontext.parse(body) if len(body) else {}


def repository_index(operations: Operations, document: Any) -> list[dict[str, str]]:
    """Every row as an object without empty members. Triton's HTTP index takes any repository's name, its gRPC one none."""
    ready = jsontext.optional(document, "ready")
    request = service_pb2.RepositoryIndexRequest(ready=False if ready is None else jsontext.boolean(ready, ""))
    rows = to_json(operations.repository_index(request))["models"]
    return [{key: value for key, value in row.items() if value} for row in rows]


def repository_load(operations: Operations, repository: str, model: str, document: Any) -> None:
    """parameters: config (JSON text) and file:<version>/<path> (base64)."""
    request = service_pb2.RepositoryModelLoadRequest(repository_name=repository, model_name=model)
    for key, value in jsontext.members(jsontext.optional(document, "parameters"), "").items():
        text = jsontext.string(value, "")
        if key == "config":
            request.parameters[key].string_param = text
        elif key.startswith("file:"):
            request.parameters[key].bytes_param = _file(key, text)
        else:
            raise MalformedJsonError("unexpected error on creating Triton parameter")
    operations.repository_load(request)


def _file(key: str, text: str) -> bytes:
    """As Triton's C++ client writes it, in lines of 72 characters; or without "=" at the end. Raises InvalidRequestError."""
    packed = text.replace("\n", "").replace("\r", "")  # where there are none, this copies nothing
    if missing := -len(packed) % 4:
        packed += "=" * missing
    try:
        return binascii.a2b_base64(packed, strict_mode=True)
    except ValueError as error:
        raise InvalidRequestError(
            f"parameter '{escaped(key)}' is not base64: {error}; expected letters, digits, '+' and '/', of which line "
            "breaks are skipped, and '=' at the end may be missing"
        ) from error


def repository_unload(operations: Operations, repository: str, model: str, document: Any) -> None:
    """parameters: unload_dependents."""
    request = service_pb2.RepositoryModelUnloadRequest(repository_name=repository, model_name=model)
    parameters = jsontext.members(jsontext.optional(document, "parameters"), "")
    if "unload_dependents" in parameters:
        request.parameters["unload_dependents"].bool_param = jsontext.boolean(parameters["unload_dependents"], "")
    operations.repository_unload(request)


def system_status(calls: SharedMemoryCalls, name: str) -> list[dict[str, Any]]:
    return [_described(region) for region in calls.system_status(name)]


def _described(region: Region) -> dict[str, Any]:
    return {"name": region.name, "key": region.key, "offset": region.offset, "byte_size": region.size_bytes}


def system_register(calls: SharedMemoryCalls, name: str, document: Any) -> None:
    calls.require_allowed()
    for field in _REGION_FIELDS:
        if jsontext.optional(document, field) is None:
            raise InvalidRequestError(f"Shared memory register request has no '{field}' field")
    key = jsontext.string(document["key"], "")
    offset = jsontext.unsigned(document.get("offset", 0), "")
    calls.system_register(name, key, offset, jsontext.unsigned(document["byte_size"], ""))


def cuda_status(calls: SharedMemoryCalls, name: str) -> list[dict[str, Any]]:
    calls.cuda_status(name)
    return []
