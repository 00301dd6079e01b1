# SPDX-License-Identifier: Apache-2.0
"""The destination of spans: the `url` of --trace-config opentelemetry, with omitted parts filled in.

collector:4318/v1/traces   ->  http://collector:4318/v1/traces     as in tritonserver
[::1]:4318                 ->  http://[::1]:4318/v1/traces         OTLP's default path, if none is given
https://collector/x        ->  https://collector/x
"""

from __future__ import annotations

import re
from ipaddress import IPv6Address
from urllib.parse import SplitResult, urlsplit

from hypersonic.server.errors import StartError

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_HOST = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_.])?")
#: OTLP's default path for traces
_PATH = "/v1/traces"
#: the usual port of OTLP over gRPC, which this server does not support
GRPC_PORT = 4317


def traces_url(text: str) -> str:
    """Return the complete URL. Raises StartError (exit code 2) for text that is not the URL of an HTTP server."""
    try:
        parts = urlsplit(text if _SCHEME.match(text) else f"http://{text}")
        _check(parts, text)
    except ValueError as error:
        raise StartError(
            f"--trace-config opentelemetry,url is {text[:256]!r}: {error}; expected the address of an OTLP collector over "
            f"HTTP, for example http://collector:4318{_PATH}"
        ) from error
    return parts._replace(path=parts.path or _PATH).geturl()


def speaks_grpc(url: str) -> bool:
    """Return whether the port is the one that collectors use for OTLP over gRPC."""
    return urlsplit(url).port == GRPC_PORT


def _check(parts: SplitResult, text: str) -> None:
    """Raise ValueError with the reason for an invalid URL."""
    if any(not c.isprintable() or c.isspace() for c in text):
        raise ValueError("a URL must not contain spaces")
    if parts.scheme not in ("http", "https"):
        raise ValueError(f"spans are sent over http or https, not over {parts.scheme!r}")
    address = parts.netloc.rpartition("@")[2]
    if address.startswith("["):
        IPv6Address((parts.hostname or "").partition("%")[0])
    elif address.count(":") > 1:
        raise ValueError("an IPv6 address must be in brackets")
    elif not _HOST.fullmatch(parts.hostname or ""):
        raise ValueError("it does not name a host")
    if parts.port == 0:
        raise ValueError("port 0 is not a port")
