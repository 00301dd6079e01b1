# SPDX-License-Identifier: Apache-2.0
"""inference.GRPCInferenceService: Triton's RPCs over the service.

ModelInfer takes and gives raw bytes (wire.py); the other RPCs are ordinary protobuf. ModelStreamInfer is in stream.py; which
handler runs on which threads, in grpcio/handlers.py.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

from google.protobuf.message import Message
from tritonclient.grpc import service_pb2

from hypersonic import __version__
from hypersonic.server.errors import InvalidRequestError, ReplacingError, ServerError, UnsupportedError
from hypersonic.server.inference.contents import to_infer_request
from hypersonic.server.inference.headers import forward_headers
from hypersonic.server.inference.model import Model
from hypersonic.server.inference.repository import parse_version
from hypersonic.server.inference.request import InferRequest
from hypersonic.server.inference.shm import HeldRegions, SharedMemory
from hypersonic.server.inference.unary import Unary
from hypersonic.server.limits.admission import Held
from hypersonic.server.limits.message import LIMITS, Limits
from hypersonic.server.limits.threads import Shares
from hypersonic.server.log import LogControl
from hypersonic.server.repository.control_mode import unload_dependents
from hypersonic.server.rpc.call import Context, GrpcCall, admit
from hypersonic.server.rpc.frame import GrpcFrame
from hypersonic.server.rpc.shm import SharedMemoryRpcs
from hypersonic.server.rpc.wire import split
from hypersonic.server.service import messages, settings
from hypersonic.server.service.inference import Asked, InferenceService
from hypersonic.server.tracing.settings import TraceConfig, TraceControl

#: what ServerMetadata advertises, in Triton's order: exactly what works (there is no cuda_shared_memory)
EXTENSIONS = (
    "classification",
    "sequence",
    "model_repository",
    "model_repository(unload_dependents)",
    "schedule_policy",
    "model_configuration",
    "system_shared_memory",
    "binary_tensor_data",
    "parameters",
    "statistics",
    "trace",
    "logging",
)
_SHARED_MEMORY = "system_shared_memory"


class Servicer:
    """The RPCs. ModelInfer is infer(): request bytes in, response bytes out."""

    def __init__(
        self,
        service: InferenceService,
        *,
        server_id: str = "triton",
        regions: SharedMemory | None = None,
        trace: TraceControl | None = None,
        log: LogControl | None = None,
        header_pattern: str = "",
        threads: int = 256,
        limits: Limits = LIMITS,
    ) -> None:
        """header_pattern: a regular expression; metadata whose key has it become request parameters.

        threads: that may wait for models at a time. limits: of one inference request.
        """
        self._service = service
        self._shares = Shares(threads)
        self._trace = trace or TraceControl(TraceConfig())
        self._log = log
        self._pattern = re.compile(header_pattern, re.IGNORECASE) if header_pattern else None
        self._server_id = server_id
        self.regions, self.limits = regions, limits
        self.shared_memory = SharedMemoryRpcs(regions)
        self._frames: WeakKeyDictionary[Model, GrpcFrame] = WeakKeyDictionary()

    def regions_of(self, held: Held) -> HeldRegions | None:
        """Clients' shared memory as one request sees it, None where it is not allowed."""
        return HeldRegions(self.regions, held) if self.regions is not None else None

    def request(self, message: Any, raw: Sequence[memoryview], held: Held, call: GrpcCall) -> InferRequest:
        """A parsed ModelInferRequest, with what the call's headers say. Raises InvalidRequestError, UnsupportedError."""
        request = to_infer_request(message, raw, self.regions_of(held))
        if self._pattern is None:
            return request
        return request._replace(parameters={**forward_headers(call.headers, self._pattern), **request.parameters})

    def frame(self, model: Model) -> GrpcFrame:
        """The model's frame, made once."""
        frame = self._frames.get(model)
        if frame is None:
            frame = self._frames[model] = GrpcFrame(model)
        return frame

    def infer(self, data: bytes, context: Context) -> Unary:
        """A serialized ModelInferRequest -> a serialized ModelInferResponse, perhaps later. Raises ServerError."""
        arrived_ns = time.monotonic_ns()
        call = GrpcCall(context)
        held = admit(self._service.admission, call, len(data))
        message, raw = split(data, held.take, self.limits)

        def finish(answer: bytes) -> bytes:
            held.hold(len(answer))
            return answer

        unary = Unary(finish)
        unary.request_id, unary.model_name = message.id, message.model_name
        try:
            model = self._model(message.model_name, message.model_version)
            request = self.request(message, raw, held, call)
            self._service.begin(
                Asked(message.model_name, model, message.model_version, request, self.frame, call, arrived_ns, unary),
                self._shares,
            )
        except ServerError as error:
            raise unary.named(error)  # noqa: B904 - the same
        return unary

    def _model(self, name: str, version: str) -> Model | None:
        """None for one that is being replaced: it is waited for in its turn."""
        try:
            return self._service.repository.model(name, version, wait_s=0.0)
        except ReplacingError:
            return None

    def server_live(self, _request: Message) -> Any:
        return service_pb2.ServerLiveResponse(live=True)

    def server_ready(self, _request: Message) -> Any:
        return service_pb2.ServerReadyResponse(ready=self._service.ready)

    def model_ready(self, request: service_pb2.ModelReadyRequest) -> Any:
        return service_pb2.ModelReadyResponse(ready=self._service.model_ready(request.name, request.version))

    def server_metadata(self, _request: Message) -> Any:
        extensions = [name for name in EXTENSIONS if self.regions is not None or name != _SHARED_MEMORY]
        return service_pb2.ServerMetadataResponse(name=self._server_id, version=__version__, extensions=extensions)

    def model_metadata(self, request: service_pb2.ModelMetadataRequest) -> Any:
        repository = self._service.repository
        model = repository.model(request.name, request.version)
        versions = [model.version] if request.version else repository.loaded_versions(request.name)
        return messages.model_metadata(model, versions)

    def model_config(self, request: service_pb2.ModelConfigRequest) -> Any:
        model = self._service.repository.model(request.name, request.version)
        return service_pb2.ModelConfigResponse(config=model.config.message)

    def model_statistics(self, request: service_pb2.ModelStatisticsRequest) -> Any:
        return messages.model_statistics(self._with_statistics(request.name, request.version))

    def _with_statistics(self, name: str, version: str) -> list[Model]:
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
        _only_repository(request.repository_name)
        return messages.repository_index(self._service.repository.index(), ready_only=request.ready)

    def repository_load(self, request: service_pb2.RepositoryModelLoadRequest) -> Any:
        _only_repository(request.repository_name)
        parameters = {key: _parameter(parameter) for key, parameter in request.parameters.items()}
        self._service.repository.load(request.model_name, parameters)
        return service_pb2.RepositoryModelLoadResponse()

    def repository_unload(self, request: service_pb2.RepositoryModelUnloadRequest) -> Any:
        _only_repository(request.repository_name)
        parameters = {key: _parameter(parameter) for key, parameter in request.parameters.items()}
        self._service.repository.unload(request.model_name, unload_dependents=unload_dependents(parameters))
        return service_pb2.RepositoryModelUnloadResponse()

    def trace_setting(self, request: service_pb2.TraceSettingRequest) -> Any:
        return settings.trace_setting(self._trace, self._service.repository.__contains__, request)

    def log_settings(self, request: service_pb2.LogSettingsRequest) -> Any:
        if self._log is None:
            raise UnsupportedError("this server's log is not its own to set")
        return settings.log_settings(self._log, request)


def _only_repository(name: str) -> None:
    if name:
        raise UnsupportedError("'repository_name' specification is not supported")


def _parameter(parameter: Any) -> Any:
    which = parameter.WhichOneof("parameter_choice")
    return getattr(parameter, which) if which else None
