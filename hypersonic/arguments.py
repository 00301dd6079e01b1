# SPDX-License-Identifier: Apache-2.0
"""Options that several commands share."""

from __future__ import annotations

import argparse
import math
from pathlib import Path

from hypersonic.firmware.estimate.rates import NETWORK_GBPS
from hypersonic.hls.bounded.memory import DEFAULT, VARIABLE, MemoryOptionError, parse_limit


def add_network_option(parser: argparse.ArgumentParser) -> None:
    """Add --network-gbps, for a command that predicts a rate."""
    parser.add_argument(
        "--network-gbps", type=parse_gbps, default=NETWORK_GBPS, metavar="GBPS",
        help="bandwidth of the server's network in Gb/s (10**9 bits per second), for the predicted rate (default: %(default)g)",
    )  # fmt: skip


def add_memory_option(parser: argparse.ArgumentParser) -> None:
    """Add --memory, for a command that starts compilers. hypersonic/cli.py passes it on."""
    parser.add_argument(
        "--memory", type=parse_memory, metavar="SIZE",
        help="most memory of each tool that is started, with its children: a size such as 8G, or a share of what is then "
        f"available such as 50%% (default: ${VARIABLE}, or {DEFAULT.replace('%', '%%')})",
    )  # fmt: skip


def parse_memory(text: str) -> str:
    """Check a memory limit and return it unchanged. Raises argparse.ArgumentTypeError."""
    try:
        parse_limit(text)
    except MemoryOptionError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return text


def add_event_options(parser: argparse.ArgumentParser, *, files: bool = False) -> None:
    """Add the event options of `hypersonic infer` and `hypersonic run`.

    Args:
        files: the output may be a file or a directory for the answers to a file's events; its default is then None.
    """
    parser.add_argument(
        "--events",
        type=int,
        default=50,
        metavar="N",
        help="number of generated events to send; with --rows, of requests, at most",
    )
    parser.add_argument(
        "--event-rows",
        type=int,
        default=0,
        metavar="N",
        help="number of rows (channels, jets, ...) of an event, which is one request; 0 (default): as usual for the model",
    )
    parser.add_argument("--clients", type=int, default=4, metavar="N", help="number of clients that send at the same time")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="seed of the event generator")
    if files:
        parser.add_argument(
            "--output", type=Path, metavar="PATH",
            help="directory for the picture and the figures (default: result); with --input the file for the answers, or a "
            "directory (default: INPUT.MODEL.SUFFIX in the current directory)",
        )  # fmt: skip
    else:
        parser.add_argument(
            "--output", type=Path, default=Path("result"), metavar="DIR", help="directory for the picture and the figures"
        )


def add_own_options(parser: argparse.ArgumentParser) -> None:
    """Add --rows and --labels: for a user's own model, they replace the generated events and their true values."""
    group = parser.add_argument_group("a model of your own (a .keras, .h5 or .onnx file, or the YAML beside it)")
    group.add_argument(
        "--rows", type=Path, metavar="FILE",
        help="the rows to compute, each once: a .npy with an array (rows, ...), or for several inputs a .npz with an array for "
        "each by its name; a zoo model has generated ones instead",
    )  # fmt: skip
    group.add_argument(
        "--labels", type=Path, metavar="FILE",
        help="true outputs of the rows, as a .npy, or a .npz by the outputs' names: classes as integers or one-hot, for the "
        "accuracy; or numbers, for resolution and bias",
    )  # fmt: skip


def parse_gbps(text: str) -> float:
    """Parse a bandwidth in Gb/s, a finite number above 0. Raises argparse.ArgumentTypeError."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"got {text!r}, expected a number of Gb/s above 0")
    return value


def parse_percent(text: str) -> int:
    """Parse an integer from 1 to 100. Raises argparse.ArgumentTypeError."""
    if not text.isdecimal() or len(text) > 3 or not 1 <= int(text) <= 100:
        raise argparse.ArgumentTypeError(f"got {text!r}, expected a whole number of per cent from 1 to 100")
    return int(text)


def parse_counts(text: str) -> dict[str, int]:
    """Parse positive whole numbers by name, such as facile=2,jets=1. Raises argparse.ArgumentTypeError."""
    numbers = _parse_numbers(text, "facile=2,jets=1")
    if not all(number.is_integer() for number in numbers.values()):
        raise argparse.ArgumentTypeError(f"{text!r}: expected whole numbers, such as facile=2,jets=1")
    return {name: int(number) for name, number in numbers.items()}


def parse_rates(text: str) -> dict[str, float]:
    """Parse positive numbers by name, such as facile=5000,jets=1e5. Raises argparse.ArgumentTypeError."""
    return _parse_numbers(text, "facile=5000,jets=100000")


def _parse_numbers(text: str, example: str) -> dict[str, float]:
    numbers: dict[str, float] = {}
    for entry in text.split(","):
        name, _, value = entry.partition("=")
        try:
            number = float(value)
        except ValueError:
            number = 0.0
        if not name or not 0 < number < 1e15 or name in numbers:
            raise argparse.ArgumentTypeError(f"{text!r}: {entry!r}, expected a list such as {example}, each name once")
        numbers[name] = number
    return numbers


def parse_loss(text: str) -> float:
    """Parse a percentage, such as 1% or 0.5, and return it as a fraction. Raises argparse.ArgumentTypeError."""
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        value = -1.0
    if not 0 <= value < 100:
        raise argparse.ArgumentTypeError(f"got {text!r}, expected a number of per cent from 0 to 100, such as 1%")
    return value / 100


def parse_shape(text: str) -> tuple[str, tuple[int, ...]]:
    """Parse the shape of an input, such as 16,4 or tracks=16,4; return (name, shape), "" for no name.

    Raises argparse.ArgumentTypeError.
    """
    name, _, sizes = text.rpartition("=")
    shape = tuple(int(size) if size.isascii() and size.isdigit() else 0 for size in sizes.split(","))
    if min(shape) < 1:
        raise argparse.ArgumentTypeError(f"got {text!r}, expected sizes without the batch, such as 16,4 or tracks=16,4")
    return name, shape
