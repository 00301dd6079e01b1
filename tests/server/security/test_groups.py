# SPDX-License-Identifier: Apache-2.0
"""Every RPC and every path has a group, and no spelling of a path gets another group than the route that serves it."""

from __future__ import annotations

import pytest
from grpc_health.v1 import health_pb2
from hypothesis import given
from hypothesis import strategies as st
from tritonclient.grpc import service_pb2

from hypersonic.server.security.groups import RPCS, Group, group_of_path
from tests.server.conftest import Serve

SEGMENTS = ("v2", "models", "stats", "health", "live", "ready", "versions", "config", "infer", "m", "1", "repository", "index")
PATHS = st.lists(st.sampled_from((*SEGMENTS, "", "..", "load", "metrics", "m\n", "logging")), max_size=7).map(
    lambda parts: "/" + "/".join(parts)
)


@pytest.mark.parametrize(
    "service",
    [service_pb2.DESCRIPTOR.services_by_name["GRPCInferenceService"], health_pb2.DESCRIPTOR.services_by_name["Health"]],
    ids=["inference", "health"],
)
def test_every_rpc_of_the_protocol_has_a_group(service: object) -> None:
    methods = {f"/{service.full_name}/{method.name}" for method in service.methods}  # type: ignore[attr-defined]
    # grpcio-health-checking's newer List is not served, and closed if it ever is
    assert methods - set(RPCS) <= {"/grpc.health.v1.Health/List"}


def served(app: object, path: str) -> str | None:
    """The template of the route that would serve a path."""
    from starlette.routing import Match

    for route in app.routes:  # type: ignore[attr-defined]
        for method in ("GET", "POST"):
            match, _ = route.matches({"type": "http", "method": method, "path": path, "root_path": "", "headers": []})
            if match is Match.FULL:
                return str(route.path)
    return None


def test_every_route_of_the_applications_has_a_group(serve: Serve) -> None:
    with serve() as running:
        for app in running.server.applications.values():
            for route in app.routes:
                path = route.path.replace("{", "").replace("}", "")
                assert group_of_path(path) is not None, f"{route.path} is in no group of server/security/groups.py"


def test_no_path_is_judged_as_another_group_than_its_routes(serve: Serve) -> None:
    with serve() as running:
        applications = [*running.server.applications.values()]

        @given(PATHS)
        def judged_alike(path: str) -> None:
            for app in applications:
                template = served(app, path)
                if template is not None and group_of_path(path) is not None:
                    assert group_of_path(path) is group_of_path(template.replace("{", "").replace("}", ""))

        judged_alike()


@pytest.mark.parametrize(
    ("path", "group"),
    [
        ("/v2/models/stats", Group.STATISTICS),
        ("/v2/models/stats/ready", Group.HEALTH),
        ("/v2/models/m/versions/ready", Group.METADATA),
        ("/v2/models/m/versions/1/ready", Group.HEALTH),
        ("/v2/models/m/infer", Group.INFERENCE),
        ("/v2/repository/models/m/load", Group.MODEL_REPOSITORY),
        ("/metrics", Group.METRICS),
        *(
            (path, None)
            for path in ("/v2/", "/v2//health/live", "/V2/health/live", "/v2/models/m/../x", "/v2/health/live\n", "")
        ),
    ],
)
def test_a_path_has_the_group_of_its_whole_spelling(path: str, group: Group | None) -> None:
    assert group_of_path(path) is group
