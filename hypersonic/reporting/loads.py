# SPDX-License-Identifier: Apache-2.0
"""The figures of `hypersonic load` on the terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from hypersonic.client.load import Closed, LoadError, Point, Saturation, fit_saturation

#: the columns after the load's own, and those of the servers' means
_COLUMNS, _SERVER = ("requests/s", "rows/s", "p50 ms", "p90 ms", "p99 ms", "failed"), ("queue ms", "compute ms")


def title_of(model: str, points: Sequence[Point]) -> str:
    """Return the title of a table or picture: the model and the rows of a request."""
    rows = points[0].rows
    return f"{model}, {rows} row{'s' * (rows != 1)} a request"


def show_loads(model: str, points: Sequence[Point]) -> None:
    """Print a table with a line for each load, and the fit of the closed loops, on standard output."""
    console = Console(width=None if Console().is_terminal else 120)
    first = points[0].offer
    closed = isinstance(first, Closed)
    loop = "closed loop" if isinstance(first, Closed) else f"open loop, {first.arrivals} arrivals"
    table = Table(title=f"{title_of(model, points)}: {loop}", title_justify="left")
    told = any(point.server for point in points)
    noted = any(_note(point) for point in points)
    for name in ("concurrency" if closed else "offered/s", *_COLUMNS, *(_SERVER if told else ())):
        table.add_column(name, justify="right")
    if noted:
        table.add_column("")
    for point in points:
        table.add_row(*_cells(point), *(_server_cells(point) if told else ()), *([_note(point)] if noted else ()))
    console.print(table)
    if told:
        console.print("queue and compute: the servers' own means for all requests to the model", highlight=False)
    for line in describe_fit(fit_saturation(points), points):
        console.print(line, highlight=False)
    if (error := next((point.error for point in points if point.error), "")) != "":
        console.print(f"first failure: {error}", highlight=False, markup=False)


def describe_fit(law: Saturation | None, points: Sequence[Point]) -> list[str]:
    """Return the lines about the fit of closed loops, or about the rates that an open loop kept."""
    if law is not None:
        doubt = [f"note: {law.doubt}"] if law.doubt else []
        head = f"fit T = N / l = max(T0, N / l_max): unloaded latency T0 = {1e3 * law.unloaded_s:.3g} ms"
        if math.isinf(law.rate):
            most = max(point.offer.concurrency for point in points if isinstance(point.offer, Closed))
            return [f"{head}; no saturation up to concurrency {most}", *doubt]
        saturation = f"saturation rate l_max = {law.rate:,.4g} requests/s ({law.rate * points[0].rows:,.4g} rows/s)"
        return [f"{head},", f"  {saturation}, N* = {law.n_star:.3g}; the points deviate by {100 * law.residual:.2g} %", *doubt]
    if isinstance(points[0].offer, Closed):
        return []
    kept = [(point.offer.rate, point.rate) for point in points if point.kept and not isinstance(point.offer, Closed)]
    if not kept:
        return ["no rate was kept"]
    offered, answered = max(kept)
    return [f"highest rate that was kept: {offered:g} requests/s ({answered:,.4g} answered)"]


def refuse_without_answers(model: str, points: Sequence[Point]) -> None:
    """Raise LoadError if not a single request was answered."""
    if not any(point.answered for point in points):
        failed = sum(point.failed for point in points)
        why = next((point.error for point in points if point.error), "they took longer than the measurement")
        raise LoadError(f"no request to model {model!r} was answered, {failed} failed: {why}")


def _cells(point: Point) -> list[str]:
    offer, latency = point.offer, point.latency
    return [
        str(offer.concurrency) if isinstance(offer, Closed) else f"{offer.rate:g}",
        f"{point.rate:,.1f}",
        f"{point.rows_per_s:,.0f}",
        *(_ms(value) for value in (latency.p50, latency.p90, latency.p99)),
        str(point.failed),
    ]


def _server_cells(point: Point) -> tuple[str, str]:
    return (_ms(point.server.queue_ms), _ms(point.server.compute_ms)) if point.server else ("-", "-")


def _note(point: Point) -> str:
    if point.failed and not point.answered:
        return "all failed"
    return "" if point.kept else "not kept: backlog grows"


def _ms(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:,.2f}" if value < 100 else f"{value:,.0f}"
