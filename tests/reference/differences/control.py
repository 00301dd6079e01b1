# SPDX-License-Identifier: Apache-2.0
"""Models that do not load; load and unload."""

from __future__ import annotations

from tests.reference.difference import Difference

CONTROL: tuple[Difference, ...] = (
    Difference(
        "configurations without outputs, with a tensor twice, with max_candidate_sequences 0 or several kinds"
        " of control in one input",
        "are loaded",
        "UNAVAILABLE with the reason",
        "no request to them could be answered correctly",
        (
            "control: state of no_outputs", "control: state of tensor_twice", "control: state of no_candidates",
            "control: state of control_of_two_kinds", "control: infer on no_outputs", "control: infer on tensor_twice",
            "control: infer on no_candidates", "control: infer on control_of_two_kinds", "control: override: an empty object",
            "control: index of what is ready",
        ),
    ),
    Difference(
        "models with an invalid configuration",
        "in the index without version, state and reason, or not in the index; the reason is only in the log",
        "UNAVAILABLE with the reason, and with line and column for a syntax error",
        "an operator sees the reason in the index",
        (
            "control: state of unparsable", "control: state of unknown_field", "control: state of misnamed",
            "control: state of no_version", "control: state of no_backend", "control: state of negative_batch",
            "control: state of preferred_too_big", "control: state of two_schedulers", "control: state of missing_step",
            "control: state of unfed_step",
        ),
    ),
    Difference(
        "requests to such a model",
        "'m' is not found, or 'm' has no available versions",
        "the other of these two texts, depending on whether a version is known",
        "the code is NOT_FOUND in both",
        (
            "control: infer on no_version", "control: infer on no_backend", "control: infer on negative_batch",
            "control: infer on preferred_too_big", "control: infer on unfed_step",
        ),
    ),
    Difference(
        "a load that fails",
        "INTERNAL: failed to load 'm', failed to poll from model repository; the reason is in the log",
        "the same text with the reason; INVALID_ARGUMENT if the configuration could be read",
        "the caller sees the reason",
        (
            "control: override: another name", "control: override: an unknown field",
            "control: override: a field of another type", "control: override: a largest batch below 0",
            "control: override: an empty text", "control: override: a list", "control: override: a version that is not there",
        ),
    ),
    Difference(
        "an unknown backend",
        "the text ends with `try specifying runtime on the model configuration.`",
        "the text ends with the list of available backends",
        "this server has no `runtime` setting",
        ("control: override: an unknown backend",),
    ),
    Difference(
        "`file:` parameters",
        "any path is accepted: without a version, absolute, in a subdirectory; one above the model is INTERNAL",
        "INTERNAL with the reason, unless of the form `file:<version>/<name>`",
        "the names are received from the network (CVE-2023-31036)",
        (
            "control: override: a file of no version", "control: override: a file above",
            "control: override: a file above its version", "control: override: a file by its absolute path",
            "control: override: a file without a name", "control: override: a file in a directory of its version",
        ),
    ),
    Difference(
        "other characters in the base64 of a `file:` parameter",
        "are skipped",
        "400, naming the allowed characters; line breaks are skipped, and `=` at the end may be missing",
        "a damaged model must not be loaded",
        ("control: HTTP load of a file that is not base64",),
    ),
    Difference(
        "loading an empty name, a path, or files without a configuration",
        "INTERNAL: failed to poll from model repository; a path is accepted",
        "INVALID_ARGUMENT with newer Triton's texts",
        "the names are received from the network (CVE-2023-31036, CVE-2025-23316)",
        ("control: load nothing", "control: load by a path", "control: file without config"),
    ),
    Difference(
        "a load without a configuration after one with a configuration",
        "keeps the configuration while the files are unchanged",
        "uses the repository's configuration again",
        "the last load request determines what is loaded",
        ("control: load with another configuration",),
    ),
)  # fmt: skip
