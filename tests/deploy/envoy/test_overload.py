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
        f"{report.overload.attempts_per_request} attempts per request, busy above {FIRES} from load {report.metric_at}, "
        f"p99 doubled from load {report.p99_doubled_at}",
    )
    assert [each.wrong for each in (*report.ramp, report.overload)] == [0] * (len(report.ramp) + 1)
    assert report.goodput > 0.9, report  # both halves of the ratio are measured, on a machine that may do other work
    assert 1 <= report.overload.sent_per_request < 1.5, report
    assert report.overload.attempts_per_request < 3, report  # most of them are refused at once
    assert report.metric_at <= report.p99_doubled_at, report
    refusing = [each for each in report.ramp if each.attempts_per_request > 1.1]
    assert all(each.busy > FIRES for each in refusing), report
    assert report.overload.busy > FIRES, report
