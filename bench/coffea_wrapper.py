# SPDX-License-Identifier: Apache-2.0
"""Compares the request rates of coffea's triton_wrapper and ours, in coffea's environment, as the time of a request grows.

    python -m bench.coffea_wrapper [--wait-ms 0 5 25 100] [--json]

The server is a small gRPC server in this process that sleeps for the given time and doubles rows of four FP32. Requests have 8
rows. coffea has one request in flight, ours 8. A rate is the best of three; the two wrappers take turns.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.reference.environment import environment
from tests.support.scripted_server import Script, scripted_server, wait

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = ROOT / "tests" / "clients" / "workers" / "coffea_overlap_program.py"


@dataclass(frozen=True)
class Rates:
    """Requests per second, and their ratio, when a request takes `wait_ms` on the server."""

    wait_ms: float
    coffea: float
    hypersonic: float
    ratio: float


def measure(wait_ms: float) -> Rates:
    """Measure both wrappers; print a line on standard error."""
    with scripted_server(Script(infer=wait(wait_ms / 1000))) as address:
        argv = [str(word) for word in (environment("coffea") / "bin" / "python", "-P", PROGRAM, "rates", address)]
        environ = {**os.environ, "PYTHONPATH": str(ROOT)}
        output = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True, env=environ).stdout
    both = json.loads(output.splitlines()[-1])
    rates = Rates(
        wait_ms, round(both["coffea"], 1), round(both["hypersonic"], 1), round(both["hypersonic"] / both["coffea"], 2)
    )
    figures = f"coffea {rates.coffea:7.1f}/s  hypersonic {rates.hypersonic:7.1f}/s  ratio {rates.ratio:.2f}"
    print(f"{wait_ms:6.1f} ms  {figures}", file=sys.stderr)
    return rates


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--wait-ms", type=float, nargs="+", default=[0, 5, 25, 100], help="times of a request on the server")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON on standard output")
    args = parser.parse_args()
    rates = [measure(wait_ms) for wait_ms in args.wait_ms]
    if args.json:
        print(json.dumps([asdict(each) for each in rates], indent=2))


if __name__ == "__main__":
    main()
