# SPDX-License-Identifier: Apache-2.0
"""`hypersonic inspect`: show the contents of an xclbin."""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = "show the contents of an xclbin file"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to the parser."""
    parser.add_argument("file", type=Path, metavar="FILE.xclbin", help="the file to show")


def run(args: argparse.Namespace) -> int:
    """Print a description of the file on standard output. Return 0."""
    from hypersonic.firmware.errors import XclbinError
    from hypersonic.firmware.publish.manifest import FILE_NAME, Manifest
    from hypersonic.firmware.publish.sharing import same_file
    from hypersonic.firmware.xclbin.container import Xclbin
    from hypersonic.firmware.xclbin.describe import describe

    if args.file.is_dir():
        below = next(iter(sorted(args.file.rglob("[!.]*.xclbin"))), "models/facile/1/model.xclbin")
        raise XclbinError(f"{args.file} is a directory, expected an xclbin file, such as {below}")
    print(describe(Xclbin.read(args.file)))
    beside = args.file.with_name(FILE_NAME)
    if beside.is_file() and (accepted := Manifest.read(beside).accepted):
        print(f"\nfar from the trained model, which the build accepted: {accepted}")
    if len(versions := same_file(args.file)) > 1:
        print(f"\nstored once for {', '.join(versions)}")
    return 0
