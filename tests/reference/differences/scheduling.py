# SPDX-License-Identifier: Apache-2.0
"""When requests run, and what is counted."""

from __future__ import annotations

from tests.reference.difference import Difference

SCHEDULING: tuple[Difference, ...] = (
    Difference(
        "when a batch is closed",
        "the next one while the instance is still busy, at the first preferred size; what then waits may be merged past it",
        "when an instance is free: the largest preferred size that is there",
        "larger batches under load, and never a size that is not preferred while a preferred one can be had",
        # what Triton merges hangs on how its threads meet: not each of them differs each time
        ("batching: preferred sizes: *", "batching: delay: twice a preferred size"),
    ),
    Difference(
        "a request that its client takes back while it waits",
        "runs all the same, counts as success",
        "never runs; fail, reason CANCELED",
        "the device is for those who still wait",
        ("batching: cancelled", "batching: cancelled, no batching"),
    ),
    Difference(
        "requests that a full queue or the sequence batcher refuses",
        "counted nowhere",
        "fail in ModelStatistics, reason REJECTED in the metric",
        "clients choose a server by it",
        ("batching: queue of two", "batching: a full level", "statistics: sequence, not started"),
    ),
    Difference(
        "an error that a python model gives as its response",
        "success",
        "fail, reason BACKEND",
        "clients choose a server by it",
        (
            "statistics: model: error_response", "statistics: model: error_code", "statistics: model: error_cancelled",
            "statistics: model: duplicate_output", "statistics: decoupled: an error between",
        ),
    ),
    Difference(
        "a run that fails (an exception, the wrong number of responses)",
        "one more in execution_count and batch_stats",
        "in neither",
        "its times are none of the device",
        (
            "statistics: model: exception", "statistics: model: model_exception", "statistics: model: too_few",
            "statistics: model: too_many", "statistics: model: not_a_response",
        ),
    ),
    Difference(
        "an ensemble one of whose steps fails",
        "counts as two failures of the ensemble",
        "as one",
        "it is one request",
        ("statistics: ensemble of a model: exception", "statistics: ensemble of a model: error_code"),
    ),
)  # fmt: skip
