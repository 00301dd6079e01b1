# SPDX-License-Identifier: Apache-2.0
"""The processor time that the simulation of a farm takes: FACILE on cards with the published rate of a U250.

Each job works 600 ms on an event and makes one call of 16 000 rows. One card computes 86 million rows/s, 5 375 calls/s.

python -m bench.farm_speed [JOBS ...] [--seconds 12] [--warm-up 2] [--cards 1]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from hypersonic.plan.farm import Call, ClosedLoop, Farm, Linear, Link, Server, simulate

_U250 = Linear(0.0, 1 / 86e6)
#: 18 FP32 and one FP32 per row
_FACILE = Call(rows=16_000, request_bytes=16_000 * 18 * 4, answer_bytes=16_000 * 4)


def main(argv: Sequence[str] | None = None) -> int:
    """Print a row for each number of jobs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jobs", nargs="*", type=int, default=[1600, 3200, 5000], metavar="JOBS", help="number of jobs")
    parser.add_argument("--seconds", type=float, default=12.0, help="simulated seconds (default: 12)")
    parser.add_argument("--warm-up", type=float, default=2.0, help="simulated seconds that are not measured (default: 2)")
    parser.add_argument("--cards", type=int, default=1, help="servers with one card each (default: 1)")
    asked = parser.parse_args(argv)
    farm = Farm((Server(_U250, link=Link(100e9)),) * asked.cards)
    sys.stdout.write("| jobs | events/s | ms per event | simulated calls | processor s | calls per processor s |\n")
    sys.stdout.write("| --- | --- | --- | --- | --- | --- |\n")
    for jobs in asked.jobs:
        begin = time.process_time()
        result = simulate(farm, ClosedLoop(jobs, 0.6, _FACILE), seconds=asked.seconds, warmup_s=asked.warm_up)
        took_s, calls = time.process_time() - begin, result.counts.answered
        cells = [f"{result.events_per_s:,.0f}", f"{1000 * result.event_s.mean_s:.0f}", f"{calls:,}"]
        sys.stdout.write(f"| {jobs:,} | {' | '.join(cells)} | {took_s:.2f} | {calls / took_s:,.0f} |\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
