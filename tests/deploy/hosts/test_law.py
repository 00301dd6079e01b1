# SPDX-License-Identifier: Apache-2.0
"""The throughput of real clients and servers is that of the planner's law, with the bytes that were on the wire."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from hypersonic.plan.law import saturation_jobs, throughput
from tests.deploy.hosts.client_program import Task
from tests.deploy.hosts.namespaces import Host, Network
from tests.deploy.hosts.programs import address, run_client, server

pytestmark = pytest.mark.whole("client", "deploy/envoy", "server", "tests/deploy/hosts")

#: a packet of 1448 bytes of data has 66 bytes of headers: Ethernet, IP, TCP with time stamps
HEADERS = 1514 / 1448
#: bytes that a small request takes: HTTP/2 headers, acknowledgements of answers, pings
LITTLE = 600
LINK_BITS_PER_S = 200_000_000
SLOW_BITS_PER_S = 20_000_000


Record = Callable[[str, object], None]


@dataclass(frozen=True)
class Case:
    """Clients of one request size. columns: INT32 in a request. link_bits_per_s: of the slowest link on the way."""

    near: Host
    far: Host
    columns: int
    in_flight: int
    link_bits_per_s: int

    def run(self, in_flight: int) -> dict[str, float]:
        """Measure the throughput with so many requests in flight."""
        task = Task([address(self.far)], 15 + 15 * in_flight, "digest", 1, self.columns, in_flight, warm=10)
        return run_client(self.near, task)

    def check(self, record: Record, *, saturated: bool) -> None:
        """Compare with the law, up to three times: other work on the same cores disturbs either of the two measurements."""
        for _ in range(3):
            ideal_s, many = 1 / self.run(1)["per_s"], self.run(self.in_flight)
            size = many["request_bytes"]
            capacity = self.link_bits_per_s / 8 / size
            law = throughput(self.in_flight, ideal_s, [capacity])
            record("law", f"{self}: {size:.0f} bytes, alone {ideal_s:.4f} s, {many['per_s']:.2f}/s, law {law:.2f}/s")
            if many["per_s"] == pytest.approx(law, rel=0.1):
                break
        assert many["per_s"] == pytest.approx(law, rel=0.1)
        assert (saturation_jobs(ideal_s, [capacity]) < self.in_flight) == saturated
        data = 4 * self.columns
        assert data < size < data * HEADERS * 1.05 + LITTLE, "the bytes of the data, headers, and what TCP sent again"


def test_a_link_that_binds_carries_what_the_law_says(hosts: Network, models: Path, record_property: Record) -> None:
    near, far = hosts.host("client"), hosts.host("server")
    near.limit(LINK_BITS_PER_S)
    with server(far, models):
        Case(near, far, 250_000, 6, LINK_BITS_PER_S).check(record_property, saturated=True)


def test_requests_over_a_distance_follow_the_law_below_and_above_saturation(
    hosts: Network, models: Path, record_property: Record
) -> None:
    """RTT 50 ms, and for the larger requests 20 ms on the link of the server."""
    near, far = hosts.far("client", rtt_s=0.05), hosts.host("server")
    far.limit(SLOW_BITS_PER_S)
    with server(far, models):
        Case(near, far, 8, 4, SLOW_BITS_PER_S).check(record_property, saturated=False)
        Case(near, far, 12_500, 2, SLOW_BITS_PER_S).check(record_property, saturated=False)
        Case(near, far, 12_500, 12, SLOW_BITS_PER_S).check(record_property, saturated=True)
