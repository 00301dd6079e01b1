# SPDX-License-Identifier: Apache-2.0
"""The regions of one server, on a transport whose server answers each call a moment later."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from tritonclient.grpc import service_pb2

from hypersonic.client.codes import Code
from hypersonic.client.errors import CallError
from hypersonic.client.pool.member import Member
from hypersonic.client.servers import Server
from hypersonic.client.shared_memory.place import ServerRegions
from hypersonic.client.shared_memory.region import Region
from hypersonic.client.transport.call import Done, Headers


class SlowServer:
    """A transport to a server with regions. A call that is still running when the transport is closed has no effect there."""

    def __init__(self, delay_s: float) -> None:
        self.delay_s = delay_s
        self.regions: set[str] = set()
        self.closed = False

    def start(self, method: str, request: bytes, timeout_s: float, headers: Headers, done: Done) -> Any:
        threading.Timer(self.delay_s, lambda: done(self.answer(method, request))).start()

    def unary(self, method: str, request: bytes, timeout_s: float, headers: Headers) -> bytes:
        answer = self.answer(method, request)
        assert isinstance(answer, bytes)
        return answer

    def answer(self, method: str, request: bytes) -> bytes | CallError:
        if self.closed:
            return CallError(Code.CANCELLED, "the connection is closed")
        if method == "SystemSharedMemoryRegister":
            self.regions.add(service_pb2.SystemSharedMemoryRegisterRequest.FromString(request).name)
        elif method == "SystemSharedMemoryUnregister":
            self.regions.discard(service_pb2.SystemSharedMemoryUnregisterRequest.FromString(request).name)
        return b""

    def stream(self, timeout_s: float | None, headers: Headers) -> Any:
        raise NotImplementedError

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def region() -> Any:
    region = Region("hypersonic-test-place", 1 << 16)
    yield region
    region.unlink()


def place_of(transport: SlowServer, *, used: bool = True) -> ServerRegions:
    return ServerRegions(Member(Server("localhost:1"), transport), 1.0, lambda _region: used)


@pytest.mark.parametrize("used", [True, False])
def test_a_region_that_is_being_registered_at_the_end_is_unregistered(region: Region, used: bool) -> None:
    transport = SlowServer(0.2)
    place = place_of(transport, used=used)
    assert not place.knows(region)
    place.close()
    transport.close()
    assert transport.regions == set()


def test_a_region_that_is_being_unregistered_at_the_end_is_gone(region: Region) -> None:
    transport = SlowServer(0.0)
    place = place_of(transport)
    known = threading.Event()
    while not place.knows(region):
        known.wait(0.01)
    transport.delay_s = 0.2
    place.forget(region)
    assert transport.regions == {region.name}
    place.close()
    transport.close()
    assert transport.regions == set()


def test_a_call_that_cannot_be_started_does_not_hold_up_the_end(region: Region, monkeypatch: pytest.MonkeyPatch) -> None:
    transport = SlowServer(0.0)

    def refuse(*_: object) -> None:
        raise CallError(Code.UNAVAILABLE, "closed")

    monkeypatch.setattr(transport, "start", refuse)
    place = place_of(transport)
    monkeypatch.setattr("hypersonic.client.shared_memory.place._CLOSE_S", 3600.0)
    assert not place.knows(region)
    place.close()
