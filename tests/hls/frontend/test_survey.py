# SPDX-License-Identifier: Apache-2.0
"""A survey of a model in memory; tests/end_to_end/own surveys one of Keras in a process of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hypersonic.hls.frontend import survey
from hypersonic.hls.frontend.trained import LayerFacts, ModelTensor, TrainedModel

FACTS = LayerFacts("n_dense", "n_dense_relu", "Dense", {"weight": np.array([[-2.0, 0.0, 0.5]]).T}, "", "relu", 1)


def model() -> TrainedModel:
    """x -> relu(x @ weight), with hls4ml's other name for the layer `1 dense`."""

    def results(x: Any) -> dict[str, Any]:
        sums = x[0].astype(float) @ FACTS.weights["weight"]
        return {"n_dense": sums, "n_dense_relu": np.maximum(sums, 0)}

    types = {"weight": "auto", "result": "auto", "bias": "fixed<8,2>"}
    config = {"LayerName": {"n_dense": {"Precision": types}, "n_dense_relu": {"Precision": {"result": "auto"}}}}
    return TrainedModel(
        (ModelTensor("x", "x", (3,)),), (ModelTensor("1 dense", "n_dense_relu", (1,)),), config,
        lambda x: (results(x)["n_dense_relu"],), lambda *_: None, names={"1 dense": "n_dense"}, layers=lambda: (FACTS,),
        results=results,
    )  # fmt: skip


def test_a_survey_has_the_models_names_and_the_numbers_of_all_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey, "load_trained", lambda _file: model())
    rows = np.zeros((600, 3))
    rows[0], rows[599] = (3, 0, 0), (-4, 0.25, 0)
    np.save(tmp_path / "rows.npy", rows)
    assert survey.main(["m.keras", str(tmp_path / "out.json"), str(tmp_path / "rows.npy")]) == 0
    found = survey.survey_from_json(json.loads((tmp_path / "out.json").read_text()))
    (layer,) = found.layers
    assert (layer.name, layer.result, layer.automatic, layer.count) == ("1 dense", "1 dense_relu", ("result", "weight"), 3)
    assert (layer.before, layer.numbers) == (survey.Numbers(-6.0, 8.0, 6.0), survey.Numbers(0.0, 8.0, 8.0))
    assert layer.weights == {"weight": survey.Numbers(-2.0, 0.5, 0.5)}
    assert found.inputs == (survey.TensorSurvey("x", (3,), survey.Numbers(-4.0, 3.0, 0.25)),)
    assert found.outputs == (survey.TensorSurvey("1 dense", (1,), survey.Numbers(0.0, 8.0, 8.0), "1 dense"),)
    assert (layer.is_output, found.rows) == (True, 600)


def test_rows_that_are_not_the_models_end_the_survey_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(survey, "load_trained", lambda _file: model())
    np.save(tmp_path / "rows.npy", np.zeros((4, 2)))
    assert survey.main(["m.keras", str(tmp_path / "out.json"), str(tmp_path / "rows.npy")]) == 2
    assert "hypersonic refuses: " in (words := capsys.readouterr().err)
    assert "rows of x have shape (4, 2), expected (rows, 3)" in words
