# SPDX-License-Identifier: Apache-2.0
"""The RPCs of inference.GRPCInferenceService as method groups for a transport, and the threads each group runs on.

Inferences, streams and all other calls have separate threads, so that a thousand waiting inferences do not delay health checks.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

from google.protobuf.message import DecodeError, Message
from tritonclient.grpc import service_pb2

from hypersonic.server.core.inference.unary import Unary
from hypersonic.server.errors import BackendError, BudgetError, InvalidRequestError, ServerError
from hypersonic.server.limits.admission import Admission
from hypersonic.server.limits.message import LIMITS, check_operation
from hypersonic.server.limits.threads import RESERVE, FairPool
from hypersonic.server.statistics.refusals import Protocol
from hypersonic.server.wire.grpc.servicer import Servicer
from hypersonic.server.wire.grpc.stream import open_stream
from hypersonic.server.wire.grpc.transport import (
    MethodGroup,
    RpcCall,
    StreamCall,
    StreamHandler,
    StreamMethod,
    UnaryHandler,
    UnaryMethod,
)
from hypersonic.server.wire.service.inference import InferenceService
from hypersonic.server.wire.service.operations import Operations

SERVICE = "inference.GRPCInferenceService"
#: calls other than inference that run at one time; loading a model occupies a thread until the model is loaded
_OPERATION_THREADS = 32
#: calls that may have to wait for a model that is being loaded or replaced
_PATIENT = frozenset({"RepositoryModelLoad", "RepositoryModelUnload", "ModelMetadata", "ModelConfig"})
#: threads that open streams or refuse them; an open stream keeps no thread
_STREAM_THREADS = 8
_MOST_STREAMS = 1024
_LOG = logging.getLogger(__name__)


def rpc_methods(
    service: InferenceService, servicer: Servicer, operations: Operations, *, threads: int = 256, compress: bool = False
) -> tuple[MethodGroup, ...]:
    """Return the groups of the service's methods: inference, streams, and all others.

    Args:
        threads: for inference; at least 1 is used.
        compress: compress the answers of inference with gzip.
    """
    threads = max(1, threads)
    on_error = partial(service.refusals.add, Protocol.GRPC)
    infer = UnaryMethod(f"/{SERVICE}/ModelInfer", servicer.infer, compress)
    stream = StreamMethod(f"/{SERVICE}/ModelStreamInfer", _streaming(servicer, service), compress)
    others = tuple(_operation_methods(operations, service))
    return (
        MethodGroup("infer", (infer,), threads + RESERVE, threads, "calls", on_error),
        MethodGroup("stream", (stream,), _STREAM_THREADS, _STREAM_THREADS),
        MethodGroup("control", others, _OPERATION_THREADS, _OPERATION_THREADS, "control_calls", on_error),
    )


def _streaming(servicer: Servicer, service: InferenceService) -> StreamHandler:
    """Return the handler of ModelStreamInfer.

    An active stream holds two threads. The number of streams is bounded and shared as bytes are: among addresses, then
    among connections.
    """
    places = Admission(_MOST_STREAMS, service.peers)
    service.saturation.add("streams", places.budget)

    def handle(call: StreamCall) -> None:
        client = call.client
        try:
            places.enter(1, client)
        except BudgetError as error:
            held = places.budget.held(client)[0]
            raise BudgetError(
                f"the server has {places.requests} of {_MOST_STREAMS} streams open, {held} of them by this client's address, "
                "and one more exceeds its share: close some, or try again later"
            ) from error
        if not call.add_callback(partial(places.leave, 1, client)):
            places.leave(1, client)
        open_stream(servicer, service, call)

    return handle


def _operations(operations: Operations) -> Iterator[tuple[str, Callable[[Any], Any], Any]]:
    """Yield (name, the method of `operations` that serves it, the type of its request) for each RPC that it has."""
    for rpc in service_pb2.DESCRIPTOR.services_by_name["GRPCInferenceService"].methods:
        method = getattr(operations, re.sub(r"\B([A-Z])", r"_\1", rpc.name).lower(), None)
        if method is not None:
            yield rpc.name, method, getattr(service_pb2, rpc.input_type.name)


def _operation_methods(operations: Operations, service: InferenceService) -> Iterable[UnaryMethod]:
    patient = FairPool(_OPERATION_THREADS, "grpc-patient")
    for name, method, request_type in _operations(operations):
        yield UnaryMethod(
            f"/{SERVICE}/{name}", _operation(method, request_type, service, patient if name in _PATIENT else None)
        )


def _operation(
    method: Callable[[Any], Any], request_type: Any, service: InferenceService, patient: FairPool | None
) -> UnaryHandler:
    """Return the handler of one RPC.

    Args:
        patient: threads for a method that may wait for a model; None for one that never waits.
    """

    def handle(data: bytes, call: RpcCall) -> bytes | Unary:
        with ExitStack() as held:
            if len(data) > LIMITS.operation_bytes:  # the files of a model
                held.enter_context(service.admitted(len(data), call.client))
            request = _parsed(data, request_type)
            if patient is not None:
                return _submitted(patient, partial(method, request), _model_of(request), held.pop_all())
            answer: Message = method(request)
        return answer.SerializeToString()

    return handle


def _model_of(request: Any) -> str:
    """Return the name of the model that a request is about, "" = none."""
    return getattr(request, "model_name", "") or getattr(request, "name", "")


def _submitted(patient: FairPool, method: Callable[[], Any], model: str, held: ExitStack) -> Unary:
    """Run `method` on the threads of `patient` and return its future answer.

    Args:
        held: closed when the method has returned.
    """
    unary = Unary(lambda answer: answer.SerializeToString())

    def work() -> None:
        error: ServerError | None = None
        try:
            with held:
                unary.respond(method())
        except ServerError as refusal:
            error = refusal
        except Exception as fault:  # noqa: BLE001 - the client must not wait forever
            _LOG.exception("a control call failed")
            error = BackendError(f"the call failed: {type(fault).__name__}")
        unary.end(error)

    patient.submit(model, work)
    return unary


def _parsed(data: bytes, request_type: Any) -> Any:
    """Parse a request. Raises InvalidRequestError for bytes that are not one, or that exceed the limits."""
    check_operation(data, carries_files=request_type is service_pb2.RepositoryModelLoadRequest)
    try:
        return request_type.FromString(data)
    except DecodeError as error:
        raise InvalidRequestError(f"Unable to parse request: {len(data)} bytes are not a {request_type.__name__}") from error
