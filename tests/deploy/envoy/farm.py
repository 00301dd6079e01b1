# SPDX-License-Identifier: Apache-2.0
"""Three real servers and the real Envoy in front of them, with the configuration that is shipped.

Model `rows` answers y = 2 x + 1, in INT32: each request has numbers of its own, so an answer says whose it is.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.server.python_models import source, write_python
from tests.support import environments
from tests.support.server_program import Program, program
from tests.support.waiting import wait_until

DEPLOY = Path(__file__).resolve().parents[3] / "deploy" / "envoy"
Config = dict[str, Any]
_ROWS = """
input [ { name: "x" data_type: TYPE_INT32 dims: [ -1 ] } ]
output [ { name: "y" data_type: TYPE_INT32 dims: [ -1 ] } ]
"""
_started = itertools.count()


def configuration(name: str, *options: str) -> str:
    """Return the text of a configuration, as the generator prints it with these options."""
    argv = [sys.executable, str(DEPLOY / "generate.py"), name, *options]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def write_rows(repository: Path, delay_ms: float = 0, config: str = "") -> Path:
    """Write a repository with model `rows`, a run of which takes `delay_ms` at least. config: added to its config.pbtxt."""
    run = f"time.sleep({delay_ms / 1000})\nreturn [y(2 * x_of(request) + 1) for request in requests]"
    write_python(repository, "rows", source(run), _ROWS + config)
    return repository


@contextmanager
def servers(*repositories: Path, options: Sequence[str] = ()) -> Iterator[list[Program]]:
    """Run one server for each repository, with these options; they start at the same time."""
    with ExitStack() as stack:
        options = ("--exit-timeout-secs", "20", "--log-info", "true", *options)
        started = [
            stack.enter_context(program("--model-repository", str(each), *options, started=False)) for each in repositories
        ]
        for each in started:
            each.wait_for(lambda each=each: len(each.ports) == 3 or each.process.poll() is not None)
            assert len(each.ports) == 3, each.log
        yield started


@dataclass
class Envoy:
    """A running Envoy. host: the loopback address of its listeners, which have the ports of the configuration."""

    host: str
    process: subprocess.Popen[bytes]
    directory: Path

    @property
    def address(self) -> str:
        return f"{self.host}:8001"

    def admin(self, path: str, data: bytes | None = None) -> str:
        """Return what the admin interface answers. Raises OSError."""
        with urllib.request.urlopen(f"http://{self.host}:9901{path}", data, timeout=30) as answer:
            return str(answer.read().decode())

    def stat(self, name: str) -> int:
        """Return a counter or gauge, or 0 if Envoy has not made it yet."""
        found = json.loads(self.admin(f"/stats?format=json&filter=^{name}$"))["stats"]
        return int(found[0]["value"]) if found and "value" in found[0] else 0

    def requests(self, name: str = "servers") -> dict[str, int]:
        """Return the number of attempts that each server has had from this cluster, by host:port."""
        (cluster,) = (one for one in json.loads(self.admin("/clusters?format=json"))["cluster_statuses"] if one["name"] == name)
        return {_address(host): _host_stat(host, "rq_total") for host in cluster.get("host_statuses", ())}

    def is_live(self) -> bool:
        """Return whether it serves."""
        try:
            return self.admin("/ready").startswith("LIVE")
        except OSError:
            return False

    def healthy(self) -> int:
        """Return the number of servers that get requests."""
        return self.stat("cluster.servers.membership_healthy")

    def set_servers(self, addresses: Sequence[str]) -> None:
        """Replace the list of servers, as an operator does."""
        write_servers(self.directory, addresses)

    @property
    def log(self) -> str:
        return (self.directory / "log").read_text()[-4000:]


def _address(host: Config) -> str:
    address = host["address"]["socket_address"]
    return f"{address['address']}:{address['port_value']}"


def _host_stat(host: Config, name: str) -> int:
    return next(int(each.get("value", 0)) for each in host["stats"] if each["name"] == name)


def write_servers(directory: Path, addresses: Sequence[str]) -> None:
    """Write servers.yaml as the shipped one is, with these addresses, and move it into place."""
    config = yaml.safe_load((DEPLOY / "servers.yaml").read_text())
    (group,) = config["resources"][0]["endpoints"]
    pairs = [address.rsplit(":", 1) for address in addresses]
    group["lb_endpoints"] = [
        {"endpoint": {"address": {"socket_address": {"address": host, "port_value": int(port)}}}} for host, port in pairs
    ]
    (directory / "servers.new").write_text(json.dumps(config))
    (directory / "servers.new").rename(directory / "servers.yaml")


def adapted(
    directory: Path,
    host: str,
    name: str,
    change: Callable[[Config], object] = lambda _config: None,
    options: Sequence[str] = (),
) -> Path:
    """Write a shipped configuration for this folder and loopback address.

    change: what a test alters in it besides. options: of the generator.
    """
    config: Config = yaml.safe_load(configuration(name, *options).replace("/etc/envoy", str(directory)))
    listening = [each["address"] for each in config["static_resources"]["listeners"]]
    (admin,) = (each for each in config["static_resources"]["clusters"] if each["name"] == "admin")
    (endpoint,) = admin["load_assignment"]["endpoints"][0]["lb_endpoints"]
    for address in (*listening, config["admin"]["address"], endpoint["endpoint"]["address"]):
        address["socket_address"]["address"] = host
    change(config)
    file = directory / "config.json"
    file.write_text(json.dumps(config))
    return file


def router(config: Config) -> Config:
    """Return the HTTP connection manager of the gRPC listener."""
    found: Config = config["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]
    return found


def cluster(config: Config) -> Config:
    """Return the cluster of the servers."""
    found: Config = config["static_resources"]["clusters"][0]
    return found


def own_address() -> str:
    """Return a loopback address that no other test process uses, so that the ports are those of the configuration."""
    number = os.getpid() << 2 | next(_started) & 3
    return f"127.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"


@contextmanager
def envoy(
    directory: Path,
    addresses: Sequence[str],
    name: str = "envoy.yaml",
    change: Callable[[Config], object] = lambda _config: None,
    host: str = "",
    options: Sequence[str] = (),
) -> Iterator[Envoy]:
    """Run the real Envoy with a shipped configuration, until all servers are healthy. It ends with this thread."""
    directory.mkdir(exist_ok=True)
    host = host or own_address()
    write_servers(directory, addresses)
    config = adapted(directory, host, name, change, options)
    argv = ["setpriv", "--pdeathsig", "KILL", str(environments.envoy()), "-c", str(config), "--disable-hot-restart"]
    argv += ["--concurrency", "2", "-l", "warn", "--log-path", str(directory / "log")]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=(directory / "stderr").open("wb")) as process:
        running = Envoy(host, process, directory)
        try:
            wait_until(lambda: running.is_live() or process.poll() is not None, explain=(directory / "stderr").read_text)
            assert process.poll() is None, (directory / "stderr").read_text()
            for cluster in ("servers", "sequences"):
                healthy = f"cluster.{cluster}.membership_healthy"
                wait_until(lambda: running.stat(healthy) == len(addresses), explain=lambda: running.admin("/clusters"))  # noqa: B023
            yield running
        finally:
            process.kill()
