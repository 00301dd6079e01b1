# SPDX-License-Identifier: Apache-2.0
"""The files of deploy/envoy: the real Envoy accepts them, they are what their source says, and an old Envoy is refused."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import trustme
import yaml

from tests.deploy.envoy import load
from tests.deploy.envoy.edge_keys import write_keys
from tests.deploy.envoy.farm import DEPLOY, Envoy, adapted, own_address, write_servers
from tests.deploy.envoy.scripted import hold, large_request, scripted
from tests.support import environments
from tests.support.waiting import holds_within, wait_until

NAMES = ("envoy.yaml", "envoy-dns.yaml", "edge-tls-jwt.yaml", "edge-tls-jwt-dns.yaml")
START = DEPLOY / "start.sh"


@pytest.mark.parametrize("name", NAMES)
def test_envoy_accepts_it_without_a_warning(name: str, tmp_path: Path) -> None:
    host = own_address()
    write_keys(tmp_path, host, trustme.CA())
    write_servers(tmp_path, ["192.0.2.11:8001"])
    argv = [str(environments.envoy()), "--mode", "validate", "-l", "warn", "-c", str(adapted(tmp_path, host, name))]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr


def test_the_configurations_are_those_that_their_source_gives(tmp_path: Path) -> None:
    for file in ("generate.py", "envoy.yaml.in"):
        (tmp_path / file).write_bytes((DEPLOY / file).read_bytes())
    subprocess.run([sys.executable, tmp_path / "generate.py"], check=True)
    written = {file.name: file.read_text() for file in tmp_path.glob("*.yaml")}
    assert written == {name: (DEPLOY / name).read_text() for name in NAMES}, "run `python deploy/envoy/generate.py`"


def test_the_admin_interface_is_on_loopback_only() -> None:
    for name in NAMES:
        config = yaml.safe_load((DEPLOY / name).read_text())
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
    done = subprocess.run([START, DEPLOY / "envoy.yaml"], env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert re.search(message, done.stderr)
    assert len(done.stderr.splitlines()) == 1


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
