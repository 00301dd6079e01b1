# SPDX-License-Identifier: Apache-2.0
"""The command line. Each command imports its room only when it is called, so `--help` is instant and a server stays light."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from hypersonic import __version__
from hypersonic.hls.sources import source_files

#: exit codes: 0 done, 1 our fault, 2 the user's
OK, OURS, USERS = 0, 1, 2

_EPILOG = """\
a first session:
  hypersonic build facile --target hw_emu      a trained network becomes a kernel in ./models
  hypersonic serve --model-repository models   Triton's protocol on ports 8000, 8001 and 8002
  hypersonic infer facile                      events through that server: rate, latency, resolution, a picture
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the process's exit code. Errors are one paragraph on standard error."""
    parser = _parser()
    args = parser.parse_args(argv)
    try:
        command: Callable[[argparse.Namespace], int] = args.command
        return command(args)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except Exception as error:
        if os.environ.get("HYPERSONIC_TRACEBACK"):
            raise
        text, code = _explained(error)
        print(f"hypersonic: error: {text}", file=sys.stderr)
        return code


def _explained(error: Exception) -> tuple[str, int]:
    """An error as one paragraph, and the exit code: the rooms' own errors speak for themselves, the rest are our faults."""
    if type(error).__module__.startswith("hypersonic."):
        return str(error), int(getattr(error, "exit_code", USERS))
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror or str(error), USERS
    report = "this is a fault of hypersonic: please report it with what the same command says under HYPERSONIC_TRACEBACK=1"
    return f"{type(error).__name__}: {error}; {report}", OURS


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hypersonic",
        description="FPGA inference as a service: a trained network becomes a bit-exact kernel, served over Triton's protocol.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"hypersonic {__version__}")
    commands = _Commands(parser)
    for add in (_add_run, _add_build, _add_serve, _add_infer, _add_report, _add_train, _add_inspect, _add_devices, _add_bench):
        add(commands)
    return parser


class _Help(argparse.ArgumentDefaultsHelpFormatter):
    """Defaults are shown where they say something."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        says_nothing = isinstance(action.default, bool | list | tuple) or action.default in ("", 0, None)
        return action.help if says_nothing else super()._get_help_string(action)


class _Commands:
    """Where the subcommands are added; a name for argparse's private type."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self._actions = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    def add(self, name: str, call: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
        parser = self._actions.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.", formatter_class=_Help)
        parser.set_defaults(command=call)
        return parser


def _add_build_options(parser: argparse.ArgumentParser) -> None:
    from hypersonic.commands.bench import add_network_option
    from hypersonic.hls.core import CORE_CHOICES

    parser.add_argument(
        "model", metavar="MODEL", help="a zoo name (facile) or a .keras, .h5 or .onnx file with a YAML beside it"
    )
    parser.add_argument("--target", choices=("sw_emu", "hw_emu", "hw"), default="hw_emu", help="as Vitis names them")
    parser.add_argument("--platform", default="u250", help="the card it is linked for")
    parser.add_argument(
        "--core", choices=[kind.value for kind in CORE_CHOICES], default="",
        help="how the network is computed: unrolled into adders, or sharing multipliers (default: as the YAML's Strategy says)",
    )  # fmt: skip
    parser.add_argument(
        "--fit", default="", metavar="CARD",
        help="rf: take the reuse factors that fill this card, and show the designs there are (docs/rf-fit.md)",
    )  # fmt: skip
    parser.add_argument("--fill", type=_percent, default=80, metavar="PERCENT", help="how much of the card --fit may take")
    add_network_option(parser)
    parser.add_argument("--model-repository", type=Path, default=Path("models"), metavar="DIR", help="where it is published")
    parser.add_argument(
        "--build-directory", type=Path, default=Path("build"), metavar="DIR", help="where its HLS project and RTL go"
    )
    for side in ("input", "output"):
        parser.add_argument(
            f"--{side}-datatype", default="", metavar="TYPE",
            help=f"how every {side} travels: FP32, FP16, BF16, or fixed point as (U)INT8, 16, 32 (default: the YAML's)",
        )  # fmt: skip
    parser.add_argument(
        "--kernel-mhz", type=int, default=0, metavar="MHZ", help="hw: clock of the kernel (default: the card's)"
    )
    parser.add_argument(
        "--lower-clock", action="store_true", help="hw: take an xclbin whose clock place and route had to lower"
    )
    parser.add_argument(
        "--afi-bucket", default="", metavar="S3BUCKET", help="hw, aws_f2 (and aws_f1): where AWS reads the design"
    )
    parser.add_argument("--compute-units", type=int, default=1, metavar="N", help="instances of the kernel on the card")
    parser.add_argument("--quiet", action="store_true", help="no progress on the terminal")


def _percent(text: str) -> int:
    if not text.isdecimal() or len(text) > 3 or not 1 <= int(text) <= 100:
        raise argparse.ArgumentTypeError(f"got {text!r}, expected a whole number of per cent from 1 to 100")
    return int(text)


def _add_build(commands: _Commands) -> None:
    parser = commands.add("build", _build, "turn a trained model into an xclbin, published in a model repository")
    _add_build_options(parser)
    parser.add_argument(
        "--name", default="", metavar="NAME",
        help="what the model is called in the repository, so that builds for several targets lie side by side (default: as the "
        "YAML says)",
    )  # fmt: skip
    parser.add_argument(
        "--no-resources",
        action="store_true",
        help="do not estimate LUTs, registers, DSPs and memories (minutes the first time)",
    )


def _build(args: argparse.Namespace) -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: what is half done is removed
    from hypersonic.progress import progress
    from hypersonic.server_process import build_as_asked

    lines: list[str] = []
    with progress(quiet=args.quiet) as step:
        version = build_as_asked(args, step, None if args.no_resources else lines.extend, lines.append, args.name)
    print("\n".join([*lines, str(version)]))
    return OK


def _add_serve(commands: _Commands) -> None:
    from hypersonic.server.app import add_arguments

    add_arguments(commands.add("serve", _serve, "serve a model repository over Triton's protocol"))


def _serve(args: argparse.Namespace) -> int:
    from hypersonic.server.app import serve

    return serve(args)


def _add_infer_options(parser: argparse.ArgumentParser) -> None:
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


def _add_infer(commands: _Commands) -> None:
    from hypersonic.commands.bench import add_network_option

    parser = commands.add("infer", _infer, "send events through a running server: rate, latency, physics figures, a picture")
    parser.add_argument("model", metavar="MODEL", help="a zoo name: its generator makes the events")
    parser.add_argument("--name", default="", metavar="NAME", help="what the server calls it (default: as the zoo does)")
    _add_infer_options(parser)
    parser.add_argument("--platform", default="u250", metavar="CARD", help="the card whose rate is predicted")
    add_network_option(parser)
    parser.add_argument("--url", default="localhost:8001", help="the server's gRPC address")
    parser.add_argument("--metrics-url", default="http://localhost:8002/metrics", help="where clocks are read from")
    parser.add_argument("--no-check", dest="check", action="store_false", help="do not compare with csim as integers")
    parser.add_argument("--quiet", action="store_true", help="no progress on the terminal")


def _infer(args: argparse.Namespace) -> int:
    from hypersonic.events.infer import OnCard, infer
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
    from hypersonic.events.picture import show

    show(outcome, args.output)
    return OK


def _add_run(commands: _Commands) -> None:
    parser = commands.add(
        "run", _run, "the main job: build a model, serve it, send events, check every answer, show the figures"
    )
    _add_build_options(parser)
    _add_infer_options(parser)


def _run(args: argparse.Namespace) -> int:
    from hypersonic.server_process import run

    return run(args)


def _add_report(commands: _Commands) -> None:
    from hypersonic.commands.bench import add_network_option

    parser = commands.add("report", _report, "float against quantised against csim against RTL: a table and a picture a model")
    parser.add_argument("models", nargs="*", metavar="MODEL", help="zoo names")
    parser.add_argument("--all", action="store_true", help="every zoo model that has a generator (an hour the first time)")
    parser.add_argument("--output", type=Path, default=Path("report"), metavar="DIR", help="where table and pictures go")
    parser.add_argument("--platform", default="u250", metavar="CARD", help="the card whose rate is predicted")
    add_network_option(parser)
    parser.add_argument("--quiet", action="store_true", help="no progress on the terminal")


def _report(args: argparse.Namespace) -> int:
    from hypersonic.events.infer import OnCard
    from hypersonic.progress import progress
    from hypersonic.reporting.engines import report_models

    on = OnCard(args.platform, args.network_gbps)
    with progress(quiet=args.quiet) as step:
        print(report_models(args.models, everything=args.all, directory=args.output, progress=step, on=on))
    return OK


def _add_train(commands: _Commands) -> None:
    parser = commands.add("train", _train, "train a zoo model, quantisation-aware; needs the build extra")
    zoo = Path(__file__).resolve().parent / "hls" / "zoo"
    trained = sorted(file.parent.name for file in source_files(zoo, "*/train.py"))
    parser.add_argument("model", choices=trained, metavar="MODEL", help=", ".join(trained))
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="passed on; `hypersonic train facile --help` lists them")


def _train(args: argparse.Namespace) -> int:
    """Training needs Keras 2 before anything else imports Keras, so it has a process of its own."""
    from hypersonic.hls.child import keras_2_environment, python_argv

    argv = python_argv("-m", f"hypersonic.hls.zoo.{args.model}.train", *args.arguments)
    return subprocess.run(argv, env={**keras_2_environment(), "TF_CPP_MIN_LOG_LEVEL": "2"}, check=False).returncode


def _add_inspect(commands: _Commands) -> None:
    parser = commands.add("inspect", _inspect, "show what is inside an xclbin")
    parser.add_argument("file", type=Path, metavar="FILE.xclbin")


def _inspect(args: argparse.Namespace) -> int:
    from hypersonic.firmware.xclbin.container import Xclbin
    from hypersonic.firmware.xclbin.describe import describe

    print(describe(Xclbin.read(args.file)))
    return OK


def _add_devices(commands: _Commands) -> None:
    parser = commands.add("devices", _devices, "list the cards of this host: shells, xclbins, clocks, temperatures, users")
    parser.add_argument("--json", action="store_true", help="for programs")


def _devices(args: argparse.Namespace) -> int:
    from hypersonic.host.devices import devices, devices_as_data

    print(json.dumps(devices_as_data(), indent=2) if args.json else devices())
    return OK


def _add_bench(commands: _Commands) -> None:
    from hypersonic.commands.bench import add_kernel_options

    parser = commands.add("bench", _bench, "the kernel's and the server's own figures: `bench kernel`, or all of them as JSON")
    parser.add_argument("--quiet", action="store_true", help="no progress on the terminal")
    kernel = parser.add_subparsers(title="one of them", metavar="BENCH").add_parser(
        "kernel",
        help="clocks of a kernel's runs, what they waited for, and the rate they mean",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_kernel_options(kernel)
    kernel.set_defaults(command=_bench_kernel)


def _bench(args: argparse.Namespace) -> int:
    from hypersonic.commands.bench import bench
    from hypersonic.progress import progress

    with progress(quiet=args.quiet) as step:
        print(json.dumps(bench(step), indent=2))
    return OK


def _bench_kernel(args: argparse.Namespace) -> int:
    from hypersonic.commands.bench import bench_kernel

    return bench_kernel(args)


if __name__ == "__main__":
    raise SystemExit(main())
