# SPDX-License-Identifier: Apache-2.0
"""Streams through Envoy, and the calls that it does not pass on."""

from __future__ import annotations

import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tritonclient.utils import InferenceServerException

from tests.deploy.envoy import load
from tests.deploy.envoy.farm import envoy
from tests.support.server_program import Program


def test_streams_of_several_clients_get_their_own_answers_in_order(three: list[Program], tmp_path: Path) -> None:
    with envoy(tmp_path, [each.grpc for each in three]) as edge, ThreadPoolExecutor(4) as pool:
        outcomes = list(pool.map(lambda _: load.stream(edge.address, 100), range(4)))
    assert [(each.answered, each.strangers, each.failures) for each in outcomes] == [(100, 0, [])] * 4


def test_calls_that_concern_one_server_are_refused_and_questions_are_answered(three: list[Program], tmp_path: Path) -> None:
    with envoy(tmp_path, [each.grpc for each in three]) as edge, load.connect(edge.address) as client:
        assert client.is_server_ready()
        assert client.is_model_ready("rows")
        assert client.get_model_metadata("rows").name == "rows"
        assert [each.name for each in client.get_model_repository_index().models] == ["rows"]
        for refused in (
            lambda: client.unload_model("rows"),
            lambda: client.register_system_shared_memory("region", "/region", 8),
            lambda: client.update_log_settings({"log_info": False}),
        ):
            with pytest.raises(InferenceServerException, match="send it to the server itself") as error:
                refused()
            assert error.value.status() == "StatusCode.PERMISSION_DENIED"
        with urllib.request.urlopen(f"http://{edge.host}:9902/metrics", timeout=30) as page:
            assert "envoy_cluster_upstream_rq_total" in page.read().decode()
