# SPDX-License-Identifier: Apache-2.0
"""The server's options as a typed dataclass; arguments.py reads them from the command line."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from hypersonic.server.limits.message import LIMITS
from hypersonic.server.repository.control_mode import ModelControlMode, ModelControlOptions
from hypersonic.server.repository.override import OverridePolicy

#: the most calls that have been received but that no thread has taken yet. At gRPC core's default of 1 000, which one client's
#: burst of streams reaches, it begins to refuse calls at random, no matter which client they are from
_MOST_PENDING_CALLS = 16_384


@dataclass(frozen=True)
class Options:
    """The values of the options that `arguments.add_arguments` defines; --help describes each. Port 0 is any free port."""

    model_repository: tuple[Path, ...] = (Path("models"),)
    grpc_port: int = 8001
    http_port: int = 8000
    metrics_port: int = 8002
    grpc_address: str = "0.0.0.0"  # noqa: S104 - a server in a container serves its pod
    http_address: str = "0.0.0.0"  # noqa: S104
    metrics_address: str = ""
    grpc_address_file: str = ""
    allow_grpc: bool = True
    allow_http: bool = True
    allow_metrics: bool = True
    id: str = "triton"
    model_control_mode: str = "none"
    load_model: tuple[str, ...] = ()
    repository_poll_secs: int = 15
    model_link_roots: tuple[Path, ...] = ()
    disable_auto_complete_config: bool = False
    strict_model_config: bool = False
    allow_xclbin_override: bool = False
    allow_emulated_override: bool = False
    allow_python_override: bool = False
    model_load_override_limit_bytes: int = 1 << 30
    model_load_timeout_secs: int = 600
    model_load_thread_count: int = 4
    exit_timeout_secs: int = 30
    exit_on_error: bool = True
    strict_readiness: bool = True
    log_verbose: int = 0
    log_info: bool = True
    log_warning: bool = True
    log_error: bool = True
    log_format: str = "default"
    log_file: str = ""
    allow_client_log_off: bool = False
    metrics_interval_ms: int = 2000
    metrics_config: tuple[str, ...] = ()
    allow_gpu_metrics: bool = True
    allow_cpu_metrics: bool = True
    trace_config: tuple[str, ...] = ()
    #: --trace-level and similar options, as texts for trace_config
    deprecated_trace: tuple[str, ...] = ()
    #: names of the given options that have no effect
    ignored_options: tuple[str, ...] = ()
    reuse_grpc_port: bool = False
    reuse_http_port: bool = False
    grpc_infer_thread_count: int = 256
    max_inflight_bytes: int = 2 << 30
    client_timeout_secs: int = 60
    grpc_keepalive_time: int = 7_200_000
    grpc_keepalive_timeout: int = 20_000
    grpc_keepalive_permit_without_calls: bool = True
    grpc_http2_max_pings_without_data: int = 2
    grpc_http2_min_recv_ping_interval_without_data: int = 10_000
    grpc_http2_max_ping_strikes: int = 2
    grpc_max_message_bytes: int = 2**31 - 1
    grpc_max_metadata_bytes: int = 16_384
    grpc_max_concurrent_streams: int = 1024
    grpc_max_bytes_elements: int = LIMITS.string_elements
    grpc_max_connections: int = 16_384
    grpc_use_ssl: bool = False
    grpc_use_ssl_mutual: bool = False
    grpc_server_cert: str = ""
    grpc_server_key: str = ""
    grpc_root_cert: str = ""
    http_server_cert: str = ""
    http_server_key: str = ""
    http_root_cert: str = ""
    grpc_restricted_protocol: tuple[str, ...] = ()
    http_restricted_api: tuple[str, ...] = ()
    http_max_input_size: int = 1 << 26
    http_max_connections: int = 16_384
    http_infer_thread_count: int = 256
    http_header_forward_pattern: str = ""
    grpc_header_forward_pattern: str = ""
    sequence_header: str = ""
    grpc_infer_response_compression_level: str = "none"
    #: ms; 0: the connection is never closed
    grpc_max_connection_age: int = 0
    grpc_max_connection_age_grace: int = 0
    allow_client_shm: bool = False
    auth_token_file: str = ""
    auth_jwks_file: str = ""
    auth_issuer: str = ""
    auth_audience: tuple[str, ...] = ()
    auth_exempt: tuple[str, ...] = ("health", "metrics")
    trusted_proxies: tuple[str, ...] = ()
    emulated_cards: int | None = None
    emulated_load_ms: int | None = None

    @property
    def emulation(self) -> dict[str, str]:
        """The environment variables of the emulated cards that the options set."""
        given = {"HYPERSONIC_EMU_DEVICES": self.emulated_cards, "HYPERSONIC_EMU_LOAD_MS": self.emulated_load_ms}
        return {name: str(value) for name, value in given.items() if value is not None}

    @property
    def model_control(self) -> ModelControlOptions:
        """The options about loading models, for the model repository."""
        return ModelControlOptions(
            ModelControlMode(self.model_control_mode),
            self.load_model,
            float(self.repository_poll_secs),
            complete_config=not (self.disable_auto_complete_config or self.strict_model_config),
            override=OverridePolicy(
                self.model_load_override_limit_bytes, self.allow_xclbin_override, self.allow_python_override
            ),
            load_timeout_s=float(self.model_load_timeout_secs),
            load_threads=self.model_load_thread_count,
            link_roots=self.model_link_roots,
        )

    @classmethod
    def of(cls, args: argparse.Namespace) -> Options:
        """Make the options from parsed arguments. A model repository that is given twice counts once."""
        given = ((field.name, getattr(args, field.name)) for field in fields(cls))
        values: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in given}
        values["model_repository"] = tuple(dict.fromkeys(values["model_repository"] or cls.model_repository))
        return cls(**values)

    @property
    def grpc_channel_options(self) -> list[tuple[str, int]]:
        """The channel options of grpc.server. The message limit also applies to a message after decompression."""
        return [
            ("grpc.max_receive_message_length", self.grpc_max_message_bytes),
            ("grpc.max_send_message_length", -1),
            ("grpc.max_metadata_size", self.grpc_max_metadata_bytes),
            ("grpc.absolute_max_metadata_size", self.grpc_max_metadata_bytes),
            ("grpc.max_concurrent_streams", self.grpc_max_concurrent_streams),
            # twice the limit that limits/connections.py shares, to allow for a burst between two of its checks. gRPC aborts at
            # 2^31-1
            ("grpc.max_allowed_incoming_connections", min(2 * self.grpc_max_connections, 2**31 - 2)),
            ("grpc.server.max_pending_requests", _MOST_PENDING_CALLS),
            ("grpc.server.max_pending_requests_hard_limit", 2 * _MOST_PENDING_CALLS),
            ("grpc.so_reuseport", int(self.reuse_grpc_port)),
            ("grpc.keepalive_time_ms", self.grpc_keepalive_time),
            ("grpc.keepalive_timeout_ms", self.grpc_keepalive_timeout),
            ("grpc.keepalive_permit_without_calls", int(self.grpc_keepalive_permit_without_calls)),
            ("grpc.http2.max_pings_without_data", self.grpc_http2_max_pings_without_data),
            ("grpc.http2.min_ping_interval_without_data_ms", self.grpc_http2_min_recv_ping_interval_without_data),
            ("grpc.http2.max_ping_strikes", self.grpc_http2_max_ping_strikes),
            *(
                (name, value)
                for name, value in (
                    ("grpc.max_connection_age_ms", self.grpc_max_connection_age),
                    ("grpc.max_connection_age_grace_ms", self.grpc_max_connection_age_grace),
                )
                if value
            ),
        ]
