# SPDX-License-Identifier: Apache-2.0
"""Models that do not load; load and unload."""

from __future__ import annotations

from tests.reference.difference import Difference

CONTROL: tuple[Difference, ...] = (
    Difference(
        "configurations without outputs, with a tensor twice, with max_candidate_sequences 0 or several kinds"
        " of control in one input",
        "load",
        "UNAVAILABLE with the reason",
        "no request to them could be answered as it was meant",
        (
            "control: state of no_outputs", "control: state of tensor_twice", "control: state of no_candidates",
            "control: state of control_of_two_kinds", "control: infer on no_outputs", "control: infer on tensor_twice",
            "control: infer on no_candidates", "control: infer on control_of_two_kinds", "control: override: an empty object",
            "control: index of what is ready",
        ),
    ),
    Difference(
        "models whose configuration cannot be used",
        "in the index without a version, state or reason (or not at all); the reason is in the log",
        "UNAVAILABLE with the reason, for text the parser's line and column",
        "the operator who asks is told",
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
        "the other of the two, by whether a version is known",
        "NOT_FOUND in both",
        (
            "control: infer on no_version", "control: infer on no_backend", "control: infer on negative_batch",
            "control: infer on preferred_too_big", "control: infer on unfed_step",
        ),
    ),
    Difference(
        "a load that fails",
        "INTERNAL: failed to load 'm', failed to poll from model repository; the reason is in the log",
        "the same with the reason; INVALID_ARGUMENT where the configuration was read",
        "who asked is told",
        (
            "control: override: another name", "control: override: an unknown field",
            "control: override: a field of another type", "control: override: a largest batch below 0",
            "control: override: an empty text", "control: override: a list", "control: override: a version that is not there",
        ),
    ),
    Difference(
        "an unknown backend",
        "its text ends with `try specifying runtime on the model configuration.`",
        "with the backends there are",
        "there is no `runtime` here",
        ("control: override: an unknown backend",),
    ),
    Difference(
        "`file:` parameters",
        "any path: without a version, above the model (INTERNAL), absolute, in a subdirectory",
        "INTERNAL with the reason unless `file:<version>/<name>`",
        "names come from the network (CVE-2023-31036)",
        (
            "control: override: a file of no version", "control: override: a file above",
            "control: override: a file above its version", "control: override: a file by its absolute path",
            "control: override: a file without a name", "control: override: a file in a directory of its version",
        ),
    ),
    Difference(
        "base64 of a `file:` parameter with other characters",
        "these are skipped",
        "400 with what is allowed; line breaks are skipped, `=` at the end may be missing",
        "a damaged model must not be loaded",
        ("control: HTTP load of a file that is not base64",),
    ),
    Difference(
        "loading nothing, a path, or files without a configuration",
        "INTERNAL: failed to poll from model repository; a path is taken",
        "INVALID_ARGUMENT with newer Triton's texts",
        "names come from the network (CVE-2023-31036, CVE-2025-23316)",
        ("control: load nothing", "control: load by a path", "control: file without config"),
    ),
    Difference(
        "a plain load after one with another configuration",
        "keeps the other configuration while the files are unchanged",
        "goes back to the repository's",
        "what is loaded is what was asked for last",
        ("control: load with another configuration",),
    ),
)  # fmt: skip
