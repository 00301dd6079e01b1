# SPDX-License-Identifier: Apache-2.0
"""`hypersonic devices`: the cards of this host."""

from __future__ import annotations

import argparse
import json

HELP = "list the cards of this host: shells, xclbins, clocks, temperatures, users"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="for programs")


def run(args: argparse.Namespace) -> int:
    """List them on standard output."""
    from hypersonic.host.devices import devices, devices_as_data

    print(json.dumps(devices_as_data(), indent=2) if args.json else devices())
    return 0
