# SPDX-License-Identifier: Apache-2.0
"""Links that go down: nothing is lost, and each answer is received once."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.deploy.hosts.client_program import Task
from tests.deploy.hosts.namespaces import Network
from tests.deploy.hosts.programs import address, client, is_working, server
from tests.support.waiting import wait_until

pytestmark = pytest.mark.whole("client", "deploy/envoy", "server", "tests/deploy/hosts")

#: pings that notice a dead connection within 2 s; the defaults are made for wide networks
QUICK_PINGS = {"ping_s": 1.0, "ping_timeout_s": 1.0}


def test_a_partition_of_the_only_server_heals_without_a_lost_request(hosts: Network, models: Path) -> None:
    near, far = hosts.host("client"), hosts.host("server")
    task = Task([address(far)], count=1000, in_flight=4)
    with server(far, models), client(near, task) as running:
        running.wait_for_answers(100)
        far.disconnect()
        time.sleep(3)  # the length of the partition
        answered = len(running.lines)
        assert answered < task.count
        far.connect()
        running.finish()


def test_requests_to_a_server_that_is_cut_off_go_to_another_one(hosts: Network, models: Path) -> None:
    near, one, two = hosts.host("client"), hosts.host("one"), hosts.host("two")
    task = Task([address(one), address(two)], count=6000, in_flight=8, health=QUICK_PINGS)
    with server(one, models), server(two, models), client(near, task) as running:
        running.wait_for(lambda: min(running.servers[each] for each in task.servers) >= 50)
        two.disconnect()  # for ever: no packet tells the client
        running.finish()
        assert running.retried >= 1, running.summary()


def test_a_request_that_a_server_works_on_when_it_is_cut_off_goes_to_another_one(hosts: Network, models: Path) -> None:
    """TCP has nothing left to send to it that could fail: only a ping tells."""
    near, one, two = hosts.host("client"), hosts.host("one"), hosts.host("two")
    task = Task([address(one), address(two)], count=4, model="slow", in_flight=4, health=QUICK_PINGS)
    with server(one, models), server(two, models), client(near, task) as running:
        wait_until(lambda: is_working(two, models), 120, explain=running.summary)
        two.disconnect()
        running.finish()
        assert running.retried >= 1, running.summary()
        assert set(running.servers) == {address(one)}
