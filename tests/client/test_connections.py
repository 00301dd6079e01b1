# SPDX-License-Identifier: Apache-2.0
"""How the client reaches a server: TLS, proxies, compression, names and trace contexts."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import trustme
from opentelemetry.sdk.trace import TracerProvider

from hypersonic.client import AllServersFailedError, Client, Limits, RequestError, Retry, Server, Settings, Timeout, Tls
from hypersonic.client.servers import AddressError, environment_servers, resolve
from hypersonic.client.transport.grpcio import GrpcioTransport
from tests.support.scripted_server import Script, fail, scripted_server
from tests.support.waiting import wait_until

X = np.zeros((8, 4), np.float32)
ONCE = Retry(())


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> tuple[trustme.CA, Path]:
    """A certificate authority, and a directory with root.pem, client.pem and client.key."""
    directory, ca = tmp_path_factory.mktemp("tls"), trustme.CA()
    ca.cert_pem.write_to_path(str(directory / "root.pem"))
    client = ca.issue_cert("client@example.org")
    client.cert_chain_pems[0].write_to_path(str(directory / "client.pem"))
    client.private_key_pem.write_to_path(str(directory / "client.key"))
    return ca, directory


def server_credentials(ca: trustme.CA, *names: str, mutual: bool = False) -> grpc.ServerCredentials:
    made = ca.issue_cert(*names)
    pair = (made.private_key_pem.bytes(), made.cert_chain_pems[0].bytes())
    return grpc.ssl_server_credentials([pair], ca.cert_pem.bytes() if mutual else None, mutual)


def test_tls_with_a_root_certificate(authority: tuple[trustme.CA, Path]) -> None:
    ca, directory = authority
    with scripted_server(Script(), credentials=server_credentials(ca, "127.0.0.1")) as address:
        with Client(Server(address, tls=Tls(root=str(directory / "root.pem")))) as client:
            assert client.model("double").infer(X).shape == (8, 4)
        with (
            Client(Server(address, tls=Tls()), retry=ONCE, timeout=Timeout(total_s=5)) as client,
            pytest.raises(AllServersFailedError, match="UNAVAILABLE"),
        ):
            client.model("double").infer(X)


def test_a_certificate_of_another_name_needs_that_name(authority: tuple[trustme.CA, Path]) -> None:
    ca, directory = authority
    root = str(directory / "root.pem")
    with scripted_server(Script(), credentials=server_credentials(ca, "sonic.example.org")) as address:
        with Client(Server(address, tls=Tls(root=root, name="sonic.example.org"))) as client:
            assert client.model("double").infer(X).shape == (8, 4)
        with (
            Client(Server(address, tls=Tls(root=root)), retry=ONCE, timeout=Timeout(total_s=5)) as client,
            pytest.raises(AllServersFailedError),
        ):
            client.model("double").infer(X)


def test_a_server_that_asks_for_a_client_certificate(authority: tuple[trustme.CA, Path]) -> None:
    ca, directory = authority
    tls = Tls(str(directory / "root.pem"), str(directory / "client.pem"), str(directory / "client.key"))
    with scripted_server(Script(), credentials=server_credentials(ca, "127.0.0.1", mutual=True)) as address:
        with Client(Server(address, tls=tls)) as client:
            assert client.model("double").infer(X).shape == (8, 4)
        with (
            Client(Server(address, tls=Tls(tls.root)), retry=ONCE, timeout=Timeout(total_s=5)) as client,
            pytest.raises(AllServersFailedError),
        ):
            client.model("double").infer(X)


class Proxy:
    """An HTTP CONNECT proxy for tests. asked: what clients wanted to reach. sent: bytes from clients to servers."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.sent = 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            head += client.recv(1)
        target = head.split()[1].decode()
        self.asked.append(target)
        host, _, port = target.rpartition(":")
        server = socket.create_connection((host, int(port)))
        client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        threading.Thread(target=self._copy, args=(server, client, False), daemon=True).start()
        self._copy(client, server, True)

    def _copy(self, source: socket.socket, target: socket.socket, count: bool) -> None:
        with suppress(OSError), source, target:
            while data := source.recv(1 << 16):
                if count:  # before the server has it, so that the count is complete when the client has its answer
                    self.sent += len(data)
                target.sendall(data)


@contextmanager
def proxy() -> Iterator[Proxy]:
    made = Proxy()
    try:
        yield made
    finally:
        made.close()


def test_a_proxy_is_that_of_the_server_and_none_is_taken_from_the_environment_if_it_is_empty(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with scripted_server(Script()) as address, proxy() as between:
        with Client(Server(address, proxy=between.url)) as client:
            client.model("double").infer(X)
        assert between.asked == [address]
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
        monkeypatch.setenv("no_proxy", "")
        with Client(Server(address, proxy="")) as client:
            client.model("double").infer(X)


@pytest.mark.parametrize("compression", ["gzip", "deflate"])
def test_compressed_requests_are_smaller_on_the_wire(compression: str) -> None:
    rows = np.zeros((1000, 4), np.float32)
    sent = {}
    with scripted_server(Script(max_batch_size=1000)) as address:
        for kind in ("", compression):
            with proxy() as between, Client(Server(address, proxy=between.url), Settings(compression=kind)) as client:  # type: ignore[arg-type]
                assert not client.model("double").infer(rows).any()
                sent[kind] = between.sent
    assert sent[compression] < sent[""] - rows.nbytes / 2


def test_a_dns_name_is_as_many_servers_as_it_has_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    with scripted_server(Script()) as address:
        port = address.rpartition(":")[2]
        with Client(f"dns:///localhost:{port}") as client:
            client.model("double").infer(X)
            assert address in [one.server for one in client.statistics().servers]
    found = [(socket.AF_INET, 0, 0, "", (f"10.0.0.{n}", 8001)) for n in (1, 2, 1)]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_args, **_more: found)
    servers = resolve([Server("dns:///triton.example.org:8001", tls=Tls(), token="t")])
    assert [server.address for server in servers] == ["10.0.0.1:8001", "10.0.0.2:8001"]
    assert {(server.token, server.tls and server.tls.name) for server in servers} == {("t", "triton.example.org")}


def test_a_name_without_address_says_so() -> None:
    with (
        Client("dns:///no-such-host.invalid:8001") as client,
        pytest.raises(AddressError, match=r"'no-such-host\.invalid' has no address"),
    ):
        client.model("double").infer(X)


def test_the_environment_names_servers() -> None:
    balancer = {"SONIC_LOCAL_BALANCER_HOST": "lb", "SONIC_LOCAL_BALANCER_PORT": "8001"}
    named = environment_servers({**balancer, "HYPERSONIC_SERVERS": "a:1, b:2,lb:8001"})
    assert [server.address for server in named] == ["lb:8001", "a:1", "b:2"]
    with pytest.raises(AddressError, match="expected both or neither"):
        environment_servers({"SONIC_LOCAL_BALANCER_HOST": "lb"})
    with pytest.raises(AddressError, match="names no server"):
        environment_servers({})


def test_the_callers_span_reaches_the_server() -> None:
    script = Script()
    tracer = TracerProvider().get_tracer("test")
    with scripted_server(script) as address, Client(address) as client:
        client.model("double").infer(X)
        with tracer.start_as_current_span("event") as span:
            client.model("double").infer(X)
            client.model("double").submit(X).result()
        trace_id = f"{span.get_span_context().trace_id:032x}"
    sent = [headers.get("traceparent", "") for headers in script.headers]
    wait_until(lambda: script.calls["ModelInfer"] == 3)
    assert sum(trace_id in value for value in sent) == 2


@pytest.mark.parametrize("method", ["__call__", "future"])
def test_a_connection_that_ctrl_c_has_left_locked_is_given_up_and_its_calls_are_made_again(
    script: Script, address: str, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """Ctrl-C inside grpcio may leave a lock of its channel locked: no call on it would ever end, not even at its deadline."""
    held, interrupt, rows = threading.Event(), [True], X + 1
    real = GrpcioTransport._method

    class Interrupted:
        def __call__(self, *_given: Any, **_named: Any) -> Any:
            raise KeyboardInterrupt

        future = __call__

    def interrupted(transport: GrpcioTransport, name: str) -> Any:
        return Interrupted() if name == "ModelInfer" and interrupt and interrupt.pop() else real(transport, name)

    def infer(_request: Any, _context: Any) -> None:
        if script.calls["ModelInfer"] == 1:
            held.wait(60)

    script.infer = infer
    with Client(address) as client:
        model = client.model("double")
        assert model.inputs
        future = model.submit(rows[:3])
        wait_until(lambda: script.calls["ModelInfer"] == 1)
        monkeypatch.setattr(GrpcioTransport, "_method", interrupted)
        with pytest.raises(KeyboardInterrupt):
            _ = model.infer(rows[:2]) if method == "__call__" else model.submit(rows[:2])
        np.testing.assert_array_equal(future.result(30).output, 2 * rows[:3])  # by the second call: the first one is held
        np.testing.assert_array_equal(model.infer(rows), 2 * rows)
        wait_until(lambda: client.engine._gate._requests == 0)
        held.set()


def test_a_message_that_is_too_large_is_not_tried_again(address: str, script: Script) -> None:
    script.damage = lambda _request, answer: answer.raw_output_contents.append(bytes(1 << 20))
    with Client(address, limits=Limits(message_bytes=1 << 18)) as client:
        with pytest.raises(RequestError, match=r"OUT_OF_RANGE: .*CLIENT: .* raise it, or send fewer rows"):
            client.model("double").infer(X)
        script.infer = fail(grpc.StatusCode.RESOURCE_EXHAUSTED, "SERVER: Received message larger than max (9 vs. 8)")
        with pytest.raises(RequestError, match=r"lower Limits\.message_bytes, by which larger ones are split"):
            client.model("double").infer(X)
    assert script.calls["ModelInfer"] == 2
