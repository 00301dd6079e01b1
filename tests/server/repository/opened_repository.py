# SPDX-License-Identifier: Apache-2.0
"""Helpers for tests of the model repository: its index, requests to its models, model versions, a configuration."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from hypersonic.server.core.inference.check import check
from hypersonic.server.core.inference.request import InferRequest, InputTensor
from hypersonic.server.errors import ReplacedError
from hypersonic.server.repository.models import ModelRepository

Rows = list[tuple[str, str, str, str]]


Open = Callable[..., ModelRepository]


def rows(repository: ModelRepository) -> Rows:
    return [(entry.name, entry.version, str(entry.state), entry.reason) for entry in repository.index()]


class Patient:
    """A call that never ends by itself."""

    client = "test"

    def is_active(self) -> bool:
        return True

    def add_callback(self, callback: Callable[[], None]) -> bool:
        return True


def ask(repository: ModelRepository, value: float = 1.0, name: str = "m") -> float:
    """The answer to one row, as the front ends ask for it."""
    x = np.full((1, 3), value, np.float32)
    request = InferRequest("", (InputTensor("x", "FP32", (1, 3), memoryview(x.tobytes())),))
    while True:
        model = repository.model(name)
        try:
            return float(
                model.infer(
                    check(request, model.config),
                    lambda _request, answer: np.frombuffer(b"".join(answer.outputs[0].chunks), np.float32)[0],
                    Patient(),
                    time.monotonic_ns(),
                )
            )
        except ReplacedError:
            continue


def write_shift(model: Path, version: int, shift: object) -> None:
    (model / str(version)).mkdir(exist_ok=True)
    (model / str(version) / "shift").write_text(str(shift))


CONFIG = json.dumps(
    {
        "backend": "sum",
        "max_batch_size": "7",
        "input": [{"name": "x", "data_type": "TYPE_FP32", "dims": ["3"]}],
        "output": [{"name": "y", "data_type": "TYPE_FP32", "dims": [1]}],
    }
)
