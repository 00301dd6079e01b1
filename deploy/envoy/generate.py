# SPDX-License-Identifier: Apache-2.0
"""Writes Envoy's configurations from envoy.yaml.in, so that each setting and its reason is in one place.

python deploy/envoy/generate.py
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Set
from pathlib import Path

HERE = Path(__file__).parent
SOURCE = HERE / "envoy.yaml.in"
#: the conditions that hold in each file. dns: the servers are addresses of a name; edge: TLS and JWT
VARIANTS = {
    "envoy.yaml": frozenset[str](),
    "envoy-dns.yaml": frozenset({"dns"}),
    "edge-tls-jwt.yaml": frozenset({"edge"}),
    "edge-tls-jwt-dns.yaml": frozenset({"edge", "dns"}),
}
NOTE = "# Written by generate.py from envoy.yaml.in, which developers change. A site edits its own copy of this file.\n"


def variant(source: str, conditions: Set[str]) -> str:
    """Return the text with only those parts between `#if NAME`, `#else` and `#end` whose condition holds. They do not nest."""
    return NOTE + "".join(f"{line}\n" for line in _lines(source, conditions))


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
    """Write the files of VARIANTS."""
    parser = argparse.ArgumentParser(
        description=f"Write {', '.join(VARIANTS)} beside this program, from envoy.yaml.in. There are no other arguments."
    )
    parser.parse_args()
    for name, conditions in VARIANTS.items():
        (HERE / name).write_text(variant(SOURCE.read_text(), conditions))


if __name__ == "__main__":
    main()
