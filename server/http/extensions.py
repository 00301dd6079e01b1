# SPDX-License-Identifier: Apache-2.0
"""Repository control, shared memory, trace and log settings: JSON bodies in Triton's form -> the same calls as gRPC's."""

from __future__ import annotations

import binascii
from typing import Any

from tritonclient.grpc import service_pb2

from hypersonic.server.errors import InvalidRequestError, MalformedJsonError, NotFoundError, UnsupportedError, escaped
from hypersonic.server.http import jsontext
from hypersonic.server.inference.contents import SHM_DISABLED
from hypersonic.server.inference.shm import Region, SharedMemory
from hypersonic.server.log import LogControl
from hypersonic.server.rpc.servicer import Servicer
from hypersonic.server.service import settings
from hypersonic.server.tracing.settings import TraceControl

_REGION_FIELDS = ("key", "byte_size")


def document_of(body: memoryview) -> Any:
    """A control body; an empty one is an empty object."""
    return jsontext.parse(body) if len(body) else {}


def repository_index(servicer: Servicer, document: Any) -> list[dict[str, str]]:
    """Every row as an object without empty members. Triton's HTTP index takes any repository's name, its gRPC one none."""
    ready = jsontext.optional(document, "ready")
    request = service_pb2.RepositoryIndexRequest(ready=False if ready is None else jsontext.boolean(ready, ""))
    rows = servicer.repository_index(request).models
    shown = [{"name": row.name, "version": row.version, "state": row.state, "reason": row.reason} for row in rows]
    return [{key: value for key, value in row.items() if value} for row in shown]


def repository_load(servicer: Servicer, repository: str, model: str, document: Any) -> None:
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
    servicer.repository_load(request)


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


def repository_unload(servicer: Servicer, repository: str, model: str, document: Any) -> None:
    """parameters: unload_dependents."""
    request = service_pb2.RepositoryModelUnloadRequest(repository_name=repository, model_name=model)
    parameters = jsontext.members(jsontext.optional(document, "parameters"), "")
    if "unload_dependents" in parameters:
        request.parameters["unload_dependents"].bool_param = jsontext.boolean(parameters["unload_dependents"], "")
    servicer.repository_unload(request)


def _allowed(regions: SharedMemory | None) -> SharedMemory:
    if regions is None:
        raise UnsupportedError(SHM_DISABLED)
    return regions


def system_status(regions: SharedMemory | None, name: str) -> list[dict[str, Any]]:
    return [_shown(region) for region in _allowed(regions).status(name)]


def _shown(region: Region) -> dict[str, Any]:
    return {"name": region.name, "key": region.key, "offset": region.offset, "byte_size": region.size_bytes}


def system_register(regions: SharedMemory | None, name: str, document: Any) -> None:
    allowed = _allowed(regions)
    for field in _REGION_FIELDS:
        if jsontext.optional(document, field) is None:
            raise InvalidRequestError(f"Shared memory register request has no '{field}' field")
    key = jsontext.string(document["key"], "")
    offset = jsontext.unsigned(document.get("offset", 0), "")
    allowed.register(name, key, offset, jsontext.unsigned(document["byte_size"], ""))


def system_unregister(regions: SharedMemory | None, name: str) -> None:
    _allowed(regions).unregister(name)


def cuda_status(name: str) -> list[dict[str, Any]]:
    """There is no GPU, so there are no regions."""
    if name:
        raise NotFoundError(f"Unable to find cuda shared memory region: '{name}'")
    return []


def cuda_register(name: str) -> None:
    raise InvalidRequestError(f"failed to register CUDA shared memory region: '{name}', GPUs not supported")


def trace_setting(trace: TraceControl, known: settings.Known, model: str, document: Any) -> dict[str, Any]:
    """document: None shows them."""
    return settings.http_trace_setting(trace, known, model, document)


def log_settings(log: LogControl, document: Any) -> dict[str, Any]:
    """document: None shows them."""
    return settings.http_log_settings(log, document)
