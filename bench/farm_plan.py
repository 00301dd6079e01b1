# SPDX-License-Identifier: Apache-2.0
"""Prints every table of docs/farm.md, an HLT and an offline farm with this stack's own service times, and draws its picture.

    python bench/farm_plan.py [--plot docs/farm.svg] [--no-simulation]

The capacities follow from the law; the latencies come from the farm simulation with fixed seeds, so every run prints the same.
Nothing here was measured on a card: clocks are assumed, and the rates of memory banks and PCIe are those of firmware/platforms.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hypersonic.commands.plan import server_batching
from hypersonic.plan.farm import Batching
from hypersonic.plan.inputs import Question, Site, Target, Workload
from hypersonic.plan.limits import Capacity, capacity_of
from hypersonic.plan.models import ZOO, with_bytes
from hypersonic.plan.points import SimulatedPoint
from hypersonic.plan.predict import Size, simulate_load
from hypersonic.plan.server_cost import TRITON

#: an HLT job: 0.600 s of own work and one call with FACILE's 16,000 rows
HLT = Workload(jobs=1, cpu_s=0.667, share=0.1, rows=16_000, calls=1)
#: a ProtoDUNE job: 330 s, of which 67 % are 55,000 patches in calls of 235 rows
OFFLINE = Workload(jobs=1, cpu_s=330.0, share=0.67, rows=235, calls=235)

#: tritonserver's, for 1.152 MB, rounded up
REQUEST_CPU_MS = 1.0
CARDS = (1, 2, 5, 10, 20, 50, 100)
#: the switch of the large farm in Gb/s, the share of its cards that fail, and the part of it that is simulated
SWITCH_GBPS, FAILING, SIZE = 1600.0, 0.1, Size(10, 10, 20_000)
#: the loads that are simulated, as parts of N*
LOADS = (0.5, 0.8, 0.9, 1.0, 1.1, 1.5)


@dataclass(frozen=True)
class Case:
    """A farm with one kind of card, one wire format and one speed of the servers' links.

    Attributes:
        rows: FP32, FP16 or packed.
    """

    farm: str
    platform: str
    rows: str
    gbps: float

    def question(self, switch_gbps: float = 0.0) -> Question:
        """Return the question of a plan, one card a server. Raises KeyError for a format that the model does not have."""
        work, cost = (HLT, ZOO["facile"].cost) if self.farm == "HLT" else (OFFLINE, ZOO["emtrk"].cost)
        sizes = {"FP32": cost.row_bytes, "FP16": cost.half_bytes, "packed": cost.packed_bytes}
        if sizes[self.rows] is None:
            raise KeyError(self.rows)
        model = cost if self.rows == "FP32" else with_bytes(cost, sizes[self.rows] or cost.row_bytes)
        site = Site(
            platform=self.platform, server_gbps=self.gbps, switch_gbps=switch_gbps, server=TRITON, request_cpu_ms=REQUEST_CPU_MS
        )
        return Question(work, model, site, Target())

    def capacity(self, cards: int = 1, switch_gbps: float = 0.0) -> Capacity:
        """Return the capacities of that many cards."""
        return capacity_of(self.question(switch_gbps), cards)

    def simulate(self, loads: Sequence[float], batching: Batching | None) -> tuple[SimulatedPoint, ...]:
        """Return the simulation of one card at the loads."""
        question, capacity = self.question(), self.capacity()
        return tuple(simulate_load(question, capacity, load, batching=batching, size=SIZE) for load in loads)

    def __str__(self) -> str:
        return f"{self.farm}, {self.platform.upper()}, {self.rows}, {self.gbps:g} Gb/s"


#: all cases with the formats that the models have; those with curves in the page's picture and tables
CASES = tuple(
    Case(farm, platform, rows, gbps)
    for farm, formats in (("HLT", ("FP32", "FP16", "packed")), ("offline", ("FP32", "FP16")))
    for platform in ("u250", "u55c")
    for rows in formats
    for gbps in (25.0, 100.0)
)
SHOWN = (
    Case("HLT", "u250", "FP32", 25.0), Case("HLT", "u250", "FP16", 25.0), Case("HLT", "u250", "packed", 100.0),
    Case("HLT", "u55c", "FP32", 100.0), Case("offline", "u250", "FP32", 25.0),
)  # fmt: skip


def capacity_table() -> str:
    """Return the capacity of one card in each case, by the law, as Markdown."""
    return _markdown(
        ("farm", "card", "rows", "link, Gb/s", "events/s", "jobs a card", "limit", "next limit", "time per event, s"),
        _capacities(),
    )


def _capacities() -> Iterator[tuple[str, ...]]:
    for case in CASES:
        capacity = case.capacity()
        after = capacity.limits[1]
        yield (
            case.farm, case.platform.upper(), case.rows, f"{case.gbps:g}", _rate(capacity.events_per_s),
            f"{capacity.jobs:,.0f}", capacity.binding.part, f"{after.part}, {_rate(after.events_per_s)}",
            f"{capacity.unqueued.ideal_s:.4g}",
        )  # fmt: skip


def cards_table() -> str:
    """Return the jobs of 1 to 100 cards, by the law: all in service, 10 % failed, and behind a switch. As Markdown."""
    head = (
        "farm",
        *(f"{cards} card{'s' * (cards > 1)}" for cards in CARDS),
        "100, 10 % failed",
        f"100 behind {SWITCH_GBPS:g} Gb/s",
    )
    return _markdown(head, (_cards(case) for case in SHOWN))


def _cards(case: Case) -> tuple[str, ...]:
    most = CARDS[-1]
    failed = case.capacity(round(most * (1 - FAILING))).jobs
    switched = case.capacity(most, switch_gbps=SWITCH_GBPS)
    jobs = [case.capacity(cards).jobs for cards in CARDS]
    return str(case), *(f"{each:,.0f}" for each in (*jobs, failed)), f"{switched.jobs:,.0f} ({switched.binding.part})"


def latency_table(simulated: dict[Case, tuple[SimulatedPoint, ...]]) -> str:
    """Return the simulated times of SHOWN at LOADS as Markdown.

    Args:
        simulated: what Case.simulate returned.
    """
    head = ("farm", *(f"{load:g} N*" for load in LOADS))
    return _markdown(head, ((str(case), *(_point(point) for point in points)) for case, points in simulated.items()))


def _point(point: SimulatedPoint) -> str:
    return f"{point.event_s:.4g} s; {1e3 * point.p50_s:,.3g} / {1e3 * point.p99_s:,.3g} ms"


def simulate_failing(case: Case, load: float, batching: Batching | None) -> tuple[SimulatedPoint, SimulatedPoint]:
    """Return the simulation of 100 cards with all in service, and with FAILING of them failed, on a part of the servers."""
    question, capacity = case.question(), case.capacity(CARDS[-1])
    before, after = (
        simulate_load(question, capacity, load, batching=batching, failing=failing, size=SIZE) for failing in (0.0, FAILING)
    )
    return before, after


def failing_table(simulated: dict[float, tuple[SimulatedPoint, SimulatedPoint]], case: Case) -> str:
    """Return what simulate_failing returned, by load, with the law of the cards that are left, as Markdown."""
    head = (
        "load, of 100 cards' N*",
        "jobs",
        "time per event, s",
        "with 10 % failed",
        "by the law of 90 cards",
        "p99, ms",
        "with 10 % failed",
    )
    left = case.capacity(round(CARDS[-1] * (1 - FAILING)))
    rows = (
        (
            f"{load:g}", f"{before.jobs:,.0f}", f"{before.event_s:.4g}", f"{after.event_s:.4g}",
            f"{before.jobs / left.rate(before.jobs):.4g}", f"{1e3 * before.p99_s:,.3g}", f"{1e3 * after.p99_s:,.3g}",
        )
        for load, (before, after) in simulated.items()
    )  # fmt: skip
    return _markdown(head, rows)


def _rate(events_per_s: float) -> str:
    return f"{events_per_s:,.0f}" if events_per_s >= 100 else f"{events_per_s:.3g}"


def _markdown(head: Sequence[str], rows: Iterator[tuple[str, ...]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


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
