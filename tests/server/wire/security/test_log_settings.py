# SPDX-License-Identifier: Apache-2.0
"""Who may reduce the log over the network: callers that every port asks for something, or all where the operator says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hypersonic.server.app import Server, Signals
from hypersonic.server.errors import UnsupportedError
from hypersonic.server.observe.log import LogControl, LogSettings
from hypersonic.server.options import Options
from hypersonic.server.wire.service.runtime_settings import http_log_settings
from tests.server.wire.security.conftest import Certificates

pytestmark = pytest.mark.usefixtures("restored_loggers")
GRPC, HTTP = "logging:admin=secret", "trace,logging:admin=secret"


def may_reduce(directory: Path, **options: Any) -> bool:
    """Whether a call that has come as far as the settings may switch information messages off."""
    (directory / "models").mkdir(exist_ok=True)
    ports: dict[str, Any] = dict.fromkeys(("grpc_port", "http_port", "metrics_port"), 0)
    addresses: dict[str, Any] = dict.fromkeys(("grpc_address", "http_address"), "127.0.0.1")
    log = LogControl(LogSettings())
    server = Server(Options((directory / "models",), **ports, **addresses, **options), {}, log)
    try:
        return not http_log_settings(log, {"log_info": False})["log_info"]
    except UnsupportedError:
        return False
    finally:
        server.open()
        server.stop(Signals())


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, False),
        ({"allow_client_log_off": True}, True),
        ({"grpc_restricted_protocol": (GRPC,), "http_restricted_api": (HTTP,)}, True),
        ({"grpc_restricted_protocol": (GRPC,)}, False),
        ({"grpc_restricted_protocol": (GRPC,), "allow_http": False}, True),
        ({"http_restricted_api": (HTTP,)}, False),
        ({"grpc_restricted_protocol": ("trace:a=b",), "http_restricted_api": ("trace:a=b",)}, False),
    ],
)
def test_the_log_is_reduced_only_where_every_port_asks_for_something(
    tmp_path: Path, options: dict[str, Any], expected: bool
) -> None:
    assert may_reduce(tmp_path, **options) is expected


def test_a_token_is_enough_unless_logging_is_exempt(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("a-token-of-the-site-1")
    assert may_reduce(tmp_path, auth_token_file=str(tmp_path / "tokens"))
    assert not may_reduce(tmp_path, auth_token_file=str(tmp_path / "tokens"), auth_exempt=("health", "logging"))


def test_a_clients_certificate_is_enough(tmp_path: Path, certificates: Certificates) -> None:
    certificate, key = map(str, certificates.server)
    grpc = {"grpc_server_cert": certificate, "grpc_server_key": key, "grpc_root_cert": str(certificates.root)}
    http = {"http_server_cert": certificate, "http_server_key": key}
    assert not may_reduce(tmp_path, **grpc, grpc_use_ssl_mutual=True, **http)
    assert may_reduce(tmp_path, **grpc, grpc_use_ssl_mutual=True, **http, http_root_cert=str(certificates.root))
