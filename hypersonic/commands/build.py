# SPDX-License-Identifier: Apache-2.0
"""`hypersonic build`: build trained models into xclbins, in a model repository."""

from __future__ import annotations

import argparse
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hypersonic.arguments import add_network_option, parse_counts, parse_percent, parse_rates

HELP = "build trained models into xclbins and publish them in a model repository"

#: the xclbin of all zoo models for sw_emu
_ZOO = "zoo"


def add_build_options(parser: argparse.ArgumentParser, *, several: bool = False) -> None:
    """Add the options that `hypersonic build` and `hypersonic run` share. several: `models` instead of `model`."""
    from hypersonic.hls.core_kind import CORE_CHOICES

    what = (
        "a zoo name (such as facile), a .keras, .h5 or .onnx file with a YAML beside it, which `hypersonic new` writes, or "
        "file.py:function, a function that returns a PyTorch module (docs/tutorial.md, section 12)"
    )
    if several:
        parser.add_argument("models", metavar="MODEL", nargs="*", help=f"{what}; several are built one after another")
    else:
        parser.add_argument("model", metavar="MODEL", help=what)
    parser.add_argument(
        "--target", choices=("sw_emu", "hw_emu", "hw"), default="hw_emu",
        help="what runs the model, by Vitis' names; sw_emu: its C++; hw_emu: a simulation of its RTL; hw: a card",
    )  # fmt: skip
    parser.add_argument("--platform", default="u250", metavar="CARD", help="card that the kernel is linked for")
    parser.add_argument(
        "--core", choices=[kind.value for kind in CORE_CHOICES], default="",
        help="how the network is computed; da: unrolled into adders; rf: layers that share multipliers; hls: RTL by Vitis HLS, "
        "for hw only; csim: compiled C++, for sw_emu only (default: da or rf, as the YAML's Strategy says)",
    )  # fmt: skip
    parser.add_argument(
        "--fit", default="", metavar="CARD",
        help="choose the reuse factors of an rf core so that it fills this card, and show the possible designs "
        "(docs/rf-fit.md; default: the YAML's reuse factors)",
    )  # fmt: skip
    parser.add_argument(
        "--fill", type=parse_percent, default=80, metavar="PERCENT", help="most of the card, in per cent, that --fit may fill"
    )
    add_network_option(parser)
    parser.add_argument(
        "--model-repository", type=Path, default=Path("models"), metavar="DIR", help="model repository to publish in"
    )
    parser.add_argument(
        "--build-directory", type=Path, default=Path("build"), metavar="DIR", help="directory for the HLS project and the RTL"
    )
    for side in ("input", "output"):
        parser.add_argument(
            f"--{side}-datatype", default="", metavar="TYPE",
            help=f"datatype of every {side} on the wire: FP32, FP16, BF16, or raw fixed point as INT8, INT16, INT32, UINT8, "
            "UINT16, UINT32 (default: the YAML's)",
        )  # fmt: skip
    parser.add_argument(
        "--kernel-mhz", type=int, default=0, metavar="MHZ",
        help="clock frequency of the kernel in MHz, for hw only (default: the card's)",
    )  # fmt: skip
    parser.add_argument(
        "--lower-clock", action="store_true",
        help="accept an xclbin whose clock place and route had to lower, for hw only",
    )  # fmt: skip
    parser.add_argument(
        "--afi-bucket", default="", metavar="S3BUCKET",
        help="S3 bucket from which AWS reads the design, for hw on aws_f2 or aws_f1 only",
    )  # fmt: skip
    parser.add_argument(
        "--compute-units", type=int, default=1, metavar="N", help="number of instances of the kernel on the card"
    )
    parser.add_argument("--quiet", action="store_true", help="do not show progress")


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
    from hypersonic.building.together import build_together
    from hypersonic.own.task import trained_file

    together = args.together or (_ZOO if args.all and args.target == "sw_emu" else "")
    check_models(args.models, args.all, args.name, together, args.units, args.rates)
    models, on_host = split_zoo(args.target) if args.all else ([str(trained_file(model, step)) for model in args.models], [])
    given = argparse.Namespace(**vars(args))
    if together:
        yield from build_together(
            models, together, compute_units=args.compute_units, units=args.units, rates=args.rates,
            on_resources=on_resources, on_gate=on_gate, **_shared_options(args, step),
        )  # fmt: skip
    for model in [*([] if together else models), *on_host]:
        given.model, given.compute_units = model, args.units.get(Path(model).stem, args.compute_units)
        yield build_as_asked(given, step, on_resources, on_gate, args.name)


def build_as_asked(
    args: argparse.Namespace, step: Callable[[str], None], on_resources: Callable[[list[str]], None] | None = None,
    on_gate: Callable[[str], None] = lambda _: None, name: str = "",
) -> Path:  # fmt: skip
    """Build with the options that `hypersonic build` and `hypersonic run` share; return the published version's directory.

    step, on_resources, on_gate, name: progress, on_resources, on_gate and name of build(). Raises what build() raises.
    """
    from hypersonic.building.model import build
    from hypersonic.own.task import trained_file

    return build(
        trained_file(args.model, step),
        name=name,
        compute_units=args.compute_units,
        on_resources=on_resources,
        on_gate=on_gate,
        **_shared_options(args, step),
    )


def _shared_options(args: argparse.Namespace, step: Callable[[str], None]) -> dict[str, Any]:
    """The arguments that build() and build_together() share."""
    from hypersonic.building.fit import FitOptions
    from hypersonic.building.request import CardOptions

    return {
        "target": args.target, "platform": args.platform, "core": args.core, "repository": args.model_repository,
        "datatypes": (args.input_datatype, args.output_datatype), "directory": args.build_directory,
        "options": CardOptions(args.kernel_mhz, args.lower_clock, args.afi_bucket), "progress": step,
        "fit": FitOptions(args.fit, args.fill, args.network_gbps),
    }  # fmt: skip
