# SPDX-License-Identifier: Apache-2.0
"""`hypersonic build`: build trained models into xclbins, in a model repository."""

from __future__ import annotations

import argparse
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

from hypersonic.arguments import check_places, parse_counts, parse_rates
from hypersonic.build_options import add_build_options, build_options

HELP = "build trained models into xclbins and publish them in a model repository"

#: the xclbin of all zoo models for sw_emu
_ZOO = "zoo"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to the parser."""
    add_build_options(parser, several=True)
    parser.add_argument(
        "--all", action="store_true",
        help="build every zoo model; for sw_emu, those with a kernel into one xclbin named zoo, unless --together names it",
    )  # fmt: skip
    parser.add_argument(
        "--together", default="", metavar="NAME",
        help="build the models into one xclbin, so that one card holds all of them (docs/many-models.md)",
    )  # fmt: skip
    parser.add_argument(
        "--units", type=parse_counts, default={}, metavar="MODEL=N,...",
        help="number of instances of each model's kernel on the card (default: --compute-units)",
    )  # fmt: skip
    parser.add_argument(
        "--rates", type=parse_rates, default={}, metavar="MODEL=HZ,...",
        help="inferences per second of each model, by which --fit shares the card between the models of --together",
    )  # fmt: skip
    parser.add_argument(
        "--name", default="", metavar="NAME",
        help="name of the model in the repository, so that builds for several targets can be served together (default: the "
        "YAML's name)",
    )  # fmt: skip
    parser.add_argument(
        "--no-resources",
        action="store_true",
        help="do not estimate LUTs, registers, DSPs and memories; the estimate takes minutes the first time",
    )


def run(args: argparse.Namespace) -> int:
    """Build and publish; print the estimates, the accuracies and the versions' directories on standard output. Return 0."""
    from hypersonic.progress import progress

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # treat SIGTERM like Ctrl-C, which removes unfinished files
    check_places(args, "model_repository", "build_directory")
    lines: list[str] = []
    on_resources = None if args.no_resources else lines.extend
    with progress(quiet=args.quiet) as step:
        versions = [*build_each(args, step, on_resources, lines.append)]
    print("\n".join([*lines, *map(str, versions)]))
    return 0


def build_each(
    args: argparse.Namespace, step: Callable[[str], None], on_resources: Callable[[list[str]], None] | None,
    on_gate: Callable[[str], None],
) -> Iterator[Path]:  # fmt: skip
    """Build the models of `hypersonic build` and yield the published versions' directories. Raises what build() raises, and
    BuildError for options that exclude each other."""
    from hypersonic.building.all_models import check_models, split_zoo
    from hypersonic.building.model import build
    from hypersonic.building.request import naming
    from hypersonic.building.together import build_together
    from hypersonic.own.task import trained_file

    together = args.together or (_ZOO if args.all and args.target == "sw_emu" else "")
    check_models(args.models, args.all, args.name, together, args.units, args.rates)
    models, on_host = split_zoo(args.target) if args.all else ([str(trained_file(model, step)) for model in args.models], [])
    if together:
        yield from build_together(
            models, together, compute_units=args.compute_units, units=args.units, rates=args.rates,
            on_resources=on_resources, on_gate=on_gate, **build_options(args, step),
        )  # fmt: skip
    for model in (alone := [*([] if together else models), *on_host]):
        stem = Path(model).stem
        yield build(
            model, name=args.name, compute_units=args.units.get(stem, args.compute_units), on_resources=on_resources,
            on_gate=naming(stem, on_gate) if len(alone) > 1 else on_gate, **build_options(args, step),
        )  # fmt: skip
