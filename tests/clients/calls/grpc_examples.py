# SPDX-License-Identifier: Apache-2.0
"""Calls through gRPC's generated stubs to Triton's example models, with their expected answers."""

from __future__ import annotations

import queue
from typing import Any

import numpy as np
import tritonclient.grpc as triton

A = np.arange(16, dtype=np.int32).reshape(1, 16)


B = np.full((1, 16), 3, np.int32)


WAIT_S = 60


Answers = queue.SimpleQueue[tuple[Any, Any]]


def tensor(name: str, x: np.ndarray, datatype: str, module: Any = triton) -> Any:
    tensor = module.InferInput(name, list(x.shape), datatype)
    tensor.set_data_from_numpy(x)
    return tensor


def operands(a: np.ndarray = A, b: np.ndarray = B, datatype: str = "INT32", module: Any = triton) -> list[Any]:
    return [tensor("INPUT0", a, datatype, module), tensor("INPUT1", b, datatype, module)]


def check_sums(result: Any, a: np.ndarray = A, b: np.ndarray = B) -> None:
    np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), a + b)
    np.testing.assert_array_equal(result.as_numpy("OUTPUT1"), a - b)


def put(answers: Answers, result: Any, error: Any) -> None:
    answers.put((result, error))


def answer(answers: Answers) -> Any:
    result, error = answers.get(timeout=WAIT_S)
    assert error is None
    return result
