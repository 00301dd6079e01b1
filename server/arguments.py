# SPDX-License-Identifier: Apache-2.0
"""The server's command line, spelled as tritonserver spells it; options.py holds the outcome."""

from __future__ import annotations

import argparse
import re
from ipaddress import ip_network
from pathlib import Path

from hypersonic.server.arguments_triton import add_triton_arguments, boolean
from hypersonic.server.log import FORMATS
from hypersonic.server.options import Options


def _port(text: str) -> int:
    if text.isdecimal() and int(text) < 1 << 16:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a port, expected 0 to 65535 (0: any free one)")


def _directory(text: str) -> Path:
    if text:
        return Path(text)
    raise argparse.ArgumentTypeError("an empty name, expected a directory (a variable that is not set?)")


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a regular expression: {error}") from error
    return text


def _count(text: str) -> int:
    if text.isdecimal():
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a non-negative integer")


def _verbosity(text: str) -> int:
    """tritonserver takes a boolean too."""
    return _count({"true": "1", "false": "0"}.get(text.lower(), text))


def _milliseconds(text: str) -> int:
    """tritonserver takes a fraction too."""
    match = re.fullmatch(r"([0-9]{1,18})(?:\.[0-9]*)?", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of milliseconds")
    return int(match[1])


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the server's options to a parser."""
    parser.add_argument(
        "--model-repository", "--model-store", action="append", type=_directory, required=True, metavar="DIR",
        help="a model repository, a directory with one directory per model; may be given several times",
    )  # fmt: skip
    parser.add_argument(
        "--model-link-roots", action="append", default=[], type=_directory, metavar="DIR",
        help="let symbolic links in model repositories lead only here and into the repositories; may be given several times; "
        "not given: links lead anywhere",
    )  # fmt: skip
    _add_control(parser.add_argument_group("models"))
    _add_ports(parser.add_argument_group("ports", "port 0 = any free one; the log names it"))
    _add_behaviour(parser.add_argument_group("requests and clients"))
    _add_logging(parser.add_argument_group("log"))
    _add_observation(parser.add_argument_group("metrics and traces", "docs/metrics.md lists the metrics"))
    _add_grpc(parser.add_argument_group("gRPC connections", "times are in milliseconds"))
    _add_tls(parser)
    _add_authorisation(parser)
    _add_limits(parser)
    add_triton_arguments(parser)


def _add_control(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--model-control-mode", choices=("none", "poll", "explicit"), default="none", type=str.lower,
        help="none: all models are loaded at start; poll: as well, and changes in the repositories are followed; "
        "explicit: clients load and unload models",
    )  # fmt: skip
    parser.add_argument(
        "--load-model", action="append", default=[], metavar="NAME",
        help="a model to load at start in mode explicit; may be given several times; * = all",
    )  # fmt: skip
    _add_count(parser, "--repository-poll-secs", "polling interval in seconds, in mode poll")
    _add_count(parser, "--model-load-timeout-secs", "seconds that the load of a model version may take; 0 = no limit")
    _add_count(parser, "--model-load-thread-count", "how many models are loaded at the same time")
    parser.add_argument(
        "--disable-auto-complete-config",
        action="store_true",
        help="refuse models whose config.pbtxt is missing or incomplete, instead of completing it from the model's file",
    )
    _add_boolean(parser, "--strict-model-config", default=False, text="older spelling of --disable-auto-complete-config")
    _add_boolean(
        parser, "--exit-on-error", default=Options.exit_on_error,
        text="exit with code 1 when a model cannot be loaded at start; false: serve the others",
    )  # fmt: skip
    _add_boolean(
        parser, "--strict-readiness", default=True,
        text="report the server as ready only while every loaded model can be served; false: even if some cannot",
    )  # fmt: skip
    _add_boolean(
        parser, "--allow-xclbin-override", default=False,
        text="let clients' load requests contain an xclbin, with which a card is programmed",
    )  # fmt: skip
    _add_boolean(
        parser, "--allow-python-override", default=False,
        text="let every client's load requests bring or choose python code; false: only where every port asks for credentials",
    )  # fmt: skip


def _add_ports(parser: argparse._ActionsContainer) -> None:
    for name, what, port in (("grpc", "gRPC", 8001), ("http", "HTTP", 8000), ("metrics", "Prometheus metrics", 8002)):
        parser.add_argument(f"--{name}-port", type=_port, default=port, metavar="N", help=f"port for {what}")
        _add_boolean(parser, f"--allow-{name}", default=True, text=f"serve {what}")
    for name, what in (("grpc", "gRPC"), ("http", "HTTP")):
        parser.add_argument(
            f"--{name}-address", default=Options.grpc_address, metavar="ADDRESS", help=f"IP address to listen on for {what}"
        )
        _add_boolean(parser, f"--reuse-{name}-port", default=False, text=f"let several servers listen on the same {what} port")
    parser.add_argument(
        "--metrics-address", default="", metavar="ADDRESS",
        help="IP address to listen on for metrics (default: that of --http-address)",
    )  # fmt: skip


def _add_behaviour(parser: argparse._ActionsContainer) -> None:
    for name, text in (
        ("--exit-timeout-secs", "seconds that requests in flight may take after SIGTERM"),
        ("--max-inflight-bytes", "bytes of all requests in flight; more are refused with RESOURCE_EXHAUSTED; 0 = no limit"),
        (
            "--client-timeout-secs",
            "seconds after which a client is cut off that sends no more of its request, or does not read its answer; 0 = never",
        ),
        (
            "--grpc-infer-thread-count",
            "gRPC inference requests worked on at the same time; those in a model's queue do not count",
        ),
        (
            "--http-infer-thread-count",
            "HTTP inference requests worked on at the same time; those in a model's queue do not count",
        ),
        ("--http-max-input-size", "largest HTTP body in bytes, as sent and as decompressed"),
    ):
        _add_count(parser, name, text)
    for front_end, what in (("http", "HTTP"), ("grpc", "gRPC")):
        parser.add_argument(
            f"--{front_end}-header-forward-pattern", type=_pattern, default="", metavar="REGEX",
            help=f"{what} headers whose names match are given to the model as request parameters",
        )  # fmt: skip
    _add_boolean(parser, "--allow-client-shm", default=False, text="let clients on this host register system shared memory")
    parser.add_argument("--id", default=Options.id, metavar="NAME", help="name of the server, shown in its metadata")


def _add_logging(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--log-verbose", type=_verbosity, default=Options.log_verbose, metavar="N",
        help="1 or more: log debug messages as well (default: 0)",
    )  # fmt: skip
    for level in ("info", "warning", "error"):
        _add_boolean(parser, f"--log-{level}", default=True, text=f"log {level} messages")
    parser.add_argument(
        "--log-format", choices=FORMATS, default=Options.log_format,
        help="format of log lines; default and ISO8601 are Triton's, json writes one object per line",
    )  # fmt: skip
    parser.add_argument("--log-file", default="", metavar="FILE", help="append the log to FILE instead of writing to stderr")
    _add_boolean(
        parser, "--allow-client-log-off", default=Options.allow_client_log_off,
        text="let every client reduce the log over the network, not only clients that had to authorise for it",
    )  # fmt: skip


def _add_observation(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--metrics-interval-ms", type=_milliseconds, default=Options.metrics_interval_ms, metavar="N",
        help="milliseconds over which utilization is averaged, at least",
    )  # fmt: skip
    _add_boolean(parser, "--allow-gpu-metrics", default=True, text="publish metrics of cards")
    _add_boolean(parser, "--allow-cpu-metrics", default=True, text="publish metrics of the host's processors and memory")
    metrics = "counter_latencies, histogram_latencies, summary_latencies (true or false), summary_quantiles"
    traces = (
        "mode=triton|opentelemetry, level=OFF|TIMESTAMPS|TENSORS, rate=N (one request in N), count=N; where they go: "
        "triton,file=FILE, triton,log-frequency=N; opentelemetry,url=URL, opentelemetry,resource=KEY=VALUE"
    )
    for name, metavar, text in (
        ("--metrics-config", "SETTING=VALUE", f"which latencies are published: {metrics}; may be given several times"),
        ("--trace-config", "[MODE,]SETTING=VALUE", f"which requests are traced: {traces}; may be given several times"),
    ):
        parser.add_argument(name, action="append", default=[], metavar=metavar, help=text)


def _add_grpc(parser: argparse._ActionsContainer) -> None:
    for name, text in (
        ("--grpc-keepalive-time", "time between the server's keepalive pings"),
        ("--grpc-keepalive-timeout", "time to wait for the answer to a keepalive ping, before the connection is closed"),
        ("--grpc-http2-max-pings-without-data", "most pings that are sent without data between them; 0 = no limit"),
        (
            "--grpc-http2-min-recv-ping-interval-without-data",
            "least time between two pings of a client; one that is sooner is bad",
        ),
        ("--grpc-http2-max-ping-strikes", "bad pings of a client after which its connection is closed; 0 = any number"),
        (
            "--grpc-max-connection-age",
            "age at which a connection is closed, so that the client connects again, perhaps elsewhere; 0 = never",
        ),
        ("--grpc-max-connection-age-grace", "time that calls on such a connection may still take; 0 = no limit"),
    ):
        _add_count(parser, name, text)
    parser.add_argument(
        "--grpc-infer-response-compression-level", choices=("none", "low", "medium", "high"), default="none",
        help="compress inference answers with gzip for clients that accept it; low, medium and high are equal here",
    )  # fmt: skip
    _add_boolean(
        parser, "--grpc-keepalive-permit-without-calls", default=True, text="allow clients' keepalive pings on idle connections"
    )


def _add_tls(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("TLS", "files are PEM, and are read again when they change")
    _add_boolean(group, "--grpc-use-ssl", default=False, text="use TLS on the gRPC port")
    _add_boolean(
        group, "--grpc-use-ssl-mutual", default=False, text="use TLS on the gRPC port, and ask clients for a certificate"
    )
    for name, text in (
        ("--grpc-server-cert", "certificate chain of the gRPC port; needs --grpc-use-ssl or --grpc-use-ssl-mutual"),
        ("--grpc-server-key", "private key of --grpc-server-cert, without a password"),
        ("--grpc-root-cert", "certificates of those who may sign clients' certificates; needs --grpc-use-ssl-mutual"),
        ("--http-server-cert", "certificate chain of the HTTP and metrics ports, which then use TLS"),
        ("--http-server-key", "private key of --http-server-cert, without a password"),
        (
            "--http-root-cert",
            "certificates of those who may sign clients' certificates, which HTTP and metrics clients must then show",
        ),
    ):
        group.add_argument(name, default="", metavar="FILE", help=text)


def _add_authorisation(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("authorisation", "docs/security.md says what each of these asks of a client")
    names = "health, metadata, inference, shared-memory, model-config, model-repository, statistics, trace, logging"
    for name, header in (("--grpc-restricted-protocol", "triton-grpc-protocol-KEY"), ("--http-restricted-api", "KEY")):
        group.add_argument(
            name, action="append", default=[], metavar="GROUP[,GROUP]:KEY=VALUE",
            help=f"answer requests of these groups only if they have the header {header}: VALUE; groups: {names}",
        )  # fmt: skip
    group.add_argument(
        "--auth-token-file", default="", metavar="FILE",
        help="ask clients for a bearer token; FILE has one per line, # begins a comment; it is read again when it changes",
    )  # fmt: skip
    group.add_argument(
        "--auth-jwks-file", default="", metavar="FILE",
        help="ask clients for a JSON Web Token signed by a key of FILE (JWK set), which is read again when it changes",
    )  # fmt: skip
    group.add_argument("--auth-issuer", default="", metavar="ISSUER", help="issuer (iss) that JSON Web Tokens must have")
    group.add_argument(
        "--auth-audience", action="append", default=[], metavar="AUDIENCE",
        help="audience (aud) that JSON Web Tokens may have; may be given several times",
    )  # fmt: skip
    group.add_argument(
        "--auth-exempt", type=_names, default=list(Options.auth_exempt), metavar="GROUP[,GROUP]",
        help='groups that need no token (default: "health,metrics", for probes and Prometheus); "" for none',
    )  # fmt: skip


def _add_limits(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "limits",
        "docs/security.md lists these and the fixed ones; what is shared by address is first shared among client addresses",
    )
    for name, text in (
        ("--grpc-max-message-bytes", "largest gRPC message in bytes, as sent and as decompressed"),
        (
            "--grpc-max-bytes-elements",
            "most elements of datatype BYTES that one gRPC request has in bytes_contents; raw_input_contents are not counted",
        ),
        ("--grpc-max-metadata-bytes", "most bytes of headers of one gRPC call"),
        ("--grpc-max-concurrent-streams", "most calls at the same time on one gRPC connection; more wait at the client"),
        ("--grpc-max-connections", "most gRPC connections at the same time, shared by address; more are closed"),
        ("--http-max-connections", "most HTTP connections at the same time, shared by address; more are closed"),
        ("--model-load-override-limit-bytes", "most bytes of files in one load request, all files together"),
    ):
        group.add_argument(name, type=_int32, default=_default(name), metavar="N", help=text)
    group.add_argument(
        "--trusted-proxies", type=_networks, default=list(Options.trusted_proxies), metavar="ADDRESS[,ADDRESS]",
        help="addresses or networks (10.0.0.0/8) of proxies: each of their connections counts as a client of its own",
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


def _add_count(parser: argparse._ActionsContainer, name: str, text: str) -> None:
    parser.add_argument(name, type=_count, default=_default(name), metavar="N", help=text)


def _add_boolean(parser: argparse._ActionsContainer, name: str, *, default: bool, text: str) -> None:
    shown = f"{text} (default: {str(default).lower()})"
    parser.add_argument(name, type=boolean, nargs="?", const=True, default=default, metavar="BOOL", help=shown)
