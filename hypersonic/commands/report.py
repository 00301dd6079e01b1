# SPDX-License-Identifier: Apache-2.0
"""`hypersonic report`: zoo models' four engines on the same rows."""

from __future__ import annotations

import argparse
from pathlib import Path

from hypersonic.arguments import add_network_option

HELP = "float against quantised against csim against RTL: a table and a picture a model"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("models", nargs="*", metavar="MODEL", help="zoo names")
    parser.add_argument("--all", action="store_true", help="every zoo model that has a generator (an hour the first time)")
    parser.add_argument("--output", type=Path, default=Path("report"), metavar="DIR", help="where table and pictures go")
    parser.add_argument("--platform", default="u250", metavar="CARD", help="the card whose rate is predicted")
    add_network_option(parser)
    parser.add_argument("--quiet", action="store_true", help="no progress on the terminal")


def run(args: argparse.Namespace) -> int:
    """Report; the table goes to standard output."""
    from hypersonic.events.outcome import OnCard
    from hypersonic.progress import progress
    from hypersonic.reporting.engines import report_models

    on = OnCard(args.platform, args.network_gbps)
    with progress(quiet=args.quiet) as step:
        print(report_models(args.models, everything=args.all, directory=args.output, progress=step, on=on))
    return 0
