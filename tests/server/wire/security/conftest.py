# SPDX-License-Identifier: Apache-2.0
"""Calls whose answer is a code and a text, whatever it is; a certificate authority; a signing key of each type."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import grpc
import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

STREAMS = ("ModelStreamInfer", "Watch")


def call(channel: Any, method: str, data: bytes = b"", metadata: Sequence[tuple[str, str]] = ()) -> tuple[str, str]:
    """One RPC as bytes: (name of its code, details)."""
    try:
        if method.endswith("Watch"):
            next(channel.unary_stream(method)(data, timeout=20, metadata=metadata))
        elif method.endswith("ModelStreamInfer"):
            list(channel.stream_stream(method)(iter([data]), timeout=20, metadata=metadata))
        else:
            channel.unary_unary(method)(data, timeout=20, metadata=metadata)
    except grpc.RpcError as error:
        return error.code().name, error.details() or ""
    return "OK", ""


def fetch(
    url: str, data: bytes | None = None, headers: Mapping[str, str] | None = None, context: ssl.SSLContext | None = None
) -> tuple[int, Any, Mapping[str, str]]:
    """(status, JSON or text of the body, headers)."""
    request = urllib.request.Request(url, data, dict(headers or {}))
    try:
        with urllib.request.urlopen(request, timeout=20, context=context) as answer:
            return answer.status, answer.read().decode(), answer.headers
    except urllib.error.HTTPError as error:
        body = error.read().decode()
        return error.code, json.loads(body) if body.startswith("{") else body, dict(error.headers)


class Certificates:
    """A certificate authority, a server certificate for 127.0.0.1 and localhost, and a client's, as PEM files."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self.authority = trustme.CA()
        self.root = directory / "root.pem"
        self.authority.cert_pem.write_to_path(str(self.root))
        self.server = self._issue(directory, "server", "127.0.0.1", "localhost")
        self.client = self._issue(directory, "client", "client@example.org")
        self.other = self._issue(directory, "other", "127.0.0.1")

    def renew_server(self, begins: datetime, ends: datetime) -> None:
        """Another certificate for the server's key, valid between these times."""
        certificate, _ = self.server
        own = x509.load_pem_x509_certificate(certificate.read_bytes())
        issuer = serialization.load_pem_private_key(self.authority.private_key_pem.bytes(), None)
        builder = x509.CertificateBuilder(own.issuer, own.subject, own.public_key(), x509.random_serial_number(), begins, ends)
        for extension in own.extensions:
            builder = builder.add_extension(extension.value, extension.critical)
        renewed = builder.sign(issuer, hashes.SHA256())  # type: ignore[arg-type] # trustme makes EC keys, which can sign
        certificate.write_bytes(renewed.public_bytes(serialization.Encoding.PEM))

    def _issue(self, directory: Path, name: str, *identities: str) -> tuple[Path, Path]:
        """(certificate chain, key)."""
        issued = self.authority.issue_cert(*identities)
        certificate, key = directory / f"{name}.pem", directory / f"{name}.key"
        certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        issued.private_key_pem.write_to_path(str(key))
        return certificate, key


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path / "certificates")
