# SPDX-License-Identifier: Apache-2.0
"""Prints one of Envoy's configurations, which are the parts of envoy.yaml.in that its conditions select.

python3 deploy/envoy/generate.py envoy.yaml > /etc/envoy/envoy.yaml
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Set
from pathlib import Path

SOURCE = Path(__file__).with_name("envoy.yaml.in")
#: the conditions that hold in each configuration. dns: the servers are addresses of a name; edge: TLS and JWT
VARIANTS = {
    "envoy.yaml": frozenset[str](),
    "envoy-dns.yaml": frozenset({"dns"}),
    "edge-tls-jwt.yaml": frozenset({"edge"}),
    "edge-tls-jwt-dns.yaml": frozenset({"edge", "dns"}),
}


def variant(source: str, conditions: Set[str]) -> str:
    """Return the text with only those parts between `#if NAME`, `#else` and `#end` whose condition holds. They do not nest."""
    return "".join(f"{line}\n" for line in _lines(source, conditions))


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


def main() -> None:
    """Print the configuration that the argument names."""
    parser = argparse.ArgumentParser(description="Print one of Envoy's configurations, from envoy.yaml.in.")
    parser.add_argument("name", choices=VARIANTS, help="which one: docs/envoy.md describes them")
    name = parser.parse_args().name
    sys.stdout.write(variant(SOURCE.read_text(), VARIANTS[name]))


if __name__ == "__main__":
    main()
