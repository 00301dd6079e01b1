# SPDX-License-Identifier: Apache-2.0
"""Bodies of requests and answers: read and decompressed within a size limit, and counted against the budget as they arrive."""

from __future__ import annotations

import asyncio
import gzip
import math
import re
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, MutableMapping
from typing import Any

from hypersonic.server.errors import CancelledError, InvalidRequestError, TooLargeError, UnsupportedError
from hypersonic.server.limits.admission import Held
from hypersonic.server.limits.slow_clients import SLOWEST_BYTES_PER_S, Fault, SlowClients

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
#: Content-Encodings
GZIP, DEFLATE = "gzip", "deflate"
_ENCODING = re.compile(r"(gzip|deflate|identity)(?:\s*;\s*q=([01](?:\.[0-9]{0,3})?))?")
_STEP_BYTES = 1 << 20
_FEED_BYTES = 1 << 16
_GZIP_MAGIC = b"\x1f"
_MOST_MEMBERS = 1024
_EITHER = zlib.MAX_WBITS | 32  # zlib detects whether it is gzip or zlib, as in Triton


class TooSlowError(InvalidRequestError):
    """The client took too long to send its body. HTTP status 400, and the connection is closed."""


def too_large(limit_bytes: int) -> TooLargeError:
    """Return the error for a body that is longer than allowed, with Triton's text."""
    return TooLargeError(
        f"Request size exceeds the maximum allowed value of {limit_bytes} bytes. "
        "Use --http-max-input-size to increase the limit."
    )


def declared_bytes(headers: Mapping[str, str], limit_bytes: int) -> int | None:
    """Return Content-Length, None for a chunked body. Raises InvalidRequestError for one that is too large or not a number."""
    text = headers.get("content-length")
    if text is None:
        return None if "transfer-encoding" in headers else 0
    if not text.isascii() or not text.isdigit():
        raise InvalidRequestError("Content-Length is not a number")
    if len(text) > 18 or int(text) > limit_bytes:
        raise too_large(limit_bytes)
    return int(text)


async def read_body(receive: Receive, size_bytes: int | None, limit_bytes: int, held: Held, clients: SlowClients) -> memoryview:
    """Read the whole body. Each piece is admitted when it arrives.

    Args:
        size_bytes: as declared, None for a chunked body.

    Raises:
        InvalidRequestError: (400) for a body that is too long, too short or too slow.
        CancelledError: When the client disconnects.
        BudgetError: (503) when the budget has no room: for a declared size, before anything is read.
    """
    if size_bytes:
        held.check(size_bytes)
    try:
        return await _read(_chunks(receive, clients.timeout_s), size_bytes, limit_bytes, held)
    except TooSlowError as error:
        clients.note(Fault.SENDS_NOTHING, held.client, str(error))
        raise


async def _read(chunks: AsyncIterator[bytes], size_bytes: int | None, limit_bytes: int, held: Held) -> memoryview:
    """Join the chunks. Like every Python bytearray, the buffer grows by an eighth at a time; pages that have not been
    written to take no memory.
    """
    body: bytes | bytearray = b""
    admitted = 0
    async for chunk in chunks:
        done = len(body) + len(chunk)
        if done > limit_bytes:
            raise too_large(limit_bytes)
        if done > admitted:
            # at most one call of take() per megabyte, and never for much more than has arrived
            step = max(done - admitted, min(admitted, _STEP_BYTES))
            if size_bytes is not None:
                step = min(step, size_bytes - admitted)
            held.take(step)
            admitted += step
        if not body:
            body = chunk  # a body in one piece is not copied
        elif isinstance(body, bytearray):
            body += chunk
        else:
            body = bytearray(body) + chunk
    if size_bytes is not None and len(body) != size_bytes:
        raise InvalidRequestError(f"the body ended after {len(body)} of {size_bytes} bytes")
    return memoryview(body)


async def _chunks(receive: Receive, window_s: float) -> AsyncIterator[bytes]:
    """Yield the pieces of the body that are not empty.

    Args:
        window_s: the time over which the client's rate is measured.

    Raises:
        CancelledError: When the client disconnects.
        TooSlowError: When it sends too little in one window.
    """
    loop = asyncio.get_running_loop()
    least_bytes = SLOWEST_BYTES_PER_S * window_s
    ends, got = loop.time() + window_s, 0
    more = True
    while more:
        if loop.time() >= ends:
            if got < least_bytes:
                raise TooSlowError(
                    f"{got} bytes of the request's body arrived in {window_s:g} s, expected at least {least_bytes:g}"
                )
            ends, got = loop.time() + window_s, 0
        try:
            async with asyncio.timeout_at(None if math.isinf(ends) else ends):
                message = await receive()
        except TimeoutError:
            continue
        if message["type"] == "http.disconnect":
            raise CancelledError
        more = message.get("more_body", False)
        if chunk := message.get("body", b""):
            got += len(chunk)
            yield chunk


def decompress(body: memoryview, encoding: str, limit_bytes: int, held: Held) -> memoryview:
    """Undo the Content-Encoding of a body.

    As in Triton, each of the two names accepts both formats, and a gzip body may have several members. Raises
    InvalidRequestError (400) for a damaged or too long body, UnsupportedError (501) for another encoding, BudgetError (503).
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
    """Yield the decompressed pieces of a body. zlib gets it in slices, because it copies its unused input at each step."""
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
        raise InvalidRequestError("the compressed body is incomplete")


def _inflate(stream: Any, data: bytes | memoryview) -> bytes:
    try:
        piece: bytes = stream.decompress(data, _STEP_BYTES)
    except zlib.error as error:
        raise InvalidRequestError(f"the body cannot be decompressed: {error}") from error
    return piece


def wanted_encoding(accept: str) -> str:
    """Return which of gzip and deflate Accept-Encoding prefers, "" for neither. As in Triton, names are case-sensitive."""
    offers = [_ENCODING.fullmatch(part.strip()) for part in accept.split(",")]
    known = [(float(offer[2] or 1), offer[1]) for offer in offers if offer is not None]
    quality, name = max(known, key=lambda offer: offer[0], default=(0.0, ""))
    return name if quality > 0 and name != "identity" else ""


def compress(body: bytes, encoding: str) -> bytes:
    """Compress a body with gzip or deflate, at zlib's default level, as Triton does."""
    return gzip.compress(body, 6, mtime=0) if encoding == GZIP else zlib.compress(body)
