# SPDX-License-Identifier: Apache-2.0
"""The throughput of real clients and servers is that of the planner's law, with the bytes that were on the wire."""

from __future__ import annotations

from pathlib import Path

import pytest

from hypersonic.planning.law import saturation_jobs, throughput
from tests.deploy.hosts.client_program import Task
from tests.deploy.hosts.namespaces import Network
from tests.deploy.hosts.programs import address, run_client, server

#: a packet of 1448 bytes of data has 66 bytes of headers: Ethernet, IP, TCP with time stamps
HEADERS = 1514 / 1448
LINK_BITS_PER_S = 200_000_000
SLOW_BITS_PER_S = 20_000_000


def test_a_link_that_binds_carries_what_the_law_says(hosts: Network, models: Path) -> None:
    near, far = hosts.host("client"), hosts.host("server")
    near.limit(LINK_BITS_PER_S)
    task = Task([address(far)], 90, "digest", rows=1, columns=250_000, in_flight=8, warm=10)
    with server(far, models):
        alone = run_client(near, Task([address(far)], 20, "digest", rows=1, columns=250_000, in_flight=1, warm=5))
        many = run_client(near, task)
    size = many["request_bytes"]
    assert size == pytest.approx(4 * task.columns * HEADERS, rel=0.02)
    capacity = LINK_BITS_PER_S / 8 / size
    ideal_s = 1 / alone["per_s"]
    assert saturation_jobs(ideal_s, [capacity]) < task.in_flight, "the link is the limit"
    assert many["per_s"] == pytest.approx(throughput(task.in_flight, ideal_s, [capacity]), rel=0.1)


def test_requests_over_a_distance_follow_the_law_below_and_above_saturation(hosts: Network, models: Path) -> None:
    """RTT 50 ms, and 20 ms for a request on the link of the server."""
    near, far = hosts.far("client", rtt_s=0.05), hosts.host("server")
    far.limit(SLOW_BITS_PER_S)

    def run(in_flight: int, columns: int) -> dict[str, float]:
        count = 30 * in_flight
        task = Task([address(far)], count + 10, "digest", 1, columns, in_flight, first=columns, warm=10)
        return run_client(near, task)

    with server(far, models):
        ideal_s = {columns: 1 / run(1, columns)["per_s"] for columns in (8, 12_500)}
        below, above = run(4, 8), run(12, 12_500)
    assert min(ideal_s.values()) >= 0.05
    for in_flight, columns, measured in ((4, 8, below), (12, 12_500, above)):
        capacity = SLOW_BITS_PER_S / 8 / measured["request_bytes"]
        assert (saturation_jobs(ideal_s[columns], [capacity]) < in_flight) == (measured is above)
        assert measured["per_s"] == pytest.approx(throughput(in_flight, ideal_s[columns], [capacity]), rel=0.1)
