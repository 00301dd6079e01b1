# SPDX-License-Identifier: Apache-2.0
"""The options that `hypersonic build` and `hypersonic run` share."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypersonic.arguments import add_memory_option, add_network_option, parse_percent

#: where a build publishes, and what `hypersonic serve` serves, without the option
MODEL_REPOSITORY = Path("models")


def add_build_options(parser: argparse.ArgumentParser, *, several: bool = False) -> None:
    """Add the options.

    Args:
        several: `models` instead of `model`.
    """
    from hypersonic.hls.core_kind import CORE_CHOICES

    yaml = "`hypersonic new` writes" if several else "is written if it is missing and --rows is given"
    what = (
        f"a zoo name (such as facile), a .keras, .h5 or .onnx file of your own with a YAML beside it, which {yaml}, or "
        "file.py:function, a function that returns a PyTorch module (docs/onnx.md)"
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
        "--model-repository", type=Path, default=MODEL_REPOSITORY, metavar="DIR", help="model repository to publish in"
    )
    parser.add_argument(
        "--build-directory", type=Path, default=Path("build"), metavar="DIR", help="directory for the HLS project and the RTL"
    )
    for side in ("input", "output"):
        parser.add_argument(
            f"--{side}-datatype", default="", metavar="TYPE",
            help=f"datatype of every {side} on the wire, such as FP16 or INT8 (all: docs/wire-formats.md; default: the YAML's)",
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
        help="S3 bucket from which AWS reads the design, for hw on aws_f2 only",
    )  # fmt: skip
    parser.add_argument(
        "--compute-units", type=int, default=1, metavar="N", help="number of instances of the kernel on the card"
    )
    add_memory_option(parser)
    parser.add_argument("--quiet", action="store_true", help="do not show progress")


def build_options(args: argparse.Namespace, step: Callable[[str], None]) -> dict[str, Any]:
    """Return the arguments that build() and build_together() share.

    Args:
        step: progress of build().
    """
    from hypersonic.building.fit.card import FitOptions
    from hypersonic.building.request import CardOptions

    return {
        "target": args.target, "platform": args.platform, "core": args.core, "repository": args.model_repository,
        "datatypes": (args.input_datatype, args.output_datatype), "directory": args.build_directory,
        "options": CardOptions(args.kernel_mhz, args.lower_clock, args.afi_bucket), "progress": step,
        "fit": FitOptions(args.fit, args.fill, args.network_gbps),
    }  # fmt: skip
