# SPDX-License-Identifier: Apache-2.0
"""A model's request to another model, without the model's process: the lookups in the repository, and the answers."""

from __future__ import annotations

import numpy as np
import pytest

from hypersonic.server.backends.python.bls import ModelCall, infer_by
from hypersonic.server.core.inference.request import InferRequest, InputTensor, WantedOutput
from hypersonic.server.errors import BackendError
from tests.server.core.ensemble.ensemble_models import PATIENCE_S, A, Models


def call_of(model: str) -> ModelCall:
    x = InputTensor("x", "FP32", A.shape, memoryview(A.astype(np.float32).tobytes()))
    return ModelCall(1, model, "", False, InferRequest("", (x,), (WantedOutput("y"),)), "caller")


def test_a_model_that_is_always_replaced_ends_in_an_error(models: Models) -> None:
    models.add("m", lambda a: {"y": a["x"]})
    assert models.loaded["m"].close(PATIENCE_S)
    with pytest.raises(BackendError, match=r"Model m - Error when running inference: .*Model 'm' is not ready\."):
        list(infer_by(models.lookup)(call_of("m")))


def test_a_model_that_was_replaced_is_asked_in_its_place(models: Models) -> None:
    models.add("m", lambda a: {"y": a["x"]})
    old = models.loaded["m"]
    assert old.close(PATIENCE_S)
    models.add("m", lambda a: {"y": 2 * a["x"]})
    versions = iter([old, models.loaded["m"]])
    (answer,) = infer_by(lambda *_: next(versions))(call_of("m"))
    np.testing.assert_array_equal(np.frombuffer(answer.tensors[0].data, np.float32).reshape(A.shape), 2 * A)
