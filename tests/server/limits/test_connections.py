# SPDX-License-Identifier: Apache-2.0
"""Connections of this process are counted and shared, whoever accepted them."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from hypersonic.server.limits.connections import ConnectionLimiter
from hypersonic.server.limits.peers import Peers
from hypersonic.server.limits.saturation import Saturation


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0), backlog=200) as listener:
        yield listener


def connected(stack: ExitStack, listener: socket.socket, source: str) -> socket.socket:
    """Return the client's end of a new connection whose port is not the listener's, as both ends are in this process."""
    client = socket.create_connection(listener.getsockname(), source_address=(source, 0))
    if client.getsockname()[1] == listener.getsockname()[1]:  # free on this address, and so may be given out
        with client, listener.accept()[0]:
            return connected(stack, listener, source)
    stack.enter_context(client)
    stack.enter_context(listener.accept()[0])
    client.settimeout(0.2)
    return client


def is_open(client: socket.socket) -> bool:
    try:
        return client.recv(1) != b""
    except TimeoutError:
        return True


def limiter(listener: socket.socket, limit: int, peers: Peers | None = None) -> tuple[ConnectionLimiter, Saturation]:
    budgets = Saturation()
    port = listener.getsockname()[1]
    return ConnectionLimiter(lambda: {"grpc": port}, peers or Peers(), budgets, {"grpc": limit}, 100_000), budgets


def test_connections_of_one_address_beyond_its_share_are_shut_down_and_others_stay(listener: socket.socket) -> None:
    guard, budgets = limiter(listener, 16)
    with ExitStack() as stack:
        hog = [connected(stack, listener, "127.0.0.2") for _ in range(14)]
        guard.enforce()
        hog += [connected(stack, listener, "127.0.0.2") for _ in range(3)]
        honest = connected(stack, listener, "127.0.0.3")
        guard.enforce()
        assert [is_open(client) for client in hog] == [True] * 14 + [False] * 3
        assert is_open(honest)
        assert budgets.budgets["grpc_connections"].refusals == 3
        assert budgets.budgets["grpc_connections"].used == budgets.budgets["connections"].used == 15
    guard.enforce()
    assert budgets.budgets["connections"].used == 0


def test_connections_of_a_trusted_proxy_count_one_by_one(listener: socket.socket) -> None:
    guard, _ = limiter(listener, 16, Peers(["127.0.0.0/8"]))
    with ExitStack() as stack:
        clients = [connected(stack, listener, "127.0.0.2") for _ in range(16)]
        guard.enforce()
        assert all(map(is_open, clients))
