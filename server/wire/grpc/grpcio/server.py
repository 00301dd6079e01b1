# SPDX-License-Identifier: Apache-2.0
"""GrpcioServer: the transport of wire/grpc/transport.py, made of a grpc.Server and its CallQueues."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import grpc

from hypersonic.server.errors import AuthorisationError
from hypersonic.server.limits.budget import Budget
from hypersonic.server.limits.peers import Peers
from hypersonic.server.limits.slow_clients import SlowClients
from hypersonic.server.wire.grpc.grpcio.call_queue import CallQueue, take_calls
from hypersonic.server.wire.grpc.grpcio.handlers import GenericHandler, handlers_of
from hypersonic.server.wire.grpc.transport import MethodGroup
from hypersonic.server.wire.security.policy import Policy


class GrpcioServer:
    """Serves method groups on gRPC ports. Order of calls: constructor, bind(), start(), stop(), close().

    CallQueues serve the unary calls of groups that have a budget, unless grpcio lacks what they need.
    """

    def __init__(
        self,
        groups: Sequence[MethodGroup],
        policy: Policy,
        on_refused: Callable[[AuthorisationError], None],
        clients: SlowClients,
        peers: Peers,
        channel_options: Sequence[tuple[str, int]] = (),
    ) -> None:
        """Create a GrpcioServer.

        Args:
            on_refused: called with each refusal of the policy.
            channel_options: the `options` of grpc.server.
        """
        handlers = {path: handler for group in groups for path, handler in handlers_of(group).items()}
        guarded = GenericHandler(handlers, policy, on_refused)
        # every handler has a pool of its own, so this one is never used
        self._server = grpc.server(ThreadPoolExecutor(1), handlers=[guarded], options=list(channel_options))
        self._queues: dict[str, CallQueue] = {}
        budgets: dict[str, Budget] = {}
        for group in groups:
            if not group.budget:
                continue
            if (queue := take_calls(self._server, group.unary_paths, guarded, group.calls, clients, peers)) is not None:
                self._queues[group.name] = queue
                budgets[group.budget] = queue.unread
        #: budget name of a group -> the budget of its calls that wait to be read
        self.budgets: Mapping[str, Budget] = budgets

    def bind(self, address: str, credentials: grpc.ServerCredentials | None) -> int:
        """Listen on `address` (`host:port`) and return the port.

        Args:
            credentials: None = not encrypted.

        Raises:
            RuntimeError: Whose text does not give the reason.
        """
        if credentials:
            return int(self._server.add_secure_port(address, credentials))
        return int(self._server.add_insecure_port(address))

    def start(self) -> None:
        """Begin to take calls."""
        self._server.start()
        for queue in self._queues.values():
            queue.start()

    def loops(self) -> Iterator[tuple[str, Callable[[], bool]]]:
        """Yield the name of each CallQueue, and its comes_round()."""
        for name, queue in self._queues.items():
            yield f"gRPC's queue of calls '{name}'", queue.comes_round

    def stop(self, grace_s: float) -> threading.Event:
        """Stop taking calls. Calls that are under way may end within `grace_s` seconds.

        Returns an event that is set when all calls have ended.
        """
        stopped: threading.Event = self._server.stop(grace_s)
        return stopped

    def close(self) -> None:
        """End the threads of the CallQueues, after stop()."""
        for queue in self._queues.values():
            queue.close()
