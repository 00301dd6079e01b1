# SPDX-License-Identifier: Apache-2.0
"""Operations: Triton's calls other than inference. Requests and answers are protobuf messages.

The gRPC front end passes the messages on (wire/grpc/methods.py); the HTTP one makes the requests from JSON and writes the
answers as JSON (wire/http/extensions.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.protobuf.message import Message
from tritonclient.grpc import service_pb2

from hypersonic import __version__
from hypersonic.server.core.inference.model import Model
from hypersonic.server.core.inference.repository import parse_version
from hypersonic.server.core.inference.shm import SharedMemory, allowed
from hypersonic.server.errors import InvalidRequestError, NotFoundError, UnsupportedError
from hypersonic.server.observe.log import LogControl
from hypersonic.server.observe.tracing.settings import TraceConfig, TraceControl
from hypersonic.server.wire.service import messages, runtime_settings
from hypersonic.server.wire.service.inference import InferenceService

#: the extensions that ServerMetadata lists, in Triton's order: exactly those that work (there is no cuda_shared_memory). The
#: last one tells that the server is not tritonserver
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
    "hypersonic",
)
#: listed too while a model is on an emulated card
_SIMULATED = "hypersonic(simulated_cards)"
_SHARED_MEMORY = "system_shared_memory"


class Operations:
    """The calls, one method each, with the name of the RPC; Triton's documentation explains them. Any thread may call them.

    A method raises ServerError, whose kind decides the status code (server/wire/status_codes.py).
    """

    def __init__(
        self,
        service: InferenceService,
        *,
        server_id: str = "triton",
        regions: SharedMemory | None = None,
        trace: TraceControl | None = None,
        log: LogControl | None = None,
    ) -> None:
        """Create an Operations.

        Args:
            server_id: the name in ServerMetadata.
            regions: None = clients may not use shared memory.
            trace, log: the settings that clients may read and change; log None = LogSettings is refused.
        """
        self._service = service
        self._server_id = server_id
        self._trace = trace or TraceControl(TraceConfig())
        self._log = log
        #: the shared memory of clients, None = they may not use any
        self.regions = regions

    def server_live(self, _request: Message) -> Any:
        """Serve ServerLive: always live."""
        return service_pb2.ServerLiveResponse(live=True)

    def server_ready(self, _request: Message) -> Any:
        """Serve ServerReady."""
        return service_pb2.ServerReadyResponse(ready=self._service.ready)

    def model_ready(self, request: service_pb2.ModelReadyRequest) -> Any:
        """Serve ModelReady. Raises InvalidRequestError for a version that is not a number."""
        return service_pb2.ModelReadyResponse(ready=self._service.model_ready(request.name, request.version))

    def server_metadata(self, _request: Message) -> Any:
        """Serve ServerMetadata."""
        extensions = [name for name in EXTENSIONS if self.regions is not None or name != _SHARED_MEMORY]
        if any(card.simulated for model in self._service.repository for card in model.cards().values()):
            extensions.append(_SIMULATED)
        return service_pb2.ServerMetadataResponse(name=self._server_id, version=__version__, extensions=extensions)

    def model_metadata(self, request: service_pb2.ModelMetadataRequest) -> Any:
        """Serve ModelMetadata. Waits for a model that is being replaced. Raises NotFoundError, UnavailableError."""
        repository = self._service.repository
        model = repository.model(request.name, request.version)
        versions = [model.version] if request.version else repository.loaded_versions(request.name)
        return messages.model_metadata(model, versions)

    def model_config(self, request: service_pb2.ModelConfigRequest) -> Any:
        """Serve ModelConfig. Waits for a model that is being replaced. Raises NotFoundError, UnavailableError."""
        model = self._service.repository.model(request.name, request.version)
        return service_pb2.ModelConfigResponse(config=model.config.message)

    def model_statistics(self, request: service_pb2.ModelStatisticsRequest) -> Any:
        """Serve ModelStatistics. Raises InvalidRequestError, as Triton does, for an unknown model or version."""
        return messages.model_statistics(self._with_statistics(request.name, request.version))

    def _with_statistics(self, name: str, version: str) -> list[Model]:
        """Return the versions of that name and version; "" = all. Models that are out of service still have statistics.

        Raises InvalidRequestError, as Triton does, if there are none.
        """
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
        """Serve RepositoryIndex. Raises UnsupportedError for a repository's name."""
        _only_repository(request.repository_name)
        return messages.repository_index(self._service.repository.index(), ready_only=request.ready)

    def repository_model_load(self, request: service_pb2.RepositoryModelLoadRequest) -> Any:
        """Serve RepositoryModelLoad. Returns when the model is in service. Raises as ModelRepository.load() does."""
        _only_repository(request.repository_name)
        parameters = {key: _parameter(parameter) for key, parameter in request.parameters.items()}
        self._service.repository.load(request.model_name, parameters)
        return service_pb2.RepositoryModelLoadResponse()

    def repository_model_unload(self, request: service_pb2.RepositoryModelUnloadRequest) -> Any:
        """Serve RepositoryModelUnload. Returns at once. Raises UnavailableError without explicit model control."""
        _only_repository(request.repository_name)
        parameters = {key: _parameter(parameter) for key, parameter in request.parameters.items()}
        self._service.repository.unload(request.model_name, unload_dependents=_unload_dependents(parameters))
        return service_pb2.RepositoryModelUnloadResponse()

    def trace_setting(self, request: service_pb2.TraceSettingRequest) -> Any:
        """Serve TraceSetting: change the settings of the server or of a model, and return them all."""
        return runtime_settings.trace_setting(self._trace, self._service.repository.__contains__, request)

    def http_trace_setting(self, model: str, document: Any) -> dict[str, Any]:
        """Serve TraceSetting for JSON.

        Args:
            document: the parsed body, None = show the settings only.
        """
        return runtime_settings.http_trace_setting(self._trace, self._service.repository.__contains__, model, document)

    def log_settings(self, request: service_pb2.LogSettingsRequest) -> Any:
        """Serve LogSettings: change the settings of the log, and return them all."""
        return runtime_settings.log_settings(self._changeable_log(), request)

    def http_log_settings(self, document: Any) -> dict[str, Any]:
        """Serve LogSettings for JSON.

        Args:
            document: the parsed body, None = show the settings only.
        """
        return runtime_settings.http_log_settings(self._changeable_log(), document)

    def _changeable_log(self) -> LogControl:
        if self._log is None:
            raise UnsupportedError("the settings of this server's log cannot be changed by clients")
        return self._log

    def system_shared_memory_status(self, request: service_pb2.SystemSharedMemoryStatusRequest) -> Any:
        """Serve SystemSharedMemoryStatus; name "" = all regions. Raises NotFoundError for an unknown one."""
        return messages.shared_memory_status(allowed(self.regions).status(request.name))

    def system_shared_memory_register(self, request: service_pb2.SystemSharedMemoryRegisterRequest) -> Any:
        """Serve SystemSharedMemoryRegister.

        Raises InvalidRequestError, AlreadyExistsError for a name that is taken, SharedMemoryError for a region that cannot be
        opened, and BudgetError.
        """
        allowed(self.regions).register(request.name, request.key, request.offset, request.byte_size)
        return service_pb2.SystemSharedMemoryRegisterResponse()

    def system_shared_memory_unregister(self, request: service_pb2.SystemSharedMemoryUnregisterRequest) -> Any:
        """Serve SystemSharedMemoryUnregister; name "" = all regions."""
        allowed(self.regions).unregister(request.name)
        return service_pb2.SystemSharedMemoryUnregisterResponse()

    def cuda_shared_memory_status(self, request: service_pb2.CudaSharedMemoryStatusRequest) -> Any:
        """Serve CudaSharedMemoryStatus: there are no regions. Raises NotFoundError for a name."""
        if request.name:
            raise NotFoundError(f"Unable to find cuda shared memory region: '{request.name}'")
        return service_pb2.CudaSharedMemoryStatusResponse()

    def cuda_shared_memory_register(self, request: service_pb2.CudaSharedMemoryRegisterRequest) -> Any:
        """Serve CudaSharedMemoryRegister. Always raises InvalidRequestError, with Triton's text, because there is no GPU."""
        raise InvalidRequestError(f"failed to register CUDA shared memory region: '{request.name}', GPUs not supported")

    def cuda_shared_memory_unregister(self, _request: Message) -> Any:
        """Serve CudaSharedMemoryUnregister: there is nothing to do."""
        return service_pb2.CudaSharedMemoryUnregisterResponse()


def _only_repository(name: str) -> None:
    if name:
        raise UnsupportedError("'repository_name' specification is not supported")


def _parameter(parameter: Any) -> Any:
    which = parameter.WhichOneof("parameter_choice")
    return getattr(parameter, which) if which else None


def _unload_dependents(parameters: Mapping[str, object]) -> bool:
    """Return a parameter of an unload request. Other parameters are ignored, as in Triton. Raises InvalidRequestError."""
    value = parameters.get("unload_dependents", False)
    if not isinstance(value, bool):
        raise InvalidRequestError("invalid value type for 'unload_dependents' parameter, expected bool_param.")
    return value
