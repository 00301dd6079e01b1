# SPDX-License-Identifier: Apache-2.0
"""Log lines at start about options that probably do not do what the operator wants."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import combinations

from hypersonic.server.errors import StartError
from hypersonic.server.options import Options
from hypersonic.server.wire.security.restrictions import grpc_restrictions, http_restrictions

#: (level of `logging`, text)
Line = tuple[int, str]
#: the addresses that mean every address of the host
_ANY = {"0.0.0.0", "::", ""}  # noqa: S104


def advice(options: Options) -> Iterator[Line]:
    """Yield the lines to log once at start; none for options that are consistent.

    Raises StartError for restrictions that cannot be parsed, and for two services on one port.
    """
    if options.ignored_options:
        names = ", ".join(sorted(set(options.ignored_options)))
        yield logging.INFO, f"options that have no effect in this server: {names}"
    for text in options.deprecated_trace:
        option = f"--trace-{text.removeprefix('triton,').partition('=')[0]}"
        yield logging.WARNING, f"{option} is deprecated; use --trace-config={text}"
    _check_ports(options)
    yield from _tls(options)
    yield from _restrictions(options)


def _check_ports(options: Options) -> None:
    """Raise StartError for two services on one port."""
    services = (
        ("--grpc-port", options.allow_grpc, options.grpc_address, options.grpc_port),
        ("--http-port", options.allow_http, options.http_address, options.http_port),
        ("--metrics-port", options.allow_metrics, options.metrics_address or options.http_address, options.metrics_port),
    )
    places = [(name, address, port) for name, allowed, address, port in services if allowed and port]
    for (one, address, port), (other, there, also) in combinations(places, 2):
        overlap = address == there or ((":" in address) is (":" in there) and {address, there} & _ANY)
        if port == also and overlap:
            raise StartError(f"{one} and {other} are both {port}, expected a port for each (0: any free one)")


def _tls(options: Options) -> Iterator[Line]:
    """Yield lines about TLS files that are not used. A missing file is an error instead (wire/security/tls.py)."""
    mutual, encrypted = options.grpc_use_ssl_mutual, options.grpc_use_ssl or options.grpc_use_ssl_mutual
    given = [
        name
        for name, file in (
            ("--grpc-server-cert", options.grpc_server_cert),
            ("--grpc-server-key", options.grpc_server_key),
            ("--grpc-root-cert", options.grpc_root_cert),
        )
        if file
    ]
    if given and options.allow_grpc and not encrypted:
        names = " and ".join(given)
        yield logging.WARNING, f"gRPC is NOT encrypted: {names} have no effect without --grpc-use-ssl or --grpc-use-ssl-mutual"
    elif options.grpc_root_cert and options.allow_grpc and not mutual:
        text = "gRPC does NOT ask clients for a certificate: --grpc-root-cert has no effect without --grpc-use-ssl-mutual"
        yield logging.WARNING, text
    if options.http_server_cert and options.allow_grpc and not encrypted and not given:
        text = "gRPC is NOT encrypted, although HTTP is: set --grpc-use-ssl, --grpc-server-cert and --grpc-server-key too"
        yield logging.WARNING, text
    if encrypted and options.allow_grpc and options.allow_http and not options.http_server_cert:
        text = "HTTP and metrics are NOT encrypted, although gRPC is: set --http-server-cert and --http-server-key too"
        yield logging.WARNING, text


def _restrictions(options: Options) -> Iterator[Line]:
    """Yield lines about groups that one front end restricts and the other does not."""
    if not (options.allow_grpc and options.allow_http):
        return
    by_grpc = set(grpc_restrictions(options.grpc_restricted_protocol))
    by_http = set(http_restrictions(options.http_restricted_api))
    if bare := ", ".join(sorted(by_grpc - by_http)):
        text = f"HTTP does NOT restrict {bare}, although --grpc-restricted-protocol does: set --http-restricted-api too"
        yield logging.WARNING, text
    if bare := ", ".join(sorted(by_http - by_grpc)):
        text = f"gRPC does NOT restrict {bare}, although --http-restricted-api does: set --grpc-restricted-protocol too"
        yield logging.WARNING, text
