# SPDX-License-Identifier: Apache-2.0
"""Every RPC and every path has a group, and no spelling of a path gets another group than the route that serves it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any, cast
from urllib.parse import unquote

import grpc
import pytest
from grpc_health.v1 import health_pb2
from hypothesis import example, given
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Mount, Route
from tritonclient.grpc import service_pb2

from hypersonic.server.wire.grpc.grpcio.handlers import GenericHandler
from hypersonic.server.wire.security.asgi import GroupRoute, protect
from hypersonic.server.wire.security.groups import RPCS, Group
from hypersonic.server.wire.security.policy import Policy, Restriction
from tests.server.conftest import Serve, serving

#: every group asks for a header of its own, so that a refusal tells which group was judged
POLICY = Policy({group: Restriction(f"k-{group}", "v", str(group)) for group in Group})
KEYS = [(f"k-{group}".encode(), b"v") for group in Group]
SEGMENTS = (
    *("v2", "models", "stats", "health", "live", "ready", "versions", "config", "infer", "m", "1", "repository", "index"),
    *("", "..", ".", "load", "metrics", "logging", "trace", "setting", "systemsharedmemory", "status", "status.json"),
)
ESCAPES = (
    "%0a",
    "%0D",
    "%2f",
    "%2F",
    "%2e",
    "%00",
    "%25",
    "%7Bmodel%7D",
    "%c3%a9",
    "%",
    "%zz",
    "+",
    ";",
    ":",
    "http://h",
    "%E2%80%A8",
)


def escaped(draw: Callable[[Any], Any], text: str) -> str:
    """Some of the characters as percent escapes, and sometimes an escape of something else in between."""
    spelled = [f"%{ord(c):02{draw(st.sampled_from('xX'))}}" if draw(st.integers(0, 9)) == 0 else c for c in text]
    for _ in range(draw(st.integers(0, 2))):
        spelled.insert(draw(st.integers(0, len(spelled))), draw(st.sampled_from(ESCAPES)))
    return "".join(spelled)


@st.composite
def raw_paths(draw: Callable[[Any], Any]) -> bytes:
    """The target of a request line, up to its query."""
    parts = draw(st.lists(st.sampled_from(SEGMENTS), max_size=7))
    return escaped(draw, "/" + "/".join(parts)).encode()


def request(raw_path: bytes, method: str, headers: list[tuple[bytes, bytes]]) -> dict[str, Any]:
    """The scope that uvicorn makes of it."""
    path = unquote(raw_path.decode("ascii"))
    return {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": raw_path,
        "root_path": "",
        "query_string": b"",
        "headers": headers,
        "scheme": "http",
        "http_version": "1.1",
        "client": ("127.0.0.1", 1),
        "server": ("h", 80),
    }


def answer(app: Starlette, scope: dict[str, Any]) -> tuple[int, bytes]:
    """(status, body)."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        raise AssertionError("the body was asked for")

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent)


def tell_the_group(route: GroupRoute) -> None:
    """The route answers with its group, instead of what it is for."""

    async def tell(scope: Any, receive: Any, send: Any) -> None:
        await Response(route.group, 299)(scope, receive, send)

    route.app = tell


@pytest.fixture(scope="module")
def applications(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Starlette]:
    """Both applications of a server, behind POLICY; their routes tell their groups."""
    with serving(tmp_path_factory.mktemp("served"))() as running:
        applications = dict(running.server.applications)
    for app in applications.values():
        for route in app.routes:
            tell_the_group(cast("GroupRoute", route))
        protect(app, POLICY)
    return applications


@pytest.mark.parametrize(
    "service",
    [service_pb2.DESCRIPTOR.services_by_name["GRPCInferenceService"], health_pb2.DESCRIPTOR.services_by_name["Health"]],
    ids=["inference", "health"],
)
def test_every_rpc_of_the_protocol_has_a_group(service: Any) -> None:
    methods = {f"/{service.full_name}/{method.name}" for method in service.methods}
    # grpcio-health-checking's newer List is not served, and closed if it ever is
    assert methods - set(RPCS) <= {"/grpc.health.v1.Health/List"}


def test_every_route_of_the_applications_has_a_group(serve: Serve) -> None:
    with serve() as running:
        for app in running.server.applications.values():
            assert app.routes
            for route in app.routes:
                assert isinstance(route, GroupRoute), f"{route} has no group, so that it is closed while a policy is set"


@given(raw_paths(), st.sampled_from(("GET", "POST", "HEAD", "OPTIONS", "DELETE", "get", "PRI")))
@example(b"/v2/models/stats%0a", "GET")
@example(b"/v2/models/m%2fstats", "GET")
@example(b"/metrics/", "GET")
@example(b"http://h/v2/models/stats", "GET")
@example(b"*", "OPTIONS")
def test_no_path_is_judged_as_another_group_than_its_routes(
    applications: Mapping[str, Starlette], raw_path: bytes, method: str
) -> None:
    for app in applications.values():
        status, body = answer(app, request(raw_path, method, []))
        allowed_status, group = answer(app, request(raw_path, method, KEYS))
        if status == 403:
            judged = json.loads(body)["error"]
            assert allowed_status == 405 or (allowed_status, group.decode() or judged) == (299, judged)
            other = [key for key in KEYS if key[0] != f"k-{judged}".encode()]
            assert answer(app, request(raw_path, method, other))[0] == 403
        else:
            assert (status, allowed_status) == (404, 404)


@pytest.mark.parametrize(
    ("path", "group"),
    [
        ("/v2/models/stats", Group.STATISTICS),
        ("/v2/models/stats%0a", Group.METADATA),  # of a model whose name ends in a line feed
        ("/v2/models/stats/ready", Group.HEALTH),
        ("/v2/models/m/versions/ready", Group.METADATA),
        ("/v2/models/m/versions/1/ready", Group.HEALTH),
        ("/v2/models/m/versions/1", Group.METADATA),
        ("/v2/models/m%2Fstats", Group.STATISTICS),
        ("/v2/models/m/trace/setting", Group.TRACE),
        ("/v2/repository/models/m/load", Group.MODEL_REPOSITORY),
        ("/v2/systemsharedmemory/region/r/register", Group.SHARED_MEMORY),
        ("/status.json", Group.STATISTICS),
        *(
            (path, None)
            for path in ("/v2/", "/v2//health/live", "/V2/health/live", "/v2/models/m/../x", "/v2/health/live%0a", "", "//")
        ),
    ],
)
def test_a_path_has_the_group_of_its_whole_spelling(
    applications: Mapping[str, Starlette], path: str, group: Group | None
) -> None:
    status, body = answer(applications["HTTPService"], request(path.encode(), "GET", []))
    assert (status, json.loads(body)["error"]) == ((403, group) if group else (404, "Not Found"))


def test_a_method_that_a_route_does_not_know_is_judged_first(applications: Mapping[str, Starlette]) -> None:
    app = applications["HTTPService"]
    assert answer(app, request(b"/v2/models/m/infer", "GET", []))[0] == 403
    assert answer(app, request(b"/v2/models/m/infer", "GET", [(b"k-inference", b"v")]))[0] == 405


def test_a_route_without_a_group_is_closed_while_a_policy_is_set() -> None:
    async def tell(_request: Any) -> Response:
        return Response("told", 299)

    def app() -> Starlette:
        inner = GroupRoute("/x", tell, Group.HEALTH)
        return Starlette(routes=[Route("/a", tell), Mount("/b", routes=[inner]), GroupRoute("/c", tell, Group.HEALTH)])

    for path, guarded in ((b"/a", 404), (b"/b/x", 404), (b"/c", 299), (b"/c/", 404)):
        assert answer(protect(app(), Policy()), request(path, "GET", []))[0] in {299, 307}
        assert answer(protect(app(), POLICY), request(path, "GET", KEYS))[0] == guarded


def test_a_websocket_leads_nowhere(applications: Mapping[str, Starlette]) -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message["type"])

    scope = {**request(b"/v2/models/stats", "GET", KEYS), "type": "websocket"}
    asyncio.run(applications["HTTPService"](scope, None, send))  # type: ignore[arg-type] # a refused request is not received
    assert sent == ["websocket.close"]


@st.composite
def rpc_names(draw: Callable[[Any], Any]) -> str:
    """A method of gRPC as it comes in :path, or something like it."""
    name = draw(st.sampled_from([*RPCS, "/inference.GRPCInferenceService/", "/x/ServerLive"]))
    return escaped(draw, name) if draw(st.booleans()) else name + draw(st.sampled_from(("", "\n", "/", "\0", " ", "?x")))


@given(rpc_names())
def test_no_rpc_is_served_that_was_not_judged_as_its_own_group(name: str) -> None:
    class Details:
        method = name
        invocation_metadata = ()

    handler: Any = grpc.unary_unary_rpc_method_handler(lambda data, _context: data)
    handlers = {method: handler for method in RPCS if method.startswith("/inference")}
    judged: list[str] = []
    guarded = GenericHandler(handlers, POLICY, lambda error: judged.append(str(error))).service(Details)  # type: ignore[arg-type] # it has the two attributes that are read
    assert guarded is not handler
    assert judged == ([] if guarded is None else [str(RPCS[name])])
    Details.invocation_metadata = tuple((key.decode(), value.decode()) for key, value in KEYS)  # type: ignore[assignment] # text, as grpcio gives it
    assert GenericHandler(handlers, POLICY).service(Details) is (None if guarded is None else handler)  # type: ignore[arg-type] # as above
