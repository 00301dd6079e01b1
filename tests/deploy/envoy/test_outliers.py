# SPDX-License-Identifier: Apache-2.0
"""A server that is healthy and fails every inference is ejected, and gets requests again later."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.deploy.envoy import load
from tests.deploy.envoy.farm import envoy
from tests.deploy.envoy.scripted import scripted, unavailable
from tests.support.server_program import Program
from tests.support.waiting import wait_until

pytestmark = pytest.mark.whole("client", "deploy/envoy", "server", "tests/deploy/envoy")

EJECTED = "cluster.servers.outlier_detection.ejections_active"


def test_a_server_that_fails_every_request_is_ejected_and_asked_again_later(three: list[Program], tmp_path: Path) -> None:
    addresses = [three[0].grpc, three[1].grpc]
    with scripted(unavailable) as failing, envoy(tmp_path, [failing.address, *addresses]) as edge:
        with load.crowd(edge.address) as outcome:
            wait_until(lambda: edge.stat(EJECTED) == 1, explain=lambda: failing.received)
        received = failing.received
        quiet = load.plain(edge.address, 200, {})
        assert (quiet.answered, failing.received, edge.stat(EJECTED)) == (200, received, 1)
        assert edge.stat("cluster.servers.health_check.failure") == 0
        wait_until(lambda: edge.stat(EJECTED) == 0)
        later = load.plain(edge.address, 200, {})
        assert failing.received > received
    assert [(each.failures, each.strangers) for each in (outcome, quiet, later)] == [([], 0)] * 3
