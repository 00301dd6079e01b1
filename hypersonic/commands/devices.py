# SPDX-License-Identifier: Apache-2.0
"""`hypersonic devices`: list the cards of this host."""

from __future__ import annotations

import argparse
import json

HELP = "list the cards of this host, with their shells, xclbins, clocks, temperatures and users"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to the parser."""
    parser.add_argument("--json", action="store_true", help="print the list as JSON")


def run(args: argparse.Namespace) -> int:
    """Print the list on standard output. Return 0."""
    from hypersonic import __version__
    from hypersonic.host.devices import devices, devices_as_data

    if args.json:
        print(json.dumps({"hypersonic": __version__, **devices_as_data()}, indent=2))
    else:
        print(f"hypersonic {__version__}\n\n{devices()}")
    return 0
