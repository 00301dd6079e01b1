# SPDX-License-Identifier: Apache-2.0
"""Measures how kernels, models and servers share emulated cards. Each module of bench/sharing/parts is a part of it.

hypersonic bench sharing [PART ...] [--json]
"""

from __future__ import annotations

import argparse
import importlib
import json
import pkgutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import cast

from bench.sharing import parts
from bench.sharing.figure import Figure, Part
from hypersonic.commands.bench import add_sharing_options
from hypersonic.firmware.errors import FirmwareError
from hypersonic.hls.errors import ToolError


def part_names() -> list[str]:
    """The names of all parts."""
    return sorted(module.name for module in pkgutil.iter_modules(parts.__path__))


def load_part(name: str) -> Part:
    """The part with that name. Raises ValueError, which lists the existing ones."""
    if name not in part_names():
        raise ValueError(f"part is {name!r}, expected one of {', '.join(part_names())}")
    return cast("Part", importlib.import_module(f"{parts.__name__}.{name}"))


def table(measured: Mapping[str, tuple[str, Sequence[Figure]]]) -> str:
    """The figures of all parts as text."""
    lines = list[str]()
    for name, (title, figures) in measured.items():
        lines += [f"{name}: {title}"]
        lines += [
            f"  {figure.name:<52} {figure.text:>16}  {figure.target}{'' if figure.met else '   NOT MET'}" for figure in figures
        ]
    return "\n".join(lines)


def main(argv: Sequence[str]) -> int:
    """Measure the parts and print their figures. Returns 1 if a figure misses its target, 2 for a part that does not exist."""
    parser = argparse.ArgumentParser(prog="hypersonic bench sharing")
    add_sharing_options(parser)
    arguments = parser.parse_args(argv)
    try:
        chosen = {name: load_part(name) for name in arguments.parts or part_names()}
        measured = {name: (part.TITLE, part.measure(_say)) for name, part in chosen.items()}
    except (FirmwareError, OSError, ToolError, ValueError) as error:
        print(f"hypersonic bench sharing: {error}", file=sys.stderr)
        return 2
    if arguments.json:
        print(json.dumps({name: [asdict(figure) for figure in figures] for name, (_, figures) in measured.items()}, indent=2))
    else:
        print(table(measured))
    return 0 if all(figure.met for _, figures in measured.values() for figure in figures) else 1


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
