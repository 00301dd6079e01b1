# SPDX-License-Identifier: Apache-2.0
"""`hypersonic bench`: one script of bench/ with its own table, or all of them as one JSON object, each in its own process."""

from __future__ import annotations

import argparse
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypersonic.arguments import add_network_option
from hypersonic.hls.child import python_environment, script_argv

#: bench/ is beside the rooms in a source checkout; an installed wheel does not carry it
SCRIPTS = Path(__file__).resolve().parents[2] / "bench"


KERNEL_HELP = """\
A kernel is Verilated and run on memories of several latencies; it counts its clocks itself. Nothing here is measured on a card.

  bound    rows x max(II, bytes in / 64, bytes out / 64): what the slowest part needs, without latency
  1 run    a run alone, from accepted to done; allowed: 1.03 x bound + 600
  1 row    a run of one row
  queued   clocks a run when runs are queued; gap: what of it is above the bound

  and of the one run the clocks in which something waited:
  AR       an address to read, for the memory
  R        a row, for its bytes: the memory's latency, and the data's own pace where a row is more than 64 bytes
  core     a row, for the core to take it
  behind   a row, because the results in front of it could not leave the core: see AW and W; with both at 0 it is the pace
           of the write channel, 64 bytes a clock
  AW       the address of a write, for the memory or for a response that it owes
  W        a beat of results, for the memory

Below each table: events (runs of that many rows) a second that a card carries with the slowest memory of the table, a
prediction, and what each part of the way carries alone. The clock and the network are assumed.
"""


HELP = "the kernel's and the server's own figures: `bench kernel`, or all of them as JSON"


class BenchError(RuntimeError):
    """A bench did not run to its end: which, with its last lines."""

    exit_code = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quiet", action="store_true", help="no progress on the terminal")
    kernel = parser.add_subparsers(title="one of them", metavar="BENCH").add_parser(
        "kernel",
        help="clocks of a kernel's runs, what they waited for, and the rate they mean",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_kernel_options(kernel)
    kernel.set_defaults(command=bench_kernel)


def run(args: argparse.Namespace) -> int:
    """All benches' figures as JSON on standard output."""
    from hypersonic.progress import progress

    with progress(quiet=args.quiet) as step:
        print(json.dumps(bench(step), indent=2))
    return 0


def bench(step: Callable[[str], None], scripts: Path = SCRIPTS) -> dict[str, Any]:
    """Run every script of `scripts` with --json; returns {script's name: its figures}. Raises BenchError."""
    files = sorted(scripts.glob("*.py"))
    if not files:
        raise BenchError(f"no benches in {scripts}; they are in the source repository, not in the installed package")
    return {file.stem: _figures(file, step) for file in files}


def add_kernel_options(parser: argparse.ArgumentParser) -> None:
    """What bench/kernel_clocks.py takes."""
    parser.description = KERNEL_HELP
    parser.add_argument(
        "model", nargs="?", metavar="MODEL",
        help="a zoo name (facile) or a model file, as for build; none: a small core of FACILE's shape in each wire format",
    )  # fmt: skip
    parser.add_argument("--rows", type=int, default=16_000, metavar="N", help="rows of a run (default: 16000)")
    parser.add_argument("--runs", type=int, default=8, metavar="N", help="runs that are queued (default: 8)")
    parser.add_argument(
        "--latency", type=int, nargs="+", default=[60, 200], metavar="CLOCKS", help="of the slow memories (default: 60 200)"
    )
    parser.add_argument("--platform", default="u250", metavar="NAME", help="whose limits are printed (default: u250)")
    add_network_option(parser)
    parser.add_argument("--json", action="store_true", help="figures for programs")


def bench_kernel(args: argparse.Namespace, scripts: Path = SCRIPTS) -> int:
    """Run bench/kernel_clocks.py on this terminal; returns its exit code. Raises BenchError where there is none."""
    script = scripts / "kernel_clocks.py"
    if not script.is_file():
        raise BenchError(f"no {script.name} in {scripts}; it is in the source repository, not in the installed package")
    argv = [f"--rows={args.rows}", f"--runs={args.runs}", f"--platform={args.platform}", f"--network-gbps={args.network_gbps}"]
    argv += ["--json"] * args.json
    latency = ["--latency", *map(str, args.latency)]
    command = script_argv(script, *argv, *latency, "--", *filter(None, [args.model]))
    return subprocess.run(command, env=python_environment(), check=False).returncode


def _figures(script: Path, step: Callable[[str], None]) -> Any:
    step(f"bench: {script.stem}")
    done = subprocess.run(script_argv(script, "--json"), env=python_environment(), capture_output=True, text=True, check=False)
    if done.returncode:
        tail = "\n".join(done.stderr.splitlines()[-20:])
        raise BenchError(f"{script.name} ended with {done.returncode}:\n{tail}")
    return json.loads(done.stdout)
