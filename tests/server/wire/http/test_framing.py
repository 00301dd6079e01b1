# SPDX-License-Identifier: Apache-2.0
"""Where one HTTP request ends and the next begins: what a proxy could read otherwise ends the connection (RFC 9112, 11.2)."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator

import pytest

from tests.server.conftest import Running, serving

LIVE = b"GET /v2/health/live HTTP/1.1\r\nHost: t\r\n\r\n"
#: what a proxy that believes the other header takes for the body, and a server for a request
SMUGGLED = b"GET /v2/models/smuggled HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n"
INDEX = b"POST /v2/repository/index HTTP/1.1\r\nHost: t\r\n"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with serving(tmp_path_factory.mktemp("framing"))() as started:
        yield started


def statuses(running: Running, data: bytes) -> list[int]:
    """Of each answer on one connection, until the server closes it."""
    host, port = running.server.addresses["HTTPService"].rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(data)
        got = b"".join(iter(lambda: connection.recv(1 << 16), b""))
    return [int(code) for code in re.findall(rb"HTTP/1\.1 (\d{3}) ", got)]


@pytest.mark.parametrize(
    "headers",
    [
        b"Content-Length: 5\r\nTransfer-Encoding: chunked",
        b"Transfer-Encoding: chunked\r\nContent-Length: 5",
        b"Transfer-Encoding: chunked\r\nContent-Length: 0",
        b"Content-Length: 2\r\nContent-Length: 5",
        b"Content-Length: 2, 5",
        b"Content-Length: +2",
        b"Content-Length: 0x2",
        b"Content-Length: 2_0",
        b"Content-Length: 2 2",
        b"Content-Length: \xb2",
        b"Content-Length:",
        b"Content-Length : 2",
        b"Transfer-Encoding: identity",
        b"Transfer-Encoding: chunked, chunked",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        b"Transfer-Encoding: gzip, chunked",
        b"Transfer-Encoding: xchunked",
        b"Transfer-Encoding: \x0bchunked",
        b"Transfer-Encoding : chunked",
    ],
)
def test_a_length_that_can_be_read_in_two_ways_ends_the_connection(running: Running, headers: bytes) -> None:
    """The body is whole by either reading, and what is smuggled behind it is never answered."""
    data = INDEX + headers + b"\r\n\r\n0\r\n\r\n" + SMUGGLED
    assert statuses(running, LIVE + data) == [200, 400]


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        (b"Content-Length: 2", b"{}"),
        (b"Content-Length: 2\r\nContent-Length: 2", b"{}"),
        (b"Content-Length:\t2 \t", b"{}"),
        (b"content-length:2", b"{}"),
        (b"Content-Length: 0000000002", b"{}"),
        (b"Transfer-Encoding: Chunked", b"2\r\n{}\r\n0\r\n\r\n"),
    ],
)
def test_a_length_that_has_one_reading_leaves_the_connection_open(running: Running, headers: bytes, body: bytes) -> None:
    assert statuses(running, INDEX + headers + b"\r\n\r\n" + body + SMUGGLED) == [200, 404]


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_a_request_that_names_its_server_is_served_like_one_that_names_a_path(running: Running, version: str) -> None:
    """The absolute form (RFC 9112, 3.2.2), as clients send it to what they take for a proxy."""
    for target, status in (
        ("http://example.org/v2/health/live", 200),
        ("HTTPS://example.org:8000/v2/health/live?x=http://y", 200),
        ("http://[::1]:8000/v2/health/live", 200),
        ("http://example.org/v2//health/live", 404),
        ("http://example.org", 200),
        ("http://example.org?x", 200),
        ("ftp://example.org/v2/health/live", 404),
        ("http:///v2/health/live", 404),
        ("http:/v2/health/live", 404),
        ("/http://example.org/v2/health/live", 404),
        ("*", 404),
    ):
        request = f"GET {target} HTTP/{version}\r\nHost: t\r\nConnection: close\r\n\r\n"
        assert statuses(running, request.encode()) == [status], target
