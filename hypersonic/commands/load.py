# SPDX-License-Identifier: Apache-2.0
"""`hypersonic load`: offer load to running servers, and measure rate and latency."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hypersonic.client.settings import Arrays
    from hypersonic.client.specs import ModelSpec
    from hypersonic.progress import Step

HELP = "offer load to running servers, with a concurrency or a rate; show rate and latency, and where they saturate"

#: the most loads of one command
_MOST = 1000

_MORE = """\
A closed loop (--concurrency) keeps N requests in flight: each answer starts the next request. It finds the saturation: below
N* = T0 x l_max the latency is T0; above, l_max requests/s are answered and the latency grows in proportion to N.

An open loop (--rate) starts requests by a schedule, as many independent clients do. Latencies count from the scheduled time.
The measurement ends after the first rate that is not kept: the number of requests without an answer grew.

Every request is sent once. Failed requests are counted and are not part of the latencies.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to the parser."""
    parser.description = f"{HELP[0].upper()}{HELP[1:]}.\n\n{_MORE}"
    parser.add_argument(
        "model", metavar="MODEL", help="the model's name on the server; generated events are sent to a zoo model"
    )
    loops = parser.add_argument_group("load").add_mutually_exclusive_group()
    loops.add_argument(
        "--concurrency", type=parse_counts, default=(1, 2, 4, 8, 16, 32), metavar="N,..",
        help="closed loops with N requests in flight, one after the other: 1,2,4,8 or FIRST:LAST or FIRST:LAST:STEP "
        "(default: 1,2,4,8,16,32)",
    )  # fmt: skip
    loops.add_argument(
        "--rate", type=parse_rates, metavar="R,..",
        help="open loops with R requests/s, one after the other: 50,100,200 or FIRST:LAST:STEP",
    )  # fmt: skip
    parser.add_argument(
        "--arrivals", choices=["poisson", "constant"], default="poisson",
        help="spacing of the requests of --rate: exponential as of independent clients, or equal (default: poisson)",
    )  # fmt: skip
    parser.add_argument(
        "--duration-s", type=parse_seconds, default=5.0, metavar="S", help="length of each measurement (default: 5)"
    )
    parser.add_argument(
        "--requests",
        type=int,
        default=0,
        metavar="N",
        help="number of requests that ends each measurement instead of its length",
    )
    parser.add_argument(
        "--warm-up-s", type=parse_seconds, default=1.0, metavar="S", help="time for which requests are sent before (default: 1)"
    )
    parser.add_argument(
        "--timeout-s", type=parse_seconds, default=60.0, metavar="S", help="time after which a request has failed (default: 60)"
    )
    parser.add_argument(
        "--rows", type=int, default=0, metavar="N",
        help="rows of a request (default: as usual for a zoo model, otherwise 1)",
    )  # fmt: skip
    parser.add_argument(
        "--shape", type=parse_shape, action="append", default=[], metavar="NAME:D,..",
        help="shape of a row of the input NAME, where the model leaves it open; may be repeated",
    )  # fmt: skip
    parser.add_argument("--random", action="store_true", help="send random rows to a zoo model too")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="seed of rows and arrivals (default: 1)")
    parser.add_argument(
        "--url", action="append", metavar="HOST:PORT",
        help="gRPC address of a server; may be repeated, and requests are then shared out (default: localhost:8001)",
    )  # fmt: skip
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write the figures into a CSV file, a line for each load")
    parser.add_argument(
        "--plot", type=Path, metavar="FILE.png", help="draw latency against rate, and the fit (needs matplotlib)"
    )
    parser.add_argument("--quiet", action="store_true", help="do not show progress")


def run(args: argparse.Namespace) -> int:
    """Offer the loads one after the other; print a table and the fit, also after Ctrl-C. Return 0."""
    from contextlib import ExitStack

    from hypersonic import Client
    from hypersonic.client.describe import describe
    from hypersonic.client.load import Closed, CsvWriter, Open, Point, Window, load_settings, sweep
    from hypersonic.progress import progress
    from hypersonic.reporting.loads import refuse_without_answers, show_loads, title_of

    if args.plot:
        from hypersonic.client.load import picture

        picture.check_path(args.plot)
    closed, opened = [Closed(n) for n in args.concurrency], [Open(rate, args.arrivals) for rate in args.rate or ()]
    window = Window(args.duration_s, args.requests, args.warm_up_s, args.seed)
    points: list[Point] = []
    try:
        with ExitStack() as stack:
            client = stack.enter_context(Client(args.url or ["localhost:8001"], load_settings(args.timeout_s)))
            spec = describe(client, args.model)
            step = stack.enter_context(progress(quiet=args.quiet))
            requests = _requests(args, spec, step)
            writer = stack.enter_context(CsvWriter(args.csv)) if args.csv else None
            model = client.model(args.model)
            for point in sweep(client, model, requests, opened or closed, window, lambda offer: step(f"load: {offer}")):
                points.append(point)
                if writer:
                    writer.write(point)
    finally:
        if points:
            show_loads(args.model, points)
            if args.plot and any(point.answered for point in points):
                picture.draw(points, args.plot, title_of(args.model, points))
                print(f"plot: {args.plot}")
    refuse_without_answers(args.model, points)
    return 0


def _requests(args: argparse.Namespace, spec: ModelSpec, step: Step) -> list[Arrays]:
    """Return generated events for a zoo model, and random rows for any other."""
    from hypersonic.client.load import random_requests
    from hypersonic.client.load.rows import check_rows

    if args.rows:
        check_rows(spec, args.rows)
    if not args.random and not args.shape:
        from hypersonic.events.generated import generated_requests

        events = generated_requests(spec, args.rows, args.seed)
        if events is not None:
            step(f"requests: generated events of {spec.name}, {len(next(iter(events[0].values())))} rows, seed {args.seed}")
            return list(events)
    rows = args.rows or 1
    step(f"requests: {rows} random row{'s' * (rows > 1)}, seed {args.seed}")
    return random_requests(spec, rows, args.seed, shapes=dict(args.shape))


def parse_counts(text: str) -> tuple[int, ...]:
    """Parse 1,2,4 or FIRST:LAST[:STEP], at most _MOST numbers above 0. Raises argparse.ArgumentTypeError."""
    try:
        if ":" in text:
            first, last, step = (int(part) for part in (f"{text}:1" if text.count(":") == 1 else text).split(":"))
            counts = tuple(range(first, last + 1, step)[: _MOST + 1]) if step > 0 else ()
        else:
            counts = tuple(int(part) for part in text.split(","))
    except ValueError:
        counts = ()
    if not 0 < len(counts) <= _MOST or min(counts) < 1:
        raise argparse.ArgumentTypeError(
            f"got {text!r}, expected numbers above 0 such as 1,2,4,8 or 1:8 or 2:16:2, at most {_MOST} of them"
        )
    return counts


def parse_rates(text: str) -> tuple[float, ...]:
    """Parse 50,100 or FIRST:LAST:STEP, at most _MOST numbers above 0. Raises argparse.ArgumentTypeError."""
    try:
        if ":" in text:
            first, last, step = (float(part) for part in text.split(":"))
            steps = (last - first) / step if step > 0 else math.nan
            # a step of 0.1 is not exactly 0.1: LAST is reached if it is missed by a billionth of a step
            rates = tuple(first + place * step for place in range(math.floor(min(steps, _MOST) + 1e-9) + 1))
        else:
            rates = tuple(float(part) for part in text.split(","))
    except (ValueError, OverflowError):
        rates = ()
    if not 0 < len(rates) <= _MOST or not all(0 < rate < math.inf for rate in rates):
        raise argparse.ArgumentTypeError(
            f"got {text!r}, expected requests/s above 0 such as 50,100,200 or 1000:5000:1000, at most {_MOST} of them"
        )
    return rates


def parse_seconds(text: str) -> float:
    """Parse a number of seconds, 0 or more. Raises argparse.ArgumentTypeError."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < math.inf:
        raise argparse.ArgumentTypeError(f"got {text!r}, expected a number of seconds")
    return seconds


def parse_shape(text: str) -> tuple[str, tuple[int, ...]]:
    """Parse NAME:3,224,224. Raises argparse.ArgumentTypeError."""
    name, _, axes = text.rpartition(":")
    try:
        shape = tuple(int(axis) for axis in axes.split(","))
    except ValueError:
        shape = ()
    if not name or not shape or min(shape) < 0:
        raise argparse.ArgumentTypeError(f"got {text!r}, expected NAME:D,.. such as image:3,224,224")
    return name, shape
