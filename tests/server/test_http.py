# SPDX-License-Identifier: Apache-2.0
"""HTTP: health and metadata as Triton answers them, and the metrics every dashboard of the field asks for."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from tests.server.conftest import Running, Script, Serve


@pytest.fixture
def running(serve: Serve) -> Iterator[Running]:
    with serve(Script(instances=2)) as server:
        yield server


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_health_and_metadata(running: Running) -> None:
    assert get(f"{running.http}/v2/health/live") == (200, "")
    assert get(f"{running.http}/v2/health/ready") == (200, "")
    assert get(f"{running.http}/v2/models/m/ready") == (200, "")
    assert get(f"{running.http}/v2/models/m/versions/1/ready") == (200, "")
    assert get(f"{running.http}/v2/models/m/versions/2/ready") == (400, '{"error":"Model version not ready"}')
    assert json.loads(get(f"{running.http}/v2")[1])["name"] == "triton"
    assert json.loads(get(f"{running.http}/v2/models/m")[1])["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 3]}]


def test_errors_are_json_with_tritons_codes(running: Running) -> None:
    assert get(f"{running.http}/v2/models/n") == (404, '{"error":"Request for unknown model: \'n\' is not found"}')
    assert get(f"{running.http}/v2/models/m/versions/x")[0] == 404  # as Triton's routes: a version is digits
    assert get(f"{running.http}/nothing") == (404, '{"error":"Not Found"}')
    assert get(running.metrics.replace("/metrics", "/v2/health/live"))[0] == 404


def test_readiness_falls_with_the_drain(running: Running) -> None:
    running.server.service.admission.close()
    assert get(f"{running.http}/v2/health/ready")[0] == 400
    assert get(f"{running.http}/v2/health/live")[0] == 200
