# SPDX-License-Identifier: Apache-2.0
"""The server's options, spelled as tritonserver spells them."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, fields
from pathlib import Path


@dataclass(frozen=True)
class Options:
    """What `add_arguments` reads, typed. Ports: 0 = any free one."""

    model_repository: tuple[Path, ...]
    grpc_port: int = 8001
    http_port: int = 8000
    metrics_port: int = 8002
    grpc_address: str = "0.0.0.0"  # noqa: S104 - a server in a container serves its pod
    http_address: str = "0.0.0.0"  # noqa: S104
    metrics_address: str = ""
    allow_grpc: bool = True
    allow_http: bool = True
    allow_metrics: bool = True
    id: str = "triton"
    exit_timeout_secs: int = 30
    exit_on_error: bool = False
    strict_readiness: bool = True
    log_verbose: int = 0
    log_info: bool = True
    log_warning: bool = True
    log_error: bool = True
    metrics_interval_ms: int = 2000
    reuse_grpc_port: bool = False
    grpc_infer_thread_count: int = 256
    max_inflight_bytes: int = 2 << 30
    grpc_keepalive_time: int = 7_200_000
    grpc_keepalive_timeout: int = 20_000
    grpc_keepalive_permit_without_calls: bool = True
    grpc_http2_max_pings_without_data: int = 2
    grpc_http2_min_recv_ping_interval_without_data: int = 10_000
    grpc_http2_max_ping_strikes: int = 2

    @classmethod
    def of(cls, args: argparse.Namespace) -> Options:
        """From parsed arguments."""
        values = {field.name: getattr(args, field.name) for field in fields(cls)}
        return cls(**{**values, "model_repository": tuple(values["model_repository"])})

    @property
    def grpc_channel_options(self) -> list[tuple[str, int]]:
        """grpc.server's options. Messages of any size: what a request may hold is the byte budget's matter."""
        return [
            ("grpc.max_receive_message_length", -1),
            ("grpc.max_send_message_length", -1),
            ("grpc.so_reuseport", int(self.reuse_grpc_port)),
            ("grpc.keepalive_time_ms", self.grpc_keepalive_time),
            ("grpc.keepalive_timeout_ms", self.grpc_keepalive_timeout),
            ("grpc.keepalive_permit_without_calls", int(self.grpc_keepalive_permit_without_calls)),
            ("grpc.http2.max_pings_without_data", self.grpc_http2_max_pings_without_data),
            ("grpc.http2.min_ping_interval_without_data_ms", self.grpc_http2_min_recv_ping_interval_without_data),
            ("grpc.http2.max_ping_strikes", self.grpc_http2_max_ping_strikes),
        ]


#: accepted because scripts written for tritonserver give them; nothing here depends on them
_IGNORED = (
    "--backend-directory",
    "--backend-config",
    "--min-supported-compute-capability",
    "--strict-model-config",
    "--disable-auto-complete-config",
    "--allow-gpu-metrics",
    "--allow-cpu-metrics",
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
    parser.add_argument("--model-control-mode", choices=("none",), default="none", help="all models are loaded at start")
    _add_ports(parser)
    _add_behaviour(parser)
    _add_logging(parser)
    _add_grpc(parser)
    for name in _IGNORED:
        parser.add_argument(name, nargs="?", const="", action="append", help=argparse.SUPPRESS)


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
        ("--metrics-interval-ms", "over how long utilization is averaged"),
        ("--max-inflight-bytes", "bytes of requests held at once, 0 = no limit; more are refused with RESOURCE_EXHAUSTED"),
        ("--grpc-infer-thread-count", "inference requests worked on or waited for at once"),
    ):
        _add_count(parser, name, text)
    _add_boolean(parser, "--strict-readiness", default=True, text="not ready while a model cannot be served")
    _add_boolean(parser, "--exit-on-error", default=False, text="exit when a model cannot be loaded at start")
    parser.add_argument("--id", default=Options.id, metavar="NAME", help="the server's name in its metadata")


def _add_logging(parser: argparse.ArgumentParser) -> None:
    _add_count(parser, "--log-verbose", "0 = off")
    for level in ("info", "warning", "error"):
        _add_boolean(parser, f"--log-{level}", default=True, text=f"log {level} messages")


def _add_grpc(parser: argparse.ArgumentParser) -> None:
    for name, text in (
        ("--grpc-keepalive-time", "ms between the server's keepalive pings"),
        ("--grpc-keepalive-timeout", "ms to wait for a ping's answer"),
        ("--grpc-http2-max-pings-without-data", "pings without data between them"),
        ("--grpc-http2-min-recv-ping-interval-without-data", "ms a client must leave between pings"),
        ("--grpc-http2-max-ping-strikes", "bad pings before the connection is closed"),
    ):
        _add_count(parser, name, text)
    _add_boolean(parser, "--grpc-keepalive-permit-without-calls", default=True, text="allow clients' pings on idle connections")


def _add_count(parser: argparse.ArgumentParser, name: str, text: str) -> None:
    default = getattr(Options, name.removeprefix("--").replace("-", "_"))
    parser.add_argument(name, type=_count, default=default, metavar="N", help=text)


def _add_boolean(parser: argparse.ArgumentParser, name: str, *, default: bool, text: str) -> None:
    parser.add_argument(name, type=boolean, nargs="?", const=True, default=default, metavar="BOOL", help=text)
