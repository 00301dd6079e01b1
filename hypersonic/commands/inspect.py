# SPDX-License-Identifier: Apache-2.0
"""`hypersonic inspect`: what is inside an xclbin."""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = "show what is inside an xclbin"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE.xclbin")


def run(args: argparse.Namespace) -> int:
    """Describe the file on standard output."""
    from hypersonic.firmware.xclbin.container import Xclbin
    from hypersonic.firmware.xclbin.describe import describe

    print(describe(Xclbin.read(args.file)))
    return 0
