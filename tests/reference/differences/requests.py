# SPDX-License-Identifier: Apache-2.0
"""Requests and answers over gRPC, and what HTTP shares with it."""

from __future__ import annotations

from tests.reference.difference import Difference

REQUESTS: tuple[Difference, ...] = (
    Difference(
        "order of outputs",
        "as the model gave them; those of an ensemble in no particular order",
        "that of the request, otherwise that of config.pbtxt",
        "a client that reads by position gets the same output each time",
        (
            "outputs in the request's order", "HTTP infer, binary answer", "ensemble", "stream of an ensemble",
            "HTTP infer, ensemble", "classes of all outputs but one",
        ),
    ),
    Difference(
        "an output asked for twice",
        "appears once in the answer",
        "INVALID_ARGUMENT: output 'y' already exists in request",
        "bounds the size of an answer; newer Triton refuses it too",
        ("an output twice", "HTTP infer, output twice"),
    ),
    Difference(
        "a model_version that begins with a number (`1x`)",
        "the number is used",
        "INVALID_ARGUMENT",
        "a typing error must not select a version",
        ("version '1x'",),
    ),
    Difference(
        "a batch size of 0, a negative one, or about 2^63",
        "an overflow, then an error that the byte size does not match",
        "inference request batch-size must be >= 1 (<= N)",
        "names the reason, before any multiplication",
        ("shape [-1, -2]", "batch of no rows", "batch of minus one rows", "batch of 2^63 - 1 rows"),
    ),
    Difference(
        "the input that an error names when several are wrong",
        "any of them (in the order of a hash table)",
        "the first in the order of config.pbtxt",
        "the same each time",
        (
            "batches that differ", "two inputs wrong", "HTTP binary, sizes wrong", "control: infer on base",
            "control: infer on dependent",
        ),
    ),
    Difference(
        "names in `Got input(s) [..]`",
        "in reverse order; a bracket is missing if no input is missing",
        "in the order sent, with balanced brackets",
        "readable",
        ("an input too many", "three inputs of at most two"),
    ),
    Difference(
        "a request id of thousands of characters in an error",
        "the whole id",
        "the beginning of the id",
        "a text must fit a gRPC trailer",
        ("refused, id 'xxxxxxxxxxxxxxxxxxxx'",),
    ),
    Difference(
        "a required input is left out of a model that also has an optional one",
        "the model runs without it",
        "INVALID_ARGUMENT: missing required input(s)",
        "the input is required",
        ("required input left out",),
    ),
    Difference(
        "more raw_input_contents than inputs",
        "ignored",
        "INVALID_ARGUMENT",
        "the request contradicts itself",
        ("more raw contents than inputs", "region: raw contents beside a region"),
    ),
    Difference(
        "a truncated BYTES element",
        "text without the request's id; an element longer than the data is not counted",
        "the same text with the id; names the length",
        "an operator can find the request",
        ("string cut off", "string longer than the data"),
    ),
    Difference(
        "numbers that do not fit their datatype (typed contents, JSON)",
        "integers are truncated to the low bits, FP32 becomes infinite (`1e39`)",
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
        "neither accepts FP16 in typed contents",
        ("typed FP16",),
    ),
    Difference(
        "a negative timeout",
        "2^64 minus that many microseconds",
        "no timeout",
        "a negative timeout means no timeout",
        ("parameter timeout=-5",),
    ),
    Difference(
        "the parameter binary_data_output over gRPC",
        "is passed to the model",
        "is not passed to the model",
        "it is reserved in newer Triton",
        ("parameter binary_data_output=True",),
    ),
    Difference(
        "uint64 parameters",
        "refused",
        "are passed to the model",
        "newer Triton accepts them",
        ("parameter of 64 unsigned bits",),
    ),
    Difference(
        "NaN values in classification",
        "in no defined order",
        "last",
        "classes with a value come first",
        ("classes of NaN",),
    ),
    Difference(
        "classification with 2^32 or more classes",
        "truncated to the low 32 bits: no classes for 2^40",
        "all classes",
        "any number above the number of classes means all of them",
        ("2^40 classes",),
    ),
)  # fmt: skip
