# SPDX-License-Identifier: Apache-2.0
"""`hypersonic infer`: events through a running server."""

from __future__ import annotations

import argparse

from hypersonic.arguments import add_event_options, add_network_option

HELP = "send events through a running server: rate, latency, physics figures, a picture"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="a zoo name: its generator makes the events")
    parser.add_argument("--name", default="", metavar="NAME", help="what the server calls it (default: as the zoo does)")
    add_event_options(parser)
    parser.add_argument("--platform", default="u250", metavar="CARD", help="the card whose rate is predicted")
    add_network_option(parser)
    parser.add_argument("--url", default="localhost:8001", help="the server's gRPC address")
    parser.add_argument("--metrics-url", default="http://localhost:8002/metrics", help="where clocks are read from")
    parser.add_argument("--no-check", dest="check", action="store_false", help="do not compare with csim as integers")
    parser.add_argument("--quiet", action="store_true", help="no progress on the terminal")


def run(args: argparse.Namespace) -> int:
    """Send the events; a table on standard output, the figures and a picture in args.output."""
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
