# SPDX-License-Identifier: Apache-2.0
"""The files of deploy/envoy: the real Envoy accepts them, and an old Envoy is refused."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import trustme
import yaml

from hypersonic.server.options import Options
from tests.deploy.envoy import load
from tests.deploy.envoy.edge_keys import write_keys
from tests.deploy.envoy.farm import DEPLOY, Envoy, adapted, configuration, envoy, own_address, write_servers
from tests.deploy.envoy.scripted import hold, large_request, scripted
from tests.support import environments
from tests.support.waiting import holds_within, wait_until

NAMES = ("envoy.yaml", "envoy-dns.yaml", "edge-tls-jwt.yaml", "edge-tls-jwt-dns.yaml")
START = DEPLOY / "start.sh"


@pytest.mark.parametrize("server", ["hypersonic", "triton"])
@pytest.mark.parametrize("name", NAMES)
def test_envoy_accepts_it_without_a_warning(name: str, server: str, tmp_path: Path) -> None:
    host = own_address()
    write_keys(tmp_path, host, trustme.CA())
    write_servers(tmp_path, ["192.0.2.11:8001"])
    argv = [str(environments.envoy()), "--mode", "validate", "-l", "warn"]
    argv += ["-c", str(adapted(tmp_path, host, name, options=("--server", server)))]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_the_command_of_the_page_changes_the_directory_and_the_ports_everywhere(name: str) -> None:
    page = (DEPLOY.parents[1] / "docs" / "envoy.md").read_text()
    (options,) = re.findall(r"^sed -i (.*?) /srv/envoy/envoy\.yaml$", page, re.MULTILINE | re.DOTALL)
    words = shlex.split(options.replace("\\\n", " "))
    shipped = configuration(name)
    done = subprocess.run(["sed", *words], input=shipped, capture_output=True, text=True, check=True)
    assert "/etc/envoy" not in done.stdout
    for port in (9901, 9902):
        assert shipped.count(f"port_value: {port}") == done.stdout.count(f"port_value: 1{port}")
    listeners = yaml.safe_load(done.stdout)["static_resources"]["listeners"]
    assert [each["address"]["socket_address"]["port_value"] for each in listeners] == [18001, 19902]


def numbers(*options: str) -> dict[str, int]:
    """The numbers of a configuration that depend on the number of jobs."""
    config = yaml.safe_load(configuration("envoy.yaml", *options))
    heap, connections = (each["typed_config"] for each in config["overload_manager"]["resource_monitors"])
    limits = [cluster["circuit_breakers"]["thresholds"][0] for cluster in config["static_resources"]["clusters"][:2]]
    assert limits[0] == limits[1], "the clusters of requests and of sequences have the same limits"
    return {
        **{name: limits[0][name] for name in ("max_requests", "max_pending_requests", "max_connections")},
        "retries": limits[0]["retry_budget"]["min_retry_concurrency"],
        "heap": heap["max_heap_size_bytes"],
        "clients": connections["max_active_downstream_connections"],
    }


def test_the_limits_for_3300_jobs_are_those_of_the_page() -> None:
    in_flight = dict.fromkeys(("max_requests", "max_pending_requests", "max_connections", "retries"), 4096)
    assert numbers() == numbers("--jobs", "3300") == {**in_flight, "heap": 8 << 30, "clients": 8192}


@pytest.mark.parametrize("jobs", [1, 2, 400, 4096, 1_000_000])
def test_the_limits_have_room_for_all_jobs_and_for_a_retry_of_each(jobs: int) -> None:
    found = numbers("--jobs", str(jobs))
    assert min(found[name] for name in ("max_requests", "max_pending_requests", "max_connections", "retries")) >= jobs
    assert found["clients"] >= 2 * jobs
    assert found["heap"] >= 2 * 1_152_000 * jobs


@pytest.mark.parametrize(("server", "pings"), [("hypersonic", {"interval": "11s", "timeout": "2s"}), ("triton", None)])
def test_only_servers_that_allow_pings_get_them_and_all_have_tcp_keepalive(server: str, pings: object) -> None:
    allowed_ms = Options.grpc_http2_min_recv_ping_interval_without_data
    assert allowed_ms < 11_000
    assert Options.grpc_keepalive_permit_without_calls
    for name in NAMES:
        config = yaml.safe_load(configuration(name, "--server", server))
        for cluster in config["static_resources"]["clusters"][:2]:
            (options,) = cluster["typed_extension_protocol_options"].values()
            assert options["explicit_http_config"]["http2_protocol_options"].get("connection_keepalive") == pings
            assert cluster["upstream_connection_options"]["tcp_keepalive"]["keepalive_time"] == 5


def test_the_servers_are_where_the_options_put_them() -> None:
    listed = yaml.safe_load(configuration("servers.yaml", "--servers", "192.0.2.1:8001", "[2001:db8::1]:9001"))
    (group,) = listed["resources"][0]["endpoints"]
    addresses = [each["endpoint"]["address"]["socket_address"] for each in group["lb_endpoints"]]
    assert addresses == [{"address": "192.0.2.1", "port_value": 8001}, {"address": "2001:db8::1", "port_value": 9001}]
    named = yaml.safe_load(configuration("envoy-dns.yaml", "--servers", "farm.example.org:9001"))
    for cluster in named["static_resources"]["clusters"][:2]:
        (endpoint,) = cluster["load_assignment"]["endpoints"][0]["lb_endpoints"]
        assert endpoint["endpoint"]["address"]["socket_address"] == {"address": "farm.example.org", "port_value": 9001}


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        ("--help", 0, "usage: generate.py [-h]"),
        ("edge.yaml", 2, "invalid choice"),
        ("envoy.yaml --jobs 0", 2, "'0' is not a number from 1 to 1000000"),
        ("envoy.yaml --servers 192.0.2.1:8001", 2, "envoy.yaml reads its servers from servers.yaml: print that file"),
        ("envoy-dns.yaml --servers a:1 b:1", 2, "envoy-dns.yaml has one DNS name"),
        ("servers.yaml --servers a:1", 2, "'a' is not an IP address, which servers.yaml needs"),
        ("servers.yaml --servers 192.0.2.1", 2, "'192.0.2.1' is not HOST:PORT"),
        ("servers.yaml --servers 192.0.2.1:65536", 2, "'192.0.2.1:65536' is not HOST:PORT"),
    ],
)
def test_the_generator_explains_itself_and_refuses_what_it_does_not_know(words: str, code: int, text: str) -> None:
    argv = [sys.executable, str(DEPLOY / "generate.py"), *words.split()]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == code
    assert text in done.stdout + done.stderr


def test_the_admin_interface_is_on_loopback_only() -> None:
    for name in NAMES:
        config = yaml.safe_load(configuration(name))
        assert config["admin"]["address"]["socket_address"]["address"] == "127.0.0.1"


def program_of(directory: Path, version: str) -> Path:
    """A program that only says that it is Envoy of this version."""
    file = directory / "envoy"
    file.write_text(f'#!/bin/sh\necho "envoy  version: 0123abcd/{version}/Clean/RELEASE/BoringSSL"\n')
    file.chmod(0o755)
    return file


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ("1.35.4", "is Envoy 1.35.4, but .* needs 1.36 or newer: .*Install a newer Envoy"),
        ("none", "gives no version; set ENVOY"),
    ],
)
def test_an_envoy_that_is_too_old_is_refused_with_one_message(version: str, message: str, tmp_path: Path) -> None:
    environ = {**os.environ, "ENVOY": str(program_of(tmp_path, version))}
    done = subprocess.run([START, DEPLOY / "envoy.yaml.in"], env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert re.search(message, done.stderr)
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("change", ["another port", "another service"])
def test_a_drain_that_is_not_possible_is_reported(change: str, tmp_path: Path) -> None:
    """ADMIN_ADDRESS names a port at which nothing listens, or one at which something else answers."""
    host = own_address()
    write_servers(tmp_path, [])
    config = adapted(tmp_path, host, "envoy.yaml")
    admin = f"{host}:{9903 if change == 'another port' else 9902}"
    environ = {**os.environ, "ENVOY": str(environments.envoy()), "ADMIN_ADDRESS": admin}
    argv = ["setpriv", "--pdeathsig", "TERM", str(START), str(config), "--concurrency", "1", "-l", "error"]
    with subprocess.Popen(argv, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        wait_until(Envoy(host, process, tmp_path).is_live)
        process.send_signal(signal.SIGTERM)
        errors = process.communicate(timeout=60)[1].decode()
    assert process.returncode == 0
    assert errors == (
        f"start.sh: Envoy's admin interface does not answer at {admin}: requests in flight are lost. "
        f"Set ADMIN_ADDRESS to the address under `admin:` in {config}\n"
    )


def test_a_list_of_servers_with_a_typo_keeps_the_old_one(tmp_path: Path) -> None:
    """The only signs are a counter and a line in Envoy's log, which the validation prints as well before it says OK."""
    with scripted(hold) as server, envoy(tmp_path / "e", [server.address]) as edge:
        edge.set_servers(["127.0.0.l:8001"])
        wait_until(lambda: edge.stat("cluster.servers.update_rejected") == 1, explain=lambda: edge.log)
        rejected = "Filesystem config update rejected: malformed IP address: 127.0.0.l"
        wait_until(lambda: rejected in edge.log, explain=lambda: edge.log)  # Envoy writes its log in the background
        assert list(edge.requests()) == [server.address]
        assert edge.healthy() == 1
        argv = [str(environments.envoy()), "--mode", "validate", "-l", "warn", "-c", str(tmp_path / "e" / "config.json")]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert (done.returncode, "Filesystem config update rejected: malformed IP address" in done.stderr) == (0, True)
        (tmp_path / "e" / "servers.new").write_text("resources: ]")
        (tmp_path / "e" / "servers.new").rename(tmp_path / "e" / "servers.yaml")
        wait_until(lambda: edge.stat("cluster.servers.update_failure") == 1, explain=lambda: edge.log)
        assert edge.healthy() == 1
        edge.set_servers([server.address, "127.0.0.1:9"])
        wait_until(lambda: edge.stat("cluster.servers.membership_total") == 2, explain=lambda: edge.log)


def test_sigterm_answers_what_envoy_has(tmp_path: Path) -> None:
    host = own_address()
    with scripted(hold) as server:
        write_servers(tmp_path, [server.address])
        config = adapted(tmp_path, host, "envoy.yaml")
        environ = {**os.environ, "ENVOY": str(environments.envoy()), "ADMIN_ADDRESS": f"{host}:9901", "DRAIN_SECONDS": "60"}
        argv = ["setpriv", "--pdeathsig", "TERM", str(START), str(config), "--concurrency", "1", "-l", "warn"]
        with subprocess.Popen(argv, env=environ, stdout=subprocess.DEVNULL) as process, ThreadPoolExecutor(1) as pool:
            edge = Envoy(host, process, tmp_path)
            try:
                wait_until(lambda: edge.is_live() and edge.healthy() == 1)
                held = pool.submit(load.raw, edge.address, large_request(64))
                wait_until(lambda: server.received == 1)
                process.send_signal(signal.SIGTERM)
                assert not holds_within(held.done, 2)
                server.released.set()
                assert held.result() is None
                assert process.wait(60) == 0
            finally:
                process.kill()
