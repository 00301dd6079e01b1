# SPDX-License-Identifier: Apache-2.0
"""The figures of loads as a CSV file, one line for each load."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

from hypersonic.client.load.errors import LoadError
from hypersonic.client.load.offer import Closed
from hypersonic.client.load.point import Point

#: the columns; those that do not apply to a load are empty
COLUMNS = (
    "loop", "concurrency", "offered_per_s", "arrivals", "rows", "seconds", "answered", "failed", "requests_per_s", "rows_per_s",
    "mean_ms", "p50_ms", "p90_ms", "p99_ms", "late_p99_ms", "server_requests", "server_executions", "server_queue_ms",
    "server_compute_ms", "rate_kept",
)  # fmt: skip


class CsvWriter:
    """Writes a line as soon as a load was measured, so that an interrupted measurement leaves a valid file."""

    def __init__(self, path: Path) -> None:
        """Create the file with its head line. Raises LoadError if it cannot be written."""
        try:
            self._file = path.open("w", newline="")
        except OSError as error:
            raise LoadError(f"cannot write {path}: {error.strerror}") from error
        self._writer = csv.DictWriter(self._file, COLUMNS)
        self._writer.writeheader()

    def write(self, point: Point) -> None:
        """Add a line."""
        self._writer.writerow(line_of(point))
        self._file.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._file.close()


def write_points(points: Iterable[Point], path: Path) -> None:
    """Write all points into a new file."""
    with CsvWriter(path) as writer:
        for point in points:
            writer.write(point)


def line_of(point: Point) -> dict[str, str]:
    """Return a point's cells by column."""
    offer, latency, server = point.offer, point.latency, point.server
    closed = isinstance(offer, Closed)
    cells: dict[str, object] = {
        "loop": "closed" if closed else "open",
        "rows": point.rows,
        "seconds": _number(point.seconds),
        "answered": point.answered,
        "failed": point.failed,
        "requests_per_s": _number(point.rate),
        "rows_per_s": _number(point.rows_per_s),
        "mean_ms": _number(latency.mean),
        "p50_ms": _number(latency.p50),
        "p90_ms": _number(latency.p90),
        "p99_ms": _number(latency.p99),
    }
    if isinstance(offer, Closed):
        cells["concurrency"] = offer.concurrency
    else:
        cells |= {"offered_per_s": f"{offer.rate:g}", "arrivals": offer.arrivals, "late_p99_ms": _number(point.late_p99_ms)}
        cells["rate_kept"] = "yes" if point.kept else "no"
    if server is not None:
        cells |= {"server_requests": server.requests, "server_executions": server.executions}
        cells |= {"server_queue_ms": _number(server.queue_ms), "server_compute_ms": _number(server.compute_ms)}
    return {name: str(cells.get(name, "")) for name in COLUMNS}


def _number(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.6g}"
