# SPDX-License-Identifier: Apache-2.0
"""Requests of a zoo model's generated events."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest

from hypersonic.client import ModelSpec, TensorSpec
from hypersonic.events.generated import generated_requests
from hypersonic.hls.zoo.task import task_of

FACILE = ModelSpec("facile", "", ("1",), (TensorSpec("input", "FP32", (18,)),), (TensorSpec("output", "FP32", (1,)),), 16_384)


def test_rows_are_the_generators_in_its_order() -> None:
    requests = generated_requests(FACILE, 500, seed=3, count=4)
    assert requests is not None
    (expected,) = task_of("facile").sample(2000, 3).inputs
    rows = np.concatenate([request["input"] for request in requests])
    assert [request["input"].shape for request in requests] == [(500, 18)] * 4
    np.testing.assert_array_equal(rows, expected[np.arange(2000) % len(expected)])


def test_rows_are_at_most_what_the_model_takes() -> None:
    requests = generated_requests(replace(FACILE, max_batch_size=100), 0, seed=1, count=2)
    assert requests is not None
    assert [len(request["input"]) for request in requests] == [100, 100]


@pytest.mark.parametrize(
    "spec",
    [
        replace(FACILE, name="nobody"),
        replace(FACILE, inputs=(TensorSpec("input", "INT16", (18,)),)),
        replace(FACILE, inputs=(TensorSpec("input", "FP32", (17,)),)),
        replace(FACILE, max_batch_size=0),
    ],
)
def test_a_model_that_is_not_the_generators_has_no_events(spec: ModelSpec) -> None:
    assert generated_requests(spec, 1, seed=1, count=1) is None


def test_without_the_compiler_side_there_are_no_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hypersonic.hls.zoo.task", None)
    assert generated_requests(FACILE, 1, seed=1, count=1) is None
