# SPDX-License-Identifier: Apache-2.0
"""Restricted protocol groups: Triton's start errors, texts and codes on gRPC and HTTP."""

from __future__ import annotations

from collections.abc import Sequence

import grpc
import pytest
from grpc_health.v1 import health_pb2

from hypersonic.server.errors import StartError
from hypersonic.server.wire.security.groups import RESTRICTABLE, RPCS, Group
from hypersonic.server.wire.security.restrictions import grpc_restrictions, http_restrictions
from tests.server.conftest import Serve
from tests.server.wire.security.conftest import call, fetch

ALL_GRPC = tuple(f"{group}:k-{group}=v" for group in RESTRICTABLE)


@pytest.mark.parametrize("setting", ["health", "health:a", "health:=b", ":a=b", "health:a=", ""])
def test_a_setting_of_another_form_is_refused_at_start(setting: str) -> None:
    with pytest.raises(StartError) as error:
        grpc_restrictions([setting])
    expected = f"--grpc-restricted-protocol option format is '<config name>:<setting>=<value>'. Got {setting}"
    assert str(error.value) == expected


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        (["foo:a=b"], "unknown restricted protocol 'foo'"),
        (["metrics:a=b"], "unknown restricted protocol 'metrics'"),
        (["health,health:a=b"], "restricted protocol 'health' can not be specified in multiple config groups"),
        (["health:a=b", "trace,health:c=d"], "restricted protocol 'health' can not be specified in multiple config groups"),
    ],
)
def test_a_group_that_is_unknown_or_given_twice_is_refused_at_start(settings: Sequence[str], text: str) -> None:
    with pytest.raises(StartError, match=text):
        grpc_restrictions(settings)
    with pytest.raises(StartError, match=text.replace("protocol '", "api '")):
        http_restrictions(settings)


def test_a_value_may_hold_an_equals_sign() -> None:
    assert grpc_restrictions(["health:a=b=c"])[Group.HEALTH].value == "b=c"


def test_every_rpc_asks_for_its_groups_header(serve: Serve) -> None:
    with serve(grpc_restricted_protocol=ALL_GRPC) as running, grpc.insecure_channel(running.grpc) as channel:
        for method, group in RPCS.items():
            code, text = call(channel, method)
            header = f"triton-grpc-protocol-k-{group}"
            assert (method, code, text) == (method, "UNAVAILABLE", f"This protocol is restricted, expecting header '{header}'")
            code, text = call(channel, method, metadata=((header, "w"), (header, "v")))
            assert code == "UNAVAILABLE", method
            assert "restricted" in text
        code, text = call(
            channel, "/inference.GRPCInferenceService/ServerLive", metadata=(("triton-grpc-protocol-k-health", "v"),)
        )
        assert code == "OK"
        assert call(channel, "/inference.GRPCInferenceService/Nothing")[0] == "UNIMPLEMENTED"


def test_other_groups_stay_open(serve: Serve) -> None:
    with serve(grpc_restricted_protocol=("model-repository,trace:admin=secret",)) as running:
        with grpc.insecure_channel(running.grpc) as channel:
            assert call(channel, "/inference.GRPCInferenceService/ServerLive")[0] == "OK"
            assert call(channel, "/inference.GRPCInferenceService/RepositoryIndex")[0] == "UNAVAILABLE"
            assert call(channel, "/grpc.health.v1.Health/Check", health_pb2.HealthCheckRequest().SerializeToString())[0] == "OK"
        assert fetch(f"{running.http}/v2")[0] == 200


def test_an_http_path_asks_for_its_groups_header(serve: Serve) -> None:
    with serve(http_restricted_api=("metadata:Admin-Key=v", "health:k-health=v")) as running:
        refused = (403, {"error": "This API is restricted, expecting header 'Admin-Key'"})
        assert fetch(f"{running.http}/v2")[:2] == refused
        assert fetch(f"{running.http}/v2", headers={"admin-key": "w"})[:2] == refused
        assert fetch(f"{running.http}/v2", headers={"ADMIN-KEY": "v"})[0] == 200
        assert fetch(f"{running.http}/v2/models/m/ready")[:2] == (
            403,
            {"error": "This API is restricted, expecting header 'k-health'"},
        )
        assert fetch(running.metrics)[0] == 200


@pytest.mark.parametrize("path", ["/v2/", "/v2//health/live", "/v2/%2e%2e/v2", "/nothing", "/v2/health/live%0a"])
def test_another_spelling_of_a_path_leads_nowhere(serve: Serve, path: str) -> None:
    with serve(http_restricted_api=("metadata,health:k=v",)) as running:
        assert fetch(f"{running.http}{path}")[0] in {403, 404}


@pytest.mark.parametrize(
    "path", ["/v2/models/stats%0a", "/v2/models/stats%0A", "/v2/logging%0a", "/v2/models/m/stats%0a", "/%0a"]
)
def test_a_line_feed_behind_a_path_opens_no_restricted_group(serve: Serve, path: str) -> None:
    with serve(http_restricted_api=("statistics,logging:k=v",)) as running:
        assert fetch(f"{running.http}{path}")[0] in {400, 403, 404}
