# SPDX-License-Identifier: Apache-2.0
"""The real Envoy on a host between clients and servers, with the configuration that is shipped."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from tests.deploy.hosts.client_program import Task
from tests.deploy.hosts.namespaces import Host, Network
from tests.deploy.hosts.programs import address, client, server, write_steady
from tests.support import environments
from tests.support.waiting import wait_until

pytestmark = pytest.mark.whole("client", "deploy/envoy", "server", "tests/deploy/hosts")

DEPLOY = Path(__file__).parents[3] / "deploy" / "envoy"


@pytest.fixture(scope="module")
def program() -> Path:
    """The real Envoy; without it the tests are skipped with the installer's text."""
    return environments.envoy()


def write_servers(directory: Path, servers: list[Host]) -> None:
    """Put these servers into servers.yaml, as an operator does: a new file is renamed over the old one."""
    content = yaml.safe_load((DEPLOY / "servers.yaml").read_text())
    endpoints = [{"endpoint": {"address": {"socket_address": {"address": s.address, "port_value": 8001}}}} for s in servers]
    content["resources"][0]["endpoints"][0]["lb_endpoints"] = endpoints
    (directory / "new.yaml").write_text(yaml.safe_dump(content))
    (directory / "new.yaml").rename(directory / "servers.yaml")


class Envoy:
    """A running Envoy. Its admin interface is on loopback of its host."""

    def __init__(self, host: Host) -> None:
        self.host = host

    def ask(self, path: str) -> str:
        """Return the answer of the admin interface; empty while it does not listen."""

        def get() -> str:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:9901{path}", timeout=10) as answer:
                    return str(answer.read().decode())
            except OSError:
                return ""

        return str(self.host.call(get))

    def healthy(self) -> int:
        """Return how many servers get requests."""
        stats = json.loads(self.ask("/stats?format=json&filter=membership_healthy") or '{"stats": []}')["stats"]
        return next((int(one["value"]) for one in stats if one.get("name") == "cluster.servers.membership_healthy"), 0)

    def requests(self, server: Host) -> int:
        """Return how many attempts a server had."""
        clusters = json.loads(self.ask("/clusters?format=json"))["cluster_statuses"]
        hosts = next(one for one in clusters if one["name"] == "servers").get("host_statuses", [])
        mine = [one["stats"] for one in hosts if one["address"]["socket_address"]["address"] == server.address]
        return sum(int(stat.get("value", 0)) for stats in mine for stat in stats if stat["name"] == "rq_total")


@contextmanager
def envoy(program: Path, host: Host, servers: list[Host], directory: Path, *options: str) -> Iterator[Envoy]:
    """Run Envoy on a host until it has found all servers healthy, and beyond."""
    write_servers(directory, servers)
    config = directory / "envoy.yaml"
    argv = [sys.executable, str(DEPLOY / "generate.py"), "envoy.yaml", *options]
    printed = subprocess.run(argv, capture_output=True, text=True, check=True)
    config.write_text(printed.stdout.replace("/etc/envoy", str(directory)))
    argv = host.command(str(program), "-c", str(config), "--disable-hot-restart", "--concurrency", "1", "-l", "warn")
    with (directory / "log").open("w") as log, subprocess.Popen(argv, stdout=log, stderr=log) as process:
        running = Envoy(host)
        try:
            wait_until(lambda: running.healthy() == len(servers), 120, 0.2, explain=(directory / "log").read_text)
            yield running
        finally:
            process.kill()


def test_a_partition_between_envoy_and_a_server_loses_nothing_and_a_late_server_gets_work(
    hosts: Network, models: Path, program: Path, tmp_path: Path
) -> None:
    near, middle = hosts.host("client"), hosts.host("envoy")
    one, two, late = hosts.host("one"), hosts.host("two"), hosts.host("late")
    task = Task([address(middle)], count=1_000_000, in_flight=6)
    with (
        server(one, models),
        server(two, models),
        envoy(program, middle, [one, two], tmp_path) as proxy,
        client(near, task) as running,
    ):
        running.wait_for_answers(200)
        assert min(proxy.requests(one), proxy.requests(two)) >= 20
        two.disconnect()
        running.wait_for(lambda: proxy.healthy() == 1)
        running.wait_for_more(100)
        with server(late, models):
            write_servers(tmp_path, [one, two, late])
            running.wait_for(lambda: proxy.healthy() == 2 and proxy.requests(late) >= 50)
            two.connect()
            before = proxy.requests(two)
            running.wait_for(lambda: proxy.healthy() == 3 and proxy.requests(two) >= before + 50)
            running.wait_for_more(100)
            running.stop()


def test_of_400_requests_in_flight_none_is_lost_when_one_of_three_servers_is_cut_off(
    hosts: Network, program: Path, tmp_path: Path
) -> None:
    """NVIDIA's client sends nothing twice. No packet tells Envoy that the server is gone."""
    near, middle = hosts.host("client"), hosts.host("envoy")
    one, two, three = hosts.host("one"), hosts.host("two"), hosts.host("three")
    steady = write_steady(tmp_path / "models")
    with (
        server(one, steady),
        server(two, steady),
        server(three, steady),
        envoy(program, middle, [one, two, three], tmp_path, "--jobs", "400") as proxy,
        client(near, Task([address(middle)], 2400, model="steady", in_flight=400, library="tritonclient")) as running,
    ):
        running.wait_for_answers(800)
        assert min(proxy.requests(each) for each in (one, two, three)) >= 100
        two.disconnect()
        running.finish()


def test_nvidias_client_gets_its_own_rows_through_envoy(hosts: Network, models: Path, program: Path, tmp_path: Path) -> None:
    near, other, middle = hosts.host("client"), hosts.far("far", rtt_s=0.01, loss=0.01), hosts.host("envoy")
    one, two = hosts.host("one"), hosts.host("two")
    tasks = [Task([address(middle)], 300, in_flight=4, first=first, library="tritonclient") for first in (0, 1_000_000)]
    with (
        server(one, models),
        server(two, models),
        envoy(program, middle, [one, two], tmp_path) as proxy,
        client(near, tasks[0]) as first,
        client(other, tasks[1]) as second,
    ):
        first.finish()
        second.finish()
        assert min(proxy.requests(one), proxy.requests(two)) >= 50
