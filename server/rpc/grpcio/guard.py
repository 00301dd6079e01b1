# SPDX-License-Identifier: Apache-2.0
"""A policy in front of gRPC's handlers.

    call arrives -> its headers are judged -> handler, or a refusal that never reads the request

The judgement falls where gRPC looks a handler up, before a byte of the request is taken: a caller without rights cannot
make the server hold its message. Without a policy nothing stands in between.
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
    """The handler behind the policy; the handler itself when the policy asks nothing."""
    return _Guard(handler, policy, on_refused) if policy.active else handler


class _Guard(grpc.GenericRpcHandler):
    def __init__(self, inner: grpc.GenericRpcHandler, policy: Policy, on_refused: Callable[[AuthorisationError], None]) -> None:
        self._inner = inner
        self._policy = policy
        self._on_refused = on_refused
        self._pool = ThreadPoolExecutor(2, thread_name_prefix="grpc-refusal")

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any] | None:
        handler = self._inner.service(handler_call_details)
        if handler is None:  # not ours: gRPC says UNIMPLEMENTED
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
        """Whatever the RPC is, refusing it is a stream that reads nothing."""
        return grpc.stream_stream_rpc_method_handler(cast("Any", _refuser(error, self._pool)))


def _refuser(error: AuthorisationError, pool: ThreadPoolExecutor) -> Callable[[Any, Any], Any]:
    def refuse(_requests: Any, context: Any) -> Any:
        context.abort(to_grpc(grpc_status(error)), error.text)

    refuse.experimental_thread_pool = pool  # type: ignore[attr-defined]  # grpcio looks for this attribute
    return refuse
