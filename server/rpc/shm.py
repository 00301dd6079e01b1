# SPDX-License-Identifier: Apache-2.0
"""The shared memory RPCs: system regions where they are allowed, and what a server without GPUs says of CUDA's."""

from __future__ import annotations

from typing import Any

from google.protobuf.message import Message
from tritonclient.grpc import service_pb2

from hypersonic.server.errors import InvalidRequestError, NotFoundError, UnsupportedError
from hypersonic.server.inference.contents import SHM_DISABLED
from hypersonic.server.inference.shm import SharedMemory


class SharedMemoryRpcs:
    """regions: None where clients' shared memory is not allowed."""

    def __init__(self, regions: SharedMemory | None) -> None:
        self._regions = regions

    def _allowed(self) -> SharedMemory:
        if self._regions is None:
            raise UnsupportedError(SHM_DISABLED)
        return self._regions

    def system_status(self, request: service_pb2.SystemSharedMemoryStatusRequest) -> Any:
        response = service_pb2.SystemSharedMemoryStatusResponse()
        for region in self._allowed().status(request.name):
            into = response.regions[region.name]
            into.name, into.key, into.offset, into.byte_size = region
        return response

    def system_register(self, request: service_pb2.SystemSharedMemoryRegisterRequest) -> Any:
        self._allowed().register(request.name, request.key, request.offset, request.byte_size)
        return service_pb2.SystemSharedMemoryRegisterResponse()

    def system_unregister(self, request: service_pb2.SystemSharedMemoryUnregisterRequest) -> Any:
        self._allowed().unregister(request.name)
        return service_pb2.SystemSharedMemoryUnregisterResponse()

    def cuda_status(self, request: service_pb2.CudaSharedMemoryStatusRequest) -> Any:
        if request.name:
            raise NotFoundError(f"Unable to find cuda shared memory region: '{request.name}'")
        return service_pb2.CudaSharedMemoryStatusResponse()

    def cuda_register(self, request: service_pb2.CudaSharedMemoryRegisterRequest) -> Any:
        raise InvalidRequestError(f"failed to register CUDA shared memory region: '{request.name}', GPUs not supported")

    def cuda_unregister(self, _request: Message) -> Any:
        return service_pb2.CudaSharedMemoryUnregisterResponse()
