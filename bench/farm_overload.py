# SPDX-License-Identifier: Apache-2.0
"""A farm in overload: the goodput for pairs of queue limit and deadline, as in the table of plan/farm/overload.py.

100 servers of one compute unit at 1.5 times saturation, with the retries of this project's client. A second table raises the
rate from a share of the capacity to 1.2 times the capacity in a minute, and gives the load at which the busy share passes 0.8
and the one at which p99 has doubled.

python -m bench.farm_overload [--seconds 20]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from hypersonic.plan.farm import Call, Constant, Farm, Link, OpenLoop, Retry, Server, simulate

_SERVERS, _SERVICE_S = 100, 1 / 30
_CAPACITY_PER_S = _SERVERS / _SERVICE_S
_FACILE = Call(rows=16_000, request_bytes=16_000 * 18 * 4, answer_bytes=16_000 * 4)
_PAIRS = ((1, 9.0), (4, 4.0), (4, 5.0), (4, 6.0), (4, 8.0), (8, 9.0), (8, 11.0), (0, 9.0))


def main(argv: Sequence[str] | None = None) -> int:
    """Print both tables as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0, help="simulated seconds, half of them measured (default: 20)")
    asked = parser.parse_args(argv)
    sys.stdout.write("| queue limit | deadline / service | goodput / capacity | attempts per request | too late |\n")
    sys.stdout.write("| --- | --- | --- | --- | --- |\n")
    for limit, deadline in _PAIRS:
        load = _load(1.5, deadline * _SERVICE_S + 0.002)
        result = simulate(_farm(limit), load, seconds=asked.seconds, warmup_s=asked.seconds / 2)
        counts = result.counts
        late = counts.expired / counts.requests
        cells = [f"{result.goodput_per_s / _CAPACITY_PER_S:.2f}", f"{result.attempts_per_request:.2f}", f"{late:.0%}"]
        sys.stdout.write(f"| {limit or 'none'} | {deadline:g} | {' | '.join(cells)} |\n")
        sys.stdout.flush()
    sys.stdout.write("\n| from | busy share above 0.8 at | p99 doubled at |\n| --- | --- | --- |\n")
    for start in (0.3, 0.5, 0.7):
        load = _load(1.2, 11 * _SERVICE_S, start)
        series = simulate(_farm(8), load, seconds=60).series[1:]
        first_s = sum(second.p99_s for second in series[:5]) / 5
        scaled = next((second.requests_per_s for second in series if second.busy_share > 0.8), 0.0)
        doubled = next((second.requests_per_s for second in series if second.p99_s > 2 * first_s), 0.0)
        sys.stdout.write(f"| {start} | {scaled / _CAPACITY_PER_S:.2f} | {doubled / _CAPACITY_PER_S:.2f} |\n")
        sys.stdout.flush()
    return 0


def _farm(queue_limit: int) -> Farm:
    server = Server(Constant(_SERVICE_S), queue_limit=queue_limit, link=Link(25e9, 0.0005))
    return Farm((server,) * _SERVERS, link=Link(400e9, 0.0005))


def _load(share: float, deadline_s: float, start: float | None = None) -> OpenLoop:
    return OpenLoop(
        share * _CAPACITY_PER_S,
        _FACILE,
        deadline_s=deadline_s,
        retry=Retry(),
        clients=100,
        start_rate_per_s=None if start is None else start * _CAPACITY_PER_S,
        ramp_s=60.0 if start else 0.0,
    )


if __name__ == "__main__":
    sys.exit(main())
