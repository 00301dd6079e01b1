# SPDX-License-Identifier: Apache-2.0
"""HTTP beside gRPC: health and metadata on port 8000, Prometheus' metrics on 8002.

Both ports are one event loop on one thread; what asks a card (metrics) runs beside it.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import uvicorn
from google.protobuf.json_format import MessageToDict
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from tritonclient.grpc import service_pb2

from hypersonic.server.errors import (
    BudgetError,
    NotFoundError,
    ServerError,
    StartError,
    UnavailableError,
    UnsupportedError,
)
from hypersonic.server.metrics import CONTENT_TYPE, Utilization, exposition
from hypersonic.server.security.asgi import Application
from hypersonic.server.service import InferenceService
from hypersonic.server.servicer import Servicer

#: Triton's map of errors to HTTP codes; what is not here is 400
_STATUS: tuple[tuple[type[ServerError], int], ...] = (
    (NotFoundError, 404),
    (UnavailableError, 503),
    (BudgetError, 503),
    (UnsupportedError, 501),
)
Endpoint = Callable[[Request], Awaitable[Response]] | Callable[[Request], Response]


def status_of(error: ServerError) -> int:
    """HTTP's code for an error."""
    return next((code for kind, code in _STATUS if isinstance(error, kind)), 400)


def inference_app(service: InferenceService, servicer: Servicer) -> Starlette:
    """Port 8000: GET /v2, /v2/health/*, /v2/models/M[/versions/V][/ready]. Errors are {"error": text}."""

    async def live(_request: Request) -> Response:
        return Response()

    async def ready(_request: Request) -> Response:
        return Response(status_code=200 if service.ready else 400)

    async def model_ready(request: Request) -> Response:
        if service.model_ready(*_model(request)):
            return Response()
        return JSONResponse({"error": "Model version not ready"}, 400)

    async def server(_request: Request) -> Response:
        return JSONResponse(_json(servicer.server_metadata(service_pb2.ServerMetadataRequest())))

    async def model(request: Request) -> Response:
        name, version = _model(request)
        return JSONResponse(_json(servicer.model_metadata(service_pb2.ModelMetadataRequest(name=name, version=version))))

    paths: dict[str, Endpoint] = {"/v2": server, "/v2/health/live": live, "/v2/health/ready": ready}
    for path in ("/v2/models/{model}", "/v2/models/{model}/versions/{version}"):
        paths |= {path: model, f"{path}/ready": model_ready}
    return Starlette(routes=_routes(paths), exception_handlers={ServerError: _refuse, HTTPException: _refuse})


def metrics_app(service: InferenceService, utilization: Utilization) -> Starlette:
    """Port 8002: GET /metrics."""

    def metrics(_request: Request) -> Response:  # on a thread: cards' registers are read
        return Response(exposition(service, utilization), media_type=CONTENT_TYPE)

    return Starlette(routes=_routes({"/metrics": metrics}), exception_handlers={HTTPException: _refuse})


def _routes(paths: dict[str, Endpoint]) -> list[Route]:
    return [Route(path, endpoint, methods=["GET"]) for path, endpoint in paths.items()]


def _model(request: Request) -> tuple[str, str]:
    return request.path_params["model"], request.path_params.get("version", "")


def _json(message: Any) -> Any:
    """Protobuf -> JSON as Triton writes it: its field names, shapes as numbers."""
    fields = MessageToDict(message, preserving_proto_field_name=True)
    for tensor in (*fields.get("inputs", ()), *fields.get("outputs", ())):
        tensor["shape"] = [int(n) for n in tensor["shape"]]
    return fields


async def _refuse(_request: Request, error: Exception) -> Response:
    if isinstance(error, ServerError):
        return JSONResponse({"error": error.text}, status_of(error))
    code = error.status_code if isinstance(error, HTTPException) else 500
    return JSONResponse({"error": error.detail if isinstance(error, HTTPException) else "internal error"}, code)


#: a bound, listening socket
Listener = socket.socket


class HttpServer:
    """uvicorn on a thread of its own, with sockets that are bound already; signals stay the main thread's."""

    def __init__(self, apps: Sequence[tuple[Application, Listener]], tls: ssl.SSLContext | None = None) -> None:
        """tls: what all of them speak, None = plain HTTP."""
        self._servers = [(_uvicorn(app, tls), listener) for app, listener in apps]
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)

    def start(self) -> None:
        if self._servers:
            self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """Finish answers under way; connections that idle are closed."""
        for server, _ in self._servers:
            server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        await asyncio.gather(*(server.serve(sockets=[listener]) for server, listener in self._servers))


def _uvicorn(app: Application, tls: ssl.SSLContext | None) -> uvicorn.Server:
    config = uvicorn.Config(
        app,
        log_config=None,
        log_level="warning",
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=2,
        ws="none",
        ssl_context_factory=None if tls is None else lambda _config, _default: tls,
    )
    return uvicorn.Server(config)


def listen(address: str, port: int) -> Listener:
    """A listening socket; port 0 picks a free one. Raises StartError when the address cannot be had."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        return socket.create_server((address, port), family=family, backlog=512)
    except OSError as error:
        raise StartError(bind_failure(address, port, os.strerror(error.errno or 0))) from error


def bind_failure(address: str, port: int, reason: str) -> str:
    """One text for all three ports."""
    return (
        f"cannot listen on {address}:{port}: {reason}; stop what listens there, or choose another port with "
        "--grpc-port, --http-port or --metrics-port (0 picks a free one)"
    )
