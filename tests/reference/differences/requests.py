# SPDX-License-Identifier: Apache-2.0
"""Requests and answers over gRPC, and what HTTP shares with it."""

from __future__ import annotations

from tests.reference.difference import Difference

REQUESTS: tuple[Difference, ...] = (
    Difference(
        "order of outputs",
        "as the model gave them; an ensemble's in no order",
        "as the request asks, else as config.pbtxt has them",
        "a client that reads by position gets the same each time",
        (
            "outputs in the request's order", "HTTP infer, binary answer", "ensemble", "stream of an ensemble",
            "HTTP infer, ensemble", "classes of all outputs but one",
        ),
    ),
    Difference(
        "an output asked for twice",
        "is in the answer once",
        "INVALID_ARGUMENT: output 'y' already exists in request",
        "newer Triton refuses it too: a bound on what one request may ask for",
        ("an output twice", "HTTP infer, output twice"),
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
        ("shape [-1, -2]", "batch of no rows", "batch of minus one rows", "batch of 2^63 - 1 rows"),
    ),
    Difference(
        "which input a refusal names when several are wrong",
        "any (the order of a hash table)",
        "the first of config.pbtxt",
        "the same each time",
        (
            "batches that differ", "two inputs wrong", "HTTP binary, sizes wrong", "control: infer on base",
            "control: infer on dependent",
        ),
    ),
    Difference(
        "names in `Got input(s) [..]`",
        "in reverse, with a bracket missing when none is missing",
        "as sent, brackets balanced",
        "readable",
        ("an input too many", "three inputs of at most two"),
    ),
    Difference(
        "a request's id of thousands of characters in an error",
        "whole",
        "its beginning",
        "a text must fit a gRPC trailer",
        ("refused, id 'xxxxxxxxxxxxxxxxxxxx'",),
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
        ("more raw contents than inputs", "region: raw contents beside a region"),
    ),
    Difference(
        "a BYTES element cut off",
        "text without the request's id; a length past the end counts as no element",
        "the same text with the id; the length is named",
        "an operator finds the request",
        ("string cut off", "string longer than the data"),
    ),
    Difference(
        "numbers that do not fit their datatype (typed contents, JSON)",
        "integers are cut to the low bits, FP32 is infinite (`1e39`)",
        "INVALID_ARGUMENT (400)",
        "wrong physics is worse than a refusal",
        (
            "typed values that do not fit INT8", "typed values that do not fit UINT16", "HTTP UINT8 300", "HTTP INT8 -129",
            "HTTP INT32 2^31", "HTTP FP32 1e39", "HTTP FP32 -1e39",
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
        "classification of values that are NaN",
        "in no order",
        "last",
        "the classes come first",
        ("classes of NaN",),
    ),
    Difference(
        "classification of 2^32 classes and more",
        "cut to the low 32 bits: none for 2^40",
        "all there are",
        "a large k means all, as a smaller one does",
        ("2^40 classes",),
    ),
)  # fmt: skip
