# SPDX-License-Identifier: Apache-2.0
"""An RPC: it says how many models are ready. Its messages are ones of Triton's, because clients know no others."""

from __future__ import annotations

from tests.house.lists.change import Change

_METHOD = """\
    def server_live(self, _request: Message) -> Any:
"""
_NEW_METHOD = '''\
    def server_count(self, _request: Message) -> Any:
        """Serve ServerCount: how many models are ready."""
        ready = sum(model.state == "READY" for model in self.repository_index(service_pb2.RepositoryIndexRequest()).models)
        return service_pb2.ServerMetadataResponse(name=str(ready))

'''
_ENTRY = '        "ServerLive": (operations.server_live, service_pb2.ServerLiveRequest),\n'
_ROUTE = '        _route(Group.METADATA, "/v2/count", _counting(operations)),\n'
_ENDPOINT = """

def _counting(operations: Operations) -> Endpoint:
    async def count(_request: Request) -> Response:
        return Json(to_json(operations.server_count(service_pb2.ServerLiveRequest())))

    return count
"""

_CHECK = """\
import json
import tempfile
import urllib.request
from pathlib import Path
import grpc
from tritonclient.grpc import service_pb2
from tests.server.conftest import serving

with tempfile.TemporaryDirectory() as models, serving(Path(models))() as running:
    with grpc.insecure_channel(running.grpc) as channel:
        call = channel.unary_unary(
            "/inference.GRPCInferenceService/ServerCount", service_pb2.ServerLiveRequest.SerializeToString,
            service_pb2.ServerMetadataResponse.FromString,
        )
        assert call(service_pb2.ServerLiveRequest()).name == "1"
    assert json.load(urllib.request.urlopen(f"{running.http}/v2/count"))["name"] == "1"
"""

CHANGE = Change(
    section="An RPC",
    new={},
    edits={
        "server/rpc/methods.py": [
            (_ENTRY, f'{_ENTRY}        "ServerCount": (operations.server_count, service_pb2.ServerLiveRequest),\n')
        ],
        "server/service/operations.py": [(_METHOD, _NEW_METHOD + _METHOD)],
        "server/http/routes.py": [("        *more,\n", _ROUTE + "        *more,\n"), ("", _ENDPOINT)],
        "server/security/groups.py": [('("ServerMetadata", ', '("ServerMetadata", "ServerCount", ')],
    },
    unneeded={"server/http/extensions.py": "its request has no body"},
    check=_CHECK,
    tests=(
        "tests/server/security/test_groups.py::test_every_rpc_of_the_protocol_has_a_group",
        "tests/server/security/test_groups.py::test_every_route_of_the_applications_has_a_group",
    ),
)
