# SPDX-License-Identifier: Apache-2.0
"""Sequences through Envoy: on streams, and as single requests with the header that keeps them on one server."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from tritonclient.utils import InferenceServerException

from hypersonic.client import Client
from hypersonic.client.messages.request import SEQUENCE_HEADER
from tests.deploy.envoy import load
from tests.deploy.envoy.farm import DEPLOY, Envoy, configuration, envoy, servers
from tests.server.python_models import source, write_python
from tests.support.server_program import Program
from tests.support.waiting import wait_until

pytestmark = pytest.mark.whole("client", "deploy/envoy", "server", "tests/deploy/envoy")

#: y = the sum of all x of the sequence
SUMS = """
def answer(request):
    key = request.correlation_id()
    self.sums[key] = self.sums.get(key, 0) + x_of(request)
    return y(self.sums[key])
return [answer(request) for request in requests]
"""
CONFIG = """
max_batch_size: 64
input [ { name: "x" data_type: TYPE_INT32 dims: [ 1 ] } ]
output [ { name: "y" data_type: TYPE_INT32 dims: [ 1 ] } ]
sequence_batching { max_sequence_idle_microseconds: 600000000 }
"""
#: the numbers of a sequence
STEPS = tuple(range(1, 11))
REFUSED = f"a request of a sequence has no header '{SEQUENCE_HEADER}', by which the balancer before this server"
_ids = itertools.count(1000)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Program]]:
    """Three servers that refuse single requests of sequences without the header."""
    repository = tmp_path_factory.mktemp("sequences")
    write_python(repository, "sums", source(SUMS, "self.sums = {}"), CONFIG)
    with servers(repository, repository, repository, options=("--sequence-header", SEQUENCE_HEADER)) as started:
        yield started


@pytest.fixture
def edge(running: list[Program], tmp_path: Path) -> Iterator[Envoy]:
    with envoy(tmp_path / "e", [each.grpc for each in running]) as started:
        yield started


def ask(client: Any, sequence_id: int, number: int, **options: Any) -> int:
    """Send one number of a sequence with tritonclient; return the sum."""
    given = load.tensor(np.array([[number]], np.int32))
    marks = {"sequence_start": number == STEPS[0], "sequence_end": number == STEPS[-1]}
    return int(
        client.infer("sums", [given], sequence_id=sequence_id, client_timeout=60, **marks, **options).as_numpy("y")[0, 0]
    )


def test_single_requests_with_the_header_give_right_sums_and_spread_over_the_servers(edge: Envoy) -> None:
    def sums(_: int) -> list[int]:
        own = next(_ids)
        with load.connect(edge.address) as client:
            return [ask(client, own, number, headers={SEQUENCE_HEADER: f"sums/{own}"}) for number in STEPS]

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(sums, range(60)))
    assert found == [list(itertools.accumulate(STEPS))] * 60
    used = [count for count in edge.requests("sequences").values() if count >= len(STEPS)]
    assert len(used) == 3, edge.requests("sequences")


def test_a_client_without_the_header_that_goes_on_after_an_error_gets_the_reason_and_no_wrong_sum(edge: Envoy) -> None:
    with load.connect(edge.address) as client:
        for number in STEPS:
            with pytest.raises(InferenceServerException, match=re.escape(REFUSED)) as error:
                ask(client, 1_000_000, number)
            assert error.value.status() == "StatusCode.INVALID_ARGUMENT"


def test_the_sequences_of_our_client_give_right_sums(edge: Envoy) -> None:
    def sums(model: Any) -> list[int]:
        with model.sequence() as sequence:
            return [int(sequence.infer(np.array([[n]], np.int32), last=n == STEPS[-1])[0, 0]) for n in STEPS]

    with Client(edge.address) as client, ThreadPoolExecutor(4) as pool:
        found = list(pool.map(sums, [client.model("sums")] * 20))
    assert found == [list(itertools.accumulate(STEPS))] * 20


def test_the_sequences_of_a_server_that_is_taken_out_end_with_an_error_and_the_others_go_on(
    edge: Envoy, running: list[Program]
) -> None:
    """They reach another server, which does not know them. Maglev's table moves one in a thousand of the others, too."""
    with load.connect(edge.address) as client:
        own = [next(_ids) for _ in range(30)]
        headers = {one: {SEQUENCE_HEADER: f"sums/{one}"} for one in own}
        first = {}
        for one in own:
            before = edge.requests("sequences")
            assert ask(client, one, 1, headers=headers[one]) == 1
            after = edge.requests("sequences")
            (first[one],) = (server for server in after if after[server] > before[server])
        edge.set_servers([each.grpc for each in running[:2]])
        gone = running[2].grpc
        wait_until(lambda: gone not in edge.requests("sequences"))
        moved: dict[int, str] = {}
        for one in own:
            try:
                assert ask(client, one, 2, headers=headers[one]) == 3
            except InferenceServerException as error:
                moved[one] = str(error)
    assert all("must specify the START flag" in text for text in moved.values()), moved
    lost = {one for one in own if first[one] == gone}
    assert lost
    assert lost <= moved.keys()
    assert len(moved) <= len(lost) + 2


def test_the_example_of_the_page_gives_the_sums(edge: Envoy, capsys: pytest.CaptureFixture[str]) -> None:
    page = (DEPLOY.parents[1] / "docs" / "envoy.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(compile(example.replace("envoy:8001", edge.address), "docs/envoy.md", "exec"), {})
    assert capsys.readouterr().out.split() == ["1", "3", "6", "10"]


@pytest.mark.parametrize("name", ["envoy.yaml", "edge-tls-jwt-dns.yaml"])
def test_the_header_of_our_client_is_the_one_that_envoy_looks_for(name: str) -> None:
    config = yaml.safe_load(configuration(name))
    (host,) = config["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]["route_config"][
        "virtual_hosts"
    ]
    (route,) = (route for route in host["routes"] if route.get("route", {}).get("cluster") == "sequences")
    assert route["match"]["headers"] == [{"name": SEQUENCE_HEADER, "present_match": True}]
    assert route["route"]["hash_policy"] == [{"header": {"header_name": SEQUENCE_HEADER}}]
    assert "retry_policy" not in route["route"]
