# SPDX-License-Identifier: Apache-2.0
"""grpcio handlers for the methods of wire/grpc/transport.py, and the policy in front of them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias, cast

import grpc

from hypersonic.server.core.inference.unary import Unary
from hypersonic.server.errors import AuthorisationError, ServerError
from hypersonic.server.wire.grpc.failures import details_of, ending, header_text
from hypersonic.server.wire.grpc.grpcio.core import to_grpc
from hypersonic.server.wire.grpc.grpcio.direct_call import DirectCall, Reply
from hypersonic.server.wire.grpc.grpcio.servicer_call import ServicerCall, ServicerStreamCall
from hypersonic.server.wire.grpc.transport import MethodGroup, StreamMethod, UnaryMethod
from hypersonic.server.wire.security.policy import Headers, Policy, authorise_rpc
from hypersonic.server.wire.status_codes import GrpcStatus, grpc_status

_LOG = logging.getLogger(__name__)
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
OnRefused = Callable[[AuthorisationError], None]


class GenericHandler(grpc.GenericRpcHandler):
    """Finds a method's handler by its path, and asks the policy whether the call may use it.

    gRPC looks the handler up before it reads a byte of the request: a caller without rights cannot make the server hold its
    message.
    """

    def __init__(self, handlers: Mapping[str, Handler], policy: Policy, on_refused: OnRefused = lambda _error: None) -> None:
        """Create a GenericHandler.

        Args:
            handlers: path (/package.Service/Method) -> handler.
            on_refused: called with each refusal.
        """
        self._handlers = dict(handlers)
        self._policy = policy
        self._on_refused = on_refused
        self._refusing = ThreadPoolExecutor(2, thread_name_prefix="grpc-refusal")

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Handler | None:
        """Return the handler of the call's method, one that refuses the call, or None for an unknown method."""
        method = str(handler_call_details.method)
        handler = self._handlers.get(method)
        if handler is None or not self._policy.active:  # gRPC answers UNIMPLEMENTED to None
            return handler
        try:
            authorise_rpc(self._policy, method, cast("Headers", handler_call_details.invocation_metadata or ()))
        except AuthorisationError as error:
            _LOG.debug("refused %s: %s", method, error)
            self._on_refused(error)
            return self._refusal(error)
        return handler

    def _refusal(self, error: AuthorisationError) -> Handler:
        """Return a handler that ends the call with `error`: for every kind of RPC, a stream that reads nothing."""

        def refuse(_requests: Any, context: Any) -> Any:
            _abort(context, grpc_status(error), details_of(error))

        return grpc.stream_stream_rpc_method_handler(_on_pool(refuse, self._refusing))


def handlers_of(group: MethodGroup) -> dict[str, Handler]:
    """Return path -> handler for the methods of a group.

    The group gets its own threads, which run the methods that no CallQueue serves. They are started when they are needed.
    """
    pool = ThreadPoolExecutor(group.threads, thread_name_prefix=f"grpc-{group.name}")
    return {
        method.path: _stream(method, pool) if isinstance(method, StreamMethod) else _unary(method, group, pool)
        for method in group.methods
    }


def _on_pool(handle: Any, pool: ThreadPoolExecutor) -> Any:
    """Make grpcio run a handler on `pool`, by an experimental attribute that it looks for."""
    handle.experimental_thread_pool = pool
    return handle


def _non_blocking(handle: Any) -> Any:
    """Make grpcio pass a handler a callback that sends, so that it keeps no thread; an experimental attribute as well."""
    handle.experimental_non_blocking = True
    return handle


def _abort(context: Any, code: GrpcStatus, details: str) -> None:
    """End the call with an error. Raises the exception by which gRPC leaves a handler."""
    context.abort(to_grpc(code), details)


def _unary(method: UnaryMethod, group: MethodGroup, pool: ThreadPoolExecutor) -> Handler:
    handle, compress, on_error = method.handle, method.compress, group.on_error

    def serve(data: bytes, context: Any) -> Any:
        if compress:
            context.set_compression(grpc.Compression.Gzip)
        call = context if isinstance(context, DirectCall) else ServicerCall(context)
        try:
            answer = handle(data, call)
            return _answered(call, answer, on_error) if isinstance(answer, Unary) else answer
        except ServerError as error:
            on_error(error)
            _abort(context, *ending(error, call.client))
            raise

    return grpc.unary_unary_rpc_method_handler(_on_pool(serve, pool))


def _answered(call: DirectCall | ServicerCall, unary: Unary, on_error: Callable[[ServerError], None]) -> Any:
    """Return the answer, or, on a call that allows it, the promise of a later one. Raises ServerError."""
    if unary.over:
        return unary.take()
    if not isinstance(call, DirectCall):  # one of grpcio's own threads
        unary.wait()
        return unary.take()
    reply: Reply = call.later()

    def send() -> None:
        try:
            answer = unary.take()
        except ServerError as error:
            on_error(error)
            code, details = ending(error, call.client)
            reply.fail(to_grpc(code), details)
        except Exception as error:  # noqa: BLE001 - like a handler's exception, it is reported to the client
            _LOG.exception("an answer cannot be given")
            reply.fail(grpc.StatusCode.UNKNOWN, header_text(f"Exception calling application: {error}"))
        else:
            reply.send(answer)

    if unary.later(send):
        return reply
    reply.withdraw()
    return unary.take()


def _stream(method: StreamMethod, pool: ThreadPoolExecutor) -> Handler:
    def serve(requests: Iterator[bytes], context: Any, send: Callable[[bytes | None], object]) -> None:
        if method.compress:
            context.set_compression(grpc.Compression.Gzip)
        call = ServicerStreamCall(requests, context, send)
        try:
            method.handle(call)
        except ServerError as error:
            _abort(context, *ending(error, call.client))

    return grpc.stream_stream_rpc_method_handler(_non_blocking(_on_pool(serve, pool)))
