# SPDX-License-Identifier: Apache-2.0
"""Metrics nv_inference_*, nv_cache_*, nv_model_*: Triton's names, types, texts and labels, present with value 0 from load."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from hypersonic.server.errors import FailureReason
from hypersonic.server.observe.facts import ModelFacts, Moment
from hypersonic.server.statistics.exposition import Family, Sample, histogram_samples, summary_samples
from hypersonic.server.statistics.histogram import Histogram, SlidingQuantiles
from hypersonic.server.statistics.latency import FIRST_RESPONSE, HISTOGRAMS, PHASES
from hypersonic.server.statistics.latency_options import MetricsConfig
from hypersonic.server.statistics.model import Snapshot

_COUNTS: tuple[tuple[str, str, Callable[[Snapshot], float]], ...] = (
    ("count", "Number of inferences performed (does not include cached requests)", lambda s: s.inference_count),
    ("exec_count", "Number of model executions performed (does not include cached requests)", lambda s: s.execution_count),
)
#: cumulative durations in microseconds, in the order of PHASES
_DURATIONS: tuple[tuple[str, str, Callable[[Snapshot], int]], ...] = (
    ("request", "Cumulative inference request duration in microseconds (includes cached requests)", lambda s: s.success.ns),
    ("queue", "Cumulative inference queuing duration in microseconds (includes cached requests)", lambda s: s.queue.ns),
    (
        "compute_input",
        "Cumulative compute input duration in microseconds (does not include cached requests)",
        lambda s: s.compute_input.ns,
    ),
    (
        "compute_infer",
        "Cumulative compute inference duration in microseconds (does not include cached requests)",
        lambda s: s.compute_infer.ns,
    ),
    (
        "compute_output",
        "Cumulative inference compute output duration in microseconds (does not include cached requests)",
        lambda s: s.compute_output.ns,
    ),
)
_SUMMARY_HELP = {
    **{phase: text for phase, text, _ in _DURATIONS},
    "request": "Summary of inference request duration in microseconds (includes cached requests)",
    "queue": "Summary of inference queuing duration in microseconds (includes cached requests)",
}
_CACHE = (
    ("nv_cache_num_hits_per_model", "Number of cache hits per model"),
    ("nv_cache_hit_duration_per_model", "Total cache hit duration per model, in microseconds"),
    ("nv_cache_num_misses_per_model", "Number of cache misses per model"),
    ("nv_cache_miss_duration_per_model", "Total cache miss (insert+lookup) duration per model, in microseconds"),
)


def inference_families(moment: Moment, config: MetricsConfig) -> Iterator[Family]:
    """Yield all families of the models, in Triton's order."""
    models = moment.models
    yield from _requests(models)
    for name, text, value in _COUNTS:
        yield _per_model(f"nv_inference_{name}", "counter", text, models, value)
    if config.counter_latencies:
        for phase, text, ns in _DURATIONS:
            yield _per_model(f"nv_inference_{phase}_duration_us", "counter", text, models, lambda s, ns=ns: ns(s) // 1000)  # type: ignore[misc]
    for name, text in _CACHE:  # nothing is cached: 0 for the models that enable the cache
        yield Family(name, "counter", text, [Sample(m.device_labels, 0) for m in models if m.response_cache])
    yield from _states(models)
    yield from _histograms(models)
    yield from _summaries(moment, config)


def _per_model(name: str, kind: str, text: str, models: Sequence[ModelFacts], value: Callable[[Snapshot], float]) -> Family:
    return Family(name, kind, text, [Sample(model.device_labels, value(model.figures)) for model in models])


def _requests(models: Sequence[ModelFacts]) -> Iterator[Family]:
    success = "Number of successful inference requests, all batch sizes"
    yield _per_model("nv_inference_request_success", "counter", success, models, lambda s: s.success.count)
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


def _states(models: Sequence[ModelFacts]) -> Iterator[Family]:
    yield Family(
        "nv_inference_pending_request_count",
        "gauge",
        "Instantaneous number of pending requests awaiting execution per-model.",
        [Sample(model.labels, model.waiting) for model in models],
    )
    loads = [Sample(model.labels, model.load_duration_s) for model in models]
    yield Family("nv_model_load_duration_secs", "gauge", "Model load time in seconds", loads)


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
    for index, phase in enumerate(PHASES):
        samples = [
            sample
            for model in moment.models
            if model.figures.latencies.summaries
            for sample in _summary(model, model.figures.latencies.summaries[index], config, moment.at_ns)
        ]
        yield Family(f"nv_inference_{phase}_summary_us", "summary", _SUMMARY_HELP[phase], samples)


def _summary(model: ModelFacts, summary: SlidingQuantiles, config: MetricsConfig, now_ns: int) -> Iterator[Sample]:
    quantiles = {q: ns / 1000 for q, ns in summary.quantiles(config.quantiles, now_ns).items()}
    return summary_samples(model.device_labels, quantiles, summary.count, summary.total_ns // 1000)
