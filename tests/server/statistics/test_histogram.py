# SPDX-License-Identifier: Apache-2.0
"""Buckets, quantiles and rates, against counting by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tritonclient.grpc import model_config_pb2

from hypersonic.server.errors import StartError
from hypersonic.server.observe.window import Reading, ReadingsWindow
from hypersonic.server.statistics.duration import copied
from hypersonic.server.statistics.histogram import Histogram, SlidingQuantiles
from hypersonic.server.statistics.latency import FIRST_RESPONSE, HISTOGRAMS
from hypersonic.server.statistics.latency_options import MetricsConfig, make_latencies

SECOND = 1_000_000_000


def test_bounds_of_buckets_are_inclusive_as_prometheus_has_them() -> None:
    histogram = Histogram((10, 100))
    for ns in (0, 10, 11, 100, 101, 10**12):
        histogram.add(ns)
    assert histogram.counts == [2, 2, 2]
    assert histogram.total_ns == 10**12 + 222


def test_a_copy_does_not_follow_the_original() -> None:
    histogram, sliding = Histogram((10,)), SlidingQuantiles()
    before, earlier = copied((histogram, sliding))
    histogram.add(1)
    sliding.add(5, SECOND)
    assert (before.counts, before.total_ns, earlier.count) == ([0, 0], 0, 0)
    assert math.isnan(earlier.quantiles([0.5], SECOND)[0.5])


@pytest.mark.parametrize("seed", range(3))
def test_quantiles_are_within_one_per_cent_of_the_observation_of_that_rank(seed: int) -> None:
    observed = np.random.default_rng(seed).lognormal(13, 2, 5000).astype(int) + 1
    sliding = SlidingQuantiles()
    for ns in observed.tolist():
        sliding.add(ns, SECOND)
    wanted = (0.0, 0.5, 0.9, 0.99, 0.999, 1.0)
    for quantile, value in sliding.quantiles(wanted, SECOND).items():
        exact = np.quantile(observed, quantile, method="lower")
        assert abs(value - exact) <= 0.0101 * exact
    assert (sliding.count, sliding.total_ns) == (5000, observed.sum())


def test_quantiles_forget_what_is_older_than_their_window_and_sums_do_not() -> None:
    sliding = SlidingQuantiles(window_s=60, slices=5)
    sliding.add(1000, SECOND)
    sliding.add(5_000_000, 50 * SECOND)
    assert sliding.quantiles([0.0], 55 * SECOND)[0.0] == pytest.approx(1000, rel=0.011)
    assert sliding.quantiles([0.0], 80 * SECOND)[0.0] == pytest.approx(5_000_000, rel=0.011)
    assert math.isnan(sliding.quantiles([0.5], 500 * SECOND)[0.5])
    assert (sliding.count, sliding.total_ns) == (2, 5_001_000)


def test_a_rate_is_that_between_readings_at_least_an_interval_apart() -> None:
    window = ReadingsWindow(2 * SECOND, Reading(0, {"a": 0}))
    assert window.rates(Reading(SECOND, {"a": 10})) == {"a": 10.0}
    assert window.rates(Reading(4 * SECOND, {"a": 40, "new": 5})) == {"a": 10.0, "new": 1.25}  # a new one began at 0
    assert window.rates(Reading(5 * SECOND, {"a": 40, "new": 5})) == {"a": 8.0, "new": 1.0}
    assert window.rates(Reading(6 * SECOND, {"a": 40, "new": 7})) == {"a": 0.0, "new": 1.0}


def test_a_counter_that_fell_and_a_reading_that_is_too_old_give_no_rate() -> None:
    window = ReadingsWindow(SECOND, Reading(0, {"a": 5}), forget_ns=30 * SECOND)
    assert window.rates(Reading(10 * SECOND, {"a": 0})) == {"a": 0.0}
    assert window.rates(Reading(100 * SECOND, {"a": 50})) == {}
    assert window.rates(Reading(102 * SECOND, {"a": 60})) == {"a": 5.0}


def message(text: str = "") -> model_config_pb2.ModelConfig:
    from google.protobuf import text_format

    return text_format.Parse(text, model_config_pb2.ModelConfig())


def test_latencies_are_kept_as_asked_for() -> None:
    plain = make_latencies(MetricsConfig(), message())
    plain.add((60_000, 1, 2, 3, 4), SECOND)
    assert [sum(histogram.counts) for histogram in plain.histograms] == [1] * len(HISTOGRAMS)
    assert plain.histograms[0].counts[:3] == [0, 1, 0]  # 50 us < 60 us <= 100 us
    assert (plain.summaries, plain.first_response) == ((), None)
    assert (plain.histograms[0].bounds_ns[0], plain.histograms[0].bounds_ns[-1]) == (50_000, 10 * SECOND)
    off = make_latencies(MetricsConfig.of(["histogram_latencies=false", "summary_latencies=true"]), message())
    assert (off.histograms, len(off.summaries)) == ((), 5)


def test_a_decoupled_model_has_the_histogram_of_first_responses() -> None:
    latencies = make_latencies(MetricsConfig(), message("model_transaction_policy { decoupled: true }"))
    latencies.add_first_response(600_000_000)
    assert latencies.first_response is not None
    assert latencies.first_response.counts == [0, 0, 1, 0, 0]


def test_a_model_may_set_its_own_buckets() -> None:
    control = 'metric_control { metric_identifier { family: "%s" } histogram_options { buckets: [ %s ] } }'
    text = "model_metrics { " + control % (HISTOGRAMS["queue"], "5, 1") + control % (FIRST_RESPONSE, "") + " }"
    latencies = make_latencies(MetricsConfig(), message(text))
    assert latencies.histograms[1].bounds_ns == (1000, 5000)
    assert len(latencies.histograms[0].bounds_ns) > 10


def test_quantiles_of_summaries_are_read_as_triton_writes_them() -> None:
    assert MetricsConfig.of(["summary_quantiles=0.5:0.05,0.99:0.001"]).quantiles == (0.5, 0.99)


@pytest.mark.parametrize(
    "text", ["foo", "foo=true", "summary_latencies=maybe", "summary_quantiles=2:0.1", "summary_quantiles=x"]
)
def test_an_unknown_metrics_setting_is_refused_with_what_there_is(text: str) -> None:
    with pytest.raises(StartError, match="summary_latencies=true"):
        MetricsConfig.of([text])
