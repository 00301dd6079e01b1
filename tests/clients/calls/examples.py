# SPDX-License-Identifier: Apache-2.0
"""Calls of tritonclient's four clients to Triton's example models, with their expected answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.clients.conftest import Flavour

A = np.arange(16, dtype=np.int32).reshape(1, 16)


B = np.full((1, 16), -1, np.int32)


VALUES = (11, 7, 5, 3, 2, 0, 1)


def texts(x: np.ndarray) -> np.ndarray:
    """The numbers as decimal text, in bytes."""
    return np.array([str(v).encode() for v in x.reshape(-1)], np.object_).reshape(x.shape)


def check_sums(result: Any) -> None:
    np.testing.assert_array_equal(result.as_numpy("OUTPUT0").astype(np.int32), A + B)
    np.testing.assert_array_equal(result.as_numpy("OUTPUT1").astype(np.int32), A - B)


def config_of(flavour: Flavour, client: Any, model: str) -> Any:
    config = flavour.told(client.get_model_config, model)
    return config["config"] if flavour.is_grpc else config


def steps(first: int, sign: int) -> Iterator[tuple[int, bool, bool]]:
    """(value, start, end) of each request of a sequence."""
    values = (first, *(sign * value for value in VALUES))
    return ((value, i == 0, i == len(values) - 1) for i, value in enumerate(values))


def stepped(first: int, sign: int, last: int = 0) -> list[int]:
    """The answers of a model that adds one at the start and its correlation id at the end."""
    answers = [first + 1, *(sign * value for value in VALUES)]
    answers[-1] += last
    return answers


def totalled(first: int, sign: int, last: int) -> list[int]:
    answers: list[int] = np.cumsum([first, *(sign * value for value in VALUES)]).tolist()
    answers[-1] += last
    return answers
