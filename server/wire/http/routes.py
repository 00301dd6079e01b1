# SPDX-License-Identifier: Apache-2.0
"""Port 8000: Triton's HTTP paths, their methods and their answers. Errors are {"error": text} with Triton's status codes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from hypersonic.server.errors import BackendError, ModelLoadError, ServerError
from hypersonic.server.limits.admission import Held
from hypersonic.server.limits.threads import FairPool
from hypersonic.server.observe.log import log_failure
from hypersonic.server.statistics.refusals import Protocol, Refusal
from hypersonic.server.wire.http import body as bodies
from hypersonic.server.wire.http.extensions import MODEL_PATHS, Call, calls, document_of
from hypersonic.server.wire.http.infer import HttpLimits, InferEndpoint, client_of
from hypersonic.server.wire.http.tensors import to_json as json_bytes
from hypersonic.server.wire.security.asgi import GroupRoute
from hypersonic.server.wire.security.groups import Group
from hypersonic.server.wire.service.inference import InferenceService
from hypersonic.server.wire.service.operations import Operations
from hypersonic.server.wire.status_codes import http_status

_LOG = logging.getLogger(__name__)
_OURS = (BackendError, ModelLoadError)
_MOST_ERROR_CHARACTERS = 4096
_OPERATION_THREADS = 4
#: memory of a call in multiples of its body: base64 is copied, decoded as text and as base64, and copied into a message
_JSON_GROWTH = 5
#: threads for calls that wait for a model: they load it, or ask for its metadata while it is being replaced
_PATIENT_THREADS = 32
_VERSION_DIGITS = 18


class Json(Response):
    """A JSON answer as Triton writes it, with the words NaN and Infinity. None gives an answer without a body."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Return the body."""
        return b"" if content is None else json_bytes(content)


def inference_app(
    service: InferenceService,
    operations: Operations,
    limits: HttpLimits | None = None,
    more: Sequence[GroupRoute] = (),
) -> Starlette:
    """Return the application of port 8000.

    Args:
        limits: None = the defaults.
        more: further routes, for example the status page's.
    """
    limits = limits or HttpLimits()
    served = _Calls(service, limits)
    routes = [
        *_health(service),
        *(GroupRoute(call.path, served.endpoint(call), call.group, call.methods) for call in calls(operations)),
        *_inference(service, operations, limits),
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


class _Calls:
    """Serves calls other than inference and health.

    Their bodies are read within the same limits as those of inference. Calls that have a body or wait for a model run on
    threads.
    """

    def __init__(self, service: InferenceService, limits: HttpLimits) -> None:
        self._service = service
        self._limits = limits
        self._pool = ThreadPoolExecutor(_OPERATION_THREADS, thread_name_prefix="http-control")
        #: threads for metadata, and for loads, which take longer
        self._patient = {method: FairPool(_PATIENT_THREADS, f"http-patient-{method.lower()}") for method in ("GET", "POST")}

    def endpoint(self, call: Call) -> Any:
        """Return the endpoint of a call."""

        async def serve(request: Request) -> Response:
            model_of(request)
            path = request.path_params
            if request.method == "POST":
                return Json(await self._bounded(request, call))
            if call.waits:
                pool = self._patient["GET"]
                return Json(await asyncio.wrap_future(pool.submit(path["model"], partial(call.serve, path, None))))
            return Json(call.serve(path, None))

        return serve

    async def _bounded(self, request: Request, call: Call) -> Any:
        """Read and parse the body, and return the call's answer to it. Raises ServerError."""
        limit_bytes, path = self._limits.max_input_bytes, request.path_params
        size_bytes = bodies.declared_bytes(request.headers, limit_bytes)
        held = Held(self._service.admission, client_of(request), 0)
        try:
            body = await bodies.read_body(request.receive, size_bytes, limit_bytes, held, self._service.clients)
            held.take(_JSON_GROWTH * len(body))

            def work() -> Any:
                return call.serve(path, document_of(body))

            if call.waits:
                return await asyncio.wrap_future(self._patient["POST"].submit(path["model"], work))
            return await asyncio.get_running_loop().run_in_executor(self._pool, work)
        finally:
            held.leave()


def model_of(request: Request) -> tuple[str, str]:
    """Return (name, version) from the path; "" = none. Raises HTTPException (404, as in Triton) for a version that is not a
    number.
    """
    version = request.path_params.get("version", "")
    if version and not (version.isascii() and version.isdigit() and len(version) <= _VERSION_DIGITS):
        raise HTTPException(404)
    return request.path_params.get("model", ""), version


def _health(service: InferenceService) -> list[GroupRoute]:
    async def live(_request: Request) -> Response:
        return Response()

    async def ready(_request: Request) -> Response:
        return Response(status_code=200 if service.ready else 400)

    async def model_ready(request: Request) -> Response:
        if service.model_ready(*model_of(request)):
            return Response()
        return Json({"error": "Model version not ready"}, 400)

    endpoints = {"/v2/health/live": live, "/v2/health/ready": ready, **{f"{path}/ready": model_ready for path in MODEL_PATHS}}
    return [GroupRoute(path, endpoint, Group.HEALTH) for path, endpoint in endpoints.items()]


def _inference(service: InferenceService, operations: Operations, limits: HttpLimits) -> list[GroupRoute]:
    infer = InferEndpoint(service, operations.regions, limits)

    async def endpoint(request: Request) -> Response:
        return await infer(request, *model_of(request))

    return [GroupRoute(f"{path}/infer", endpoint, Group.INFERENCE, ("POST",)) for path in MODEL_PATHS]


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
