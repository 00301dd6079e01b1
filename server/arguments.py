# SPDX-License-Identifier: Apache-2.0
"""The server's command line, spelled as tritonserver spells it; options.py holds the outcome."""

from __future__ import annotations

import argparse
import re
from ipaddress import ip_network
from pathlib import Path

from hypersonic.server.log import FORMATS
from hypersonic.server.options import Options

#: accepted because scripts written for tritonserver give them; nothing here depends on them
_IGNORED = (
    "--backend-directory",
    "--backend-config",
    "--min-supported-compute-capability",
    "--http-thread-count",
    "--grpc-infer-allocation-pool-size",
    "--buffer-manager-thread-count",
    "--model-load-retry-count",
    "--model-load-gpu-limit",
    "--pinned-memory-pool-byte-size",
    "--cuda-memory-pool-byte-size",
    "--cuda-virtual-address-size",
    "--enable-peer-access",
    "--host-policy",
    "--repoagent-directory",
    "--cache-config",
    "--cache-directory",
    "--response-cache-byte-size",
    "--rate-limit",
    "--rate-limit-resource",
    "--rate-limit-priority",
)


def boolean(text: str) -> bool:
    """tritonserver's booleans. Raises argparse.ArgumentTypeError."""
    word = text.lower()
    if word in ("1", "true", "on", "yes"):
        return True
    if word in ("0", "false", "off", "no"):
        return False
    raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")


def _port(text: str) -> int:
    if text.isdecimal() and int(text) < 1 << 16:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no port, expected 0 to 65535 (0: any free one)")


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no regular expression: {error}") from error
    return text


def _count(text: str) -> int:
    if text.isdecimal():
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a non-negative integer")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the server's options to a parser."""
    parser.add_argument(
        "--model-repository", "--model-store", action="append", type=Path, required=True, metavar="DIR",
        help="a model repository; may be given several times",
    )  # fmt: skip
    parser.add_argument(
        "--model-link-roots", action="append", default=[], type=Path, metavar="DIR",
        help="let symbolic links in model repositories lead only here and into the repositories; may be given several times; "
        "not given: links lead anywhere",
    )  # fmt: skip
    _add_control(parser)
    _add_ports(parser)
    _add_behaviour(parser)
    _add_logging(parser)
    _add_observation(parser)
    _add_grpc(parser)
    _add_tls(parser)
    _add_authorisation(parser)
    _add_limits(parser)
    for name in _IGNORED:
        parser.add_argument(name, nargs="?", const="", action="append", help=argparse.SUPPRESS)


def _add_control(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--model-control-mode", choices=("none", "poll", "explicit"), default="none",
        help="none: all models are loaded at start; poll: whatever the repositories hold; explicit: what clients ask for",
    )  # fmt: skip
    parser.add_argument(
        "--load-model", action="append", default=[], metavar="NAME",
        help="with explicit control, a model to load at start; may be given several times; * = all",
    )  # fmt: skip
    _add_count(parser, "--repository-poll-secs", "with poll control, seconds between two looks")
    _add_count(parser, "--model-load-timeout-secs", "how long the load of a model version may take, 0 = as long as it likes")
    _add_count(parser, "--model-load-thread-count", "models loaded side by side")
    parser.add_argument(
        "--disable-auto-complete-config", action="store_true", help="config.pbtxt has to be there, and complete"
    )
    _add_boolean(parser, "--strict-model-config", default=False, text="the same, its older spelling")
    _add_boolean(
        parser, "--allow-xclbin-override", default=False, text="let clients' load requests bring what cards are loaded with"
    )
    _add_boolean(
        parser, "--allow-python-override", default=False,
        text="let load requests bring or choose python code; otherwise only where every port asks for credentials",
    )  # fmt: skip


def _add_ports(parser: argparse.ArgumentParser) -> None:
    for name, what, port in (("grpc", "gRPC", 8001), ("http", "HTTP", 8000), ("metrics", "Prometheus' metrics", 8002)):
        parser.add_argument(f"--{name}-port", type=_port, default=port, metavar="N", help=f"port of {what}; 0 = any free one")
        _add_boolean(parser, f"--allow-{name}", default=True, text=f"serve {what}")
    parser.add_argument("--grpc-address", default=Options.grpc_address, metavar="ADDRESS", help="what gRPC listens on")
    parser.add_argument("--http-address", default=Options.http_address, metavar="ADDRESS", help="what HTTP listens on")
    parser.add_argument("--metrics-address", default="", metavar="ADDRESS", help="what metrics listen on (as HTTP if empty)")
    _add_boolean(parser, "--reuse-grpc-port", default=False, text="let several servers share the gRPC port")


def _add_behaviour(parser: argparse.ArgumentParser) -> None:
    for name, text in (
        ("--exit-timeout-secs", "how long requests in flight may take after SIGTERM"),
        ("--max-inflight-bytes", "bytes of requests held at once, 0 = no limit; more are refused with RESOURCE_EXHAUSTED"),
        (
            "--client-timeout-secs",
            "how long a client may neither send the rest of its request nor read its answer, 0 = for ever",
        ),
        ("--grpc-infer-thread-count", "gRPC requests worked on at once; those that wait for their model hold no thread"),
        ("--http-infer-thread-count", "the same, of those that come over HTTP"),
        ("--http-max-input-size", "largest HTTP body in bytes, as sent and decompressed"),
    ):
        _add_count(parser, name, text)
    for front_end, what in (("http", "HTTP"), ("grpc", "gRPC")):
        parser.add_argument(
            f"--{front_end}-header-forward-pattern", type=_pattern, default="", metavar="REGEX",
            help=f"{what} headers that become request parameters",
        )  # fmt: skip
    _add_boolean(parser, "--allow-client-shm", default=False, text="let clients on this host register system shared memory")
    _add_boolean(parser, "--strict-readiness", default=True, text="not ready while a model cannot be served")
    _add_boolean(
        parser, "--exit-on-error", default=Options.exit_on_error,
        text="end with exit code 1 when a model cannot be loaded at start; false: serve the others",
    )  # fmt: skip
    parser.add_argument("--id", default=Options.id, metavar="NAME", help="the server's name in its metadata")


def _add_logging(parser: argparse.ArgumentParser) -> None:
    _add_count(parser, "--log-verbose", "0 = off")
    for level in ("info", "warning", "error"):
        _add_boolean(parser, f"--log-{level}", default=True, text=f"log {level} messages")
    parser.add_argument(
        "--log-format", choices=FORMATS, default=Options.log_format,
        help="layout of log lines; json has one object a line",
    )  # fmt: skip
    parser.add_argument("--log-file", default="", metavar="FILE", help="append the log to a file, not to standard error")


def _add_observation(parser: argparse.ArgumentParser) -> None:
    _add_count(parser, "--metrics-interval-ms", "over how long utilization is averaged, at least")
    _add_boolean(parser, "--allow-gpu-metrics", default=True, text="publish metrics of cards")
    _add_boolean(parser, "--allow-cpu-metrics", default=True, text="publish metrics of the host's processors and memory")
    for name, metavar, text in (
        ("--metrics-config", "SETTING=VALUE", "counter_latencies, histogram_latencies, summary_latencies, summary_quantiles"),
        ("--trace-config", "[MODE,]SETTING=VALUE", "mode, level, rate, count; triton,file; opentelemetry,url"),
    ):
        parser.add_argument(name, action="append", default=[], metavar=metavar, help=f"may be given several times: {text}")


def _add_grpc(parser: argparse.ArgumentParser) -> None:
    for name, text in (
        ("--grpc-keepalive-time", "ms between the server's keepalive pings"),
        ("--grpc-keepalive-timeout", "ms to wait for a ping's answer"),
        ("--grpc-http2-max-pings-without-data", "pings without data between them"),
        ("--grpc-http2-min-recv-ping-interval-without-data", "ms a client must leave between pings"),
        ("--grpc-http2-max-ping-strikes", "bad pings before the connection is closed"),
        (
            "--grpc-max-connection-age",
            "ms until a connection is closed, so that its client looks for a server again; 0 = never",
        ),
        ("--grpc-max-connection-age-grace", "ms that calls on it may still take; 0 = as long as they like"),
    ):
        _add_count(parser, name, text)
    parser.add_argument(
        "--grpc-infer-response-compression-level", choices=("none", "low", "medium", "high"), default="none",
        help="gzip for inference answers to clients that take it; low, medium and high are the same here",
    )  # fmt: skip
    _add_boolean(parser, "--grpc-keepalive-permit-without-calls", default=True, text="allow clients' pings on idle connections")


def _add_tls(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("TLS", "PEM files, read again when they change")
    _add_boolean(group, "--grpc-use-ssl", default=False, text="TLS on the gRPC port")
    _add_boolean(group, "--grpc-use-ssl-mutual", default=False, text="the same, and clients must show a certificate")
    for name, text in (
        ("--grpc-server-cert", "the gRPC server's certificate chain"),
        ("--grpc-server-key", "its private key, without a password"),
        ("--grpc-root-cert", "who signs clients' certificates, for --grpc-use-ssl-mutual"),
        ("--http-server-cert", "certificate chain of the HTTP and metrics ports; given: these speak TLS"),
        ("--http-server-key", "its private key, without a password"),
        ("--http-root-cert", "who signs clients' certificates; given: HTTP and metrics clients must show one"),
    ):
        group.add_argument(name, default="", metavar="FILE", help=text)


def _add_authorisation(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("authorisation", "docs/security.md says what each of these asks of a client")
    names = "health, metadata, inference, shared-memory, model-config, model-repository, statistics, trace, logging"
    for name, header in (("--grpc-restricted-protocol", "triton-grpc-protocol-KEY"), ("--http-restricted-api", "KEY")):
        group.add_argument(
            name, action="append", default=[], metavar="GROUP[,GROUP]:KEY=VALUE",
            help=f"open these protocol groups only to requests with header {header}: VALUE; groups: {names}",
        )  # fmt: skip
    group.add_argument(
        "--auth-token-file", default="", metavar="FILE",
        help="ask for a bearer token; FILE has one a line, # begins a comment, read again when it changes",
    )  # fmt: skip
    group.add_argument(
        "--auth-jwks-file", default="", metavar="FILE",
        help="ask for a JSON Web Token signed by one of these public keys (JWK set), read again when it changes",
    )  # fmt: skip
    group.add_argument("--auth-issuer", default="", metavar="ISSUER", help="the iss that JSON Web Tokens must have")
    group.add_argument(
        "--auth-audience", action="append", default=[], metavar="AUDIENCE",
        help="an aud that JSON Web Tokens may have; may be given several times",
    )  # fmt: skip
    group.add_argument(
        "--auth-exempt", type=_names, default=list(Options.auth_exempt), metavar="GROUP[,GROUP]",
        help='groups open without a token, by default "health,metrics", so that probes and Prometheus need none; "" for none',
    )  # fmt: skip


def _add_limits(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("limits", "docs/security.md names those that are not options")
    for name, text in (
        ("--grpc-max-message-bytes", "largest gRPC message taken, also after decompression"),
        ("--grpc-max-metadata-bytes", "largest headers of one gRPC call"),
        ("--grpc-max-concurrent-streams", "calls at once on one gRPC connection; more wait at the client"),
        ("--grpc-max-connections", "gRPC connections at once, shared by client address; more are closed"),
        ("--http-max-connections", "the same of the HTTP port"),
        ("--model-load-override-limit-bytes", "largest files that one load request may bring, all together"),
    ):
        group.add_argument(name, type=_int32, default=_default(name), metavar="N", help=text)
    group.add_argument(
        "--trusted-proxies", type=_networks, default=list(Options.trusted_proxies), metavar="ADDRESS[,ADDRESS]",
        help="addresses or networks (10.0.0.0/8) of proxies: what is shared by address is shared by connection among theirs",
    )  # fmt: skip


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _networks(text: str) -> list[str]:
    for name in _names(text):
        try:
            ip_network(name, strict=False)
        except ValueError as error:
            raise argparse.ArgumentTypeError(
                f"{name!r} is not an IP address or network, expected for example 10.0.0.7 or 10.0.0.0/8"
            ) from error
    return _names(text)


def _int32(text: str) -> int:
    if text.isdecimal() and 0 < int(text) < 1 << 31:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 2147483647")


def _default(name: str) -> int:
    return int(getattr(Options, name.removeprefix("--").replace("-", "_")))


def _add_count(parser: argparse.ArgumentParser, name: str, text: str) -> None:
    parser.add_argument(name, type=_count, default=_default(name), metavar="N", help=text)


def _add_boolean(parser: argparse._ActionsContainer, name: str, *, default: bool, text: str) -> None:
    parser.add_argument(name, type=boolean, nargs="?", const=True, default=default, metavar="BOOL", help=text)
