# SPDX-License-Identifier: Apache-2.0
"""Where this server answers differently from tritonserver 2.51 on purpose, and why. docs/coming-from-triton.md has this table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Difference(NamedTuple):
    """cases: names of cases, or beginnings of names before a `*`; at least one case of each differs."""

    about: str
    triton: str
    ours: str
    why: str
    cases: tuple[str, ...]


DIFFERENCES: tuple[Difference, ...] = (
    Difference(
        "order of outputs",
        "as the model gave them; an ensemble's in no order",
        "as the request asks, else as config.pbtxt has them",
        "a client that reads by position gets the same each time",
        (
            "outputs in the request's order",
            "HTTP infer, binary answer",
            "ensemble",
            "stream of an ensemble",
            "HTTP infer, ensemble",
        ),
    ),
    Difference(
        "an output asked for twice",
        "is in the answer once",
        "INVALID_ARGUMENT: output 'y' already exists in request",
        "newer Triton refuses it too: a bound on what one request may ask for",
        (
            "an output twice",
            "HTTP infer, output twice",
        ),
    ),
    Difference(
        "ensembles' response parameters",
        "sequence_id 0, sequence_start and sequence_end false, though there is no sequence",
        "none",
        "they say nothing",
        (
            "ensemble of a model: nothing_wrong",
            "ensemble, one output",
            "ensemble of another step of a sequence",
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
        (
            "config of chain",
            "config of failing_chain",
            "HTTP GET /v2/models/chain/config",
        ),
    ),
    Difference(
        "model_version with a number in front (`1x`)",
        "that number",
        "INVALID_ARGUMENT",
        "a typing error must not choose a version",
        ("version '1x'",),
    ),
    Difference(
        "a batch of no rows, of fewer or of 2^63",
        "the byte size does not match, after an overflow",
        "inference request batch-size must be >= 1 (<= N)",
        "the reason, before any multiplication",
        (
            "shape [-1, -2]",
            "batch of no rows",
            "batch of minus one rows",
            "batch of 2^63 - 1 rows",
        ),
    ),
    Difference(
        "which input a refusal names when several are wrong",
        "any (the order of a hash table)",
        "the first of config.pbtxt",
        "the same each time",
        (
            "batches that differ",
            "two inputs wrong",
            "HTTP binary, sizes wrong",
        ),
    ),
    Difference(
        "names in `Got input(s) [..]`",
        "in reverse, with a bracket missing when none is missing",
        "as sent, brackets balanced",
        "readable",
        (
            "an input too many",
            "three inputs of at most two",
        ),
    ),
    Difference(
        "a required input left out beside an optional one",
        "the model runs without it",
        "INVALID_ARGUMENT: missing required input(s)",
        "required means required",
        ("required input left out",),
    ),
    Difference(
        "more raw_input_contents than inputs",
        "ignored",
        "INVALID_ARGUMENT",
        "a request that does not mean what it says",
        ("more raw contents than inputs",),
    ),
    Difference(
        "a BYTES element cut off",
        "text without the request's id; a length past the end counts as no element",
        "the same text with the id; the length is named",
        "an operator finds the request",
        (
            "string cut off",
            "string longer than the data",
        ),
    ),
    Difference(
        "numbers that do not fit their datatype (typed contents, JSON)",
        "cut to the low bits",
        "INVALID_ARGUMENT (400)",
        "wrong physics is worse than a refusal",
        (
            "typed values that do not fit INT8",
            "typed values that do not fit UINT16",
            "HTTP UINT8 300",
            "HTTP INT8 -129",
            "HTTP INT32 2^31",
        ),
    ),
    Difference(
        "FP16 in typed contents",
        "refused, naming the field's datatype",
        "refused: unable to find data",
        "typed contents hold no FP16 in either",
        ("typed FP16",),
    ),
    Difference(
        "a negative timeout",
        "2^64 less so many microseconds",
        "none",
        "means no timeout",
        ("parameter timeout=-5",),
    ),
    Difference(
        "parameter binary_data_output over gRPC",
        "reaches the model",
        "does not",
        "reserved in newer Triton",
        ("parameter binary_data_output=True",),
    ),
    Difference(
        "uint64 parameters",
        "refused",
        "reach the model",
        "newer Triton takes them",
        ("parameter of 64 unsigned bits",),
    ),
    Difference(
        "BF16 in python models",
        "by DLPack",
        "an error that says so: FP32 or FP16 instead",
        "numpy has no bfloat16; the bytes pass through `onnxruntime` and `fpga` models",
        ("raw BF16",),
    ),
    Difference(
        "extension cuda_shared_memory",
        "advertised, without a GPU too",
        "not advertised; Status is empty, Unregister does nothing, Register is refused",
        "there is no GPU memory here",
        (
            "server",
            "HTTP GET /v2",
        ),
    ),
    Difference(
        "registering shared memory without a name, or the python backend's own",
        "INTERNAL: cannot be opened",
        "INVALID_ARGUMENT with the reason",
        "newer Triton's texts; CVE-2025-23328",
        (
            "register nothing",
            "register the backend's",
        ),
    ),
    Difference(
        "tracebacks of python models",
        "absolute paths",
        "paths from the repository on",
        "the server's directories are nobody's business (CVE-2026-24147)",
        (
            "model: exception",
            "model: model_exception",
            "ensemble of a model: exception",
            "stream with a failing model",
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
        "refusals of the sequence batcher",
        "without the request's id",
        "with it",
        "an operator finds the request",
        (
            "direct: not started",
            "direct: after its end",
            "direct: no id",
            "direct: id zero",
            "direct: an empty text as id",
            "direct: two rows",
            "direct: request's id",
            "oldest: not started",
            "oldest: after its end",
            "oldest: no id",
            "oldest: id zero",
            "oldest: an empty text as id",
            "oldest: two rows",
            "oldest: request's id",
        ),
    ),
    Difference(
        "a text as sequence_id for a CORRID control of an integer type",
        "the text's bytes in place of the integer",
        "INVALID_ARGUMENT",
        "the model would read garbage",
        (
            "direct: a text as id",
            "oldest: a text as id",
        ),
    ),
    Difference(
        "an error response of a decoupled model",
        "more responses may follow it",
        "ends the request",
        "a client that saw an error waits for nothing more",
        ("decoupled: an error between",),
    ),
    Difference(
        "JSON that is none",
        "RapidJSON's reason and offset",
        "the same words where the reason is the same, else ours; own offset",
        "another parser",
        (
            "HTTP infer, not JSON",
            "HTTP infer, JSON cut off",
        ),
    ),
    Difference(
        "Inference-Header-Content-Length that is no number",
        "taken as 0",
        "400: inference header size should be in range",
        "parsed strictly",
        (
            "HTTP binary, header no number",
            "HTTP binary, header empty",
        ),
    ),
    Difference(
        "BYTES that are no UTF-8 in JSON",
        "sent as they are, which is not JSON",
        "400: use binary data",
        "no client could parse it",
        (
            "HTTP binary texts",
            "HTTP raw, texts that are not UTF-8",
        ),
    ),
    Difference(
        "a compressed body that is damaged",
        "what could be unpacked is parsed",
        "400 with the reason",
        "half a request is no request",
        (
            "HTTP gzip cut off",
            "HTTP gzip that is none",
        ),
    ),
    Difference(
        "Content-Type of errors and of empty answers",
        "text/plain in most places",
        "application/json; none for an empty body",
        "the body of an error is JSON",
        (
            "HTTP content type of nothing",
            "HTTP content type of no such page",
        ),
    ),
    Difference(
        "when a batch is closed",
        "the next one while the instance is still busy, at the first preferred size; what then waits may be merged past it",
        "when an instance is free: the largest preferred size that is there",
        "larger batches under load, and never a size that is not preferred while a preferred one can be had",
        (
            "batching: preferred sizes: three",
            "batching: preferred sizes: four",
            "batching: preferred sizes: five",
            "batching: preferred sizes: seven",
            "batching: delay: twice a preferred size",
        ),
    ),
    Difference(
        "requests refused because a queue is full",
        "counted nowhere",
        "fail in ModelStatistics, reason REJECTED in the metric",
        "clients choose a server by it",
        (
            "batching: queue of two",
            "batching: a full level",
        ),
    ),
    Difference(
        "models whose configuration cannot be used",
        "in the index without a version, state or reason (or not at all); the reason is in the log",
        "UNAVAILABLE with the reason, for text the parser's line and column",
        "the operator who asks is told",
        (
            "control: state of unparsable",
            "control: state of unknown_field",
            "control: state of misnamed",
            "control: state of no_version",
            "control: state of no_backend",
            "control: state of negative_batch",
            "control: state of preferred_too_big",
            "control: state of two_schedulers",
            "control: state of missing_step",
            "control: state of unfed_step",
        ),
    ),
    Difference(
        "requests to such a model",
        "'m' is not found, or 'm' has no available versions",
        "the other of the two, by whether a version is known",
        "NOT_FOUND in both",
        (
            "control: infer on no_version",
            "control: infer on no_backend",
            "control: infer on negative_batch",
            "control: infer on preferred_too_big",
            "control: infer on unfed_step",
        ),
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
)


def table(differences: Iterable[Difference]) -> str:
    """As Markdown."""
    rows = [("what", "tritonserver 2.51", "hypersonic", "why"), ("---",) * 4, *(d[:4] for d in differences)]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)
