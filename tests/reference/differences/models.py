# SPDX-License-Identifier: Apache-2.0
"""The python backend, ensembles, sequences, decoupled models."""

from __future__ import annotations

from tests.reference.difference import Difference

MODELS: tuple[Difference, ...] = (
    Difference(
        "tracebacks of python models",
        "absolute paths",
        "paths from the repository on",
        "the server's directories are nobody's business (CVE-2026-24147)",
        (
            "model: exception", "model: model_exception", "ensemble of a model: exception", "stream with a failing model",
        ),
    ),
    Difference(
        "a python model that gives an output twice",
        "a broken answer",
        "INTERNAL: the response has an output twice",
        "the client could not read it",
        ("model: duplicate_output",),
    ),
    Difference(
        "ensembles' response parameters",
        "sequence_id 0, sequence_start and sequence_end false, though there is no sequence",
        "none",
        "they say nothing",
        (
            "ensemble of a model: nothing_wrong", "ensemble, one output", "ensemble of another step of a sequence",
        ),
    ),
    Difference(
        "an ensemble asked for its first step's output only",
        "INVALID_ARGUMENT: unexpected deadlock",
        "the output",
        "the output is there",
        ("ensemble, first step's output",),
    ),
    Difference(
        "an ensemble's configuration",
        "an empty model_transaction_policy is added",
        "as config.pbtxt has it",
        "means the same",
        ("config of chain", "config of failing_chain", "HTTP GET /v2/models/chain/config"),
    ),
    Difference(
        "refusals of the sequence batcher",
        "without the request's id",
        "with it",
        "an operator finds the request",
        (
            "direct: not started", "direct: after its end", "direct: no id", "direct: id zero", "direct: an empty text as id",
            "direct: two rows", "direct: request's id", "oldest: not started", "oldest: after its end", "oldest: no id",
            "oldest: id zero", "oldest: an empty text as id", "oldest: two rows", "oldest: request's id",
            "stream of a sequence, not started", "HTTP a sequence, not started",
        ),
    ),
    Difference(
        "a text as sequence_id for a CORRID control of an integer type",
        "the text's bytes in place of the integer",
        "INVALID_ARGUMENT",
        "the model would read garbage",
        ("direct: a text as id", "oldest: a text as id"),
    ),
)  # fmt: skip
