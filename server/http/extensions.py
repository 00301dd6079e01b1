# SPDX-License-Identifier: Apache-2.0
"""The HTTP calls of Triton's model repository and shared memory extensions: JSON bodies become the same calls as gRPC's."""

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
    """Parse the body of a call other than inference. An empty body counts as an empty object."""
    return jsontext.parse(body) if len(body) else {}


def repository_index(operations: Operations, document: Any) -> list[dict[str, str]]:
    """Return the repository index: one object for each version, without empty members.

    The repository's name is not checked, because Triton's HTTP index accepts any name; its gRPC index accepts none. Raises
    ServerError.
    """
    ready = jsontext.optional(document, "ready")
    request = service_pb2.RepositoryIndexRequest(ready=False if ready is None else jsontext.boolean(ready, ""))
    rows = to_json(operations.repository_index(request))["models"]
    return [{key: value for key, value in row.items() if value} for row in rows]


def repository_load(operations: Operations, repository: str, model: str, document: Any) -> None:
    """Load a model. The body's parameters are `config` (JSON text) and `file:<version>/<path>` (base64).

    Raises ServerError with the status code of its kind (server/status_codes.py).
    """
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


def repository_unload(operations: Operations, repository: str, model: str, document: Any) -> None:
    """Unload a model. The body may have the parameter `unload_dependents`. Raises ServerError."""
    request = service_pb2.RepositoryModelUnloadRequest(repository_name=repository, model_name=model)
    parameters = jsontext.members(jsontext.optional(document, "parameters"), "")
    if "unload_dependents" in parameters:
        request.parameters["unload_dependents"].bool_param = jsontext.boolean(parameters["unload_dependents"], "")
    operations.repository_unload(request)


def system_status(calls: SharedMemoryCalls, name: str) -> list[dict[str, Any]]:
    """Return the system shared memory region of that name, or all of them for "". Raises NotFoundError (404)."""
    return [_described(region) for region in calls.system_status(name)]


def _described(region: Region) -> dict[str, Any]:
    return {"name": region.name, "key": region.key, "offset": region.offset, "byte_size": region.size_bytes}


def system_register(calls: SharedMemoryCalls, name: str, document: Any) -> None:
    """Register a region. The body has `key`, `byte_size` and optionally `offset`, both in bytes. Raises ServerError."""
    calls.require_allowed()
    for field in _REGION_FIELDS:
        if jsontext.optional(document, field) is None:
            raise InvalidRequestError(f"Shared memory register request has no '{field}' field")
    key = jsontext.string(document["key"], "")
    offset = jsontext.unsigned(document.get("offset", 0), "")
    calls.system_register(name, key, offset, jsontext.unsigned(document["byte_size"], ""))


def cuda_status(calls: SharedMemoryCalls, name: str) -> list[dict[str, Any]]:
    """Return no regions, because this server has no CUDA shared memory. Raises NotFoundError (404) for a name."""
    calls.cuda_status(name)
    return []
