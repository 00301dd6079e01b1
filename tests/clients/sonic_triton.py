# SPDX-License-Identifier: Apache-2.0
"""The calls of CMSSW's HeterogeneousCore/SonicTriton, in its order: TritonService at start, then a TritonClient per module.

Written from the description of its calls. Like its C++ client, it calls the protocol's generated stubs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing.shared_memory import SharedMemory
from typing import Any, NamedTuple
from uuid import uuid4

import grpc
import numpy as np
from numpy.typing import NDArray
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import triton_to_np_dtype

Array = NDArray[Any]
Arrays = Mapping[str, Array]
#: as its C++ client library sets them
_CHANNEL = (
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    ("grpc.keepalive_time_ms", 2**31 - 1),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.keepalive_permit_without_calls", 0),
    ("grpc.http2.max_pings_without_data", 2),
)


class ProductError(RuntimeError):
    """The event fails: what the module was told."""


class Tensor(NamedTuple):
    """shape: of one entry, without the batch's dimension."""

    datatype: str
    shape: tuple[int, ...]


class Status(NamedTuple):
    """A model's statistics on one server; their differences over an event are what `verbose` prints. Times: ns."""

    inferences: int
    executions: int
    successes: int
    failures: int
    total_ns: int
    queue_ns: int
    compute_ns: int

    def since(self, before: Status) -> Status:
        return Status(*(b - a for a, b in zip(before, self, strict=True)))


def status(stub: Any, model: str, version: str = "") -> Status:
    answer = stub.ModelStatistics(service_pb2.ModelStatisticsRequest(name=model, version=version))
    (statistics,) = answer.model_stats
    spent = statistics.inference_stats
    compute_ns = spent.compute_input.ns + spent.compute_infer.ns + spent.compute_output.ns
    counts = (statistics.inference_count, statistics.execution_count, spent.success.count, spent.fail.count)
    return Status(*counts, spent.success.ns, spent.queue.ns, compute_ns)


class Service:
    """TritonService: the servers that told their models when the job began."""

    def __init__(self, addresses: Mapping[str, str], *, verbose: bool = False) -> None:
        self._open = ExitStack()
        self.stubs: dict[str, Any] = {}
        self.models: dict[str, list[str]] = {}
        self.skipped: dict[str, str] = {}
        for name, address in addresses.items():
            channel = self._open.enter_context(grpc.insecure_channel(address, _CHANNEL))
            stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
            try:
                if verbose:
                    assert stub.ServerMetadata(service_pb2.ServerMetadataRequest()).name == "triton"
                index = stub.RepositoryIndex(service_pb2.RepositoryIndexRequest())
            except grpc.RpcError as error:
                self.skipped[name] = str(error.details())
                continue
            self.stubs[name] = stub
            self.models[name] = [entry.name for entry in index.models]

    def __enter__(self) -> Service:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def server_of(self, model: str, preferred: str = "") -> str:
        """The preferred server if it has the model, else the first that has it."""
        having = [name for name in self.stubs if model in self.models[name]]
        if not having:
            raise ProductError(f"no server has {model}")
        return preferred if preferred in having else having[0]

    def best_server(self, model: str, without: Sequence[str] = ()) -> str:
        """Of the live and ready ones: fewest failures, then shortest mean time in the queue."""
        places: dict[str, tuple[int, float]] = {}
        for name, stub in self.stubs.items():
            if name in without or model not in self.models[name]:
                continue
            with suppress(grpc.RpcError):  # down, or the model is in its index and not loaded
                live = stub.ServerLive(service_pb2.ServerLiveRequest()).live
                if live and stub.ServerReady(service_pb2.ServerReadyRequest()).ready:
                    seen = status(stub, model)
                    places[name] = (seen.failures, seen.queue_ns / max(1, seen.successes))
        if not places:
            raise ProductError(f"no server left for {model}")
        return min(places, key=places.__getitem__)

    def load(self, name: str, model: str) -> None:
        """As on the fallback server, which starts without models."""
        self.stubs[name].RepositoryModelLoad(service_pb2.RepositoryModelLoadRequest(model_name=model))
        self.models[name] = [*self.models.get(name, ()), model]

    def unload(self, name: str, model: str) -> None:
        self.stubs[name].RepositoryModelUnload(service_pb2.RepositoryModelUnloadRequest(model_name=model))


class Client:
    """TritonClient: one model on one server. compression: of requests; timeout_s: the deadline of each call."""

    def __init__(
        self, stub: Any, model: str, *, timeout_s: float, version: str = "", compression: grpc.Compression | None = None
    ) -> None:
        self.stub, self.model, self.version = stub, model, version
        self._call = {"timeout": timeout_s, "compression": compression}
        self.most = stub.ModelConfig(service_pb2.ModelConfigRequest(name=model, version=version)).config.max_batch_size
        metadata = stub.ModelMetadata(service_pb2.ModelMetadataRequest(name=model, version=version))
        first = 1 if self.most else 0
        self.inputs, self.outputs = (
            {tensor.name: Tensor(tensor.datatype, tuple(tensor.shape)[first:]) for tensor in tensors}
            for tensors in (metadata.inputs, metadata.outputs)
        )

    def status(self) -> Status:
        return status(self.stub, self.model, self.version)

    def request(self, entries: Arrays) -> service_pb2.ModelInferRequest:
        """Raises ProductError for a batch larger than the server takes: it is not even sent."""
        asked = service_pb2.ModelInferRequest(model_name=self.model, model_version=self.version)
        for name, tensor in self.inputs.items():
            array = np.ascontiguousarray(entries[name], triton_to_np_dtype(tensor.datatype))
            if len(array) > self.most:
                raise ProductError(f"batch size {len(array)} is larger than the server's {self.most}")
            asked.inputs.add(name=name, datatype=tensor.datatype, shape=array.shape)
            asked.raw_input_contents.append(array.tobytes())
        for name in self.outputs:
            asked.outputs.add(name=name)
        return asked

    def result(self, answer: service_pb2.ModelInferResponse) -> Arrays:
        """The size of each raw output is checked exactly."""
        arrays: dict[str, Array] = {}
        for output, raw in zip(answer.outputs, answer.raw_output_contents, strict=True):
            if len(raw) != _size_bytes(output):
                raise ProductError(f"output {output.name} has {len(raw)} bytes, its shape is {output.shape}")
            arrays[output.name] = np.frombuffer(raw, triton_to_np_dtype(output.datatype)).reshape(output.shape)
        return arrays

    def sync(self, entries: Arrays) -> Arrays:
        return self.result(self.stub.ModelInfer(self.request(entries), **self._call))

    def asynchronous(self, entries: Arrays) -> Future[Arrays]:
        """The event goes on when gRPC's own thread has the answer."""
        ended: Future[Arrays] = Future()

        def finish(call: Any) -> None:
            try:
                ended.set_result(self.result(call.result()))
            except (grpc.RpcError, ProductError) as error:
                ended.set_exception(error)

        self.stub.ModelInfer.future(self.request(entries), **self._call).add_done_callback(finish)
        return ended

    def several(self, parts: Sequence[Arrays]) -> Sequence[Arrays]:
        """Ragged batching: a request of its own for each entry, all under way at once."""
        return [future.result() for future in [self.asynchronous(part) for part in parts]]

    @contextmanager
    def regions(self, sizes: Mapping[str, int]) -> Iterator[Mapping[str, SharedMemory]]:
        """Shared memory on the server's own host: a region for each tensor, whose name is its key."""
        with ExitStack() as stack:
            regions: dict[str, SharedMemory] = {}
            for tensor, size in sizes.items():
                regions[tensor] = memory = SharedMemory(f"{tensor}_{uuid4().hex}", create=True, size=size)
                stack.callback(memory.unlink)
                stack.callback(memory.close)
                key = f"/{memory.name}"
                self.stub.SystemSharedMemoryRegister(
                    service_pb2.SystemSharedMemoryRegisterRequest(name=key, key=key, offset=0, byte_size=size)
                )
                stack.callback(
                    self.stub.SystemSharedMemoryUnregister, service_pb2.SystemSharedMemoryUnregisterRequest(name=key)
                )
            yield regions

    def by_memory(self, entries: Arrays, regions: Mapping[str, SharedMemory]) -> Arrays:
        """sync(), but neither tensors nor answers go over the wire."""
        asked = self.request(entries)
        asked.ClearField("raw_input_contents")
        for put in asked.inputs:
            data = np.ascontiguousarray(entries[put.name]).tobytes()
            _bytes(regions[put.name])[: len(data)] = data
            _place(put, regions[put.name], len(data))
        for wanted in asked.outputs:
            _place(wanted, regions[wanted.name], regions[wanted.name].size)
        answer = self.stub.ModelInfer(asked, **self._call)
        assert not any(answer.raw_output_contents)
        answer.raw_output_contents[:] = [
            bytes(_bytes(regions[output.name])[: _size_bytes(output)]) for output in answer.outputs
        ]
        return self.result(answer)


def _size_bytes(tensor: Any) -> int:
    itemsize: int = np.dtype(triton_to_np_dtype(tensor.datatype)).itemsize
    return int(np.prod(tensor.shape)) * itemsize


def _bytes(memory: SharedMemory) -> memoryview:
    assert memory.buf is not None
    return memory.buf


def _place(tensor: Any, memory: SharedMemory, size: int) -> None:
    tensor.parameters["shared_memory_region"].string_param = f"/{memory.name}"
    tensor.parameters["shared_memory_byte_size"].int64_param = size


def pseudo_asynchronous(client: Client, events: Sequence[Arrays]) -> Sequence[Arrays]:
    """The default mode: a blocking call on a thread that nothing else waits on."""
    with ThreadPoolExecutor(1) as thread:
        return list(thread.map(client.sync, events))


def retried(attempts: Sequence[Callable[[], Arrays]]) -> Arrays:
    """The chain of retry actions: each is taken when those before failed."""
    failed: list[str] = []
    for attempt in attempts:
        try:
            return attempt()
        except grpc.RpcError as error:
            failed.append(error.code().name)
    raise ProductError(f"every attempt failed: {failed}")
