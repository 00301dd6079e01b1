# SPDX-License-Identifier: Apache-2.0
"""`hypersonic new`: write the YAML beside a trained model."""

from __future__ import annotations

import argparse
from pathlib import Path

from hypersonic.arguments import add_memory_option

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
        "--output", type=Path, metavar="FILE",
        help="the file to write (default: MODEL with the suffix .yaml, where the other commands look for it)",
    )  # fmt: skip
    parser.add_argument("--force", action="store_true", help="replace a file that exists")
    add_memory_option(parser)
    parser.add_argument("--quiet", action="store_true", help="do not show progress")


def run(args: argparse.Namespace) -> int:
    """Write the YAML, and print its path on standard output. Return 0."""
    from hypersonic.extras import require
    from hypersonic.own.describe import write_description
    from hypersonic.own.task import trained_file
    from hypersonic.progress import progress

    require("tf_keras", "qkeras")
    with progress(quiet=args.quiet) as step:
        model = Path(trained_file(args.model, step))
        file = write_description(model, rows=args.rows, output=args.output, force=args.force, progress=step)
    print(file)
    return 0
