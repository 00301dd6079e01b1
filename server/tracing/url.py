# SPDX-License-Identifier: Apache-2.0
"""Where spans are sent: the `url` of --trace-config opentelemetry, with what operators leave out filled in.

collector:4318/v1/traces   ->  http://collector:4318/v1/traces     as tritonserver takes it
[::1]:4318                 ->  http://[::1]:4318/v1/traces         OTLP's own path, where none is given
https://collector/x        ->  https://collector/x
"""

from __future__ import annotations

import re
from ipaddress import IPv6Address
from urllib.parse import SplitResult, urlsplit

from hypersonic.server.errors import StartError

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_HOST = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_.])?")
#: OTLP's path for traces
_PATH = "/v1/traces"
#: where collectors take OTLP over gRPC, which this server does not speak
GRPC_PORT = 4317


def traces_url(text: str) -> str:
    """The whole URL. Raises StartError for what is not the URL of an HTTP server."""
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
    """Whether the port is the one where collectors take OTLP over gRPC."""
    return urlsplit(url).port == GRPC_PORT


def _check(parts: SplitResult, text: str) -> None:
    """Raises ValueError with the reason."""
    if any(not c.isprintable() or c.isspace() for c in text):
        raise ValueError("a URL has no blanks")
    if parts.scheme not in ("http", "https"):
        raise ValueError(f"spans are sent over http or https, not over {parts.scheme!r}")
    address = parts.netloc.rpartition("@")[2]
    if address.startswith("["):
        IPv6Address((parts.hostname or "").partition("%")[0])
    elif address.count(":") > 1:
        raise ValueError("an IPv6 address stands in brackets")
    elif not _HOST.fullmatch(parts.hostname or ""):
        raise ValueError("it names no host")
    if parts.port == 0:
        raise ValueError("port 0 is not a port")
