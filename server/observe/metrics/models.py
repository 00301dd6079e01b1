# SPDX-License-Identifier: Apache-2.0
"""Metrics nv_inference_*, nv_cache_*, nv_model_*: Triton's names, types, texts and labels, present with value 0 from load."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hypersonic.server.errors import FailureReason
from hypersonic.server.observe.facts import ModelFacts, Moment
from hypersonic.server.statistics.exposition import Family, Row, Sample, families, histogram_samples, summary_samples
from hypersonic.server.statistics.histogram import Histogram, SlidingQuantiles
from hypersonic.server.statistics.latency import FIRST_RESPONSE, HISTOGRAMS, PHASES
from hypersonic.server.statistics.latency_options import MetricsConfig

_SUCCESS = "Number of successful inference requests, all batch sizes"
_SUCCESSES: tuple[Row[ModelFacts], ...] = (
    ("nv_inference_request_success", "counter", _SUCCESS, lambda model: model.figures.success.count),
)
_COUNT = "Number of inferences performed (does not include cached requests)"
_EXEC_COUNT = "Number of model executions performed (does not include cached requests)"
_COUNTS: tuple[Row[ModelFacts], ...] = (
    ("nv_inference_count", "counter", _COUNT, lambda model: model.figures.inference_count),
    ("nv_inference_exec_count", "counter", _EXEC_COUNT, lambda model: model.figures.execution_count),
)
_PENDING = "Instantaneous number of pending requests awaiting execution per-model."
_STATES: tuple[Row[ModelFacts], ...] = (
    ("nv_inference_pending_request_count", "gauge", _PENDING, lambda model: model.waiting),
    ("nv_model_load_duration_secs", "gauge", "Model load time in seconds", lambda model: model.load_duration_s),
)
#: in the order of PHASES: Triton's name, whether cached requests are included, and the attribute of a snapshot
_DURATIONS = (
    ("inference request", True, "success"),
    ("inference queuing", True, "queue"),
    ("compute input", False, "compute_input"),
    ("compute inference", False, "compute_infer"),
    ("inference compute output", False, "compute_output"),
)
_CACHE = (
    ("nv_cache_num_hits_per_model", "Number of cache hits per model"),
    ("nv_cache_hit_duration_per_model", "Total cache hit duration per model, in microseconds"),
    ("nv_cache_num_misses_per_model", "Number of cache misses per model"),
    ("nv_cache_miss_duration_per_model", "Total cache miss (insert+lookup) duration per model, in microseconds"),
)


def inference_families(moment: Moment, config: MetricsConfig) -> Iterator[Family]:
    """Yield all families of the models, in Triton's order."""
    models = moment.models
    yield from families(_SUCCESSES, models, _labels)
    yield Family(
        "nv_inference_request_failure",
        "counter",
        "Number of failed inference requests, all batch sizes",
        [
            Sample({**model.device_labels, "reason": str(reason)}, model.figures.failures[reason].count)
            for model in models
            for reason in FailureReason
        ],
    )
    yield from families(_COUNTS, models, _labels)
    if config.counter_latencies:
        for phase, (what, cached, attribute) in zip(PHASES, _DURATIONS, strict=True):
            samples = [Sample(model.device_labels, getattr(model.figures, attribute).ns // 1000) for model in models]
            yield Family(f"nv_inference_{phase}_duration_us", "counter", _duration_help("Cumulative", what, cached), samples)
    for name, text in _CACHE:  # nothing is cached: 0 for the models that enable the cache
        yield Family(name, "counter", text, [Sample(m.device_labels, 0) for m in models if m.response_cache])
    yield from families(_STATES, models, lambda model: model.labels)
    yield from _histograms(models)
    yield from _summaries(moment, config)


def _labels(model: ModelFacts) -> dict[str, str]:
    return model.device_labels


def _duration_help(kind: str, what: str, cached: bool) -> str:
    """Return Triton's text of a duration.

    Args:
        cached: whether requests that were answered from a cache are included.
    """
    return f"{kind} {what} duration in microseconds ({'includes' if cached else 'does not include'} cached requests)"


def _histograms(models: Sequence[ModelFacts]) -> Iterator[Family]:
    for index, (phase, name) in enumerate(HISTOGRAMS.items()):
        samples = [
            sample
            for model in models
            if model.figures.latencies.histograms
            for sample in _histogram(model, model.figures.latencies.histograms[index], 1000)
        ]
        yield Family(name, "histogram", f"Histogram of {phase.replace('_', ' ')} duration in microseconds", samples)
    first = [
        sample
        for model in models
        if model.figures.latencies.first_response is not None
        for sample in _histogram(model, model.figures.latencies.first_response, 1_000_000)
    ]
    yield Family(FIRST_RESPONSE, "histogram", "Duration from request to first response in milliseconds", first)


def _histogram(model: ModelFacts, histogram: Histogram, unit_ns: int) -> Iterator[Sample]:
    bounds = [bound / unit_ns for bound in histogram.bounds_ns]
    return histogram_samples(model.device_labels, bounds, histogram.counts, histogram.total_ns / unit_ns)


def _summaries(moment: Moment, config: MetricsConfig) -> Iterator[Family]:
    for index, (phase, (what, cached, _)) in enumerate(zip(PHASES, _DURATIONS, strict=True)):
        samples = [
            sample
            for model in moment.models
            if model.figures.latencies.summaries
            for sample in _summary(model, model.figures.latencies.summaries[index], config, moment.at_ns)
        ]
        text = _duration_help("Summary of" if cached else "Cumulative", what, cached)
        yield Family(f"nv_inference_{phase}_summary_us", "summary", text, samples)


def _summary(model: ModelFacts, summary: SlidingQuantiles, config: MetricsConfig, now_ns: int) -> Iterator[Sample]:
    quantiles = {q: ns / 1000 for q, ns in summary.quantiles(config.quantiles, now_ns).items()}
    return summary_samples(model.device_labels, quantiles, summary.count, summary.total_ns // 1000)
