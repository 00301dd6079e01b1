# SPDX-License-Identifier: Apache-2.0
"""Draws a plan: time per event and latency of a call against the number of jobs."""

from __future__ import annotations

from pathlib import Path

from hypersonic.plan.answer import Plan
from hypersonic.plan.errors import PlanError

#: the formats that matplotlib writes without further packages
_SUFFIXES = (".png", ".svg", ".pdf")


def check_path(file: Path, *, simulated: bool) -> None:
    """Raise PlanError unless a picture can be written into a file of this name.

    Args:
        simulated: whether the plan has latencies.
    """
    if not simulated:
        raise PlanError("--plot draws the simulated latencies, and --no-simulation leaves them out; give one of them")
    if file.suffix.lower() not in _SUFFIXES:
        raise PlanError(f"--plot is {str(file)!r}, expected a file that ends in {', '.join(_SUFFIXES)}")
    if not file.absolute().parent.is_dir():
        raise PlanError(f"--plot is {str(file)!r}, and {file.absolute().parent} is not a directory; make it first")


def draw(plan: Plan, file: Path) -> None:
    """Draw the simulated points and the law into a .png, .svg or .pdf file."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    capacity, points = plan.capacity, plan.points
    ideal_s = capacity.unqueued.ideal_s
    mpl.rcParams["svg.hashsalt"] = "hypersonic plan"
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained")
    jobs = [capacity.jobs * step / 40 for step in range(2, 65)]
    left.plot(jobs, [each / capacity.rate(each) for each in jobs], "-", lw=1.2, label="law")
    left.plot([point.jobs for point in points], [point.event_s for point in points], "o", ms=5, label="simulation")
    left.axvline(plan.jobs, color="0.5", ls=":", lw=1, label=f"{plan.jobs:,.0f} jobs")
    left.set(xlabel="jobs", ylabel="time per event, s", ylim=(0, 1.7 * ideal_s))
    left.set_title(f"{plan.question.model.name}, {capacity.cards} x {plan.question.site.platform}: {capacity.binding.part}")
    for name, values in (("p50", [each.p50_s for each in points]), ("p99", [each.p99_s for each in points])):
        right.plot([point.ratio for point in points], [1e3 * value for value in values], "o-", ms=4, lw=1, label=name)
    right.axhline(1e3 * capacity.unqueued.call_s, color="0.5", ls=":", lw=1, label="nothing queues")
    right.set(xlabel="jobs / saturation", ylabel="call, ms", yscale="log", title="latency of a call, simulated")
    for axes in (left, right):
        axes.grid(visible=True, alpha=0.25)
        axes.legend(frameon=False, fontsize="small")
    figure.savefig(file, dpi=90, metadata={"Date": None} if file.suffix.lower() == ".svg" else None)
    plt.close(figure)
