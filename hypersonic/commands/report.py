# SPDX-License-Identifier: Apache-2.0
"""`hypersonic report`: compare the four engines of models on the same rows."""

from __future__ import annotations

import argparse
from pathlib import Path

from hypersonic.arguments import add_memory_option, add_network_option, add_own_options, check_places

HELP = "compare models as float network, quantised network, csim and RTL; write tables and pictures"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to the parser."""
    parser.add_argument(
        "models",
        nargs="*",
        metavar="MODEL",
        help="a zoo name; with --rows one model of your own: a file, or file.py:function, a PyTorch module",
    )
    parser.add_argument(
        "--all", action="store_true", help="report on every zoo model that has a generator; takes an hour the first time"
    )
    parser.add_argument(
        "--output", type=Path, default=Path("report"), metavar="DIR", help="directory for the tables and the pictures"
    )
    parser.add_argument("--platform", default="u250", metavar="CARD", help="card whose rate is predicted")
    add_network_option(parser)
    add_own_options(parser)
    add_memory_option(parser)
    parser.add_argument("--quiet", action="store_true", help="do not show progress")


def run(args: argparse.Namespace) -> int:
    """Write the reports, and print the tables on standard output. Return 0."""
    from hypersonic.events.outcome import OnCard
    from hypersonic.hls.tune.new import describe_if_missing
    from hypersonic.own.task import DataOptionError, own_data, trained_file
    from hypersonic.progress import progress
    from hypersonic.reporting.engines import report_models

    check_places(args, "output")
    on = OnCard(args.platform, args.network_gbps)
    with progress(quiet=args.quiet) as step:
        models = [trained_file(model, step) for model in args.models]
        data = None
        if len(models) == 1:
            data = own_data(models[0], args.rows, args.labels)
            describe_if_missing(models[0], args.rows, step)
        elif args.rows or args.labels:
            raise DataOptionError(f"--rows and --labels go with one model, got {', '.join(models) or 'none'}")
        print(report_models(models, everything=args.all, directory=args.output, progress=step, on=on, data=data), flush=True)
        step(f"table, figures and pictures: {args.output}")
    return 0
