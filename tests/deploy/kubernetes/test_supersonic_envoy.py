# SPDX-License-Identifier: Apache-2.0
"""The Envoy that SuperSONIC's real chart starts with our values: its container's command and configuration, run for real."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.envoy import load
from tests.deploy.envoy.farm import Envoy, own_address, write_rows
from tests.deploy.kubernetes.programs import Manifest
from tests.deploy.kubernetes.service import HeadlessService, headless_service, service
from tests.deploy.kubernetes.supersonic import NAMESPACE, RELEASE, copy_of_the_chart, install, pod_of
from tests.support import environments
from tests.support.server_program import Program, program
from tests.support.waiting import wait_until

REQUESTS = 3000


@pytest.fixture(scope="module")
def farm(tmp_path_factory: pytest.TempPathFactory) -> list[Manifest]:
    """The objects that helm would install."""
    environments.envoy()
    return install(copy_of_the_chart(tmp_path_factory.mktemp("chart")), data=tmp_path_factory.mktemp("helm"))


def configuration(farm: list[Manifest], host: str, names: HeadlessService) -> dict[str, Any]:
    """Envoy's configuration from the chart's ConfigMap, on this loopback address, with this name server."""
    (text,) = [each["data"]["envoy.yaml"] for each in farm if each["metadata"]["name"] == f"{RELEASE}-envoy-config"]
    config: dict[str, Any] = yaml.safe_load(text.replace("127.0.0.1", host).replace("0.0.0.0", host))
    (cluster,) = [each for each in config["static_resources"]["clusters"] if each["name"] == "servers"]
    cluster["cluster_type"]["typed_config"]["typed_dns_resolver_config"] = {
        "name": "envoy.network.dns_resolver.cares",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.network.dns_resolver.cares.v3.CaresDnsResolverConfig",
            "resolvers": [{"socket_address": {"address": names.address[0], "port_value": names.address[1]}}],
        },
    }
    return config


@contextmanager
def container(farm: list[Manifest], directory: Path, names: HeadlessService) -> Iterator[Envoy]:
    """Envoy's container, until all servers are healthy."""
    directory.mkdir()
    (described,) = pod_of(farm, "envoy")["spec"]["containers"]
    host = own_address()
    (directory / "envoy.yaml").write_text(json.dumps(configuration(farm, host, names)))
    assert described["command"] == ["envoy"]
    arguments = [each.replace("/etc/envoy", str(directory)) for each in described["args"]]
    argv = ["setpriv", "--pdeathsig", "KILL", str(environments.envoy()), *arguments, "--log-path", str(directory / "log")]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=(directory / "stderr").open("wb")) as process:
        running = Envoy(host, process, directory)
        try:
            wait_until(lambda: running.is_live() or process.poll() is not None, explain=(directory / "stderr").read_text)
            assert process.poll() is None, (directory / "stderr").read_text()
            wait_until(lambda: running.healthy() == len(names.pods), explain=lambda: running.admin("/clusters"))
            yield running
        finally:
            process.kill()


@contextmanager
def pods(repository: Path, count: int) -> Iterator[tuple[list[Program], HeadlessService]]:
    """Servers on addresses of their own and the port of the chart's Service, and that Service's name."""
    name = f"{RELEASE}-triton.{NAMESPACE}.svc.cluster.local"
    with ExitStack() as stack:
        hosts = [own_address() for _ in range(count)]
        options = ("--model-repository", str(repository), "--grpc-port", "8001", "--exit-timeout-secs", "20")
        started = [stack.enter_context(program(*options, address=host, started=False)) for host in hosts]
        for each in started:
            each.wait_for(lambda each=each: len(each.ports) == 3 or each.process.poll() is not None)
        assert [each.grpc for each in started] == [f"{host}:8001" for host in hosts]
        yield started, stack.enter_context(headless_service(name, hosts))


def test_a_server_that_is_killed_loses_almost_no_request_of_clients_that_never_retry(
    farm: list[Manifest], tmp_path: Path, record_property: Any
) -> None:
    """A request whose answer had begun cannot be sent again."""
    repository = write_rows(tmp_path / "models", delay_ms=1)
    with pods(repository, 3) as (running, names), container(farm, tmp_path / "e", names) as envoy:
        outcome = load.plain(envoy.address, REQUESTS, {REQUESTS // 3: running[0].process.kill})
        retries = envoy.stat("cluster.servers.upstream_rq_retry")
        with urllib.request.urlopen(f"http://{envoy.host}:9902/metrics", timeout=30) as page:
            assert b"envoy_cluster_upstream_rq_retry{" in page.read()
    record_property("noteworthy", f"{len(outcome.failures)} of {REQUESTS} failed; {retries} retries by Envoy")
    assert (outcome.asked, outcome.strangers) == (REQUESTS, 0)
    assert len(outcome.failures) <= 2, outcome.failures


def test_a_server_that_leaves_the_service_gets_no_more_requests_and_a_new_one_does(
    farm: list[Manifest], tmp_path: Path
) -> None:
    """By the name alone: the server that leaves is healthy all the time."""
    with pods(write_rows(tmp_path / "models", delay_ms=1), 3) as (_, names):
        leaving, *_, new = names.pods
        names.pods = names.pods[:2]
        with container(farm, tmp_path / "e", names) as envoy, load.crowd(envoy.address) as outcome:
            names.pods = [*names.pods[1:], new]
            wait_until(lambda: f"{leaving}:8001" not in envoy.requests() and envoy.requests().get(f"{new}:8001", 0) > 50)
    assert (outcome.failures, outcome.strangers) == ([], 0)


def test_an_envoy_that_leaves_loses_no_request_of_clients_that_never_retry(farm: list[Manifest], tmp_path: Path) -> None:
    """The steps of Kubernetes: out of the Service, preStop, SIGTERM. The end of preStop is when its clients have left."""
    (described,) = pod_of(farm, "envoy")["spec"]["containers"]
    (shell, flag, script) = described["lifecycle"]["preStop"]["exec"]["command"]
    (wait_s,) = re.findall(r"; sleep (\d+)$", script)
    drain_s = int(described["args"][described["args"].index("--drain-time-s") + 1])
    assert drain_s < int(wait_s) < pod_of(farm, "envoy")["spec"]["terminationGracePeriodSeconds"]
    repository = write_rows(tmp_path / "models")
    with (
        pods(repository, 1) as (_, names),
        container(farm, tmp_path / "a", names) as old,
        container(farm, tmp_path / "b", names) as new,
        service(old.address) as endpoints,
        load.crowd(endpoints.address, clients=4) as outcome,
    ):
        wait_until(lambda: old.stat("http.grpc.downstream_cx_active") == 4)
        endpoints.endpoint = new.address
        changed = script.replace("127.0.0.1", old.host).removesuffix(f"; sleep {wait_s}")
        done = subprocess.run([shell, flag, changed], capture_output=True, check=False)
        assert done.stdout.startswith(b"HTTP/1.1 200 OK")
        wait_until(lambda: old.stat("http.grpc.downstream_cx_active") == 0, timeout_s=2 * drain_s)
        old.process.terminate()
        old.process.wait(60)
        goal = outcome.answered + 100
        wait_until(lambda: outcome.answered >= goal)
    assert (outcome.failures, outcome.strangers) == ([], 0)
