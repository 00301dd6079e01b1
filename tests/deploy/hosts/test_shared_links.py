# SPDX-License-Identifier: Apache-2.0
"""Links that lose packets, that are slow, and that several clients share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.deploy.hosts.client_program import Task
from tests.deploy.hosts.namespaces import Network
from tests.deploy.hosts.programs import address, client, run_client, server

pytestmark = pytest.mark.whole("client", "deploy/envoy", "server", "tests/deploy/hosts")

MEGABYTE_COLUMNS = 250_000


@pytest.mark.parametrize("library", ["hypersonic", "tritonclient"])
def test_a_link_that_loses_packets_loses_no_request(hosts: Network, models: Path, library: str) -> None:
    """1 % of the packets are lost and the RTT is 10 ms."""
    near, far = hosts.far("client", rtt_s=0.01, loss=0.01), hosts.host("server")
    before = far.counters()
    with server(far, models):
        run_client(near, Task([address(far)], 200, rows=8, columns=500, in_flight=8, library=library))
    moved = far.counters() - before
    assert min(moved.packets_received, moved.packets_sent) > 200 * 8 * 500 * 4 // 1448, "enough for the loss to matter"


def test_two_clients_share_a_link_and_each_gets_its_own_rows(hosts: Network, models: Path) -> None:
    one, two, far = hosts.host("one"), hosts.host("two"), hosts.host("server")
    far.limit(50_000_000)
    tasks = [Task([address(far)], 1_000_000, rows=1, columns=20_000, in_flight=4, first=first) for first in (0, 2_000_000)]
    with server(far, models), client(one, tasks[0]) as first, client(two, tasks[1]) as second:
        first.wait_for(lambda: len(first.lines) >= 10 and len(second.lines) >= 10)
        before = (len(first.lines), len(second.lines))
        first.wait_for(lambda: len(first.lines) + len(second.lines) >= sum(before) + 300)
        shares = (len(first.lines) - before[0], len(second.lines) - before[1])
        first.stop()
        second.stop()
    assert min(shares) * 5 >= max(shares), "while both work, none gets less than a fifth of what the other gets"


def test_a_request_that_takes_longer_than_the_pings_on_a_slow_link_is_not_cut_off(hosts: Network, models: Path) -> None:
    """4 MB at 8 Mb/s take 4 s, and a ping waits 1 s for its answer."""
    near, far = hosts.host("client"), hosts.host("server")
    near.limit(8_000_000)
    task = Task([address(far)], 3, "digest", rows=4, columns=MEGABYTE_COLUMNS, in_flight=2)
    with server(far, models), client(near, task) as running:
        running.finish()
        assert not running.retried, running.summary()
