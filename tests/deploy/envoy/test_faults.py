# SPDX-License-Identifier: Apache-2.0
"""Servers die, drain, join and are slow behind the real Envoy, under load. No client gets the answer to another's rows."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.deploy.envoy import load
from tests.deploy.envoy.farm import Envoy, envoy, servers, write_rows
from tests.support.server_program import Program
from tests.support.waiting import holds_within, wait_until

pytestmark = pytest.mark.whole("client", "deploy/envoy", "server", "tests/deploy/envoy")

REQUESTS = 3000
Record = Callable[[str, object], None]


@pytest.mark.parametrize(("how", "most_failures"), [(signal.SIGKILL, 2), (signal.SIGTERM, 0)])
def test_of_3000_requests_almost_none_is_lost_with_a_server_and_none_with_our_client(
    how: signal.Signals, most_failures: int, tmp_path: Path, record_property: Record
) -> None:
    repository = write_rows(tmp_path / "models", delay_ms=1)
    with servers(repository, repository, repository) as running, envoy(tmp_path / "e", [each.grpc for each in running]) as edge:
        stopping = threading.Event()

        def stop() -> None:
            stopping.set()
            running[0].process.send_signal(how)

        def streams() -> list[load.Outcome]:
            stopping.wait(120)
            return [load.stream(edge.address, 100) for _ in range(2)]

        with ThreadPoolExecutor(4) as pool:
            early = pool.submit(load.stream, edge.address, 400)
            late = pool.submit(streams)
            plain = pool.submit(load.plain, edge.address, REQUESTS, {REQUESTS // 3: stop})
            ours = pool.submit(load.ours, edge.address, REQUESTS, {})
            outcomes = [plain.result(), ours.result(), early.result(), *late.result()]
        assert running[0].process.wait(60) == (0 if how == signal.SIGTERM else -how)
        retries = edge.stat("cluster.servers.upstream_rq_retry")
    first, second, *_ = outcomes
    failed = f"{len(first.failures)} of {REQUESTS} failed with tritonclient, {len(second.failures)} with hypersonic.client"
    record_property("noteworthy", f"{failed}; {retries} retries by Envoy")
    assert (first.asked, second.asked) == (REQUESTS, REQUESTS)
    assert len(first.failures) <= most_failures, first.failures
    assert second.failures == []
    assert [each.strangers for each in outcomes] == [0] * len(outcomes)


def share_of(edge: Envoy, address: str, window_s: float = 0.5) -> float:
    """The server's share of the attempts of a window of time."""
    before = edge.requests()
    time.sleep(window_s)
    counts = {host: count - before.get(host, 0) for host, count in edge.requests().items()}
    return counts.get(address, 0) / max(1, sum(counts.values()))


def test_a_new_server_gets_its_share_within_5_s_and_one_that_is_taken_out_gets_nothing(
    three: list[Program], tmp_path: Path, record_property: Record
) -> None:
    addresses = [each.grpc for each in three]
    with envoy(tmp_path, addresses[:2]) as edge, load.crowd(edge.address) as outcome:
        assert share_of(edge, addresses[2]) == 0
        begin = time.monotonic()
        edge.set_servers(addresses)
        assert holds_within(lambda: share_of(edge, addresses[2]) > 0.2, 5), edge.requests()
        taken_s = time.monotonic() - begin
        record_property("noteworthy", f"more than 20 % of the requests {taken_s:.1f} s after the third server was listed")
        edge.set_servers(addresses[1:])
        wait_until(lambda: addresses[0] not in edge.requests(), 10)
    assert (outcome.failures, outcome.strangers) == ([], 0)


def test_a_slow_server_gets_less(three: list[Program], tmp_path: Path, record_property: Record) -> None:
    with servers(write_rows(tmp_path / "slow", delay_ms=60)) as (slow,):
        addresses = [slow.grpc, *(each.grpc for each in three[:2])]
        with envoy(tmp_path / "e", addresses) as edge:
            outcome = load.plain(edge.address, 600, {})
            counts = edge.requests()
    assert (outcome.answered, outcome.failures) == (600, [])
    share = counts[slow.grpc] / sum(counts.values())
    record_property("noteworthy", f"the slow server of three had {share:.0%} of the requests")
    assert share < 0.2
