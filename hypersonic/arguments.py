# SPDX-License-Identifier: Apache-2.0
"""Arguments that several commands take."""

from __future__ import annotations

import argparse
import math

from hypersonic.firmware.estimate.rates import NETWORK_GBPS


def add_network_option(parser: argparse.ArgumentParser) -> None:
    """--network-gbps, for every command that predicts a rate."""
    parser.add_argument(
        "--network-gbps", type=parse_gbps, default=NETWORK_GBPS, metavar="GBPS",
        help="the server's network in 10**9 bits a second, for the predicted rate (default: %(default)g)",
    )  # fmt: skip


def parse_gbps(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"got {text!r}, expected a number of Gb/s above 0")
    return value


def parse_percent(text: str) -> int:
    if not text.isdecimal() or len(text) > 3 or not 1 <= int(text) <= 100:
        raise argparse.ArgumentTypeError(f"got {text!r}, expected a whole number of per cent from 1 to 100")
    return int(text)
