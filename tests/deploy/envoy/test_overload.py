# SPDX-License-Identifier: Apache-2.0
"""At 1.5 times saturation, servers behind Envoy answer as much as they can, and the metric for scaling fires in time."""

from __future__ import annotations

from collections.abc import Callable

from bench.overload import run


def test_goodput_stays_retries_do_not_multiply_and_the_metric_fires_before_requests_are_refused(
    record_property: Callable[[str, object], None],
) -> None:
    report = run(seconds=10, step_s=2, run_ms=40, deadline_s=5)
    record_property(
        "noteworthy",
        f"goodput {report.goodput:.0%} of {report.saturation_per_s}/s, {report.overload.attempts_per_request} attempts per "
        f"request, busy above 0.8 from load {report.metric_at}, p99 doubled from load {report.p99_doubled_at}, the busy "
        f"share being at most {report.busy_before_doubling} before that",
    )
    assert [each.wrong for each in (*report.ramp, report.overload)] == [0] * (len(report.ramp) + 1)
    assert report.goodput > 0.9, report  # both halves of the ratio are measured, on a machine that may do other work
    assert report.overload.attempts_per_request < 2, report
    refusing = [each for each in report.ramp if each.attempts_per_request > 1.1]
    assert all(each.busy > 0.8 for each in refusing), report
    assert report.overload.busy > 0.8, report
