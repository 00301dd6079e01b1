# SPDX-License-Identifier: Apache-2.0
"""`hypersonic new`: write the YAML beside a trained model."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

from hypersonic.arguments import add_memory_option, parse_loss, parse_shape

HELP = "write the YAML beside a trained model of your own, with which `hypersonic build` builds it"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to the parser."""
    parser.add_argument("model", metavar="MODEL", help="a .keras, .h5 or .onnx file, or file.py:function, a PyTorch module")
    parser.add_argument(
        "--rows", type=Path, metavar="FILE",
        help="rows as the model takes them, by which the fixed-point types are chosen and the build is checked: a .npy with an "
        "array (rows, ...), or for several inputs a .npz with an array for each by its name (default: types of -32 to 32)",
    )  # fmt: skip
    parser.add_argument(
        "--loss", type=parse_loss, default="1%", metavar="PERCENT",
        help="types are widened until the rms difference from the trained model is within this share of its answers' spread; "
        "more than 1%% also accepts a network that a build would refuse as far",
    )  # fmt: skip
    parser.add_argument(
        "--output", type=Path, metavar="FILE",
        help="the file to write (default: MODEL with the suffix .yaml, where the other commands look for it)",
    )  # fmt: skip
    parser.add_argument(
        "--shape", action="append", default=[], type=parse_shape, metavar="[NAME=]SIZE,...",
        help="the sizes of one row of an input whose sizes the file leaves open, such as 16,4 or tracks=16,4: a copy of MODEL "
        "with these is written, MODEL_16x4, because hardware has one size, and the copy gets the YAML",
    )  # fmt: skip
    parser.add_argument("--force", action="store_true", help="replace a file that exists")
    add_memory_option(parser)
    parser.add_argument("--quiet", action="store_true", help="do not show progress")


def run(args: argparse.Namespace) -> int:
    """Write the YAML, and print its path on standard output, the next command on standard error. Return 0."""
    from hypersonic.extras import require
    from hypersonic.hls.tune.new import write_copy, write_description
    from hypersonic.own.task import check_files, trained_file
    from hypersonic.progress import progress

    require("tf_keras", "qkeras")
    check_files(args.rows, None)
    with progress(quiet=args.quiet) as step:
        model = Path(trained_file(args.model, step))
        if args.shape:
            model = write_copy(model, dict(args.shape), force=args.force)
            step(f"wrote {model}, with the sizes of --shape")
        written = write_description(
            model, rows=args.rows, output=args.output, force=args.force, progress=step, loss=args.loss
        )  # fmt: skip
    for warning in written.warnings:
        sys.stderr.write(f"hypersonic: WARNING: {warning}\n")
    print(written.file, flush=True)
    if not args.quiet and written.file == model.with_suffix(".yaml"):
        target = " --target sw_emu" if written.settled.core else ""
        sys.stderr.write(f"next: hypersonic build {shlex.quote(str(model) if args.shape else args.model)}{target}\n")
    return 0
