# SPDX-License-Identifier: Apache-2.0
"""TLS and mutual TLS with tritonclient's own switches, and what an operator reads when a file is wrong."""

from __future__ import annotations

import logging
import shutil
import ssl
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest
import tritonclient.grpc as triton
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException

from hypersonic.server.advice import advice
from hypersonic.server.errors import StartError
from hypersonic.server.options import Options
from hypersonic.server.wire.security import tls, watched
from tests.server.conftest import Serve
from tests.server.wire.security.conftest import Certificates, fetch
from tests.support.waiting import wait_until


def grpc_options(certificates: Certificates, *, mutual: bool) -> dict[str, object]:
    certificate, key = certificates.server
    files = {"grpc_server_cert": str(certificate), "grpc_server_key": str(key), "grpc_root_cert": str(certificates.root)}
    return {**files, "grpc_use_ssl": not mutual, "grpc_use_ssl_mutual": mutual}


def http_options(certificates: Certificates, *, mutual: bool) -> dict[str, object]:
    certificate, key = certificates.server
    root = str(certificates.root) if mutual else ""
    return {"http_server_cert": str(certificate), "http_server_key": str(key), "http_root_cert": root}


def test_tritonclient_speaks_tls_to_grpc(serve: Serve, certificates: Certificates) -> None:
    with serve(**grpc_options(certificates, mutual=False)) as running:
        with triton.InferenceServerClient(running.grpc, ssl=True, root_certificates=str(certificates.root)) as client:
            assert client.is_server_live()
        with triton.InferenceServerClient(running.grpc) as plain, pytest.raises(InferenceServerException, match="UNAVAILABLE"):
            plain.is_server_live(client_timeout=20)


def test_mutual_tls_lets_in_only_clients_with_a_certificate(serve: Serve, certificates: Certificates) -> None:
    certificate, key = certificates.client
    known = {"ssl": True, "root_certificates": str(certificates.root)}
    with serve(**grpc_options(certificates, mutual=True)) as running:
        with triton.InferenceServerClient(
            running.grpc, **known, private_key=str(key), certificate_chain=str(certificate)
        ) as client:
            assert client.is_server_live()
        with triton.InferenceServerClient(running.grpc, **known) as client, pytest.raises(InferenceServerException):
            client.is_server_live(client_timeout=20)


def test_a_certificate_of_another_authority_is_refused(serve: Serve, certificates: Certificates, tmp_path: Path) -> None:
    stranger, key = Certificates(tmp_path / "strangers").client
    with serve(**grpc_options(certificates, mutual=True)) as running:
        credentials = grpc.ssl_channel_credentials(certificates.root.read_bytes(), key.read_bytes(), stranger.read_bytes())
        with grpc.secure_channel(running.grpc, credentials) as channel:
            is_live: Any = channel.unary_unary("/inference.GRPCInferenceService/ServerLive")
            with pytest.raises(grpc.RpcError):
                is_live(b"", timeout=20)


def https(certificates: Certificates, *, client: bool) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(certificates.root))
    if client:
        context.load_cert_chain(*certificates.client)
    return context


def test_tritonclient_speaks_tls_to_http(serve: Serve, certificates: Certificates) -> None:
    with serve(**http_options(certificates, mutual=False)) as running:
        url = running.http.removeprefix("http://")
        client = triton_http.InferenceServerClient(url, ssl=True, ssl_context_factory=lambda: https(certificates, client=False))
        assert client.is_server_live()
        client.close()
        assert fetch(running.metrics.replace("http:", "https:"), context=https(certificates, client=False))[0] == 200


def test_http_asks_for_a_client_certificate_where_a_root_is_given(serve: Serve, certificates: Certificates) -> None:
    with serve(**http_options(certificates, mutual=True)) as running:
        url = running.http.replace("http:", "https:") + "/v2/health/live"
        assert fetch(url, context=https(certificates, client=True))[0] == 200
        with pytest.raises((OSError, ssl.SSLError)):
            fetch(url, context=https(certificates, client=False))


def test_old_tls_is_refused(serve: Serve, certificates: Certificates) -> None:
    context = https(certificates, client=False)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with serve(**http_options(certificates, mutual=False)) as running:
        assert fetch(running.http.replace("http:", "https:") + "/v2/health/live", context=context)[0] == 200
        old = subprocess.run(
            ["openssl", "s_client", "-tls1_1", "-cipher", "ALL:@SECLEVEL=0", "-connect", running.http.removeprefix("http://")],
            input="", capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert old.returncode != 0


def test_a_renewed_certificate_counts_without_a_restart(
    serve: Serve, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watched, "_INTERVAL_S", 0.0)
    both = {**grpc_options(certificates, mutual=False), **http_options(certificates, mutual=False)}
    with serve(**both) as running:
        addresses = [running.grpc, running.http.removeprefix("http://")]
        before = [served_certificate(address) for address in addresses]
        for new, used in zip(certificates.other, certificates.server, strict=True):
            shutil.copy(new, used)
        after = [served_certificate(address) for address in addresses]
    assert before[0] == before[1]
    assert after[0] == after[1] != before[0]


def served_certificate(address: str) -> str:
    host, port = address.rsplit(":", 1)
    return ssl.get_server_certificate((host, int(port)), timeout=20)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"grpc_server_cert": ""}, "--grpc-use-ssl needs --grpc-server-cert, got none"),
        ({"grpc_server_key": ""}, "--grpc-use-ssl needs --grpc-server-key, got none"),
        ({"grpc_use_ssl_mutual": True, "grpc_root_cert": ""}, "--grpc-use-ssl-mutual needs --grpc-root-cert, got none"),
        ({"grpc_server_cert": "/nowhere/a.pem"}, "cannot read /nowhere/a.pem: No such file or directory"),
        ({"http_server_cert": "/nowhere/a.pem"}, "TLS for HTTP needs --http-server-key, got none"),
        ({"http_root_cert": "/nowhere/a.pem"}, "TLS for HTTP needs --http-server-cert, got none"),
    ],
)
def test_a_missing_file_is_said_at_start(certificates: Certificates, change: dict[str, object], text: str) -> None:
    values: dict[str, Any] = {**grpc_options(certificates, mutual=False), **change}
    wrong = tls.http_context if any(name.startswith("http") for name in change) else tls.grpc_credentials
    with pytest.raises(StartError) as error:
        wrong(Options((Path(),), **values))
    assert str(error.value) == text


@pytest.mark.parametrize("front", ["grpc", "http"])
def test_files_that_do_not_belong_together_are_said_at_start(certificates: Certificates, tmp_path: Path, front: str) -> None:
    (certificate, key), garbage = certificates.server, tmp_path / "garbage.pem"
    garbage.write_text("not a certificate")
    encrypted = tmp_path / "encrypted.pem"
    subprocess.run(
        ["openssl", "pkcs8", "-topk8", "-in", key, "-out", encrypted, "-passout", "pass:secret"],
        check=True,
        capture_output=True,
    )
    for files, text in (
        ((certificate, certificates.other[1], certificates.root), "the private key does not belong to the certificate"),
        ((garbage, key, certificates.root), "not in PEM form"),
        ((certificate, garbage, certificates.root), "not in PEM form"),
        ((certificate, key, garbage), "not in PEM form"),
        ((certificate, encrypted, certificates.root), f"{encrypted}: the private key is encrypted"),
    ):
        names = (f"{front}_server_cert", f"{front}_server_key", f"{front}_root_cert")
        values: dict[str, Any] = {**dict(zip(names, map(str, files), strict=True)), "grpc_use_ssl_mutual": front == "grpc"}
        opts = Options((Path(),), **values)
        with pytest.raises(StartError, match=text) as error:
            (tls.grpc_credentials if front == "grpc" else tls.http_context)(opts)
        assert all(str(error.value).count(str(file)) <= 1 for file in files), error.value
        assert str(garbage) in str(error.value) or garbage not in files


@pytest.mark.parametrize(
    ("options", "texts"),
    [
        (
            {"grpc_use_ssl": True, "http_server_cert": "c"},
            ["gRPC does NOT ask clients for a certificate: --grpc-root-cert has no effect"],
        ),
        (
            {"http_server_cert": "c"},
            ["gRPC is NOT encrypted: --grpc-server-cert and --grpc-server-key and --grpc-root-cert have"],
        ),
        ({"grpc_use_ssl_mutual": True, "http_server_cert": "c"}, []),
        ({"grpc_use_ssl_mutual": True}, ["HTTP and metrics are NOT encrypted, although gRPC is"]),
        ({"grpc_use_ssl_mutual": True, "allow_http": False}, []),
        ({"allow_grpc": False}, []),
    ],
)
def test_files_that_have_no_effect_are_named_at_start(options: dict[str, Any], texts: list[str]) -> None:
    files: dict[str, Any] = {f"grpc_{name}": name for name in ("server_cert", "server_key", "root_cert")}
    lines = [text for _, text in advice(Options((Path(),), **{**files, **options}))]
    assert len(lines) == len(texts)
    assert all(line.startswith(text) for line, text in zip(lines, texts, strict=True)), lines


def test_grpc_in_the_clear_beside_https_is_named_at_start() -> None:
    (line,) = advice(Options((Path(),), http_server_cert="c", http_server_key="k"))
    assert line == (
        logging.WARNING,
        "gRPC is NOT encrypted, although HTTP is: set --grpc-use-ssl, --grpc-server-cert and --grpc-server-key too",
    )


DAY = timedelta(days=1)


@pytest.mark.parametrize(
    ("valid", "text"),
    [
        ((-9 * DAY, -2 * DAY), "the certificate expired on {1}"),
        ((2 * DAY, 9 * DAY), "the certificate is not valid before {0}"),
        ((-2 * DAY, 9 * DAY), ""),
        ((-2 * DAY, 365 * 40 * DAY), ""),  # after 2049 dates have another form
    ],
)
def test_a_certificate_out_of_its_time_is_named_at_start(
    certificates: Certificates, log: pytest.LogCaptureFixture, valid: tuple[timedelta, timedelta], text: str
) -> None:
    begins, ends = (datetime.now(UTC) + offset for offset in valid)
    certificates.renew_server(begins, ends)
    values: dict[str, Any] = {**grpc_options(certificates, mutual=False), **http_options(certificates, mutual=False)}
    tls.grpc_credentials(Options((Path(),), **values))
    tls.http_context(Options((Path(),), **values))
    expected = text.format(*(f"{at:%Y-%m-%d %H:%M} UTC" for at in (begins, ends)))
    warned = [record.message for record in log.records if record.levelno == logging.WARNING]
    assert len(warned) == (2 if text else 0), warned
    assert all(expected in line and "server.pem" in line and "clients will refuse it" in line for line in warned), warned


def test_a_certificate_that_expires_or_is_renewed_by_an_expired_one_is_named_once(
    serve: Serve, certificates: Certificates, monkeypatch: pytest.MonkeyPatch, log: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(watched, "_INTERVAL_S", 0.0)
    now = datetime.now(UTC)
    with serve(**http_options(certificates, mutual=False)) as running:
        address = running.http.removeprefix("http://")
        for _ in range(2):
            served_certificate(address)
        assert "certificate expired" not in log.text
        certificates.renew_server(now - 9 * DAY, now - DAY)
        for _ in range(3):
            served_certificate(address)
    assert log.text.count("certificate expired") == 1


def test_a_certificate_that_expires_while_it_is_used_is_named(
    serve: Serve, certificates: Certificates, log: pytest.LogCaptureFixture
) -> None:
    ends = datetime.now(UTC) + timedelta(seconds=1)
    certificates.renew_server(datetime.now(UTC) - DAY, ends)
    with serve(**grpc_options(certificates, mutual=False)) as running:
        wait_until(lambda: served_certificate(running.grpc) and "certificate expired" in log.text)
    assert log.text.count("the certificate expired") == 1


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> pytest.LogCaptureFixture:
    logger = logging.getLogger("hypersonic")
    for name, value in (("propagate", True), ("handlers", [])):
        monkeypatch.setattr(logger, name, value)
    caplog.set_level(logging.INFO, "hypersonic")
    return caplog
