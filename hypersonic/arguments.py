# SPDX-License-Identifier: Apache-2.0
"""Arguments that several commands take."""

from __future__ import annotations

import argparse
import math
from pathlib import Path

from hypersonic.firmware.estimate.rates import NETWORK_GBPS


def add_network_option(parser: argparse.ArgumentParser) -> None:
    """--network-gbps, for every command that predicts a rate."""
    parser.add_argument(
        "--network-gbps", type=parse_gbps, default=NETWORK_GBPS, metavar="GBPS",
        help="the server's network in 10**9 bits a second, for the predicted rate (default: %(default)g)",
    )  # fmt: skip


def add_event_options(parser: argparse.ArgumentParser) -> None:
    """The options of `hypersonic infer` and `hypersonic run` about events."""
    parser.add_argument("--events", type=int, default=50, metavar="N", help="how many generated events are sent")
    parser.add_argument(
        "--event-rows",
        type=int,
        default=0,
        metavar="N",
        help="rows (patches, jets) of an event, sent as one request; 0: the model's own",
    )
    parser.add_argument("--clients", type=int, default=4, metavar="N", help="how many send at the same time")
    parser.add_argument("--seed", type=int, default=1, help="of the event generator")
    parser.add_argument(
        "--output", type=Path, default=Path("result"), metavar="DIR", help="where the picture and the figures go"
    )


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
