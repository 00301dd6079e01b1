# SPDX-License-Identifier: Apache-2.0
"""Options that several commands share."""

from __future__ import annotations

import argparse
import math
import os
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
        type=parse_count,
        default=50,
        metavar="N",
        help="number of generated events to send, each in one request; with --rows, the most requests that carry them",
    )
    parser.add_argument(
        "--event-rows",
        type=parse_whole,
        default=0,
        metavar="N",
        help="number of rows (channels, jets, ...) of each event or, with --rows, of each request; 0 (default): as usual for "
        "the model or, with --rows, as --events says",
    )
    parser.add_argument(
        "--clients", type=parse_count, default=4, metavar="N", help="number of clients that send at the same time"
    )
    parser.add_argument("--seed", type=parse_whole, default=1, metavar="N", help="seed of the event generator")
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
    group = parser.add_argument_group("a model of your own", "A .keras, .h5 or .onnx file, or the YAML beside it.")
    group.add_argument(
        "--rows", type=Path, metavar="FILE",
        help="the inputs to compute, each row once: a .npy with an array (rows, ...), or for several inputs a .npz with an "
        "array for each by its name; for a zoo model they are generated instead",
    )  # fmt: skip
    group.add_argument(
        "--labels", type=Path, metavar="FILE",
        help="the true outputs of the rows: a .npy, or a .npz with an array for each output by its name; classes, as integers "
        "or one-hot, give the accuracy, numbers give resolution and bias",
    )  # fmt: skip


class PlaceError(ValueError):
    """A command cannot write where its options say. The message names the directories and the options."""


def check_places(args: argparse.Namespace, *names: str) -> None:
    """Check, before any work, that the directories of these options can be written.

    Raises:
        PlaceError: If one cannot; it names all of them.
    """
    places = {f"--{name.replace('_', '-')}": _existing(getattr(args, name)) for name in names}
    closed = {option: place for option, place in places.items() if not os.access(place, os.W_OK | os.X_OK)}
    if closed:
        raise PlaceError(
            f"{' and '.join(dict.fromkeys(map(str, closed.values())))} cannot be written; go to another directory, or choose: "
            f"{' '.join(f'{option} DIR' for option in closed)}"
        )


def _existing(path: Path) -> Path:
    """Return the path itself if it exists, otherwise the nearest directory above it."""
    absolute = path.absolute()
    return next(place for place in (absolute, *absolute.parents) if place.exists())


def option_of(args: argparse.Namespace, file: str) -> str:
    """Return the option that says where a file is written; "" if none does."""
    parser: argparse.ArgumentParser = args.parser
    for action in parser._actions:
        place = getattr(args, action.dest, None)
        if action.option_strings and isinstance(place, Path) and Path(file).absolute().is_relative_to(place.absolute()):
            return action.option_strings[0]
    return ""


def parse_count(text: str) -> int:
    """Parse a whole number above 0. Raises argparse.ArgumentTypeError."""
    if not _is_whole(text) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"got {text!r}, expected a whole number above 0")
    return int(text)


def parse_whole(text: str) -> int:
    """Parse a whole number, 0 or more. Raises argparse.ArgumentTypeError."""
    if not _is_whole(text):
        raise argparse.ArgumentTypeError(f"got {text!r}, expected a whole number, 0 or more")
    return int(text)


def _is_whole(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 10


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
