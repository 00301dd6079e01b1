# SPDX-License-Identifier: Apache-2.0
"""A server that appears on another host while a client works."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.deploy.hosts.client_program import Task
from tests.deploy.hosts.namespaces import Network
from tests.deploy.hosts.programs import address, client, server

pytestmark = pytest.mark.whole("client", "deploy/envoy", "server", "tests/deploy/hosts")


def test_a_server_that_starts_later_on_another_host_gets_work(hosts: Network, models: Path) -> None:
    near, one, late = hosts.host("client"), hosts.host("one"), hosts.host("late")
    late.disconnect()
    task = Task([address(one), address(late)], 1_000_000, in_flight=4, health={"longest_s": 1.0})
    with server(one, models), client(near, task) as running:
        running.wait_for_answers(50)
        assert set(running.servers) == {address(one)}
        late.connect()
        with server(late, models):
            running.wait_for(lambda: running.servers[address(late)] >= 50)
            running.stop()


def test_a_server_that_dns_announces_later_gets_work(hosts: Network, models: Path, tmp_path: Path) -> None:
    near, one, late = hosts.host("client"), hosts.host("one"), hosts.host("late")
    names = tmp_path / "hosts"
    names.write_text(f"{one.address} farm\n")
    task = Task(["dns:///farm:8001"], 1_000_000, in_flight=4, health={"index_s": 1.0})
    with server(one, models), server(late, models), client(near, task, names) as running:
        running.wait_for_answers(50)
        assert set(running.servers) == {address(one)}
        names.write_text(f"{one.address} farm\n{late.address} farm\n")
        running.wait_for(lambda: running.servers[address(late)] >= 50)
        running.stop()
