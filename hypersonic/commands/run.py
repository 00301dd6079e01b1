# SPDX-License-Identifier: Apache-2.0
"""`hypersonic run`: build a model, serve it in a process of its own, send events, and stop the server."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from shlex import quote

from hypersonic.arguments import add_event_options, add_own_options, check_places
from hypersonic.build_options import MODEL_REPOSITORY, add_build_options, build_options

HELP = "do everything in one go: build a model, serve it, send events, check every answer, show the figures"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to the parser."""
    add_build_options(parser)
    add_event_options(parser)
    add_own_options(parser)


def run(args: argparse.Namespace) -> int:
    """Build args.model, serve it on free ports of this host, send events, and show the figures. Return 0."""
    from hypersonic.building.model import build
    from hypersonic.events.infer import infer
    from hypersonic.events.outcome import OnCard
    from hypersonic.events.picture import show
    from hypersonic.hls.tune.new import describe_if_missing
    from hypersonic.own.task import own_data, own_task, trained_file
    from hypersonic.progress import progress
    from hypersonic.server_process import start_server

    check_places(args, "model_repository", "build_directory", "output")
    with progress(quiet=args.quiet) as step:
        args.model = trained_file(args.model, step)
        data = own_data(args.model, args.rows, args.labels)
        describe_if_missing(args.model, args.rows, step)
        # rows and labels that do not fit the model end the build before its long steps
        fits = partial(own_task, args.model, data=data) if data else None
        name = build(
            args.model, compute_units=args.compute_units, on_project=fits, **build_options(args, step)
        ).parent.name  # fmt: skip
        # load only this model: others in the repository must not keep the server from starting
        options = ("--model-control-mode=explicit", f"--load-model={name}")
        step(f"server: hypersonic serve --model-repository {args.model_repository} {' '.join(options)}")
        with start_server(args.model_repository, *options) as server:
            outcome = infer(
                args.model,
                url=server.grpc,
                metrics_url=f"http://{server.metrics}/metrics",
                events=args.events,
                event_rows=args.event_rows,
                clients=args.clients,
                seed=args.seed,
                check=True,
                progress=step,
                on=OnCard(args.platform, args.network_gbps, args.kernel_mhz),
                data=data,
            )
            step("server: SIGTERM, drain")
    show(outcome, args.output)
    print(f"next: {_serve_command(args.model_repository)}")
    return 0


def _serve_command(repository: Path) -> str:
    """Return the command that serves what was built, until Ctrl-C."""
    return "hypersonic serve" + ("" if repository == MODEL_REPOSITORY else f" --model-repository {quote(str(repository))}")
