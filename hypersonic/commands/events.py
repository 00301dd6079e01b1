# SPDX-License-Identifier: Apache-2.0
"""`hypersonic events`: write a file of generated events."""

from __future__ import annotations

import argparse
from pathlib import Path

from hypersonic.arguments import parse_count, parse_whole

HELP = "write a file of generated HCAL events, with the columns of HcalNanoAOD, for `hypersonic infer --input`"

#: the kinds of files that can be written
KINDS = ("ttree", "rntuple", "parquet", "arrow", "stream", "npz")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to the parser."""
    parser.add_argument("model", metavar="MODEL", choices=("facile",), help="the zoo model that the events are for: facile")
    parser.add_argument(
        "--output", type=Path, default=Path("events.root"), metavar="FILE",
        help="the file: .root, .parquet, .arrow, .arrows (a stream) or .npz",
    )  # fmt: skip
    parser.add_argument("--kind", choices=KINDS, default="", help="what to write (default: by the suffix; a TTree for .root)")
    parser.add_argument("--events", type=parse_count, default=20, metavar="N", help="number of events")
    parser.add_argument("--seed", type=parse_whole, default=1, metavar="N", help="seed of the event generator")
    parser.add_argument("--quiet", action="store_true", help="do not show progress")


def run(args: argparse.Namespace) -> int:
    """Write the file, and print a line about it. Return 0."""
    from hypersonic.events.hcal_file import write_events
    from hypersonic.progress import progress_bar

    with progress_bar(quiet=args.quiet) as show:
        rows = write_events(
            args.output,
            events=args.events,
            seed=args.seed,
            kind=args.kind,
            progress=lambda done: show(str(args.output), done, args.events),
        )
    print(f"{args.output}: {args.events:,} events, {rows:,} rows")
    return 0
