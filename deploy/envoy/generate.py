# SPDX-License-Identifier: Apache-2.0
"""Prints one of Envoy's configurations, which are parts of envoy.yaml.in, or the list of servers that some of them read.

python3 deploy/envoy/generate.py envoy.yaml --jobs 3300 > /etc/envoy/envoy.yaml
python3 deploy/envoy/generate.py servers.yaml --servers 192.0.2.11:8001 192.0.2.12:8001 > /etc/envoy/servers.yaml
"""

from __future__ import annotations

import argparse
import ipaddress
import math
import re
import sys
from collections.abc import Iterator, Sequence, Set
from pathlib import Path
from string import Template

FOLDER = Path(__file__).parent
#: the conditions that hold in each configuration. dns: the servers are addresses of a name; edge: TLS and JWT
VARIANTS = {
    "envoy.yaml": frozenset[str](),
    "envoy-dns.yaml": frozenset({"dns"}),
    "edge-tls-jwt.yaml": frozenset({"edge"}),
    "edge-tls-jwt-dns.yaml": frozenset({"edge", "dns"}),
}
#: the file that lists the servers of the configurations without a DNS name
LIST = "servers.yaml"
MOST_JOBS = 1_000_000
_REQUEST_BYTES = 1_152_000
_GIB = 1 << 30


def sizes(jobs: int) -> dict[str, int]:
    """Return the numbers that are marked [size], by docs/envoy.md's rules.

    Args:
        jobs: the most requests in flight; a job with several counts as several.
    """
    return {
        "jobs": jobs,
        "requests": _power_of_two(jobs * 6 // 5),
        "connections": _power_of_two(2 * jobs),
        "heap_bytes": math.ceil(2 * jobs * _REQUEST_BYTES / _GIB) * _GIB,
    }


def _power_of_two(least: int) -> int:
    return 1 << max(0, least - 1).bit_length()


def configuration(source: str, conditions: Set[str], values: dict[str, object]) -> str:
    """Return the configuration with these values.

    It has those parts between `#if NAME`, `#else` and `#end` whose condition holds; they do not nest. The part between
    `#cluster` and `#end-cluster` is there twice, the second time with the condition `sequences`.
    """
    before, rest = source.split("#cluster\n")
    cluster, after = rest.split("#end-cluster\n")
    parts = ((before, ()), (cluster, ()), (cluster, ("sequences",)), (after, ()))
    text = "".join(f"{line}\n" for part, more in parts for line in _lines(part, conditions.union(more)))
    return Template(text).substitute(values)


def _lines(source: str, conditions: Set[str]) -> Iterator[str]:
    wanted = True
    for line in source.splitlines():
        if line.startswith("#if "):
            wanted = line.removeprefix("#if ") in conditions
        elif line == "#else":
            wanted = not wanted
        elif line == "#end":
            wanted = True
        elif wanted:
            yield line


def server_list(source: str, servers: Sequence[tuple[str, int]]) -> str:
    """Return servers.yaml with these addresses in place of its own, which are its last lines."""
    head = "".join(line for line in source.splitlines(keepends=True) if "endpoint:" not in line)
    endpoint = '          - endpoint: {{ address: {{ socket_address: {{ address: "{}", port_value: {} }} }} }}\n'
    return head + "".join(endpoint.format(*server) for server in servers)


def _server(text: str) -> tuple[str, int]:
    """Parse HOST:PORT; an IPv6 address has brackets."""
    match = re.fullmatch(r"\[([0-9a-fA-F:.]+)\]:(\d{1,5})|([A-Za-z0-9.-]+):(\d{1,5})", text)
    if match and 0 < (port := int(match[2] or match[4])) < 1 << 16:
        return match[1] or match[3], port
    raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT, such as 192.0.2.11:8001 or [2001:db8::1]:8001")


def _jobs(text: str) -> int:
    if text.isdecimal() and 0 < int(text) <= MOST_JOBS:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {MOST_JOBS}")


def _check(parser: argparse.ArgumentParser, name: str, servers: Sequence[tuple[str, int]]) -> None:
    """Refuse servers that this file cannot have."""
    if name == LIST:
        for host, _ in servers:
            try:
                ipaddress.ip_address(host)
            except ValueError:
                parser.error(f"{host!r} is not an IP address, which {LIST} needs; for a DNS name print envoy-dns.yaml")
    elif "dns" not in VARIANTS[name] and servers:
        parser.error(f"{name} reads its servers from {LIST}: print that file with --servers")
    elif len(servers) > 1:
        parser.error(f"{name} has one DNS name, which gives the addresses of all servers; got {len(servers)}")


def main() -> None:
    """Print the file that the arguments describe."""
    parser = argparse.ArgumentParser(description="Print one of Envoy's configurations, or its list of servers.")
    parser.add_argument("name", choices=(*VARIANTS, LIST), help="which file: docs/envoy.md describes them")
    parser.add_argument(
        "--jobs", type=_jobs, default=3300, metavar="N",
        help="the most requests in flight, which sizes the limits; a job with several counts as several (default: 3300)",
    )  # fmt: skip
    parser.add_argument(
        "--server", choices=("hypersonic", "triton"), default="hypersonic",
        help="triton: tritonserver with its default gRPC options, so without HTTP/2 pings (default: hypersonic)",
    )  # fmt: skip
    parser.add_argument(
        "--servers", type=_server, nargs="+", default=[], metavar="HOST:PORT",
        help=f"the servers' gRPC addresses: IP addresses for {LIST}, one DNS name for the -dns configurations",
    )  # fmt: skip
    given = parser.parse_args()
    _check(parser, given.name, given.servers)
    if given.name == LIST:
        source = (FOLDER / LIST).read_text()
        sys.stdout.write(server_list(source, given.servers) if given.servers else source)
        return
    name, port = given.servers[0] if given.servers else ("servers.hypersonic.svc.cluster.local", 8001)
    conditions = VARIANTS[given.name] | {given.server}
    source = (FOLDER / "envoy.yaml.in").read_text()
    sys.stdout.write(configuration(source, conditions, {**sizes(given.jobs), "name": name, "port": port}))


if __name__ == "__main__":
    main()
