# SPDX-License-Identifier: Apache-2.0
"""simple_*_infer_client with --ssl: each of tritonclient's clients over TLS, with a certificate of its own where one is asked for."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import trustme

from tests.clients import repository
from tests.clients.calls.examples import A, B, check_sums
from tests.clients.conftest import Flavour
from tests.reference import servers
from tests.reference.repository import write
from tests.reference.servers import Served


class Secured(NamedTuple):
    """A server that asks clients for a certificate, and what a client needs. Paths of PEM files."""

    server: Served
    root: str
    certificate: str
    key: str


def _leaf(authority: trustme.CA, directory: Path, name: str) -> tuple[str, str]:
    """Certificate and key."""
    leaf = authority.issue_cert("127.0.0.1")
    certificate, key = directory / f"{name}.pem", directory / f"{name}.key"
    leaf.cert_chain_pems[0].write_to_path(str(certificate))
    leaf.private_key_pem.write_to_path(str(key))
    return str(certificate), str(key)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("secured")
    authority, root = trustme.CA(), directory / "root.pem"
    authority.cert_pem.write_to_path(str(root))
    certificate, key = _leaf(authority, directory, "server")
    options = ["--grpc-use-ssl-mutual=true"]
    for front in ("grpc", "http"):
        options += [f"--{front}-server-cert={certificate}", f"--{front}-server-key={key}", f"--{front}-root-cert={root}"]
    models = write(directory / "models", {"simple": repository.PYTHON["simple"]})
    with servers.hypersonic(directory, models, *options) as served:
        yield Secured(served, str(root), *_leaf(authority, directory, "client"))


def options_of(flavour: Flavour, secured: Secured) -> dict[str, Any]:
    """The TLS options of each client, which name the same three files."""
    if flavour.is_grpc:
        files = {"root_certificates": secured.root, "private_key": secured.key, "certificate_chain": secured.certificate}
        return {"ssl": True, **files}
    if flavour.name == "http-aio":
        context = ssl.create_default_context(cafile=secured.root)
        context.load_cert_chain(secured.certificate, secured.key)
        return {"ssl": True, "ssl_context": context}
    return {"ssl": True, "ssl_options": {"keyfile": secured.key, "certfile": secured.certificate, "ca_certs": secured.root}}


def test_infer_over_tls(secured: Secured, flavour: Flavour) -> None:
    with flavour.client(secured.server, **options_of(flavour, secured)) as client:
        assert client.is_server_ready()
        check_sums(client.infer("simple", [flavour.tensor("INPUT0", A, "INT32"), flavour.tensor("INPUT1", B, "INT32")]))
        rows = [np.repeat(x, 8, axis=0) for x in (A, B)]
        inputs = [flavour.tensor(f"INPUT{i}", x, "INT32") for i, x in enumerate(rows)]
        for result in [client.infer("simple", inputs) for _ in range(4)]:
            np.testing.assert_array_equal(result.as_numpy("OUTPUT1"), rows[0] - rows[1])
