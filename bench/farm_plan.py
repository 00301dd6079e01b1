# SPDX-License-Identifier: Apache-2.0
"""Prints every table of docs/farm.md, and draws its picture.

    python bench/farm_plan.py [--plot docs/farm.svg] [--no-simulation]

The capacities follow from the law; the latencies come from the farm simulation with fixed seeds, so every run prints the same.
No rate of a card is measured here: clocks are assumed.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from hypersonic.commands.plan import server_batching
from hypersonic.plan.farms import (
    CARDS,
    LOADS,
    SHOWN,
    SWITCH_GBPS,
    Case,
    capacity_table,
    cards_table,
    failing_table,
    latency_table,
    simulate_failing,
)
from hypersonic.plan.points import SimulatedPoint


def draw(
    file: Path, simulated: dict[Case, tuple[SimulatedPoint, ...]], failing: dict[float, tuple[SimulatedPoint, SimulatedPoint]]
) -> None:
    """Write four panels: time per event, p99 of a call, jobs by the number of cards, and 10 failed cards of 100."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    mpl.rcParams["svg.hashsalt"] = "hypersonic farms"
    figure, ((events, calls), (cards, failed)) = plt.subplots(2, 2, figsize=(11, 8), layout="constrained")
    for case, points in simulated.items():
        (line,) = calls.plot(
            [point.ratio for point in points], [1e3 * point.p99_s for point in points], "o-", ms=3, lw=1, label=str(case)
        )
        if case.farm == "HLT":
            capacity = case.capacity()
            jobs = [capacity.jobs * step / 20 for step in range(1, 31)]
            events.plot(jobs, [each / capacity.rate(each) for each in jobs], "-", lw=1, color=line.get_color())
            events.plot(
                [point.jobs for point in points], [point.event_s for point in points], "o", ms=4, color=line.get_color()
            )
        cards.plot(CARDS, [case.capacity(count).jobs for count in CARDS], "o-", ms=3, lw=1, color=line.get_color())
        switched = [case.capacity(count, switch_gbps=SWITCH_GBPS).jobs for count in CARDS]
        cards.plot(CARDS, switched, ":", lw=1, color=line.get_color())
    events.set(xlabel="jobs on one card", ylabel="time per event, s", title="HLT: law (lines) and simulation", ylim=(0, 1))
    calls.set(xlabel="jobs / saturation", ylabel="p99 of a call, ms", title="p99, simulated", yscale="log")
    cards.set(
        xlabel="cards",
        ylabel="jobs",
        title=f"jobs at saturation (dotted: {SWITCH_GBPS:g} Gb/s switch)",
        xscale="log",
        yscale="log",
    )
    for index, name in enumerate(("all in service", "10 % failed")):
        failed.plot(list(failing), [pair[index].event_s for pair in failing.values()], "o-", ms=4, lw=1, label=name)
    failed.set(
        xlabel="jobs / saturation of 100 cards",
        ylabel="time per event, s",
        title=f"100 cards, simulated: {SHOWN[0]}",
        ylim=(0, 1),
    )
    failed.legend(frameon=False)
    calls.legend(frameon=False, fontsize="x-small")
    for axes in (events, calls, cards, failed):
        axes.grid(visible=True, alpha=0.25)
    figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None, dpi=90)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="draw the page's picture")
    parser.add_argument("--no-simulation", dest="simulate", action="store_false", help="print only what follows from the law")
    args = parser.parse_args()
    print(f"One card, by the law\n\n{capacity_table()}\nJobs of 1 to 100 cards, by the law\n\n{cards_table()}", flush=True)
    if not args.simulate:
        return
    simulated = {case: case.simulate(LOADS, server_batching(case.question())) for case in SHOWN}
    print(f"One card, simulated: time per event; p50 / p99 of a call\n\n{latency_table(simulated)}", flush=True)
    case = SHOWN[0]
    failing = {load: simulate_failing(case, load, server_batching(case.question())) for load in LOADS[:-1]}
    print(f"100 cards with 10 failed, simulated ({case})\n\n{failing_table(failing, case)}", end="")
    if args.plot:
        draw(args.plot, simulated, failing)


if __name__ == "__main__":
    main()
