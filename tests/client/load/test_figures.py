# SPDX-License-Identifier: Apache-2.0
"""The figures of a load from the times of its requests, and the CSV file."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import pytest

from hypersonic.client.load import Closed, LoadError, Open, Point, ServerMeans, write_points
from hypersonic.client.load.point import Latency, backlog_grows, of_closed, of_open
from hypersonic.client.load.recorder import Sample
from hypersonic.client.load.table import COLUMNS

MS = 1_000_000


def answered(due_ms: float, end_ms: float, sent_ms: float | None = None, error: str = "") -> Sample:
    return Sample(round(due_ms * MS), round((due_ms if sent_ms is None else sent_ms) * MS), round(end_ms * MS), error)


def test_a_closed_loop_counts_what_ended_in_the_window() -> None:
    samples = [answered(0, 100), answered(50, 200), answered(150, 300, error="lost"), answered(200, 400), answered(300, 500)]
    point = of_closed(Closed(2), 5, samples, (100 * MS, 400 * MS))
    assert (point.answered, point.failed, point.error) == (2, 1, "lost")
    assert (point.seconds, point.rate, point.rows_per_s) == pytest.approx((0.3, 2 / 0.3, 10 / 0.3))
    assert (point.latency.mean, point.latency.p50) == pytest.approx((175, 175))
    assert point.period_s == pytest.approx(2 * 0.3 / 3)


def test_a_window_of_requests_ends_with_the_last_of_them() -> None:
    samples = [answered(100 * n, 100 * n + 100) for n in range(10)]
    point = of_closed(Closed(1), 1, samples, (200 * MS, 900 * MS), requests=4)
    assert (point.answered, point.seconds, point.rate) == pytest.approx((4, 0.4, 10))


def test_latency_counts_from_when_a_request_was_due_so_a_late_sender_is_not_hidden() -> None:
    """The sender stands still for 400 ms: the server answers in 10 ms, but the clients' requests were due before."""
    samples = [answered(100 * n, max(100 * n, 500) + 10, sent_ms=max(100 * n, 500)) for n in range(10)]
    point = of_open(Open(10, "constant"), 1, samples, (0, 1000 * MS))
    assert (point.answered, point.kept) == (10, True)
    assert point.latency.p50 == pytest.approx((10 + 110) / 2)
    assert point.latency.p99 > 400
    assert point.late_p99_ms > 400


@pytest.mark.parametrize(("service_ms", "grows"), [(9, False), (10, False), (12, True), (20, True)])
def test_a_backlog_grows_if_the_service_is_slower_than_the_arrivals(service_ms: float, grows: bool) -> None:
    """Every 10 ms a request for one server."""
    free, samples = 0.0, []
    for due in range(0, 10_000, 10):
        free = max(free, due) + service_ms
        samples.append(answered(due, free))
    assert backlog_grows(samples, (0, 10_000 * MS)) is grows
    point = of_open(Open(100, "constant"), 1, samples, (0, 10_000 * MS))
    assert point.kept is not grows
    assert point.rate == pytest.approx(min(100, 1000 / service_ms), rel=0.01)


def test_a_load_that_was_given_up_is_measured_up_to_there() -> None:
    samples = [answered(due, due + 5000) for due in range(0, 1000, 10)]
    point = of_open(Open(100, "constant"), 1, samples, (500 * MS, 9000 * MS), gave_up=True)
    assert (point.kept, point.answered) == (False, 50)
    assert point.seconds == pytest.approx(0.49)


def test_no_answer_is_no_rate_and_no_latency() -> None:
    point = of_closed(Closed(3), 1, [], (0, MS))
    assert (point.answered, point.rate) == (0, 0.0)
    assert math.isnan(point.latency.p99)
    assert math.isnan(point.period_s)


def test_the_csv_file_has_a_line_for_each_load_and_empty_cells_where_a_column_does_not_apply(tmp_path: Path) -> None:
    latency = Latency(1.5, 1.0, 2.0, 3.0)
    closed = Point(Closed(4), 8, 2.0, 100, 1, 50.0, latency, ServerMeans(101, 25, 0.25, 0.5))
    lost = Point(Open(70.5), 8, 2.0, 0, 3, 0.0, Latency(), kept=False, late_p99_ms=0.125, error="x")
    write_points([closed, lost], tmp_path / "load.csv")
    with (tmp_path / "load.csv").open(newline="") as file:
        first, second = csv.DictReader(file)
    assert tuple(first) == COLUMNS
    assert first == {
        "loop": "closed", "concurrency": "4", "offered_per_s": "", "arrivals": "", "rows": "8", "seconds": "2",
        "answered": "100", "failed": "1", "requests_per_s": "50", "rows_per_s": "400", "mean_ms": "1.5", "p50_ms": "1",
        "p90_ms": "2", "p99_ms": "3", "late_p99_ms": "", "server_requests": "101", "server_executions": "25",
        "server_queue_ms": "0.25", "server_compute_ms": "0.5", "rate_kept": "",
    }  # fmt: skip
    empty = {name for name, cell in second.items() if not cell}
    assert empty == {"concurrency", "mean_ms", "p50_ms", "p90_ms", "p99_ms", *(c for c in COLUMNS if c.startswith("server_"))}
    assert (second["arrivals"], second["offered_per_s"], second["rate_kept"]) == ("poisson", "70.5", "no")


def test_a_csv_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match=r"cannot write .*nowhere/load\.csv: No such file"):
        write_points([], tmp_path / "nowhere" / "load.csv")
