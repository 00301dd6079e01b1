# SPDX-License-Identifier: Apache-2.0
"""Rows for the test kernel, what it computes of them (y = 2 * x[0] + x[1] of 18 numbers), and a request with them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from tritonclient import grpc

COLUMNS = 18
#: a row whose first number is this makes the memory answer with an error
POISON = 1e30

Rows = NDArray[np.float32]


def rows_of(count: int, seed: int) -> Rows:
    return np.random.default_rng(seed).integers(-1000, 1000, (count, COLUMNS)).astype(np.float32)


def expected(x: Rows, plus: float = 0) -> Rows:
    return (2 * x[:, :1] + x[:, 1:2] + np.float32(plus)).astype(np.float32)


def ask(client: grpc.InferenceServerClient, x: Rows, model: str = "m", timeout_s: float = 60) -> Rows:
    given = grpc.InferInput("x", list(x.shape), "FP32")
    given.set_data_from_numpy(x)
    answer: Rows | None = client.infer(model, [given], client_timeout=timeout_s).as_numpy("y")
    assert answer is not None
    return answer
