# SPDX-License-Identifier: Apache-2.0
"""`hypersonic infer`: send events to a running server."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from hypersonic.arguments import add_event_options, add_network_option, add_own_options, parse_whole

HELP = "send generated events, or the events of files, to a running server; show rate, latency, physics figures and a picture"

_URL = "localhost:8001"
#: the default of --events, for one model and for --all
_EVENTS, _EVENTS_OF_ALL = 50, 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to the parser."""
    parser.add_argument(
        "model",
        metavar="MODEL",
        nargs="?",
        default="",
        help="a zoo name, for which events are generated; with --rows, the file of a model of your own; with --input, a name "
        "on the server",
    )
    parser.add_argument(
        "--all", action="store_true",
        help=f"ask each zoo model that the server has, with {_EVENTS_OF_ALL} events each by default, and print one table",
    )  # fmt: skip
    parser.add_argument("--name", default="", metavar="NAME", help="name of the model on the server (default: the zoo name)")
    add_event_options(parser, files=True)
    parser.set_defaults(events=None)
    parser.add_argument("--platform", default="u250", metavar="CARD", help="card whose rate is predicted")
    add_network_option(parser)
    parser.add_argument(
        "--url", action="append", metavar="HOST:PORT",
        help=f"the server's gRPC address; with --input it may be given several times (default: {_URL})",
    )  # fmt: skip
    parser.add_argument(
        "--wait", type=parse_whole, default=0, metavar="SECONDS",
        help="wait at most so long for a server that is starting (default: 0)",
    )  # fmt: skip
    parser.add_argument(
        "--metrics-url", default="http://localhost:8002/metrics", metavar="URL",
        help="the server's metrics, from which the kernel's clocks are read",
    )  # fmt: skip
    parser.add_argument(
        "--no-check", dest="check", action="store_false", help="do not compare the answers with csim as integers"
    )
    parser.add_argument("--quiet", action="store_true", help="do not show progress")
    add_own_options(parser)
    _add_file_options(parser.add_argument_group("events of files (docs/columns.md)"))


def _add_file_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--input", action="append", metavar="FILE",
        help="send the events of a .root, .parquet, .arrow, .npz or .npy file instead of generated ones, and write a file with "
        "the answers; a glob in quotes, or the option given several times, for several files",
    )  # fmt: skip
    group.add_argument(
        "--columns", default="", metavar="FILE", help="YAML file that says which column is which feature of the model"
    )
    group.add_argument(
        "--collection", default="", metavar="NAME", help="prefix of the columns, in place of the one in the YAML file"
    )
    group.add_argument(
        "--tree", default="Events", metavar="NAME", help="TTree or RNTuple of a ROOT file, also with a cycle: 'Events;1'"
    )
    group.add_argument("--keep", default="", metavar="NAME,...", help="input columns that the output gets too")
    group.add_argument("--chunk-mb", type=int, default=64, metavar="N", help="megabytes of columns that are read at a time")
    group.add_argument("--model-version", default="", metavar="N", help="version of the model (default: the server's choice)")
    group.add_argument("--overwrite", action="store_true", help="replace outputs that belong to other inputs or models")


def run(args: argparse.Namespace) -> int:
    """Send the events; print a table on standard output, and write the figures and a picture into args.output. Return 0.

    With args.input, write files with the answers instead, and print a line.
    """
    if bool(args.model) == args.all:
        raise OptionError(
            f"got {'--all and ' + args.model if args.all else 'no model'}, expected the name of a model, or --all"
        )
    if args.all and args.input:
        raise OptionError("--input is of one model, got --all too: leave one of them out")
    if args.input and (args.rows or args.labels):
        raise OptionError("--rows and --labels are of a model of your own: got --input too, expected one or the other")
    urls = args.url or [_URL]
    given = [f"--{name.replace('_', '-')}" for name in _OF_FILES if getattr(args, name)]
    if not args.input and (given or len(urls) > 1):
        raise OptionError(f"{given[0] if given else 'more than one --url'} needs --input")
    _wait(urls, args.wait)
    if args.input:
        return _run_files(args, urls)
    return _run_all(args, urls[0]) if args.all else _run_generated(args, urls[0])


#: options that only have an effect with --input
_OF_FILES = ("columns", "collection", "keep", "model_version", "overwrite")


class OptionError(ValueError):
    """Options that do not go together."""


class WaitError(RuntimeError):
    """No server has become ready in time."""


def _wait(urls: list[str], seconds: int) -> None:
    from hypersonic.client import Client

    if not seconds:
        return
    with Client(urls) as client:
        if not client.ready(timeout=seconds):
            raise WaitError(f"no server was ready at {', '.join(urls)} within {seconds} s; does its log show an error?")


def _run_files(args: argparse.Namespace, urls: list[str]) -> int:
    from hypersonic.client import Client, Timeout
    from hypersonic.client.columns import FileOptions, MappingError, infer_files, read_mapping, shipped_mappings
    from hypersonic.events.sending import ANSWER_TIMEOUT_S
    from hypersonic.progress import progress_bar

    if args.chunk_mb < 1:
        raise OptionError(f"--chunk-mb is {args.chunk_mb}, expected 1 or more")
    if not args.columns and args.model not in (shipped := shipped_mappings()):
        raise MappingError(
            f"there is no mapping for model {args.model!r}; name a YAML file with --columns ({', '.join(shipped)} has one)"
        )
    mapping = read_mapping(args.columns or args.model)
    if args.collection:
        mapping = replace(mapping, collection=args.collection)
    keep = tuple(dict.fromkeys(name.strip() for name in args.keep.split(",") if name.strip()))
    options = FileOptions(args.tree, args.chunk_mb << 20, keep, args.overwrite, args.model_version)
    with (
        progress_bar(quiet=args.quiet) as show,
        Client(urls, timeout=Timeout(total_s=ANSWER_TIMEOUT_S)) as client,
    ):
        summary = infer_files(client, args.name or args.model, mapping, args.input, args.output, options, show)
    print(summary)
    return 0


def _run_all(args: argparse.Namespace, url: str) -> int:
    from hypersonic.events.everything import Asked, infer_all, show_all
    from hypersonic.events.infer import infer
    from hypersonic.progress import progress

    if own := [f"--{option}" for option in ("name", "rows", "labels") if getattr(args, option)]:
        raise OptionError(f"{own[0]} is of one model, got --all too: leave one of them out")
    events = _EVENTS_OF_ALL if args.events is None else args.events
    asked = Asked(infer, url, args.metrics_url, events, args.event_rows, args.clients, args.seed, args.check)
    with progress(quiet=args.quiet) as step:
        lines, missing = infer_all(asked, step)
    show_all(lines, missing, args.output or Path("result"))
    return 0


def _run_generated(args: argparse.Namespace, url: str) -> int:
    from hypersonic.events.infer import infer
    from hypersonic.events.outcome import OnCard
    from hypersonic.events.picture import show
    from hypersonic.own.task import own_data, trained_file
    from hypersonic.progress import progress

    with progress(quiet=args.quiet) as step:
        model = trained_file(args.model, step)
        data = own_data(model, args.rows, args.labels)
        outcome = infer(
            model,
            name=args.name,
            url=url,
            metrics_url=args.metrics_url,
            events=_EVENTS if args.events is None else args.events,
            event_rows=args.event_rows,
            clients=args.clients,
            seed=args.seed,
            check=args.check,
            progress=step,
            on=OnCard(args.platform, args.network_gbps),
            data=data,
        )
    show(outcome, args.output or Path("result"))
    return 0
