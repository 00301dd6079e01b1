# SPDX-License-Identifier: Apache-2.0
"""Every zoo model that becomes a kernel has a task: a generator and a figure of merit."""

from __future__ import annotations

import numpy as np
import pytest
import yaml

from hypersonic.hls.frontend.description import ZOO
from hypersonic.hls.zoo.facile_v2.task import TASK as FACILE_V2
from hypersonic.hls.zoo.task import NoTaskError, task_of, tasks


def test_every_zoo_model_that_becomes_a_kernel_has_a_task() -> None:
    described = {file.parent.name: yaml.safe_load(file.read_text()) for file in ZOO.glob("*/*.yaml")}
    kernels = {name for name, value in described.items() if "backend" not in value}
    assert set(tasks()) == kernels
    # which is not trained
    assert [name for name in tasks() if task_of(name).measure is None] == ["resnet50"]


@pytest.mark.parametrize("model", tasks())
def test_the_same_seed_gives_the_same_rows_and_another_seed_others(model: str) -> None:
    task = task_of(model)
    one, again, other = task.sample(3, 1), task.sample(3, 1), task.sample(3, 2)
    assert {x.dtype for x in one.inputs} == {np.dtype(np.uint8 if model in ("facile_adc", "emtrk_packed") else np.float32)}
    assert {len(x) for x in one.inputs} == {one.rows}
    assert all(x.ndim == 2 and np.isfinite(x).all() for x in one.inputs)
    assert [x.tobytes() for x in one.inputs] == [x.tobytes() for x in again.inputs]
    assert [x.tobytes() for x in one.inputs] != [x.tobytes() for x in other.inputs]


@pytest.mark.parametrize("model", ["facile", "facile_v2", "facile_v2_da", "jets", "jets_logits"])
def test_the_float_network_is_measured_better_than_its_answers_to_other_rows(model: str) -> None:
    task = task_of(model)
    sample = task.sample(2000, 3)
    assert task.float_predict
    assert task.measure
    outputs = task.float_predict(sample.inputs)
    better = task.measure(outputs, sample.truth)
    wrong = task.measure(tuple(np.random.default_rng(1).permutation(y) for y in outputs), sample.truth)
    if model.startswith("facile"):
        assert better < 0.5 * wrong
    else:
        assert better > 0.7
        assert 0.45 < wrong < 0.55


def test_facile_v2_is_asked_for_whole_events_or_a_share_of_their_channels() -> None:
    assert FACILE_V2.sample(32_000, 1).rows == 32_000
    assert FACILE_V2.sample(2_000, 1).rows == 2_000


@pytest.mark.parametrize("model", ["nobody", "../facile", "keras_2", "deeptau"])
def test_a_model_without_a_task_is_refused_with_those_there_are(model: str) -> None:
    with pytest.raises(NoTaskError, match=r"no generator for model .*; the zoo has one for: anomaly, deepcalo, "):
        task_of(model)
