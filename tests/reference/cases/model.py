# SPDX-License-Identifier: Apache-2.0
"""The behaviour of models: failing ones, ensembles, sequences, decoupled ones, streams."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.reference.cases.infer import Case, good
from tests.reference.wire import Tensor, given, message, texts

WAYS = (
    "nothing_wrong", "exception", "error_response", "error_code", "error_cancelled", "model_exception", "too_few", "too_many",
    "not_a_response", "wrong_dtype", "wrong_shape", "wrong_batch", "unknown_output", "no_output", "duplicate_output",
)  # fmt: skip
_A = np.arange(16, dtype=np.int32).reshape(1, 16)


def failing(way: str, model: str = "failing") -> Any:
    return message(model, [Tensor("WAY", "BYTES", [1, 1], texts(way.encode()))], id="f")


def chain(outputs: Sequence[str] = (), **keywords: Any) -> Any:
    return message("chain", [given("A", _A, "INT32"), given("B", _A + 1, "INT32")], outputs, **keywords)


def step(model: str, value: int, sequence: int | str, start: bool = False, end: bool = False, **keywords: Any) -> Any:
    x = np.array([[value]], np.int32)
    marks: dict[str, Any] = (
        {"sequence_id": sequence} | ({"sequence_start": True} if start else {}) | ({"sequence_end": True} if end else {})
    )
    return message(model, [given("X", x, "INT32")], **marks, **keywords)


def repeat(*values: int, **keywords: Any) -> Any:
    return message("repeat", [given("IN", np.array(values, np.int32), "INT32")], **keywords)


def cases() -> dict[str, Case]:
    """All of them, by name."""
    cases: dict[str, Case] = {f"model: {way}": _infer(failing(way)) for way in WAYS}
    cases |= {
        f"ensemble of a model: {way}": _infer(failing(way, "failing_chain"))
        for way in ("nothing_wrong", "exception", "error_code", "no_output")
    }
    cases |= _ensembles() | _sequences() | _streams() | _decoupled()
    return cases


def _ensembles() -> dict[str, Case]:
    a = given("A", _A, "INT32")
    return {
        "ensemble": _infer(chain(id="e")),
        "ensemble, one output": _infer(chain(["TWICE"])),
        "ensemble, first step's output": _infer(chain(["SUM"])),
        "ensemble, an inner tensor": _infer(chain(["difference"])),
        "ensemble, input missing": _infer(message("chain", [a])),
        "ensemble, wrong shape": _infer(message("chain", [given("A", _A, "INT32"), given("B", _A[:, :8], "INT32")])),
        "ensemble, batch too big": _infer(message("chain", [Tensor(n, "INT32", [9, 16], bytes(576)) for n in "AB"])),
        "ensemble, unknown version": _infer(chain(version="2")),
        "ensemble of another step of a sequence": _infer(chain(sequence_id=3)),
    }


def _sequences() -> dict[str, Case]:
    cases: dict[str, Case] = {}
    for model in ("direct", "oldest"):
        cases |= {
            f"{model}: a sequence": _all(step(model, 1, 11, start=True), step(model, 2, 11), step(model, 4, 11, end=True)),
            f"{model}: a sequence of one": _all(step(model, 5, 12, start=True, end=True)),
            f"{model}: two at once": _all(
                step(model, 1, 13, start=True), step(model, 10, 14, start=True), step(model, 2, 13), step(model, 20, 14),
                step(model, 4, 13, end=True), step(model, 40, 14, end=True),
            ),
            f"{model}: started twice": _all(step(model, 1, 15, start=True), step(model, 2, 15, start=True), step(model, 4, 15, end=True)),
            f"{model}: not started": _all(step(model, 1, 16)),
            f"{model}: after its end": _all(step(model, 1, 17, start=True, end=True), step(model, 1, 17)),
            f"{model}: no id": _all(message(model, [given("X", np.array([[1]], np.int32), "INT32")])),
            f"{model}: id zero": _all(step(model, 1, 0, start=True, end=True)),
            f"{model}: a text as id": _all(step(model, 1, "text", start=True, end=True)),
            f"{model}: an empty text as id": _all(step(model, 1, "", start=True, end=True)),
            f"{model}: two rows": _all(message(model, [Tensor("X", "INT32", [2, 1], bytes(8))], sequence_id=18, sequence_start=True, sequence_end=True)),
            f"{model}: request's id": _all(step(model, 1, 19, id="q")),
        }  # fmt: skip
    return cases


def _streams() -> dict[str, Case]:
    return {
        "stream of plain requests": _stream(*[message("addsub", good(), id=str(i)) for i in range(3)]),
        "stream with a bad request": _stream(
            message("addsub", good(), id="1"), message("nope", good(), id="2"), message("addsub", good(), id="3")
        ),
        "stream with a bad shape": _stream(
            message("addsub", [Tensor("INPUT0", "FP32", [1], bytes(4))], id="2"), message("addsub", good(), id="3")
        ),
        "stream with a failing model": _stream(failing("exception"), failing("error_code"), failing("nothing_wrong")),
        "stream of a sequence": _stream(
            step("direct", 1, 21, start=True), step("direct", 2, 21), step("direct", 4, 21, end=True)
        ),
        "stream with a wrong parameter": _stream(message("addsub", good(), triton_foo="x"), message("addsub", good())),
        "stream of nothing": _stream(),
        "stream that ends with its first error": _stream(
            message("nope", good(), id="2"), message("addsub", good(), id="3"), metadata=(("triton_grpc_error", "true"),)
        ),
        "stream with an empty final response": _stream(
            message("addsub", good(), id="1", triton_enable_empty_final_response=True)
        ),
        "stream of an ensemble": _stream(chain(id="e")),
        "stream of a failing ensemble": _stream(failing("error_code", "failing_chain"), failing("nothing_wrong")),
        "stream of classes": _stream(
            message("classes", [given("X", np.array([[1, 3, 2, 0]], np.float32), "FP32")], ["Y"], classification=2)
        ),
        "stream of texts": _stream(message("identity", [Tensor("IN_STRING", "BYTES", [2], texts(b"a", b"\0"))])),
        "stream without the optional input": _stream(message("optional", [given("X0", np.ones((1, 2), np.float32), "FP32")])),
        "stream of two models": _stream(
            message("addsub", good(), id="1"), message("single", [given("X", np.ones(2, np.float32), "FP32")], ["Y"], id="2")
        ),
        "stream with an empty final response of a refusal": _stream(
            message("nope", good(), id="1", triton_enable_empty_final_response=True)
        ),
        "stream that ends with an error of a model": _stream(failing("error_code"), metadata=(("triton_grpc_error", "true"),)),
        "stream of sequences in turn": _stream(
            step("direct", 1, 31, start=True),
            step("oldest", 5, 31, start=True),
            step("direct", 2, 31, end=True),
            step("oldest", 7, 31, end=True),
        ),
        "stream of a sequence, not started": _stream(step("direct", 1, 32), step("direct", 1, 32, start=True, end=True)),
    }


def _decoupled() -> dict[str, Case]:
    """Not asked: an error of a decoupled model with the header triton_grpc_error, of which the real server dies."""
    return {
        "decoupled: by ModelInfer": _infer(repeat(1, 2)),
        "decoupled: three answers": _stream(repeat(7, 8, 9, id="d")),
        "decoupled: no answer": _stream(repeat(id="d")),
        "decoupled: three answers and an empty final one": _stream(repeat(7, 8, 9, id="d", triton_enable_empty_final_response=True)),
        "decoupled: no answer but the empty final one": _stream(repeat(id="d", triton_enable_empty_final_response=True)),
        "decoupled: an error between": _stream(repeat(1, -2, 3, id="d", triton_enable_empty_final_response=True)),
        "decoupled: one output asked for": _stream(repeat(1, id="d", outputs=["IDX"])),
        "decoupled: an error last": _stream(repeat(1, -2, id="d")),
        "decoupled: an error only": _stream(repeat(-2, id="d", triton_enable_empty_final_response=True)),
        "decoupled: two requests": _stream(repeat(1, 2, id="d"), repeat(3, id="e")),
        "decoupled: refused": _stream(message("repeat", [Tensor("IN", "INT32", [2], bytes(4))], id="d"), repeat(3, id="e")),
        "decoupled: unknown output": _stream(repeat(1, id="d", outputs=["nope"])),
        "decoupled: classes": _stream(repeat(7, id="d", outputs=["OUT"], classification=1)),
        "decoupled: over HTTP": lambda wire: wire.http("POST", "/v2/models/repeat/infer", {"inputs": [{"name": "IN", "datatype": "INT32", "shape": [1], "data": [1]}]})[::2],
    }  # fmt: skip


def _infer(request: Any) -> Case:
    return lambda wire: wire.infer(request)


def _all(*requests: Any) -> Case:
    return lambda wire: [wire.infer(request) for request in requests]


def _stream(*requests: Any, metadata: Any = None) -> Case:
    return lambda wire: wire.stream(requests, metadata)
