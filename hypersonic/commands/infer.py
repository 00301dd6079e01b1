# SPDX-License-Identifier: Apache-2.0
"""`hypersonic infer`: send events to a running server."""

from __future__ import annotations

import argparse

from hypersonic.arguments import add_event_options, add_network_option

HELP = "send generated events to a running server; show rate, latency, physics figures and a picture"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to the parser."""
    parser.add_argument("model", metavar="MODEL", help="a zoo name, whose generator makes the events")
    parser.add_argument("--name", default="", metavar="NAME", help="name of the model on the server (default: the zoo name)")
    add_event_options(parser)
    parser.add_argument("--platform", default="u250", metavar="CARD", help="card whose rate is predicted")
    add_network_option(parser)
    parser.add_argument("--url", default="localhost:8001", metavar="HOST:PORT", help="the server's gRPC address")
    parser.add_argument(
        "--metrics-url", default="http://localhost:8002/metrics", metavar="URL",
        help="the server's metrics, from which the kernel's clocks are read",
    )  # fmt: skip
    parser.add_argument(
        "--no-check", dest="check", action="store_false", help="do not compare the answers with csim as integers"
    )
    parser.add_argument("--quiet", action="store_true", help="do not show progress")


def run(args: argparse.Namespace) -> int:
    """Send the events; print a table on standard output, and write the figures and a picture into args.output. Return 0."""
    from hypersonic.events.infer import infer
    from hypersonic.events.outcome import OnCard
    from hypersonic.events.picture import show
    from hypersonic.progress import progress

    with progress(quiet=args.quiet) as step:
        outcome = infer(
            args.model,
            name=args.name,
            url=args.url,
            metrics_url=args.metrics_url,
            events=args.events,
            event_rows=args.event_rows,
            clients=args.clients,
            seed=args.seed,
            check=args.check,
            progress=step,
            on=OnCard(args.platform, args.network_gbps),
        )
    show(outcome, args.output)
    return 0
