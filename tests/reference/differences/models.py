# SPDX-License-Identifier: Apache-2.0
"""The python backend, ensembles, sequences, decoupled models."""

from __future__ import annotations

from tests.reference.difference import Difference

MODELS: tuple[Difference, ...] = (
    Difference(
        "tracebacks of python models",
        "absolute paths",
        "paths relative to the repository",
        "clients must not learn the server's directories (CVE-2026-24147)",
        (
            "model: exception", "model: model_exception", "ensemble of a model: exception", "stream with a failing model",
        ),
    ),
    Difference(
        "a python model that returns an output twice",
        "an invalid answer",
        "INTERNAL: the response has an output twice",
        "clients cannot read the invalid answer",
        ("model: duplicate_output",),
    ),
    Difference(
        "response parameters of ensembles",
        "sequence_id 0, sequence_start and sequence_end false, although there is no sequence",
        "none",
        "they carry no information",
        (
            "ensemble of a model: nothing_wrong", "ensemble, one output", "ensemble of another step of a sequence",
        ),
    ),
    Difference(
        "a request for only the output of an ensemble's first step",
        "INVALID_ARGUMENT: unexpected deadlock",
        "the output",
        "the output is available",
        ("ensemble, first step's output",),
    ),
    Difference(
        "the configuration of an ensemble",
        "an empty model_transaction_policy is added",
        "as in config.pbtxt",
        "both mean the same",
        ("config of chain", "config of failing_chain", "HTTP GET /v2/models/chain/config"),
    ),
    Difference(
        "errors of the sequence batcher",
        "without the request's id",
        "with the request's id",
        "an operator can find the request",
        (
            "direct: not started", "direct: after its end", "direct: no id", "direct: id zero", "direct: an empty text as id",
            "direct: two rows", "direct: request's id", "oldest: not started", "oldest: after its end", "oldest: no id",
            "oldest: id zero", "oldest: an empty text as id", "oldest: two rows", "oldest: request's id",
            "stream of a sequence, not started", "HTTP a sequence, not started",
        ),
    ),
    Difference(
        "a string as sequence_id for a CORRID control of an integer type",
        "the string's bytes are used as the integer",
        "INVALID_ARGUMENT",
        "the model would read a meaningless number",
        ("direct: a text as id", "oldest: a text as id"),
    ),
)  # fmt: skip
