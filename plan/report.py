# SPDX-License-Identifier: Apache-2.0
"""A plan as text on a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from rich.console import Console
from rich.table import Table

from hypersonic.plan.answer import Plan
from hypersonic.plan.inputs import RULES


def show_plan(plan: Plan) -> None:
    """Print the plan on standard output: the answer, limits, latencies, changes, and the source of each number."""
    console = Console(width=None if Console().is_terminal else 128)
    for line in answer_lines(plan):
        console.print(line, highlight=False, markup=False)
    for table in (_limits(plan), *_latencies(plan), _changes(plan), _inputs(plan)):
        console.print(table)


def answer_lines(plan: Plan) -> Iterator[str]:
    """Yield the answer in sentences."""
    question, capacity = plan.question, plan.capacity
    asked = f"{number(plan.jobs)} jobs, {number(plan.required_per_s)} events/s"
    place = "as measured" if question.model.measured else f"on {question.site.platform}"
    if question.model.service_ms:
        place = f"with {question.model.service_ms:g} ms a call"
    name = f"{question.model.name} {place}"
    if not plan.needed:
        (site,) = (limit for limit in capacity.limits if limit.scope == "site")
        most = site.events_per_s * question.target.headroom
        yield (
            f"{name}: no number of cards serves {asked}. The {site.part} carries {number(site.events_per_s)} events/s, and "
            f"{number(most)} with a headroom of {question.target.headroom:g}: {number(most * capacity.unqueued.ideal_s)} jobs."
        )
    else:
        yield f"{name}: {asked} take {count_of(plan.needed, 'card')}, with {question.target.headroom:g} of the capacity in use."
    yield (
        f"Capacity of {_site(plan)}: {number(capacity.jobs)} jobs ({number(plan.jobs_per_card)} a card), "
        f"{number(capacity.events_per_s)} events/s, limited by {_with_article(capacity.binding.part)}. The load is "
        f"{plan.load:.0%} of it."
    )
    requests, answers = plan.gbps
    yield f"Requests take {_speed(requests)}, {_speed(requests / capacity.servers)} a server; answers {_speed(answers)}."
    idle, cpu_s = capacity.unqueued, question.workload.cpu_s
    yield (
        f"An event takes {idle.ideal_s:.4g} s when nothing queues ({idle.ideal_s / cpu_s - 1:+.1%} against {cpu_s:g} s on a "
        f"processor): own work {idle.own_s:.4g} s, {count_of(idle.calls, 'call')} of {1e3 * idle.call_s:.3g} ms "
        f"(network {1e3 * idle.network_s:.3g}, server {1e3 * idle.server_s:.3g}, card {1e3 * idle.card_s:.3g})."
    )
    if plan.at_load:
        added = plan.at_load.event_s / idle.ideal_s - 1
        yield (
            f"Here queueing adds {max(0.0, added):.1%} to an event; a call takes {1e3 * plan.at_load.p50_s:.3g} ms (p50), "
            f"{1e3 * plan.at_load.p99_s:.3g} ms (p99)."
        )
    yield f"The target ({_target(plan)}) is {'reached' if plan.reached else 'NOT reached'}."


def _target(plan: Plan) -> str:
    target = plan.question.target
    event = f"{target.event_s:g} s an event" if target.event_s else f"at most {target.added_percent:g} % added to an event"
    p99 = f", p99 of a call {target.p99_ms:g} ms" if target.p99_ms else ""
    return f"{event}{p99}, {target.headroom:g} of the capacity"


def _limits(plan: Plan) -> Table:
    idle = plan.capacity.unqueued.ideal_s
    rows = (
        (limit.part, number(limit.events_per_s), number(limit.events_per_s * idle), limit.what, str(limit.mark))
        for limit in plan.capacity.limits
    )
    title = f"limits of {_site(plan)}, the lowest first"
    return table_of(title, ("limit", "events/s", "jobs", "follows from", "source"), rows, right=(1, 2))


def _latencies(plan: Plan) -> Iterator[Table]:
    if not plan.points:
        return
    rows = (
        (
            f"{point.ratio:g}", number(point.jobs), number(point.events_per_s), f"{point.event_s:.4g}",
            f"{point.law_s:.4g}", f"{1e3 * point.p50_s:,.3g}", f"{1e3 * point.p99_s:,.3g}", f"{point.busy:.0%}",
        )
        for point in plan.points
    )  # fmt: skip
    part = plan.part
    of = "" if part.share == 1 else f", {count_of(part.servers, 'server')} of {part.all_servers} with their share of the jobs"
    head = ("of saturation", "jobs", "events/s", "time per event, s", "by the law, s", "call p50, ms", "p99, ms", "units busy")
    yield table_of(f"latencies, simulated{of}", head, rows, right=range(8))


def _changes(plan: Plan) -> Table:
    rows = (
        (
            each.name, f"x {each.gain:.2f}", number(each.jobs), f"{each.cards:,}" if each.cards else "none is enough",
            each.binding,
        )
        for each in plan.changes
    )  # fmt: skip
    title = "what would change it most, with the same cards"
    return table_of(title, ("change", "capacity", "jobs", "cards needed", "then limits"), rows, right=(1, 2, 3))


def _inputs(plan: Plan) -> Table:
    question = plan.question
    texts = {"site.platform": question.site.platform, "site.server": question.site.server}
    rows = [(name, value, "", str(question.mark(name))) for name, value in texts.items()]
    for section, rules in RULES.items():
        for name, rule in rules.items():
            field, value = f"{section}.{name}", getattr(getattr(question, section), name)
            if field == "site.kernel_mhz":
                value = value or platform_mhz(question.site.platform)
            if field == "site.request_cpu_ms":
                value = 1e3 * question.request_cpu_s
            replaced = question.model.measured and field in ("site.kernel_mhz", "model.ii")
            if (value or field in question.marks) and not replaced:
                rows.append((field, f"{value:,g}", rule.unit, str(question.mark(field))))
    return table_of("inputs", ("field", "value", "unit", "source"), rows, right=(1,))


def platform_mhz(name: str) -> float:
    """Return the clock that is assumed for a platform's kernels. Raises PlatformError."""
    from hypersonic.firmware.platform import find_platform

    return find_platform(name).kernel_clock_mhz


def table_of(title: str, head: Iterable[str], rows: Iterable[tuple[str, ...]], right: Iterable[int] = ()) -> Table:
    """Return a table of a plan.

    Args:
        right: the columns of numbers.
    """
    table, numbers = Table(title=title, title_justify="left"), set(right)
    for index, name in enumerate(head):
        table.add_column(name, justify="right" if index in numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def number(value: float) -> str:
    """Return a number with at least three digits."""
    return f"{value:,.0f}" if value >= 100 or value == round(value) else f"{value:.3g}"


def _speed(gbps: float) -> str:
    return f"{gbps:,.3g} Gb/s" if gbps >= 0.1 else f"{1e3 * gbps:.3g} Mb/s"


def _with_article(part: str) -> str:
    return part if part.startswith(("PCIe", "server CPU")) else f"the {part}"


def _site(plan: Plan) -> str:
    return f"{count_of(plan.capacity.cards, 'card')} in {count_of(plan.capacity.servers, 'server')}"


def count_of(count: float, what: str) -> str:
    """Return `1 card` or `3 cards`."""
    return f"{count:,.0f} {what}{'' if math.isclose(count, 1) else 's'}"
