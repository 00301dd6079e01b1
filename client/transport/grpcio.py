# SPDX-License-Identifier: Apache-2.0
"""Calls of one server with grpcio. This is the one module of the client that imports grpc."""

from __future__ import annotations

import queue
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc

from hypersonic.client.codes import Code
from hypersonic.client.errors import CallError, ClientError, WrongAnswerError
from hypersonic.client.servers import Server, Tls
from hypersonic.client.settings import Settings
from hypersonic.client.transport.call import Done, Headers

#: the longest wait for grpcio to close a channel, in seconds
_CLOSE_S = 5.0
_SERVICE = "/inference.GRPCInferenceService/"
#: time between pings on connections of streams, in seconds. gRPC's servers by default allow one in 5 min while they send
#: nothing. After more than two early pings they close the connection, which loses the state of its sequences
_STREAM_PING_S = 310.0
#: what gRPC itself says, with the codes INTERNAL and UNKNOWN, when a proxy or a broken connection ends a call before its
#: status: RST_STREAM, an end without trailers, an HTTP status of a proxy that has no server. Checked with grpcio 1.64 and 1.85
_LOST = re.compile(
    r"Stream removed|Received RST_STREAM|No status received|Received http2 header with status: 5\d\d|Missing :status"
)
_CODES_OF_LOST = {Code.INTERNAL, Code.UNKNOWN}
#: what gRPC says, with the code RESOURCE_EXHAUSTED, of a message that is too large: it is so at the next attempt, too
_TOO_LARGE = re.compile(r"(CLIENT|SERVER): Received message larger than max")
_TOO_LARGE_ADVICE = {
    "CLIENT": "the answer is larger than Limits.message_bytes: raise it, or send fewer rows",
    "SERVER": "the server takes no request of this size: lower Limits.message_bytes, by which larger ones are split",
}
_COMPRESSION = {"": None, "gzip": grpc.Compression.Gzip, "deflate": grpc.Compression.Deflate}


class CertificateError(ClientError):
    """A TLS file cannot be read."""


class GrpcioTransport:
    """A channel to one server, and a second one for streams, with fewer pings, from the first stream on."""

    def __init__(self, server: Server, settings: Settings) -> None:
        self._server, self._settings = server, settings
        self._channel = _open(server, settings, settings.health.ping_s)
        self._lock = threading.Lock()
        self._streams: Any = None
        self._closed = False
        self._compression = _COMPRESSION[settings.compression]
        self._methods: dict[str, Any] = {}
        self._pending: dict[object, Done] = {}

    def unary(self, method: str, request: bytes, timeout_s: float, headers: Headers) -> bytes:
        """Return the answer. Raises CallError."""
        try:
            answer: bytes | None = self._method(method)(
                request, timeout=timeout_s, metadata=headers, compression=self._compression
            )
        except grpc.RpcError as error:
            raise _call_error(error) from None
        except ValueError:
            raise _closed() from None
        except KeyboardInterrupt:
            self._renew()
            raise
        if answer is None:
            raise _no_message()
        return answer

    def start(self, method: str, request: bytes, timeout_s: float, headers: Headers, done: Done) -> Any:
        """Start a call and return without waiting. `done` is called on the channel's thread. Raises CallError once closed."""
        key = object()
        self._pending[key] = done
        try:
            call = self._method(method).future(request, timeout=timeout_s, metadata=headers, compression=self._compression)
            call.add_done_callback(lambda ended: self._settle(key, _outcome(ended)))
        except ValueError:
            self._pending.pop(key, None)
            raise _closed() from None
        except KeyboardInterrupt:
            self._renew()
            raise
        return call

    def stream(self, timeout_s: float | None, headers: Headers) -> GrpcioStream:
        """Start a call of ModelStreamInfer. Raises CallError once closed."""
        try:
            return GrpcioStream(self._stream_channel(), timeout_s, headers, self._compression)
        except ValueError:
            raise _closed() from None

    def close(self) -> None:
        """End all calls and the connection."""
        with self._lock:
            self._closed = True
            streams = self._streams

        def close_both() -> None:
            if streams is not None:
                streams.close()
            self._channel.close()

        closing = threading.Thread(target=close_both, name="hypersonic-client-close", daemon=True)
        closing.start()
        closing.join(_CLOSE_S)  # after Ctrl-C inside a call of grpcio, its close() has been seen to hang

    def _settle(self, key: object, outcome: bytes | CallError) -> None:
        """End a call that was started, unless _renew() has given it up."""
        done = self._pending.pop(key, None)
        if done is not None:
            done(outcome)

    def _renew(self) -> None:
        """Give up the connection and the calls that were started on it, which end with UNAVAILABLE, and make another one.

        Ctrl-C inside a call of grpcio may leave a lock of the channel locked: a KeyboardInterrupt is raised at the beginning of
        Condition.__exit__(). No call on the channel would ever end then.
        """
        with self._lock:
            if self._closed:
                return
            old, self._channel = self._channel, _open(self._server, self._settings, self._settings.health.ping_s)
            self._methods = {}
            given_up = list(self._pending)
        threading.Thread(target=old.close, name="hypersonic-client-close", daemon=True).start()
        for key in given_up:
            self._settle(key, CallError(Code.UNAVAILABLE, "the connection was given up after Ctrl-C"))

    def _stream_channel(self) -> Any:
        """Return the channel of streams. Raises ValueError once closed, as grpcio does."""
        with self._lock:
            if self._closed:
                raise ValueError("the connection was closed")
            if self._streams is None:
                ping_s = self._settings.health.ping_s
                self._streams = _open(self._server, self._settings, ping_s and max(ping_s, _STREAM_PING_S))
            return self._streams

    def _method(self, name: str) -> Any:
        method = self._methods.get(name)
        if method is None:
            method = self._methods[name] = self._channel.unary_unary(_SERVICE + name)
        return method


class GrpcioStream:
    """A call of ModelStreamInfer. gRPC takes the requests from a queue, on a thread of its own."""

    def __init__(self, channel: Any, timeout_s: float | None, headers: Headers, compression: Any) -> None:
        self._requests: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        method = channel.stream_stream(_SERVICE + "ModelStreamInfer")
        self._call = method(iter(self._requests.get, None), timeout=timeout_s, metadata=headers, compression=compression)
        self._ended = threading.Event()

    def send(self, message: bytes) -> None:
        """Send a request. Does not wait for its answer."""
        self._requests.put(message)

    def half_close(self) -> None:
        """Tell the server that no more requests follow."""
        if not self._ended.is_set():
            self._ended.set()
            self._requests.put(None)

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self._call
        except grpc.RpcError as error:
            raise _call_error(error) from None

    def cancel(self) -> None:
        """End it now."""
        self.half_close()
        self._call.cancel()


def _open(server: Server, settings: Settings, ping_s: float | None) -> Any:
    limit = settings.limits.message_bytes
    connect_ms = max(1, round(settings.timeout.connect_s * 1000))
    options: list[tuple[str, Any]] = [
        ("grpc.max_receive_message_length", limit),
        ("grpc.max_send_message_length", limit),
        ("grpc.enable_retries", 0),  # gRPC's own retries silently leave out messages above 256 KiB
        ("grpc.use_local_subchannel_pool", 1),  # no back-off shared with other channels, and close() closes the connection
        ("grpc.min_reconnect_backoff_ms", connect_ms),  # the time that one connection attempt may take
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 1000),
    ]
    if ping_s is not None:  # without pings, a request waits its whole time for a server whose host is gone or cut off
        options += [
            ("grpc.keepalive_time_ms", max(1, round(ping_s * 1000))),
            ("grpc.keepalive_timeout_ms", max(1, round(settings.health.ping_timeout_s * 1000))),  # also TCP_USER_TIMEOUT
        ]
    if server.proxy is not None:
        options += [("grpc.http_proxy", server.proxy)] if server.proxy else [("grpc.enable_http_proxy", 0)]
    if server.tls is None:
        return grpc.insecure_channel(server.address, options)
    if server.tls.name:
        options += [("grpc.ssl_target_name_override", server.tls.name), ("grpc.default_authority", server.tls.name)]
    return grpc.secure_channel(server.address, _credentials(server.tls), options)


def _credentials(tls: Tls) -> grpc.ChannelCredentials:
    if bool(tls.certificate) != bool(tls.key):
        raise CertificateError(f"the certificate is {tls.certificate!r} and the key is {tls.key!r}, expected both or neither")
    root, key, certificate = (_read(path) if path else None for path in (tls.root, tls.key, tls.certificate))
    return grpc.ssl_channel_credentials(root, key, certificate)


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise CertificateError(f"cannot read the TLS file {path}: {error.strerror}") from error


def _outcome(call: Any) -> bytes | CallError:
    try:
        answer: bytes | None = call.result(timeout=0)
    except grpc.RpcError as error:
        return _call_error(error)
    except grpc.FutureCancelledError:
        return CallError(Code.CANCELLED, "the call was cancelled")
    return _no_message() if answer is None else answer


def _call_error(error: Any) -> CallError:
    code, text = Code(error.code().value[0]), error.details() or ""
    if code in _CODES_OF_LOST and _LOST.match(text):
        return CallError(Code.UNAVAILABLE, f"{text} ({code.name})")
    if code is Code.RESOURCE_EXHAUSTED and (large := _TOO_LARGE.search(text)):
        return CallError(Code.OUT_OF_RANGE, f"{text}; {_TOO_LARGE_ADVICE[large[1]]}")
    return CallError(code, text)


def _no_message() -> CallError:
    """Return the error of a call that ended with the status OK and without a message, for which grpcio returns None."""
    return WrongAnswerError("the status is OK, and there is no message")


def _closed() -> CallError:
    """Return the error of a call after close(), for which grpcio raises a ValueError."""
    return CallError(Code.CANCELLED, "the connection was closed")
