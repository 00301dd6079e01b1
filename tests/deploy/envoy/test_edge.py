# SPDX-License-Identifier: Apache-2.0
"""TLS and tokens at the edge."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import trustme
from tritonclient.utils import InferenceServerException

from tests.deploy.envoy import load
from tests.deploy.envoy.edge_keys import STRANGER, token, write_keys
from tests.deploy.envoy.farm import Envoy, envoy, own_address
from tests.support.server_program import Program


@contextmanager
def edge_of(directory: Path, addresses: list[str]) -> Iterator[Envoy]:
    host = own_address()
    write_keys(directory, host, trustme.CA())
    with envoy(directory, addresses, "edge-tls-jwt.yaml", host=host) as edge:
        yield edge


def test_only_a_good_token_over_tls_gets_an_answer(three: list[Program], tmp_path: Path) -> None:
    refusals = {
        None: "Jwt is missing",
        token(lifetime_s=-600): "Jwt is expired",
        token(STRANGER): "Jwt verification fails",
        token(iss="https://other.example.org/"): "Jwt issuer is not configured",
    }
    with edge_of(tmp_path / "edge", [each.grpc for each in three]) as edge:
        with load.connect(edge.address, ssl=True, root_certificates=str(edge.directory / "ca.crt")) as client:
            rows = load.unique_rows()
            answer = load.infer(client, rows, headers={"authorization": f"Bearer {token()}"})
            assert np.array_equal(answer, load.expected(rows))
            for bad, text in refusals.items():
                with pytest.raises(InferenceServerException, match=text) as error:
                    load.infer(client, rows, headers={"authorization": f"Bearer {bad}"} if bad else None)
                assert error.value.status() == "StatusCode.UNAUTHENTICATED"
            with pytest.raises(InferenceServerException, match="Audiences in Jwt are not allowed") as error:
                load.infer(client, rows, headers={"authorization": f"Bearer {token(aud='other')}"})
            assert error.value.status() == "StatusCode.PERMISSION_DENIED"
        with load.connect(edge.address) as plain, pytest.raises(InferenceServerException) as error:
            load.infer(plain, rows)
        assert error.value.status() == "StatusCode.UNAVAILABLE"
