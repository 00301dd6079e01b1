# SPDX-License-Identifier: Apache-2.0
"""Applies a security policy before gRPC's handlers.

    call arrives -> the policy checks its headers -> handler, or a refusal that never reads the request

The check is made where gRPC looks up a handler, before a byte of the request is read: a caller without rights cannot make the
server hold its message. Without a policy, gRPC uses the handlers directly.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import grpc

from hypersonic.server.errors import AuthorisationError
from hypersonic.server.rpc.grpcio.core import to_grpc
from hypersonic.server.security.policy import Headers, Policy, authorise_rpc
from hypersonic.server.status_codes import grpc_status

_LOG = logging.getLogger(__name__)


def protect(
    handler: grpc.GenericRpcHandler, policy: Policy, on_refused: Callable[[AuthorisationError], None] = lambda _error: None
) -> grpc.GenericRpcHandler:
    """Return a handler that asks `policy` first, or `handler` itself if the policy never refuses anything.

    on_refused: called with each refusal.
    """
    return _Guard(handler, policy, on_refused) if policy.active else handler


class _Guard(grpc.GenericRpcHandler):
    def __init__(self, inner: grpc.GenericRpcHandler, policy: Policy, on_refused: Callable[[AuthorisationError], None]) -> None:
        self._inner = inner
        self._policy = policy
        self._on_refused = on_refused
        self._pool = ThreadPoolExecutor(2, thread_name_prefix="grpc-refusal")

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any] | None:
        """Return the call's handler, one that refuses the call, or None for an unknown method."""
        handler = self._inner.service(handler_call_details)
        if handler is None:  # gRPC answers UNIMPLEMENTED
            return None
        method = str(handler_call_details.method)
        try:
            authorise_rpc(self._policy, method, cast("Headers", handler_call_details.invocation_metadata or ()))
        except AuthorisationError as error:
            _LOG.debug("refused %s: %s", method, error)
            self._on_refused(error)
            return self._refusal(error)
        return handler

    def _refusal(self, error: AuthorisationError) -> grpc.RpcMethodHandler[Any, Any]:
        """Return a handler that ends the call with `error`: for every kind of RPC, a stream that reads nothing."""
        return grpc.stream_stream_rpc_method_handler(cast("Any", _refuser(error, self._pool)))


def _refuser(error: AuthorisationError, pool: ThreadPoolExecutor) -> Callable[[Any, Any], Any]:
    def refuse(_requests: Any, context: Any) -> Any:
        context.abort(to_grpc(grpc_status(error)), error.text)

    refuse.experimental_thread_pool = pool  # type: ignore[attr-defined]  # grpcio looks for this attribute
    return refuse
