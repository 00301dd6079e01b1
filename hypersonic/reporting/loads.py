# SPDX-License-Identifier: Apache-2.0
"""The figures of `hypersonic load` on the terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from hypersonic.client.load import Closed, LoadError, Point, Saturation, fit_saturation

#: the columns after the load's own
_COLUMNS = ("requests/s", "rows/s", "p50 ms", "p90 ms", "p99 ms", "failed", "queue ms", "compute ms", "")


def show_loads(model: str, points: Sequence[Point]) -> None:
    """Print a table with a line for each load, and the fit of the closed loops, on standard output."""
    console = Console(width=None if Console().is_terminal else 120)
    first = points[0].offer
    closed = isinstance(first, Closed)
    loop = "closed loop" if isinstance(first, Closed) else f"open loop, {first.arrivals} arrivals"
    table = Table(title=f"{model}, {points[0].rows} rows a request: {loop}", title_justify="left")
    for name in ("concurrency" if closed else "offered/s", *_COLUMNS):
        table.add_column(name, justify="right" if name else "left")
    for point in points:
        table.add_row(*_cells(point))
    console.print(table)
    if any(point.server for point in points):
        console.print("queue and compute: the servers' own means for all requests to the model", highlight=False)
    for line in describe_fit(fit_saturation(points), points):
        console.print(line, highlight=False)
    if (error := next((point.error for point in points if point.error), "")) != "":
        console.print(f"first failure: {error}", highlight=False, markup=False)


def describe_fit(law: Saturation | None, points: Sequence[Point]) -> list[str]:
    """Return the lines about the fit of closed loops, or about the rates that an open loop kept."""
    if law is not None:
        head = f"fit T = N / l = max(T0, N / l_max): unloaded latency T0 = {1e3 * law.unloaded_s:.3g} ms"
        if math.isinf(law.rate):
            most = max(point.offer.concurrency for point in points if isinstance(point.offer, Closed))
            return [f"{head}; no saturation up to concurrency {most}"]
        saturation = f"saturation rate l_max = {law.rate:,.4g} requests/s ({law.rate * points[0].rows:,.4g} rows/s)"
        return [f"{head},", f"  {saturation}, N* = {law.n_star:.3g}; the points deviate by {100 * law.residual:.2g} %"]
    if isinstance(points[0].offer, Closed):
        return []
    kept = [point.offer.rate for point in points if point.kept and not isinstance(point.offer, Closed)]
    return [f"highest rate that was kept: {max(kept):g} requests/s" if kept else "no rate was kept"]


def refuse_without_answers(model: str, points: Sequence[Point]) -> None:
    """Raise LoadError if not a single request was answered."""
    if not any(point.answered for point in points):
        failed = sum(point.failed for point in points)
        why = next((point.error for point in points if point.error), "they took longer than the measurement")
        raise LoadError(f"no request to model {model!r} was answered, {failed} failed: {why}")


def _cells(point: Point) -> list[str]:
    offer, latency, server = point.offer, point.latency, point.server
    note = "" if point.kept else "rate not kept: the backlog grows"
    if point.failed and not point.answered:
        note = "all failed"
    return [
        str(offer.concurrency) if isinstance(offer, Closed) else f"{offer.rate:g}",
        f"{point.rate:,.1f}",
        f"{point.rows_per_s:,.0f}",
        *(_ms(value) for value in (latency.p50, latency.p90, latency.p99)),
        str(point.failed),
        _ms(server.queue_ms if server else math.nan),
        _ms(server.compute_ms if server else math.nan),
        note,
    ]


def _ms(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:,.2f}" if value < 100 else f"{value:,.0f}"
