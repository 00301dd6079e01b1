# SPDX-License-Identifier: Apache-2.0
"""The RPCs of inference.GRPCInferenceService as grpcio takes them, and the threads each kind runs on.

ModelInfer runs on the threads of call_queue.py (else the server's own pool), streams on theirs, everything else on a few
threads: a thousand waiting inferences leave room for health checks.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import Any

import grpc
from google.protobuf.message import DecodeError, Message
from tritonclient.grpc import service_pb2

from hypersonic.server.errors import BackendError, BudgetError, InvalidRequestError, ServerError
from hypersonic.server.inference.unary import Unary
from hypersonic.server.limits.admission import Admission
from hypersonic.server.limits.message import LIMITS, check_control
from hypersonic.server.limits.threads import FairPool
from hypersonic.server.rpc.call import Context, abort, ending, non_blocking, on_pool
from hypersonic.server.rpc.grpcio.direct_call import Reply
from hypersonic.server.rpc.servicer import Servicer
from hypersonic.server.rpc.stream import Send, stream_infer
from hypersonic.server.service.inference import InferenceService
from hypersonic.server.service.refusals import Protocol, Refusals

SERVICE = "inference.GRPCInferenceService"
#: the one RPC in a hurry
INFER = f"/{SERVICE}/ModelInfer"
#: control calls run at a time; loading a model takes one for as long as it takes
CONTROL_THREADS = 32
#: control calls that may wait for a model: it is loaded, or being replaced
_PATIENT = frozenset({"RepositoryModelLoad", "RepositoryModelUnload", "ModelMetadata", "ModelConfig"})
#: open streams, or refuse one too many: they keep no thread
_STREAM_THREADS = 8
_LOG = logging.getLogger(__name__)
Handlers = Mapping[str, "grpc.RpcMethodHandler[Any, Any]"]


def rpc_handlers(
    servicer: Servicer, service: InferenceService, *, control_threads: int = CONTROL_THREADS, most_streams: int = 1024,
    compress: bool = False,
) -> Handlers:  # fmt: skip
    """RPC -> its handler. Threads of a pool are made when they are needed. compress: gzip for answers of inference."""
    control = ThreadPoolExecutor(control_threads, thread_name_prefix="grpc-control")
    patient = FairPool(control_threads, "grpc-patient")
    return {
        "ModelInfer": grpc.unary_unary_rpc_method_handler(_inferring(servicer.infer, service.refusals, compress=compress)),
        "ModelStreamInfer": grpc.stream_stream_rpc_method_handler(
            _streaming(servicer, service, most_streams, compress=compress)
        ),
        **{
            name: _control(method, request, control, service, patient if name in _PATIENT else None)
            for name, (method, request) in _control_methods(servicer).items()
        },
    }


def control_methods(handlers: Handlers) -> list[str]:
    """The full names of all RPCs but inference."""
    return [f"/{SERVICE}/{name}" for name in handlers if name not in ("ModelInfer", "ModelStreamInfer")]


def generic_handler(handlers: Handlers) -> grpc.GenericRpcHandler:
    """The service as grpc.server's `handlers` takes it."""
    return grpc.method_handlers_generic_handler(SERVICE, dict(handlers))


def _control_methods(servicer: Servicer) -> Mapping[str, tuple[Callable[[Any], Any], Any]]:
    shared = servicer.shared_memory
    return {
        "ServerLive": (servicer.server_live, service_pb2.ServerLiveRequest),
        "ServerReady": (servicer.server_ready, service_pb2.ServerReadyRequest),
        "ModelReady": (servicer.model_ready, service_pb2.ModelReadyRequest),
        "ServerMetadata": (servicer.server_metadata, service_pb2.ServerMetadataRequest),
        "ModelMetadata": (servicer.model_metadata, service_pb2.ModelMetadataRequest),
        "ModelConfig": (servicer.model_config, service_pb2.ModelConfigRequest),
        "ModelStatistics": (servicer.model_statistics, service_pb2.ModelStatisticsRequest),
        "RepositoryIndex": (servicer.repository_index, service_pb2.RepositoryIndexRequest),
        "RepositoryModelLoad": (servicer.repository_load, service_pb2.RepositoryModelLoadRequest),
        "RepositoryModelUnload": (servicer.repository_unload, service_pb2.RepositoryModelUnloadRequest),
        "SystemSharedMemoryStatus": (shared.system_status, service_pb2.SystemSharedMemoryStatusRequest),
        "SystemSharedMemoryRegister": (shared.system_register, service_pb2.SystemSharedMemoryRegisterRequest),
        "SystemSharedMemoryUnregister": (shared.system_unregister, service_pb2.SystemSharedMemoryUnregisterRequest),
        "CudaSharedMemoryStatus": (shared.cuda_status, service_pb2.CudaSharedMemoryStatusRequest),
        "CudaSharedMemoryRegister": (shared.cuda_register, service_pb2.CudaSharedMemoryRegisterRequest),
        "CudaSharedMemoryUnregister": (shared.cuda_unregister, service_pb2.CudaSharedMemoryUnregisterRequest),
        "TraceSetting": (servicer.trace_setting, service_pb2.TraceSettingRequest),
        "LogSettings": (servicer.log_settings, service_pb2.LogSettingsRequest),
    }


def _inferring(
    infer: Callable[[bytes, Context], Unary], refusals: Refusals, *, compress: bool
) -> Callable[[bytes, Context], Any]:
    def handle(data: bytes, context: Context) -> Any:
        if compress:
            context.set_compression(grpc.Compression.Gzip)
        try:
            return answered(context, infer(data, context), refusals)
        except ServerError as error:
            refusals.add(Protocol.GRPC, error)
            abort(context, error)
            raise

    return handle


def answered(context: Context, unary: Unary, refusals: Refusals) -> Any:
    """The answer, or (on a call that allows it) the promise that it comes later. Raises ServerError."""
    if unary.over:
        return unary.take()
    promise = getattr(context, "later", None)
    if promise is None:  # one of grpcio's own threads
        unary.wait()
        return unary.take()
    reply: Reply = promise()

    def send() -> None:
        try:
            answer = unary.take()
        except ServerError as error:
            refusals.add(Protocol.GRPC, error)
            reply.fail(*ending(error, context.peer()))
        except Exception as error:  # noqa: BLE001 - as a handler's fault: it is told to the client
            _LOG.exception("an answer cannot be given")
            reply.fail(grpc.StatusCode.UNKNOWN, f"Exception calling application: {error}")
        else:
            reply.send(answer)

    if unary.later(send):
        return reply
    reply.withdraw()
    return unary.take()


def _streaming(servicer: Servicer, service: InferenceService, most: int, *, compress: bool) -> Any:
    """A stream at work holds two threads; streams are shared as bytes are: by address, then by connection."""
    places = Admission(most, service.peers)
    service.saturation.add("streams", places.budget)

    def handle(requests: Iterator[bytes], context: Context, send: Send) -> None:
        client = context.peer()
        try:
            places.enter(1, client)
        except BudgetError:
            held = places.budget.held(client)[0]
            text = (
                f"the server has {places.requests} of {most} streams open, {held} of them by this client's address, and "
                "one more exceeds its share: close some, or try again later"
            )
            abort(context, BudgetError(text))
        if not context.add_callback(partial(places.leave, 1, client)):
            places.leave(1, client)
        if compress:
            context.set_compression(grpc.Compression.Gzip)
        stream_infer(servicer, service, requests, context, send)

    return non_blocking(on_pool(handle, ThreadPoolExecutor(_STREAM_THREADS, thread_name_prefix="grpc-stream")))


def _control(
    method: Callable[[Any], Any], request: Any, pool: ThreadPoolExecutor, service: InferenceService, patient: FairPool | None
) -> grpc.RpcMethodHandler[Any, Any]:
    """patient: threads for a method that may wait for a model, None where it does not."""

    def handle(data: bytes, context: Context) -> Any:
        try:
            with ExitStack() as held:
                if len(data) > LIMITS.control_bytes:  # the files of a model
                    held.enter_context(service.admitted(len(data), context.peer()))
                asked = _parsed(data, request)
                if patient is not None:
                    return _waited_for(
                        context, patient, partial(method, asked), _model_of(asked), held.pop_all(), service.refusals
                    )
                answer: Message = method(asked)
        except ServerError as error:
            service.refusals.add(Protocol.GRPC, error)
            abort(context, error)
            raise
        return answer.SerializeToString()

    return grpc.unary_unary_rpc_method_handler(on_pool(handle, pool))


def _model_of(asked: Any) -> str:
    """The model that a request names."""
    return getattr(asked, "model_name", "") or getattr(asked, "name", "")


def _waited_for(
    context: Context, patient: FairPool, method: Callable[[], Any], model: str, held: ExitStack, refusals: Refusals
) -> Any:
    """What `method` answers, perhaps later: it may wait for a model. held: closed when it is done. Raises ServerError."""
    unary = Unary(lambda answer: answer.SerializeToString())

    def work() -> None:
        error: ServerError | None = None
        try:
            with held:
                unary.respond(method())
        except ServerError as refused:
            error = refused
        except Exception as fault:  # noqa: BLE001 - the client must not wait for ever
            _LOG.exception("a control call failed")
            error = BackendError(f"the call failed: {type(fault).__name__}")
        unary.end(error)

    patient.submit(model, work)
    return answered(context, unary, refusals)


def _parsed(data: bytes, request: Any) -> Any:
    """Here and not as gRPC's deserializer, which logs a traceback for a client's mistake. Raises InvalidRequestError."""
    check_control(data, carries_files=request is service_pb2.RepositoryModelLoadRequest)
    try:
        return request.FromString(data)
    except DecodeError as error:
        raise InvalidRequestError(f"Unable to parse request: {len(data)} bytes are not a {request.__name__}") from error
