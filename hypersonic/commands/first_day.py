# SPDX-License-Identifier: Apache-2.0
"""`hypersonic first-day`: the steps of the day when a card is there, or their rehearsal."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from hypersonic.arguments import add_memory_option, add_network_option, parse_count, parse_whole

if TYPE_CHECKING:
    from hypersonic.first_day.day import Day

HELP = "check a new card step by step, from its driver to the server; write one archive to send along"

_STEPS = ("devices", "validate", "memory", "loopback", "model", "units", "streams", "server")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to the parser."""
    does = parser.add_mutually_exclusive_group()
    does.add_argument(
        "--rehearse", action="store_true", help="use emulated cards (hw_emu, a memory of 200 clocks), and build what they run"
    )
    does.add_argument(
        "--build", action="store_true", help="make the two bitstreams, with the vendor's tools, and run nothing on a card"
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--from-step", choices=_STEPS, default="", metavar="STEP", help=f"the first step: {', '.join(_STEPS)}")
    which.add_argument("--only", choices=_STEPS, default="", metavar="STEP", help="the one step to run")
    parser.add_argument(
        "--archive", type=Path, default=Path("first-day.tar.gz"), metavar="FILE",
        help="the archive to write: outputs, versions, manifests and logs, without secrets; docs/first-card.md",
    )  # fmt: skip
    parser.add_argument("--platform", default="u250", metavar="CARD", help="the card's platform")
    parser.add_argument("--card", type=parse_whole, default=0, metavar="N", help="the card's index in `hypersonic devices`")
    parser.add_argument("--model", default="facile", metavar="MODEL", help="a zoo name, or a model file with --rows")
    parser.add_argument("--rows", type=Path, metavar="FILE", help="the rows of a model file, as for `hypersonic run`")
    parser.add_argument(
        "--model-repository", type=Path, metavar="DIR",
        help="the model repository with both builds (default: models; build/first-day with --rehearse)",
    )  # fmt: skip
    parser.add_argument(
        "--compute-units", type=parse_count, default=2, metavar="N", help="compute units of each kernel that is built"
    )
    parser.add_argument(
        "--kernel-mhz", type=parse_whole, default=200, metavar="MHZ", help="clock of the bitstreams, for --build"
    )
    add_network_option(parser)
    add_memory_option(parser)
    parser.add_argument("--quiet", action="store_true", help="do not show the progress of builds")


def run(args: argparse.Namespace) -> int:
    """Run the steps, write the archive, and return 0, or 1 or 2 after a deviation."""
    from hypersonic.firmware.platform import find_platform
    from hypersonic.first_day.archive import write_archive
    from hypersonic.first_day.day import Day, check_driven_by_xrt
    from hypersonic.first_day.record import Record
    from hypersonic.first_day.run import chosen, run_steps
    from hypersonic.hls.frontend.description import describe
    from hypersonic.own.task import own_data, trained_file
    from hypersonic.progress import progress

    platform, model = find_platform(args.platform), trained_file(args.model)
    check_driven_by_xrt(platform)
    if own_data(model, args.rows, None):
        describe(model)
    repository = args.model_repository or Path("build/first-day" if args.rehearse else "models")
    record = Record(lambda line: print(line, flush=True))
    day = Day(args.rehearse, platform, repository, model, args.rows, args.card, args.network_gbps, record)
    if args.build or args.rehearse:
        with progress(quiet=args.quiet) as step:
            make_builds(day, args.compute_units, args.kernel_mhz, step)
    if args.build:
        print(repository)
        return 0
    try:
        return run_steps(day, chosen(args.from_step, args.only))
    finally:  # after Ctrl-C too: a step that hangs is worth a report
        write_archive(day, args.archive)
        print(f"archive: {args.archive}", flush=True)


def make_builds(
    day: Day, units: int, kernel_mhz: int, progress: Callable[[str], None], directory: Path = Path("build")
) -> None:
    """Build the loop-back kernel and the model, each with `units` compute units, and publish them. Raises what build() raises.

    Args:
        kernel_mhz: of a card's kernels; 0 for the card's default.
        progress: called with one line per step.
        directory: for the vendor's tools.
    """
    from hypersonic.building.model import build
    from hypersonic.building.request import CardOptions
    from hypersonic.first_day.day import LOOPBACK

    options = CardOptions(0 if day.rehearsal else kernel_mhz, lower_clock=False, afi_bucket="")
    for model in (LOOPBACK, day.model):
        build(
            model, day.target, platform=day.platform.name, repository=day.repository, compute_units=units,
            directory=directory, options=options, progress=progress, on_gate=progress,
        )  # fmt: skip
