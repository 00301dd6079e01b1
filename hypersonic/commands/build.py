# SPDX-License-Identifier: Apache-2.0
"""`hypersonic build`: a trained model becomes an xclbin in a model repository."""

from __future__ import annotations

import argparse
import signal
from collections.abc import Callable
from pathlib import Path

from hypersonic.arguments import add_network_option, parse_percent

HELP = "turn a trained model into an xclbin, published in a model repository"


def add_build_options(parser: argparse.ArgumentParser) -> None:
    """The options that `hypersonic run` has as well."""
    from hypersonic.hls.core_kind import CORE_CHOICES

    parser.add_argument(
        "model", metavar="MODEL", help="a zoo name (facile) or a .keras, .h5 or .onnx file with a YAML beside it"
    )
    parser.add_argument("--target", choices=("sw_emu", "hw_emu", "hw"), default="hw_emu", help="as Vitis names them")
    parser.add_argument("--platform", default="u250", help="the card it is linked for")
    parser.add_argument(
        "--core", choices=[kind.value for kind in CORE_CHOICES], default="",
        help="how the network is computed: unrolled into adders, or sharing multipliers (default: as the YAML's Strategy says)",
    )  # fmt: skip
    parser.add_argument(
        "--fit", default="", metavar="CARD",
        help="rf: take the reuse factors that fill this card, and show the designs there are (docs/rf-fit.md)",
    )  # fmt: skip
    parser.add_argument("--fill", type=parse_percent, default=80, metavar="PERCENT", help="how much of the card --fit may take")
    add_network_option(parser)
    parser.add_argument("--model-repository", type=Path, default=Path("models"), metavar="DIR", help="where it is published")
    parser.add_argument(
        "--build-directory", type=Path, default=Path("build"), metavar="DIR", help="where its HLS project and RTL go"
    )
    for side in ("input", "output"):
        parser.add_argument(
            f"--{side}-datatype", default="", metavar="TYPE",
            help=f"how every {side} travels: FP32, FP16, BF16, or fixed point as (U)INT8, 16, 32 (default: the YAML's)",
        )  # fmt: skip
    parser.add_argument(
        "--kernel-mhz", type=int, default=0, metavar="MHZ", help="hw: clock of the kernel (default: the card's)"
    )
    parser.add_argument(
        "--lower-clock", action="store_true", help="hw: take an xclbin whose clock place and route had to lower"
    )
    parser.add_argument(
        "--afi-bucket", default="", metavar="S3BUCKET", help="hw, aws_f2 (and aws_f1): where AWS reads the design"
    )
    parser.add_argument("--compute-units", type=int, default=1, metavar="N", help="instances of the kernel on the card")
    parser.add_argument("--quiet", action="store_true", help="no progress on the terminal")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_build_options(parser)
    parser.add_argument(
        "--name", default="", metavar="NAME",
        help="what the model is called in the repository, so that builds for several targets lie side by side (default: as the "
        "YAML says)",
    )  # fmt: skip
    parser.add_argument(
        "--no-resources",
        action="store_true",
        help="do not estimate LUTs, registers, DSPs and memories (minutes the first time)",
    )


def run(args: argparse.Namespace) -> int:
    """Build and publish; the estimate, the accuracy and the version's directory go to standard output."""
    from hypersonic.progress import progress

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: what is half done is removed
    lines: list[str] = []
    with progress(quiet=args.quiet) as step:
        version = build_as_asked(args, step, None if args.no_resources else lines.extend, lines.append, args.name)
    print("\n".join([*lines, str(version)]))
    return 0


def build_as_asked(
    args: argparse.Namespace, step: Callable[[str], None], on_resources: Callable[[list[str]], None] | None = None,
    on_gate: Callable[[str], None] = lambda _: None, name: str = "",
) -> Path:  # fmt: skip
    """Build by the options that `hypersonic build` and `hypersonic run` share; returns the published version's directory.

    name: of the model in the repository, "" = its own.
    """
    from hypersonic.building.fit import FitOptions
    from hypersonic.building.model import build
    from hypersonic.building.request import CardOptions

    return build(
        args.model,
        target=args.target,
        platform=args.platform,
        core=args.core,
        repository=args.model_repository,
        name=name,
        compute_units=args.compute_units,
        datatypes=(args.input_datatype, args.output_datatype),
        directory=args.build_directory,
        options=CardOptions(args.kernel_mhz, args.lower_clock, args.afi_bucket),
        fit=FitOptions(args.fit, args.fill, args.network_gbps),
        progress=step,
        on_resources=on_resources,
        on_gate=on_gate,
    )
