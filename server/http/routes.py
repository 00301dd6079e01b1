# SPDX-License-Identifier: Apache-2.0
"""Port 8000: Triton's HTTP paths, their methods and their answers. Errors are {"error": text} with Triton's status codes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from google.protobuf.message import Message
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from tritonclient.grpc import service_pb2

from hypersonic.server.errors import BackendError, ModelLoadError, ServerError
from hypersonic.server.http import body as bodies
from hypersonic.server.http import extensions
from hypersonic.server.http.infer import HttpLimits, InferEndpoint, client_of
from hypersonic.server.http.tensors import to_json as json_bytes
from hypersonic.server.http.tojson import to_json
from hypersonic.server.limits.admission import Held
from hypersonic.server.limits.threads import FairPool
from hypersonic.server.log import LogControl, log_failure
from hypersonic.server.security.asgi import GroupRoute
from hypersonic.server.security.groups import Group
from hypersonic.server.service.inference import InferenceService
from hypersonic.server.service.operations import Operations
from hypersonic.server.service.refusals import Protocol, Refusal
from hypersonic.server.service.runtime_settings import http_log_settings, http_trace_setting
from hypersonic.server.status_codes import http_status
from hypersonic.server.tracing.settings import TraceControl

_LOG = logging.getLogger(__name__)
_OURS = (BackendError, ModelLoadError)
_MOST_ERROR_CHARACTERS = 4096
_OPERATION_THREADS = 4
#: memory of a call in multiples of its body: base64 is copied, decoded as text and as base64, and copied into a message
_JSON_GROWTH = 5
#: threads for calls that wait for a model: they load it, or ask for its metadata while it is being replaced
_PATIENT_THREADS = 32
_VERSION_DIGITS = 18
_MODEL_PATHS = ("/v2/models/{model}", "/v2/models/{model}/versions/{version}")
Endpoint = Callable[[Request], Awaitable[Response]]


class Json(Response):
    """A JSON answer as Triton writes it, with the words NaN and Infinity."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Return the body."""
        return json_bytes(content)


class Empty(Response):
    """An answer without a body."""

    media_type = "application/json"


class Settings(NamedTuple):
    """The settings that can change while the server runs. One that is None gets no route."""

    trace: TraceControl | None = None
    log: LogControl | None = None


def inference_app(
    service: InferenceService,
    operations: Operations,
    limits: HttpLimits | None = None,
    settings: Settings | None = None,
    more: Sequence[GroupRoute] = (),
) -> Starlette:
    """Return the application of port 8000.

    limits: None = the defaults. settings: None = no routes for settings. more: further routes, for example the status page's.
    """
    limits = limits or HttpLimits()
    bounded = _Bodies(service, limits)
    routes = [
        *_health(service),
        *_metadata(operations),
        *_inference(service, operations, limits),
        *_repository(operations, bounded),
        *_shared_memory(operations, bounded),
        *_settings(service, settings or Settings(), bounded),
        *more,
    ]

    async def counted(request: Request, error: Exception) -> Response:
        if isinstance(error, ServerError):
            service.refusals.add(Protocol.HTTP, error)
        elif isinstance(error, HTTPException):
            service.refusals.count(Protocol.HTTP, Refusal.BAD_REQUEST)
        return await refuse(request, error)

    app = Starlette(routes=routes, exception_handlers={ServerError: counted, HTTPException: counted, Exception: counted})
    app.router.redirect_slashes = False  # only Triton's own paths exist
    return app


class _Bodies:
    """Serves calls other than inference: reads their bodies within the same limits as inference, and works on threads."""

    def __init__(self, service: InferenceService, limits: HttpLimits) -> None:
        self._service = service
        self._limits = limits
        self._pool = ThreadPoolExecutor(_OPERATION_THREADS, thread_name_prefix="http-control")
        self._patient = FairPool(_PATIENT_THREADS, "http-patient")

    async def __call__(self, request: Request, work: Callable[[Any], Any], model: str = "") -> Any:
        """Read and parse the body, and return what `work` returns for it. model: the one that the call may wait for, "" = none.

        Raises ServerError.
        """
        limit_bytes = self._limits.max_input_bytes
        size_bytes = bodies.declared_bytes(request.headers, limit_bytes)
        held = Held(self._service.admission, client_of(request), 0)
        try:
            body = await bodies.read_body(request.receive, size_bytes, limit_bytes, held, self._service.clients)
            held.take(_JSON_GROWTH * len(body))
            if model:
                return await asyncio.wrap_future(self._patient.submit(model, lambda: work(extensions.document_of(body))))
            return await asyncio.get_running_loop().run_in_executor(self._pool, lambda: work(extensions.document_of(body)))
        finally:
            held.leave()


def _route(group: Group, path: str, endpoint: Endpoint, *methods: str) -> GroupRoute:
    return GroupRoute(path, endpoint, group, methods or ("GET",))


def model_of(request: Request) -> tuple[str, str]:
    """Return (name, version) from the path; version "" = none. Raises HTTPException (404, as in Triton) for a version that is
    not a number.
    """
    version = request.path_params.get("version", "")
    if version and not (version.isascii() and version.isdigit() and len(version) <= _VERSION_DIGITS):
        raise HTTPException(404)
    return request.path_params["model"], version


def _health(service: InferenceService) -> list[GroupRoute]:
    async def live(_request: Request) -> Response:
        return Response()

    async def ready(_request: Request) -> Response:
        return Response(status_code=200 if service.ready else 400)

    async def model_ready(request: Request) -> Response:
        if service.model_ready(*model_of(request)):
            return Response()
        return Json({"error": "Model version not ready"}, 400)

    models = [_route(Group.HEALTH, f"{path}/ready", model_ready) for path in _MODEL_PATHS]
    return [_route(Group.HEALTH, "/v2/health/live", live), _route(Group.HEALTH, "/v2/health/ready", ready), *models]


def _metadata(operations: Operations) -> list[GroupRoute]:
    """Return the routes for the metadata of the server and of models, and for models' configurations and statistics.

    Their answers are the messages of the gRPC service as JSON.
    """
    pool = FairPool(_PATIENT_THREADS, "http-metadata")

    def shown(make: Callable[[str, str], Message]) -> Endpoint:
        async def endpoint(request: Request) -> Response:
            return Json(to_json(make(*model_of(request) if "model" in request.path_params else ("", ""))))

        return endpoint

    def awaited(make: Callable[[str, str], Message]) -> Endpoint:
        """Return an endpoint that runs `make` on a thread, because it waits for a model that is being replaced."""

        async def endpoint(request: Request) -> Response:
            name, version = model_of(request)
            return Json(to_json(await asyncio.wrap_future(pool.submit(name, lambda: make(name, version)))))

        return endpoint

    def server(_name: str, _version: str) -> Message:
        message: Message = operations.server_metadata(service_pb2.ServerMetadataRequest())
        return message

    def model(name: str, version: str) -> Message:
        message: Message = operations.model_metadata(service_pb2.ModelMetadataRequest(name=name, version=version))
        return message

    def config(name: str, version: str) -> Message:
        message: Message = operations.model_config(service_pb2.ModelConfigRequest(name=name, version=version)).config
        return message

    def statistics(name: str, version: str) -> Message:
        message: Message = operations.model_statistics(service_pb2.ModelStatisticsRequest(name=name, version=version))
        return message

    routes = [
        _route(Group.METADATA, "/v2", shown(server)),
        # before /v2/models/{model}, because the first matching route is used
        _route(Group.STATISTICS, "/v2/models/stats", shown(statistics)),
    ]
    for path in _MODEL_PATHS:
        routes += [
            _route(Group.METADATA, path, awaited(model)),
            _route(Group.MODEL_CONFIG, f"{path}/config", awaited(config)),
            _route(Group.STATISTICS, f"{path}/stats", shown(statistics)),
        ]
    return routes


def _inference(service: InferenceService, operations: Operations, limits: HttpLimits) -> list[GroupRoute]:
    infer = InferEndpoint(service, operations.shared_memory.regions, limits)

    async def endpoint(request: Request) -> Response:
        return await infer(request, *model_of(request))

    return [_route(Group.INFERENCE, f"{path}/infer", endpoint, "POST") for path in _MODEL_PATHS]


def _repository(operations: Operations, bounded: _Bodies) -> list[GroupRoute]:
    async def index(request: Request) -> Response:
        return Json(await bounded(request, lambda document: extensions.repository_index(operations, document)))

    def changing(change: Callable[[Operations, str, str, Any], None]) -> Endpoint:
        async def endpoint(request: Request) -> Response:
            repository = request.path_params.get("repository", "")
            name = request.path_params["model"]
            await bounded(request, lambda document: change(operations, repository, name, document), name)
            return Empty()

        return endpoint

    routes, group = [], Group.MODEL_REPOSITORY
    for path in ("/v2/repository", "/v2/repository/{repository}"):
        routes += [
            _route(group, f"{path}/index", index, "POST"),
            _route(group, f"{path}/models/{{model}}/load", changing(extensions.repository_load), "POST"),
            _route(group, f"{path}/models/{{model}}/unload", changing(extensions.repository_unload), "POST"),
        ]
    return routes


def _shared_memory(operations: Operations, bounded: _Bodies) -> list[GroupRoute]:
    calls = operations.shared_memory

    def showing(status: Callable[[str], Any]) -> Endpoint:
        async def endpoint(request: Request) -> Response:
            return Json(status(request.path_params.get("region", "")))

        return endpoint

    def changing(change: Callable[[str, Any], None]) -> Endpoint:
        async def endpoint(request: Request) -> Response:
            name = request.path_params.get("region", "")
            await bounded(request, lambda document: change(name, document))
            return Empty()

        return endpoint

    routes, group = [], Group.SHARED_MEMORY
    for path in ("sharedmemory", "sharedmemory/region/{region}"):
        routes += [
            _route(group, f"/v2/system{path}/status", showing(lambda name: extensions.system_status(calls, name))),
            _route(
                group,
                f"/v2/system{path}/register",
                changing(lambda name, document: extensions.system_register(calls, name, document)),
                "POST",
            ),
            _route(
                group,
                f"/v2/system{path}/unregister",
                changing(lambda name, _: calls.system_unregister(name)),
                "POST",
            ),
            _route(group, f"/v2/cuda{path}/status", showing(lambda name: extensions.cuda_status(calls, name))),
            _route(group, f"/v2/cuda{path}/register", changing(lambda name, _: calls.cuda_register(name)), "POST"),
            _route(group, f"/v2/cuda{path}/unregister", changing(lambda _name, _document: None), "POST"),
        ]
    return routes


def _settings(service: InferenceService, settings: Settings, bounded: _Bodies) -> list[GroupRoute]:
    def endpoint_of(show_or_set: Callable[[str, Any], Any]) -> Endpoint:
        async def endpoint(request: Request) -> Response:
            name = request.path_params.get("model", "")
            if request.method != "POST":
                return Json(show_or_set(name, None))
            return Json(await bounded(request, lambda document: show_or_set(name, document)))

        return endpoint

    routes = []
    if (trace := settings.trace) is not None:
        known = service.repository.__contains__
        show = endpoint_of(lambda name, document: http_trace_setting(trace, known, name, document))
        routes += [_route(Group.TRACE, f"{path}/trace/setting", show, "GET", "POST") for path in ("/v2", "/v2/models/{model}")]
    if (log := settings.log) is not None:
        show = endpoint_of(lambda _, document: http_log_settings(log, document))
        routes.append(_route(Group.LOGGING, "/v2/logging", show, "GET", "POST"))
    return routes


async def refuse(request: Request, error: Exception) -> Response:
    """Return the answer to an error, and log an error of the server or of a model."""
    if isinstance(error, ServerError):
        if isinstance(error, _OURS):
            error.model_name = error.model_name or str(request.path_params.get("model", ""))
            log_failure(_LOG, error, client_of(request))
        # the rest of a body that was too slow is not waited for
        headers = {"connection": "close"} if isinstance(error, bodies.TooSlowError) else None
        return Json({"error": error.text[:_MOST_ERROR_CHARACTERS]}, http_status(error), headers)
    code = error.status_code if isinstance(error, HTTPException) else 500
    return Json({"error": error.detail if isinstance(error, HTTPException) else "internal error"}, code)
