# SPDX-License-Identifier: Apache-2.0
"""`hypersonic bench`: runs one script of bench/, or those of the kernel and the server with one JSON object as the result."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypersonic.arguments import add_network_option
from hypersonic.hls.child import python_argv, python_environment, script_argv

#: bench/ exists in a source checkout only, not in an installed package
SCRIPTS = Path(__file__).resolve().parents[2] / "bench"
#: the scripts that `hypersonic bench` runs, each in its own process; the others are run by hand
KINDS = ("kernel_", "server_")


KERNEL_HELP = """\
Run a Verilated kernel with memories of several latencies. The kernel counts its clocks itself; nothing is measured on a card.

A table has a row for each memory. Its columns, in clocks:

  bound    a lower bound without latency: rows x max(II, bytes in / 64, bytes out / 64)
  1 run    a single run, from accepted to done
  allowed  the most that a single run should take: 1.03 x bound + 600
  1 row    a single run with one row
  queued   each run, when runs are queued
  gap      the part of `queued` above the bound

and for the single run, the clocks in which something waited:

  AR       a read address, for the memory
  R        a row, for its bytes (the memory's latency, or the transfer of a row of more than 64 bytes)
  core     a row, for the core to take it
  behind   a row, because earlier results could not leave the core (see AW and W; if both are 0, the write channel's 64
           bytes per clock are the limit)
  AW       a write address, for the memory or for a response that the memory owes
  W        a beat of results, for the memory

Below each table: the predicted rate of a card, in events (runs of that many rows) per second, with the slowest memory of the
table, and the rate that each part of the data path allows on its own. The clock and the network are assumed.
"""


HELP = "measure the kernel (`bench kernel`), or the kernel and the server, as JSON"


class BenchError(RuntimeError):
    """A bench failed or does not exist. The message names it and has its last lines."""

    exit_code = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments, and those of `bench kernel`."""
    parser.add_argument("--quiet", action="store_true", help="do not show progress")
    single = parser.add_subparsers(title="a single bench", metavar="BENCH")
    kernel = single.add_parser("kernel", help="measure the clocks of a kernel's runs, and predict its rate on a card")
    add_kernel_options(kernel)
    kernel.set_defaults(command=bench_kernel)
    card = single.add_parser("card", help="simulate a card that is always busy with a model: units, banks, links, host threads")
    add_card_options(card)
    card.set_defaults(command=bench_card)
    sharing = single.add_parser("sharing", help="measure how kernels and models share emulated cards")
    add_sharing_options(sharing)
    sharing.set_defaults(command=bench_sharing)


def run(args: argparse.Namespace) -> int:
    """Run the benches of the kernel and the server, print their figures as JSON on standard output, and return 0."""
    from hypersonic.progress import progress

    with progress(quiet=args.quiet) as step:
        print(json.dumps(bench(step), indent=2))
    return 0


def bench(step: Callable[[str], None], scripts: Path = SCRIPTS) -> dict[str, Any]:
    """Run the scripts of KINDS in the directory `scripts` with --json; return their figures by the scripts' names.

    Args:
        step: called with a line for each script.

    Raises:
        BenchError: If there are no scripts, or one fails.
    """
    files = sorted(file for file in scripts.glob("*.py") if file.name.startswith(KINDS))
    if not files:
        raise BenchError(f"no benches in {scripts}; they are in the source repository, not in the installed package")
    return {file.stem: _figures(file, step) for file in files}


def add_kernel_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of bench/kernel_clocks.py."""
    parser.description = KERNEL_HELP
    parser.add_argument(
        "model", nargs="?", metavar="MODEL",
        help="a zoo name (such as facile) or a model file, as for build; without it, a small core of FACILE's shape in each "
        "wire format",
    )  # fmt: skip
    parser.add_argument("--rows", type=int, default=16_000, metavar="N", help="number of rows in a run (default: 16000)")
    parser.add_argument("--runs", type=int, default=8, metavar="N", help="number of queued runs (default: 8)")
    parser.add_argument(
        "--latency", type=int, nargs="+", default=[60, 200], metavar="CLOCKS",
        help="latencies of the slow memories in clocks (default: 60 200)",
    )  # fmt: skip
    parser.add_argument("--platform", default="u250", metavar="CARD", help="card whose rate is predicted (default: u250)")
    add_network_option(parser)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")


def bench_kernel(args: argparse.Namespace, scripts: Path = SCRIPTS) -> int:
    """Run bench/kernel_clocks.py on this terminal and return its exit code. Raises BenchError if the script is not there."""
    script = scripts / "kernel_clocks.py"
    if not script.is_file():
        raise BenchError(f"no {script.name} in {scripts}; it is in the source repository, not in the installed package")
    argv = [f"--rows={args.rows}", f"--runs={args.runs}", f"--platform={args.platform}", f"--network-gbps={args.network_gbps}"]
    argv += ["--json"] * args.json
    latency = ["--latency", *map(str, args.latency)]
    command = script_argv(script, *argv, *latency, "--", *filter(None, [args.model]))
    return subprocess.run(command, env=python_environment(), check=False).returncode


def add_card_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `bench card`."""
    parser.description = (
        "Simulate a card that is always busy with a model: compute units, memory banks with row misses, refresh, turnaround, "
        "PCIe, and a host thread for each run in flight. Print the card's rate and the part that limits it: the figure that "
        "`infer`, `report`, `plan` and the documentation print. Nothing is measured on a card."
    )
    parser.add_argument("model", metavar="MODEL", help="a zoo name (such as facile), or the folder of a published model")
    parser.add_argument("--platform", default="u250", metavar="CARD", help="card that is simulated (default: u250)")
    parser.add_argument("--rows", type=_count, default=0, metavar="N", help="rows of an event (default: the zoo's, or 16000)")
    parser.add_argument(
        "--clocks", type=_count, default=0, metavar="N",
        help="clocks of an event, as the kernel counted them (default: by the core's interval)",
    )  # fmt: skip
    parser.add_argument(
        "--units", type=_count, default=0, metavar="N", help="compute units (default: the published ones, or 1)"
    )
    parser.add_argument("--kernel-mhz", type=_count, default=0, metavar="MHZ", help="kernel clock (default: the card's)")
    add_network_option(parser)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")


def _count(text: str) -> int:
    value = int(text) if text.isascii() and text.isdecimal() else 0
    if not 1 <= value <= 10**12:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to 10**12")
    return value


def bench_card(args: argparse.Namespace) -> int:
    """Print the simulated rates of a model on a card, and return 0."""
    from hypersonic.reporting import card

    bench = card.bench_card(
        args.model, args.platform, rows=args.rows, clocks=args.clocks, units=args.units, network_gbps=args.network_gbps,
        kernel_mhz=args.kernel_mhz,
    )  # fmt: skip
    print(json.dumps(card.card_data(bench), indent=1) if args.json else "\n".join(card.card_lines(bench)))
    return 0


def add_sharing_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of bench/sharing/run.py."""
    parser.description = (
        "Measure on emulated cards; every part is a file in bench/sharing/parts. Exit code 1: a figure is not met."
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help="parts to measure, such as banks (default: all)")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")


def bench_sharing(args: argparse.Namespace, scripts: Path = SCRIPTS) -> int:
    """Run bench/sharing/run.py on this terminal and return its exit code. Raises BenchError if the script is not there."""
    if not (scripts / "sharing" / "run.py").is_file():
        raise BenchError(f"no sharing/run.py in {scripts}; it is in the source repository, not in the installed package")
    environment = python_environment()
    environment["PYTHONPATH"] = os.pathsep.join([str(scripts.parent), environment["PYTHONPATH"]])
    command = python_argv("-m", "bench.sharing.run", *args.parts, *["--json"] * args.json)
    return subprocess.run(command, env=environment, check=False).returncode


def _figures(script: Path, step: Callable[[str], None]) -> Any:
    step(f"bench: {script.stem}")
    done = subprocess.run(script_argv(script, "--json"), env=python_environment(), capture_output=True, text=True, check=False)
    if done.returncode:
        tail = "\n".join(done.stderr.splitlines()[-20:])
        raise BenchError(f"{script.name} ended with {done.returncode}:\n{tail}")
    return json.loads(done.stdout)
