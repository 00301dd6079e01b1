# SPDX-License-Identifier: Apache-2.0
"""At 1.5 times saturation, servers behind Envoy answer as much as they can, and the metric for scaling fires in time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench.overload import FIRES, Experiment, run

pytestmark = pytest.mark.whole("client", "deploy/envoy", "server", "tests/deploy/envoy")


def test_goodput_stays_retries_do_not_multiply_and_the_metric_fires_before_p99_doubles(
    record_property: Callable[[str, object], None],
) -> None:
    report = run(Experiment(seconds=10, step_s=3, run_ms=600, ramp=(0.3, 0.7, 0.85, 0.95, 1.1)))
    record_property(
        "noteworthy",
        f"goodput {report.goodput:.0%} of {report.saturation_per_s}/s, {report.overload.sent_per_request} sent and "
        f"{report.overload.attempts_per_request} attempts per request; of 400 jobs {report.goodput_of_jobs:.0%}, "
        f"{report.jobs.attempts_per_request} attempts; busy above {FIRES} from load {report.metric_at}, "
        f"p99 doubled from load {report.p99_doubled_at}",
    )
    loads = (*report.ramp, report.overload, report.jobs)
    assert [each.wrong for each in loads] == [0] * len(loads)
    assert report.unretried == 0, "the retry budget takes part, and this is to show that nothing depends on it"
    assert report.ejections == 0, "the servers were full, and not broken"
    # both halves of the ratio are measured, on a machine that may do other work
    assert min(report.goodput, report.goodput_of_jobs) > 0.9, report
    for overload in (report.overload, report.jobs):
        assert 1 <= overload.sent_per_request < 1.5, report
        assert overload.attempts_per_request < 4, report  # most of them are refused at once
    assert report.metric_at <= report.p99_doubled_at, report
    refusing = [each for each in report.ramp if each.attempts_per_request > 1.1]
    assert all(each.busy > FIRES for each in refusing), report
    assert min(report.overload.busy, report.jobs.busy) > FIRES, report
