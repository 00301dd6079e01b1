# SPDX-License-Identifier: Apache-2.0
"""Bodies of requests and answers: read within a bound, accounted for before they take memory, decompressed within it too."""

from __future__ import annotations

import asyncio
import gzip
import re
import zlib
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from typing import Any

from hypersonic.server.admission import Held
from hypersonic.server.errors import CancelledError, InvalidRequestError, TooLargeError, UnsupportedError
from hypersonic.server.slow_clients import SLOWEST_BYTES_PER_S, Fault, SlowClients

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
#: Content-Encodings
GZIP, DEFLATE = "gzip", "deflate"
_ENCODING = re.compile(r"(gzip|deflate|identity)(?:\s*;\s*q=([01](?:\.[0-9]{0,3})?))?")
_STEP_BYTES = 1 << 20
_FEED_BYTES = 1 << 16
_GZIP_MAGIC = b"\x1f"
_MOST_MEMBERS = 1024
_EITHER = zlib.MAX_WBITS | 32  # zlib finds out whether it is gzip or zlib, as Triton's does


class TooSlowError(InvalidRequestError):
    """The client took too long to send its body."""


def too_large(limit_bytes: int) -> TooLargeError:
    """For a body that is, or becomes, longer than allowed."""
    return TooLargeError(
        f"Request size exceeds the maximum allowed value of {limit_bytes} bytes. "
        "Use --http-max-input-size to increase the limit."
    )


def declared_bytes(headers: Mapping[str, str], limit_bytes: int) -> int | None:
    """Content-Length, None for a chunked body. Raises InvalidRequestError for one that is too large."""
    text = headers.get("content-length")
    if text is None:
        return None if "transfer-encoding" in headers else 0
    if not text.isascii() or not text.isdigit():
        raise InvalidRequestError("Content-Length is no number")
    if len(text) > 18 or int(text) > limit_bytes:
        raise too_large(limit_bytes)
    return int(text)


async def read_body(receive: Receive, size_bytes: int | None, limit_bytes: int, held: Held, clients: SlowClients) -> memoryview:
    """The whole body; what is declared was admitted, what comes in chunks is admitted step by step.

    Raises InvalidRequestError, BudgetError, CancelledError when the client goes away.
    """
    try:
        if size_bytes is not None:
            return await _read_declared(receive, size_bytes, clients.timeout_s)
        return await _read_chunked(receive, limit_bytes, held, clients.timeout_s)
    except TooSlowError as error:
        clients.note(Fault.SENDS_NOTHING, held.client, str(error))
        raise


async def _read_chunked(receive: Receive, limit_bytes: int, held: Held, idle_s: float) -> memoryview:
    body = bytearray()
    admitted = 0
    async for chunk in _chunks(receive, limit_bytes, idle_s):
        if len(body) + len(chunk) > limit_bytes:
            raise too_large(limit_bytes)
        if len(body) + len(chunk) > admitted:
            step = max(_STEP_BYTES, len(chunk))
            held.take(step)
            admitted += step
        body += chunk
    return memoryview(body)


async def _read_declared(receive: Receive, size_bytes: int, idle_s: float) -> memoryview:
    first: bytes = b""
    body: bytearray | None = None
    done = 0
    async for chunk in _chunks(receive, size_bytes, idle_s):
        if done == 0 and len(chunk) == size_bytes:
            first = chunk  # all in one piece: nothing to put together
        else:
            body = body if body is not None else bytearray(size_bytes)
            body[done : done + len(chunk)] = chunk
        done += len(chunk)
    if done != size_bytes:
        raise InvalidRequestError(f"the body ended after {done} of {size_bytes} bytes")
    return memoryview(first if body is None else body)


async def _chunks(receive: Receive, most_bytes: int, idle_s: float) -> Any:
    """idle_s: how long the client may send nothing.

    Raises CancelledError when the client goes away, TooSlowError when it all but stops sending."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + idle_s + most_bytes / SLOWEST_BYTES_PER_S
    more = True
    while more:
        try:
            async with asyncio.timeout_at(min(deadline, loop.time() + idle_s)):
                message = await receive()
        except TimeoutError:
            raise TooSlowError("the request's body did not arrive in time") from None
        if message["type"] == "http.disconnect":
            raise CancelledError
        more = message.get("more_body", False)
        if chunk := message.get("body", b""):
            yield chunk


def decompress(body: memoryview, encoding: str, limit_bytes: int, held: Held) -> memoryview:
    """A body as it was before Content-Encoding. Raises InvalidRequestError, UnsupportedError, BudgetError.

    As Triton's, either name accepts either format; members of a gzip file follow each other.
    """
    if encoding in ("", "identity"):
        return body
    if encoding not in (GZIP, DEFLATE):
        raise UnsupportedError("Unsupported compression type")
    result = bytearray()
    for piece in _pieces(body):
        if len(result) + len(piece) > limit_bytes:
            raise too_large(limit_bytes)
        if piece:
            held.take(len(piece))
            result += piece
    return memoryview(result)


def _pieces(body: memoryview) -> Iterator[bytes]:
    """Fed in slices: zlib copies what it has not used yet at each step."""
    stream, members = zlib.decompressobj(_EITHER), 0
    for start in range(0, len(body), _FEED_BYTES):
        rest: bytes | memoryview = body[start : start + _FEED_BYTES]
        while rest:
            if stream.eof:
                if bytes(rest[:1]) != _GZIP_MAGIC or members == _MOST_MEMBERS:
                    return  # what follows the last member is ignored, as gzip(1) does
                stream, members = zlib.decompressobj(_EITHER), members + 1
            yield _inflate(stream, rest)
            rest = stream.unused_data if stream.eof else stream.unconsumed_tail
    yield stream.flush()
    if not stream.eof:
        raise InvalidRequestError("the compressed body ends before its end")


def _inflate(stream: Any, data: bytes | memoryview) -> bytes:
    try:
        piece: bytes = stream.decompress(data, _STEP_BYTES)
    except zlib.error as error:
        raise InvalidRequestError(f"the body cannot be decompressed: {error}") from error
    return piece


def wanted_encoding(accept: str) -> str:
    """The one of gzip and deflate that Accept-Encoding prefers, "" for neither; as Triton, names are taken as they are."""
    offers = [_ENCODING.fullmatch(part.strip()) for part in accept.split(",")]
    known = [(float(offer[2] or 1), offer[1]) for offer in offers if offer is not None]
    quality, name = max(known, key=lambda offer: offer[0], default=(0.0, ""))
    return name if quality > 0 and name != "identity" else ""


def compress(body: bytes, encoding: str) -> bytes:
    """At zlib's default level, as Triton."""
    return gzip.compress(body, 6, mtime=0) if encoding == GZIP else zlib.compress(body)
