# SPDX-License-Identifier: Apache-2.0
"""TLS and mutual TLS of the gRPC, HTTP and metrics ports.

Certificates are in PEM form. They are read again when the files change, and a renewed certificate is used from the next
handshake on. The log warns of one that has expired, or is not valid yet, at start and at handshakes.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import grpc

from hypersonic.server.errors import StartError
from hypersonic.server.options import Options
from hypersonic.server.wire.security.validity import Lifetimes
from hypersonic.server.wire.security.watched import FilesError, WatchedFiles


@dataclass(frozen=True)
class TlsFiles:
    """The PEM files of one front end.

    Attributes:
        certificate: the server's chain.
        key: its private key.
        root: the certificates that sign clients' certificates; None = clients need no certificate.
    """

    certificate: Path
    key: Path
    root: Path | None = None

    @property
    def paths(self) -> tuple[Path, ...]:
        """The paths of all files."""
        return (self.certificate, self.key, *((self.root,) if self.root else ()))


def grpc_credentials(options: Options) -> grpc.ServerCredentials | None:
    """Return the credentials for grpc.Server.add_secure_port, None without TLS.

    Raises StartError for files that are not named, are missing, cannot be read, or do not belong together.
    """
    files = grpc_files(options)
    return _credentials(files) if files else None


def http_context(options: Options) -> ssl.SSLContext | None:
    """Return the TLS context for uvicorn, None without TLS. Raises StartError as grpc_credentials() does."""
    files = http_files(options)
    return _renewing(files) if files else None


def grpc_files(options: Options) -> TlsFiles | None:
    """Return the files for --grpc-use-ssl and --grpc-use-ssl-mutual, None without TLS.

    Raises StartError for a missing option.
    """
    if not (options.grpc_use_ssl or options.grpc_use_ssl_mutual):
        return None
    option = "--grpc-use-ssl-mutual" if options.grpc_use_ssl_mutual else "--grpc-use-ssl"
    root = _named(options.grpc_root_cert, option, "--grpc-root-cert") if options.grpc_use_ssl_mutual else None
    return TlsFiles(
        _named(options.grpc_server_cert, option, "--grpc-server-cert"),
        _named(options.grpc_server_key, option, "--grpc-server-key"),
        root,
    )


def http_files(options: Options) -> TlsFiles | None:
    """Return the files of --http-server-cert, --http-server-key and --http-root-cert, None without TLS.

    Raises StartError for a missing option.
    """
    if not (options.http_server_cert or options.http_server_key or options.http_root_cert):
        return None
    return TlsFiles(
        _named(options.http_server_cert, "TLS for HTTP", "--http-server-cert"),
        _named(options.http_server_key, "TLS for HTTP", "--http-server-key"),
        Path(options.http_root_cert) if options.http_root_cert else None,
    )


def _named(path: str, asked: str, option: str) -> Path:
    if not path:
        raise StartError(f"{asked} needs {option}, got none")
    return Path(path)


class _Loaded(NamedTuple):
    """The files as they were read together.

    Attributes:
        contents: certificate, key and, if clients need certificates, the root.
    """

    context: ssl.SSLContext
    contents: list[bytes]
    lifetimes: Lifetimes


def _watched(files: TlsFiles) -> WatchedFiles[_Loaded]:
    """Return the current files. Raises StartError for files that OpenSSL does not accept, and warns of old certificates."""
    watched = WatchedFiles(
        files.paths, lambda contents: _Loaded(_context(files), contents, Lifetimes(files.certificate, contents[0]))
    )
    watched.value.lifetimes.check()
    return watched


def _credentials(files: TlsFiles) -> grpc.ServerCredentials:
    watched = _watched(files)
    served = watched.value

    def fetch() -> grpc.ServerCertificateConfiguration | None:  # gRPC calls it at each handshake
        nonlocal served
        before, served = served, watched.value
        served.lifetimes.check()
        return None if served is before else _grpc_configuration(served)

    return grpc.dynamic_ssl_server_credentials(_grpc_configuration(served), cast("Any", fetch), files.root is not None)


def _grpc_configuration(loaded: _Loaded) -> grpc.ServerCertificateConfiguration:
    certificate, key, *root = loaded.contents
    return grpc.ssl_server_certificate_configuration([(key, certificate)], root[0] if root else None)


def _renewing(files: TlsFiles) -> ssl.SSLContext:
    """Return a context with which each handshake uses the current files."""
    watched, context = _watched(files), _context(files)

    def freshest(connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        loaded = watched.value
        connection.context = loaded.context
        loaded.lifetimes.check()

    context.sni_callback = freshest  # OpenSSL calls it at each handshake, with or without a name
    return context


def _context(files: TlsFiles) -> ssl.SSLContext:
    """Load the files. Raises FilesError for files that OpenSSL does not accept, and OSError for one that cannot be read."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    no_password = partial(_no_password, files.key)
    _openssl(lambda: context.load_cert_chain(files.certificate, files.key, password=no_password), files.certificate, files.key)
    if files.root is not None:
        root = files.root
        _openssl(lambda: context.load_verify_locations(root), root)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _openssl(load: Any, *paths: Path) -> None:
    try:
        load()
    except ssl.SSLError as error:
        raise FilesError(_reason(error, paths), paths) from error


def _reason(error: ssl.SSLError, paths: tuple[Path, ...]) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return "the private key does not belong to the certificate"
    what = "the certificates are" if len(paths) == 1 else "the certificate or the private key is"
    return f"{what} not in PEM form ({error.reason or error})"


def _no_password(key: Path) -> str:
    raise FilesError("the private key is encrypted; use one without a password, readable by the server only", (key,))
