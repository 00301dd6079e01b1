# SPDX-License-Identifier: Apache-2.0
"""A method served from gRPC core's completion queue, over real gRPC: what clients and handlers see is grpcio's own server's."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from hypersonic.server.wire.grpc.grpcio import call_queue
from hypersonic.server.wire.grpc.grpcio.call_queue import CallQueue, take_calls
from tests.faults.raw import RawGrpc
from tests.support.waiting import wait_until

METHOD, OTHER = "/test.Service/Taken", "/test.Service/Left"
WAIT_S = 30
Handle = Callable[[bytes, Any], Any]


@dataclass
class Serving:
    """A server with METHOD on a queue of its own and OTHER left to grpcio."""

    channel: Any
    server: grpc.Server
    queue: CallQueue | None
    headers: list[dict[str, str]] = field(default_factory=list)
    address: tuple[str, int] = ("127.0.0.1", 0)

    def call(self, data: bytes = b"", **keywords: Any) -> Any:
        return self.channel.unary_unary(METHOD)(data, timeout=WAIT_S, **keywords)

    def future(self, data: bytes = b"") -> Any:
        return self.channel.unary_unary(METHOD).future(data, timeout=WAIT_S)

    def refused(self, data: bytes = b"") -> tuple[grpc.StatusCode, str]:
        with pytest.raises(grpc.RpcError) as caught:
            self.call(data)
        return caught.value.code(), caught.value.details() or ""


class Handlers(grpc.GenericRpcHandler):
    """One handler for every method; `None` and streams too."""

    def __init__(self, handler: Any, headers: list[dict[str, str]]) -> None:
        self.handler = handler
        self.headers = headers

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        self.headers.append({str(key): str(value) for key, value in handler_call_details.invocation_metadata or ()})
        return self.handler


@contextmanager
def serving(handle: Handle | None, threads: int = 4, *, streams: bool = False) -> Iterator[Serving]:
    """streams: `handle` is of a method whose request is a stream."""
    kind = grpc.stream_stream_rpc_method_handler if streams else grpc.unary_unary_rpc_method_handler
    headers: list[dict[str, str]] = []
    handlers = Handlers(kind(handle) if handle else None, headers)
    with ExitStack() as closing:
        pool = closing.enter_context(ThreadPoolExecutor(2))
        server = grpc.server(pool, handlers=[handlers])
        queue = take_calls(server, [METHOD], handlers, threads)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        if queue is not None:
            queue.start()
            closing.callback(queue.close)
        closing.callback(lambda: server.stop(0).wait(WAIT_S))
        channel = closing.enter_context(grpc.insecure_channel(f"127.0.0.1:{port}"))
        yield Serving(channel, server, queue, headers, ("127.0.0.1", port))


def echo(data: bytes, _context: Any) -> bytes:
    return b"<" + data + b">"


def test_each_caller_gets_its_own_answer() -> None:
    with serving(echo) as served, ThreadPoolExecutor(16) as clients:
        sent = [b"%d" % n * (1 + n % 7 * 1000) for n in range(300)]
        assert list(clients.map(served.call, sent)) == [echo(data, None) for data in sent]


def test_message_of_megabytes_arrives_whole() -> None:
    data = bytes(range(256)) * 8192  # 2 MiB
    with serving(lambda data, _: data[-70_000:]) as served:
        assert served.call(data) == data[-70_000:]


def test_empty_message_and_empty_answer_are_messages() -> None:
    with serving(lambda data, _: data) as served:
        assert served.call(b"") == b""


def test_other_methods_stay_with_the_server() -> None:
    with serving(echo) as served:
        assert served.channel.unary_unary(OTHER)(b"x", timeout=WAIT_S) == b"<x>"


def test_blocked_handlers_do_not_hold_up_others() -> None:
    gate, blocked = threading.Event(), threading.Semaphore(0)

    def handle(data: bytes, context: Any) -> bytes:
        if data == b"block":
            blocked.release()
            assert gate.wait(WAIT_S)
        return echo(data, context)

    with serving(handle, threads=4) as served:
        waiting = [served.future(b"block") for _ in range(3)]
        assert all(blocked.acquire(timeout=WAIT_S) for _ in waiting)
        assert served.call(b"quick") == b"<quick>"
        gate.set()
        assert [future.result() for future in waiting] == [b"<block>"] * 3


def test_no_more_handlers_run_than_allowed_and_the_rest_follow() -> None:
    gate, lock = threading.Event(), threading.Lock()
    started = threading.Semaphore(0)
    running = most = 0

    def handle(data: bytes, context: Any) -> bytes:
        nonlocal running, most
        if not data:  # the other method's, on the server's own threads
            return data
        with lock:
            running += 1
            most = max(most, running)
        started.release()
        assert gate.wait(WAIT_S)
        with lock:
            running -= 1
        return echo(data, context)

    with serving(handle, threads=2) as served:
        futures = [served.future(b"%d" % n) for n in range(7)]
        assert started.acquire(timeout=WAIT_S)
        assert started.acquire(timeout=WAIT_S)
        assert served.channel.unary_unary(OTHER).future(b"", timeout=WAIT_S).cancel()  # the server still hears
        gate.set()
        assert sorted(future.result() for future in futures) == [b"<%d>" % n for n in range(7)]
    assert most == 2


def test_cancellation_reaches_a_handler_while_all_threads_are_busy() -> None:
    cancelled, started, ended = threading.Event(), threading.Event(), threading.Event()
    active: list[bool] = []

    def handle(data: bytes, context: Any) -> bytes:
        assert context.add_callback(cancelled.set)
        active.append(context.is_active())
        started.set()
        assert cancelled.wait(WAIT_S)
        active.append(context.is_active())
        active.append(context.add_callback(lambda: None))
        ended.set()
        return data

    with serving(handle, threads=1) as served:
        future = served.future()
        assert started.wait(WAIT_S)
        future.cancel()
        assert ended.wait(WAIT_S)
    assert active == [True, False, False]


def test_callbacks_are_called_once_the_answer_has_left() -> None:
    ended = threading.Event()
    answered: list[bool] = []

    def handle(data: bytes, context: Any) -> bytes:
        context.add_callback(lambda: 1 / 0)  # one that fails does not keep the others from being called
        context.add_callback(ended.set)
        answered.append(ended.is_set())
        return data

    with serving(handle) as served:
        assert served.call(b"x") == b"x"
        assert ended.wait(WAIT_S)
    assert answered == [False]


def test_abort_gives_the_client_code_and_text() -> None:
    def handle(_data: bytes, context: Any) -> None:
        context.abort(grpc.StatusCode.NOT_FOUND, "no such thing: µ")

    with serving(handle) as served:
        assert served.refused() == (grpc.StatusCode.NOT_FOUND, "no such thing: µ")


@pytest.mark.parametrize(
    ("handle", "expected"),
    [
        (lambda _data, _context: 1 / 0, (grpc.StatusCode.UNKNOWN, "Exception calling application: division by zero")),
        (lambda _data, _context: "text", (grpc.StatusCode.INTERNAL, "Failed to serialize response!")),
        (None, (grpc.StatusCode.UNIMPLEMENTED, "Method not found!")),
    ],
)
def test_what_a_handler_does_wrong_is_told_as_grpcio_tells_it(
    handle: Handle | None, expected: tuple[grpc.StatusCode, str]
) -> None:
    with serving(handle) as served:
        assert served.refused() == expected
        assert served.refused() == expected


def test_call_without_a_message_is_refused() -> None:
    with serving(echo) as served, pytest.raises(grpc.RpcError) as caught:
        served.channel.stream_unary(METHOD)(iter(()), timeout=WAIT_S)
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert "requires exactly one request message" in (caught.value.details() or "")


def test_a_refusal_by_headers_waits_for_no_message_and_takes_no_place() -> None:
    def refuse(_requests: Any, context: Any) -> None:
        context.abort(grpc.StatusCode.UNAUTHENTICATED, "who are you?")

    with serving(refuse, threads=1, streams=True) as served, RawGrpc(served.address) as raw:
        for _ in range(3):
            raw.half(METHOD)
        assert raw.read_all().count(b"who are you") >= 1


def test_calls_without_a_place_leave_the_queue_when_they_are_given_up() -> None:
    with serving(echo, threads=1) as served, RawGrpc(served.address) as raw:
        raw.half(METHOD)
        queue = served.queue
        assert queue is not None
        wait_until(lambda: queue._places.used == 1)
        waiting = [served.future() for _ in range(5)]
        wait_until(lambda: queue.unread.used == 5)
        for call in waiting:
            call.cancel()
        wait_until(lambda: queue.unread.used == 0)
        raw.__exit__(None, None, None)
        assert served.call(b"x") == b"<x>"


def test_an_address_that_is_alone_again_gets_all_the_places_that_are_free() -> None:
    gate, started = threading.Event(), threading.Semaphore(0)

    def handle(data: bytes, context: Any) -> bytes:
        started.release()
        assert gate.wait(WAIT_S)
        return echo(data, context)

    with serving(handle, threads=16) as served, ExitStack() as stack:
        for _ in range(5):
            stack.enter_context(RawGrpc(served.address, "127.0.0.2")).half(METHOD)
        queue = served.queue
        assert queue is not None
        wait_until(lambda: queue._places.used == 5)
        waiting = [served.future(b"x") for _ in range(20)]
        wait_until(lambda: queue.unread.used + queue._places.used == 25)
        assert queue._places.used < 14
        stack.close()
        wait_until(lambda: queue._places.used >= 12)
        gate.set()
        assert [future.result() for future in waiting] == [b"<x>"] * 20


def test_refusal_by_headers_reads_no_message() -> None:
    def refuse(_requests: Any, context: Any) -> None:
        context.abort(grpc.StatusCode.UNAUTHENTICATED, "who are you?")

    with serving(refuse, streams=True) as served:
        assert served.refused(b"x" * 100) == (grpc.StatusCode.UNAUTHENTICATED, "who are you?")


def test_handlers_see_headers_peer_and_deadline() -> None:
    seen: list[Any] = []

    def handle(data: bytes, context: Any) -> bytes:
        seen.extend((dict(context.invocation_metadata())["x-k"], context.peer(), context.time_remaining()))
        return data

    with serving(handle) as served:
        served.call(metadata=(("x-k", "v"),))
        assert served.headers[0]["x-k"] == "v"
    value, peer, remaining_s = seen
    assert value == "v"
    assert peer.startswith("ipv4:127.0.0.1:")
    assert 0 < remaining_s < WAIT_S + 1  # the clocks of two threads


def test_closing_ends_the_threads() -> None:
    before = set(threading.enumerate())
    with serving(echo) as served:
        served.call()
        serving_threads = [t for t in set(threading.enumerate()) - before if t.name == "grpc-infer"]
        assert serving_threads
    for thread in serving_threads:
        thread.join(WAIT_S)
        assert not thread.is_alive()


def test_handler_that_outlives_the_server_ends_in_peace() -> None:
    gate, started, ended = threading.Event(), threading.Event(), threading.Event()

    def handle(data: bytes, _context: Any) -> bytes:
        started.set()
        assert gate.wait(WAIT_S)
        ended.set()
        return data

    with serving(handle) as served:
        future = served.future()
        assert started.wait(WAIT_S)
    with pytest.raises((grpc.RpcError, grpc.FutureCancelledError)):
        future.result()
    gate.set()
    assert ended.wait(WAIT_S)


def test_grpcio_without_these_parts_serves_the_method_itself(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(call_queue, "cygrpc", SimpleNamespace())
    with serving(echo) as served:
        assert served.queue is None
        assert served.call(b"x") == b"<x>"
    assert "CompletionQueue" in caplog.text


def test_answers_may_come_later_from_any_thread_and_their_calls_hold_none() -> None:
    replies: list[Any] = []

    def handle(data: bytes, context: Any) -> Any:
        if data == b"now":
            return echo(data, context)
        replies.append((data, context.later()))
        return replies[-1][1]

    with serving(handle, threads=2) as served:
        waiting = {b"%d" % n: served.future(b"%d" % n) for n in range(50)}
        wait_until(lambda: len(replies) == len(waiting))
        assert served.call(b"now") == b"<now>"
        for data, reply in replies[1:]:
            reply.send(echo(data, None))
        replies[0][1].fail(grpc.StatusCode.UNAVAILABLE, "not today")
        for data, future in waiting.items():
            if data == replies[0][0]:
                assert (future.exception().code(), future.exception().details()) == (grpc.StatusCode.UNAVAILABLE, "not today")
            else:
                assert future.result() == echo(data, None)


def test_a_promised_answer_to_a_client_that_is_gone_and_one_after_the_server_stopped_are_nobodys() -> None:
    replies: dict[bytes, Any] = {}

    def handle(data: bytes, context: Any) -> Any:
        replies[data] = context.later()
        return replies[data]

    with serving(handle) as served:
        gone, late = served.future(b"gone"), served.future(b"late")
        wait_until(lambda: len(replies) == 2)
        gone.cancel()
        replies[b"gone"].send(b"to nobody")
        assert not late.done()
    replies[b"late"].send(b"too late")
    with pytest.raises(grpc.RpcError):
        late.result()
