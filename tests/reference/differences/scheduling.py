# SPDX-License-Identifier: Apache-2.0
"""When requests run, and what is counted."""

from __future__ import annotations

from tests.reference.difference import Difference

SCHEDULING: tuple[Difference, ...] = (
    Difference(
        "when a batch is closed",
        "while the instance is still busy, at the first preferred size; later requests may be merged beyond that size",
        "when an instance is free, at the largest preferred size that the waiting requests give",
        "larger batches under load, and never another size while a preferred one is possible",
        # what Triton merges depends on the timing of its threads, so not every case differs in every run
        ("batching: preferred sizes: *", "batching: delay: twice a preferred size"),
    ),
    Difference(
        "a request that its client cancels while it waits",
        "runs nevertheless and counts as a success",
        "never runs; counts as a failure with reason CANCELED",
        "the device stays free for clients that still wait",
        ("batching: cancelled", "batching: cancelled, no batching"),
    ),
    Difference(
        "requests refused by a full queue or by the sequence batcher",
        "not counted",
        "count as failures in ModelStatistics, with reason REJECTED in the metric",
        "clients choose a server by the number of failures",
        ("batching: queue of two", "batching: a full level", "statistics: sequence, not started"),
    ),
    Difference(
        "an error that a python model returns as its response",
        "counts as a success",
        "counts as a failure with reason BACKEND",
        "clients choose a server by the number of failures",
        (
            "statistics: model: error_response", "statistics: model: error_code", "statistics: model: error_cancelled",
            "statistics: model: duplicate_output", "statistics: decoupled: an error between",
        ),
    ),
    Difference(
        "a run that fails (an exception, the wrong number of responses)",
        "counts in execution_count and batch_stats",
        "counts in neither",
        "its times are not those of the device",
        (
            "statistics: model: exception", "statistics: model: model_exception", "statistics: model: too_few",
            "statistics: model: too_many", "statistics: model: not_a_response",
        ),
    ),
    Difference(
        "a request to an ensemble whose step fails",
        "counts as two failures of the ensemble",
        "counts as one failure",
        "it is a single request",
        ("statistics: ensemble of a model: exception", "statistics: ensemble of a model: error_code"),
    ),
)  # fmt: skip
