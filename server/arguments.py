# SPDX-License-Identifier: Apache-2.0
"""The server's command-line options, spelled like tritonserver's; options.py has the parsed values."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from ipaddress import ip_network
from pathlib import Path

from hypersonic.server.arguments_triton import TRITON_GROUP, add_triton_arguments, boolean
from hypersonic.server.limits.bounds import MOST_DIGITS, OPTIONS
from hypersonic.server.observe.log import FORMATS
from hypersonic.server.options import Options


def _port(text: str) -> int:
    if text.isdecimal() and len(text) <= MOST_DIGITS and int(text) < 1 << 16:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a port, expected 0 to 65535 (0: any free one)")


def _directory(text: str) -> Path:
    if re.match(r"[A-Za-z0-9+.-]+://", text):
        raise argparse.ArgumentTypeError(
            f"{text[:200]!r} is not a directory of this machine: mount the store, or copy its models to a directory"
        )
    if text:
        return Path(text)
    raise argparse.ArgumentTypeError("an empty name, expected a directory (a variable that is not set?)")


def _address(text: str) -> str:
    """Parse an IP address; an IPv6 address may have the brackets that it has in a URL."""
    return text[1:-1] if text.startswith("[") and text.endswith("]") else text


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a regular expression: {error}") from error
    return text


def _header(text: str) -> str:
    if re.fullmatch(r"[A-Za-z0-9_.-]*", text):
        return text.lower()
    raise argparse.ArgumentTypeError(f"{text!r} is not the name of a header, expected letters, digits and the signs - _ .")


def _number(name: str) -> Callable[[str], int]:
    """Return the parser of an option: a whole number within its bounds (server/limits/bounds.py)."""
    bound = OPTIONS[name]

    def parse(text: str) -> int:
        if text.isdecimal() and len(text) <= MOST_DIGITS and int(text) in bound:
            return int(text)
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a number from {bound}")

    return parse


def _verbosity(text: str) -> int:
    """Parse a verbosity level; like tritonserver, this also accepts a boolean."""
    return _number("--log-verbose")({"true": "1", "false": "0"}.get(text.lower(), text))


def _milliseconds(name: str) -> Callable[[str], int]:
    """Return the parser of whole milliseconds; like tritonserver, it also accepts a decimal fraction, and drops it."""
    parse = _number(name)
    return lambda text: parse(re.sub(r"(?<=[0-9])\.[0-9]*\Z", "", text))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the server's options to a parser, in groups; Options.of reads the parsed arguments."""
    _add_repository(parser.add_argument_group("model repository"))
    _add_ports(parser.add_argument_group("ports and addresses", "Port 0 is any free port; the log names it."))
    _add_emulation(parser.add_argument_group("emulated cards", "For xclbins of sw_emu and hw_emu (docs/xrt-emulation.md)."))
    _add_tls(parser.add_argument_group("TLS", "Files are PEM. They are read again when they change."))
    _add_authentication(
        parser.add_argument_group("authentication and safety", "docs/security.md explains what each option demands of clients.")
    )
    _add_requests(
        parser.add_argument_group(
            "requests and limits",
            "docs/security.md lists these limits and the fixed ones. A limit that is shared by address is divided fairly among "
            "client addresses. How requests are batched is set for each model, in its config.pbtxt.",
        )
    )
    _add_grpc(parser.add_argument_group("gRPC connections", "Times are in milliseconds."))
    _add_logging(parser.add_argument_group("logging"))
    _add_metrics(parser.add_argument_group("metrics", "docs/metrics.md lists the metrics."))
    _add_traces(parser.add_argument_group("traces"))
    add_triton_arguments(parser.add_argument_group("accepted for compatibility with tritonserver", TRITON_GROUP))


def _add_repository(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--model-repository", "--model-store", action="append", type=_directory, metavar="DIR",
        help="serve the models in this directory, which has one subdirectory per model; may be given several times (default: "
        "models, where `hypersonic build` publishes)",
    )  # fmt: skip
    parser.add_argument(
        "--model-control-mode", choices=("none", "poll", "explicit"), default="none", type=str.lower,
        help="how models are loaded; none: all of them at start; poll: all at start, and the server follows changes in the "
        "repositories; explicit: those of --load-model at start, and clients load and unload models",
    )  # fmt: skip
    parser.add_argument(
        "--load-model", action="append", default=[], metavar="NAME",
        help="load this model at start, in mode explicit; * loads all; may be given several times",
    )  # fmt: skip
    _add_count(parser, "--repository-poll-secs", "polling interval in seconds, in mode poll")
    _add_count(parser, "--model-load-timeout-secs", "most seconds that loading a model version may take; 0: no limit")
    _add_count(parser, "--model-load-thread-count", "number of models that are loaded at the same time")
    parser.add_argument(
        "--disable-auto-complete-config",
        action="store_true",
        help="refuse a model whose config.pbtxt is missing or incomplete, instead of completing it from the model's file "
        "(default: false)",
    )
    _add_boolean(parser, "--strict-model-config", default=False, text="older name of --disable-auto-complete-config")
    _add_boolean(
        parser, "--exit-on-error", default=Options.exit_on_error,
        text="exit with code 1 if a model cannot be loaded at start; false: serve the other models",
    )  # fmt: skip
    _add_boolean(
        parser, "--strict-readiness", default=True,
        text="report the server as ready only while all loaded models can be served; false: even if some cannot",
    )  # fmt: skip
    parser.add_argument("--id", default=Options.id, metavar="NAME", help="name of the server in its metadata")


def _add_emulation(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--emulated-cards", type=_number("--emulated-cards"), metavar="N",
        help="number of emulated cards (default: the environment's HYPERSONIC_EMU_DEVICES, otherwise 4)",
    )  # fmt: skip
    parser.add_argument(
        "--emulated-load-ms", type=_milliseconds("--emulated-load-ms"), metavar="N",
        help="time that an emulated card takes to replace one xclbin by another, in milliseconds; no card has been measured "
        "(default: the environment's HYPERSONIC_EMU_LOAD_MS, otherwise 2000, an assumption)",
    )  # fmt: skip


def _add_ports(parser: argparse._ActionsContainer) -> None:
    for name, what, port in (("grpc", "gRPC", 8001), ("http", "HTTP", 8000), ("metrics", "Prometheus metrics", 8002)):
        parser.add_argument(f"--{name}-port", type=_port, default=port, metavar="N", help=f"port for {what}")
        _add_boolean(parser, f"--allow-{name}", default=True, text=f"serve {what}")
    for name, what in (("grpc", "gRPC"), ("http", "HTTP")):
        parser.add_argument(
            f"--{name}-address",
            type=_address,
            default=Options.grpc_address,
            metavar="ADDRESS",
            help=f"IP address to listen on for {what}",
        )
        _add_boolean(parser, f"--reuse-{name}-port", default=False, text=f"let several servers listen on the same {what} port")
    parser.add_argument(
        "--metrics-address", type=_address, default="", metavar="ADDRESS",
        help="IP address to listen on for metrics (default: that of --http-address)",
    )  # fmt: skip
    parser.add_argument(
        "--grpc-address-file", default="", metavar="FILE",
        help="write HOST:PORT of the gRPC port to FILE when the server is ready, and remove FILE when the server begins to "
        "stop, for clients that read it as file://FILE (default: none)",
    )  # fmt: skip


def _add_tls(parser: argparse._ActionsContainer) -> None:
    _add_boolean(parser, "--grpc-use-ssl", default=False, text="use TLS on the gRPC port")
    _add_boolean(
        parser, "--grpc-use-ssl-mutual", default=False, text="use TLS on the gRPC port and require client certificates"
    )
    for name, text in (
        ("--grpc-server-cert", "certificate chain of the gRPC port; needs --grpc-use-ssl or --grpc-use-ssl-mutual"),
        ("--grpc-server-key", "private key of --grpc-server-cert, without a password"),
        ("--grpc-root-cert", "certificates of the authorities that sign client certificates; needs --grpc-use-ssl-mutual"),
        ("--http-server-cert", "certificate chain of the HTTP and metrics ports; these ports then use TLS"),
        ("--http-server-key", "private key of --http-server-cert, without a password"),
        (
            "--http-root-cert",
            "certificates of the authorities that sign client certificates; HTTP and metrics clients must then show one",
        ),
    ):
        parser.add_argument(name, default="", metavar="FILE", help=f"{text} (default: none)")


def _add_authentication(parser: argparse._ActionsContainer) -> None:
    names = "health, metadata, inference, shared-memory, model-config, model-repository, statistics, trace, logging"
    for name, header in (("--grpc-restricted-protocol", "triton-grpc-protocol-KEY"), ("--http-restricted-api", "KEY")):
        parser.add_argument(
            name, action="append", default=[], metavar="GROUP[,GROUP]:KEY=VALUE",
            help=f"refuse requests of these groups without the header {header}: VALUE; may be given several times; groups: "
            f"{names} (default: none is restricted)",
        )  # fmt: skip
    parser.add_argument(
        "--auth-token-file", default="", metavar="FILE",
        help="require a bearer token of clients; FILE has one per line, # begins a comment; it is read again when it changes "
        "(default: none is required)",
    )  # fmt: skip
    parser.add_argument(
        "--auth-jwks-file", default="", metavar="FILE",
        help="require a JSON Web Token signed by a key in FILE, a JWK set, which is read again when it changes (default: none "
        "is required)",
    )  # fmt: skip
    parser.add_argument(
        "--auth-issuer", default="", metavar="ISSUER", help="issuer (iss) that JSON Web Tokens must have (default: any)"
    )
    parser.add_argument(
        "--auth-audience", action="append", default=[], metavar="AUDIENCE",
        help="audience (aud) that JSON Web Tokens may have; may be given several times (default: any)",
    )  # fmt: skip
    parser.add_argument(
        "--auth-exempt", type=_names, default=list(Options.auth_exempt), metavar="GROUP[,GROUP]",
        help='groups of requests that need no token; "" for none (default: "health,metrics", for probes and Prometheus)',
    )  # fmt: skip
    _add_boolean(
        parser, "--allow-xclbin-override", default=False,
        text="allow clients to upload xclbins in load requests; such an xclbin programs a card",
    )  # fmt: skip
    _add_boolean(
        parser, "--allow-emulated-override", default=False,
        text="with --allow-xclbin-override, also allow those for emulated cards; their native code runs in this process",
    )  # fmt: skip
    _add_boolean(
        parser, "--allow-python-override", default=False,
        text="allow every client to upload or select Python code in load requests; false: only if every port requires "
        "credentials",
    )  # fmt: skip
    _add_boolean(
        parser, "--allow-client-log-off", default=Options.allow_client_log_off,
        text="allow every client to reduce the log; false: only clients that had to show credentials",
    )  # fmt: skip
    _add_boolean(
        parser, "--allow-client-shm", default=False, text="allow clients on this host to register system shared memory"
    )
    parser.add_argument(
        "--model-link-roots", action="append", default=[], type=_directory, metavar="DIR",
        help="allow symbolic links in model repositories to point only into these directories and into the repositories; may "
        "be given several times (default: links may point anywhere)",
    )  # fmt: skip
    parser.add_argument(
        "--trusted-proxies", type=_networks, default=list(Options.trusted_proxies), metavar="ADDRESS[,ADDRESS]",
        help="addresses or networks (such as 10.0.0.0/8) of proxies; each connection from them counts as a client of its own "
        "in limits that are shared by address (default: none)",
    )  # fmt: skip


def _add_requests(parser: argparse._ActionsContainer) -> None:
    for name, text in (
        ("--max-inflight-bytes", "most bytes of all requests in flight; beyond, RESOURCE_EXHAUSTED is returned; 0: no limit"),
        ("--exit-timeout-secs", "most seconds to wait for requests in flight after SIGTERM"),
        (
            "--client-timeout-secs",
            "seconds after which a client is disconnected that stops sending its request or reading its answer; 0: never",
        ),
        (
            "--grpc-infer-thread-count",
            "most gRPC inference requests that are processed at the same time; those in a model's queue do not count",
        ),
        (
            "--http-infer-thread-count",
            "most HTTP inference requests that are processed at the same time; those in a model's queue do not count",
        ),
        ("--http-max-input-size", "largest HTTP body in bytes, both as sent and decompressed"),
        ("--grpc-max-message-bytes", "largest gRPC message in bytes, both as sent and decompressed"),
        (
            "--grpc-max-bytes-elements",
            "most elements of datatype BYTES in the bytes_contents of a gRPC request; raw_input_contents do not count",
        ),
        ("--grpc-max-metadata-bytes", "most bytes of headers in a gRPC call"),
        ("--grpc-max-concurrent-streams", "most concurrent calls on a gRPC connection; further calls wait in the client"),
        ("--grpc-max-connections", "most concurrent gRPC connections, shared by address; further ones are closed"),
        ("--http-max-connections", "most concurrent HTTP connections, shared by address; further ones are closed"),
        ("--model-load-override-limit-bytes", "most bytes of all files in a load request"),
    ):
        _add_count(parser, name, text)
    for front_end, what in (("http", "HTTP"), ("grpc", "gRPC")):
        parser.add_argument(
            f"--{front_end}-header-forward-pattern", type=_pattern, default="", metavar="REGEX",
            help=f"pass {what} headers whose names match to the model, as request parameters (default: none)",
        )  # fmt: skip
    parser.add_argument(
        "--sequence-header", type=_header, default="", metavar="NAME",
        help="refuse the requests of sequences that are not sent on a stream and do not have this header, by which a balancer "
        "sends all requests of a sequence to one server; hypersonic-sequence behind deploy/envoy (default: none is refused)",
    )  # fmt: skip


def _add_grpc(parser: argparse._ActionsContainer) -> None:
    for name, text in (
        ("--grpc-keepalive-time", "time between the server's keepalive pings"),
        ("--grpc-keepalive-timeout", "time to wait for the answer to a keepalive ping before the connection is closed"),
        ("--grpc-http2-max-pings-without-data", "most pings to send without data between them; 0: no limit"),
        (
            "--grpc-http2-min-recv-ping-interval-without-data",
            "shortest allowed time between two pings of a client; an earlier ping is a strike",
        ),
        ("--grpc-http2-max-ping-strikes", "number of strikes after which a client's connection is closed; 0: no limit"),
        (
            "--grpc-max-connection-age",
            "age at which a connection is closed, so that the client connects again, perhaps elsewhere; 0 (default): never",
        ),
        (
            "--grpc-max-connection-age-grace",
            "time that calls in progress on such a connection may still take; 0 (default): no limit",
        ),
    ):
        _add_count(parser, name, text)
    _add_boolean(
        parser, "--grpc-keepalive-permit-without-calls", default=True, text="allow clients' keepalive pings on idle connections"
    )
    parser.add_argument(
        "--grpc-infer-response-compression-level", choices=("none", "low", "medium", "high"), default="none", metavar="LEVEL",
        help="compress inference responses with gzip for clients that accept it: none, or low, medium or high, which are equal",
    )  # fmt: skip


def _add_logging(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--log-verbose", type=_verbosity, default=Options.log_verbose, metavar="N",
        help="log debug messages too, if 1 or more (default: 0)",
    )  # fmt: skip
    for level in ("info", "warning", "error"):
        _add_boolean(parser, f"--log-{level}", default=True, text=f"log {level} messages")
    parser.add_argument(
        "--log-format", choices=FORMATS, default=Options.log_format,
        help="format of log lines; default and ISO8601 are Triton's formats, json writes one object per line",
    )  # fmt: skip
    parser.add_argument("--log-file", default="", metavar="FILE", help="append the log to FILE (default: standard error)")


def _add_metrics(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--metrics-interval-ms", type=_milliseconds("--metrics-interval-ms"), default=Options.metrics_interval_ms, metavar="N",
        help="shortest time, in milliseconds, over which utilization is averaged",
    )  # fmt: skip
    _add_boolean(parser, "--allow-gpu-metrics", default=True, text="publish metrics of cards")
    _add_boolean(parser, "--allow-cpu-metrics", default=True, text="publish metrics of the host's processors and memory")
    parser.add_argument(
        "--metrics-config", action="append", default=[], metavar="SETTING=VALUE",
        help="select the published latencies: counter_latencies, histogram_latencies and summary_latencies are true or false, "
        "summary_quantiles is a list; may be given several times",
    )  # fmt: skip


def _add_traces(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--trace-config", action="append", default=[], metavar="[MODE,]SETTING=VALUE",
        help="select the traced requests: mode=triton|opentelemetry, level=OFF|TIMESTAMPS, rate=N (one request in N), "
        "count=N (that many traces); and the destination: triton,file=FILE, triton,log-frequency=N, opentelemetry,url=URL, "
        "opentelemetry,resource=KEY=VALUE; may be given several times (default: no traces)",
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


def _default(name: str) -> int:
    return int(getattr(Options, name.removeprefix("--").replace("-", "_")))


def _add_count(parser: argparse._ActionsContainer, name: str, text: str) -> None:
    parser.add_argument(name, type=_number(name), default=_default(name), metavar="N", help=text)


def _add_boolean(parser: argparse._ActionsContainer, name: str, *, default: bool, text: str) -> None:
    shown = f"{text} (default: {str(default).lower()})"
    parser.add_argument(name, type=boolean, nargs="?", const=True, default=default, metavar="BOOL", help=shown)
