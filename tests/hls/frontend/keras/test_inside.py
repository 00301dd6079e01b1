# SPDX-License-Identifier: Apache-2.0
"""The inside of Keras models: the cell states of each direction of a recurrent layer, and weights by hls4ml's names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.session import run_keras_2


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    where = tmp_path_factory.mktemp("inside")
    run_keras_2(Path(__file__).with_name("inside_session.py"), where)
    return dict(json.loads((where / "found.json").read_text()))


def test_the_cell_states_of_every_direction_are_those_of_keras(found: dict[str, Any]) -> None:
    assert found["states"] == ["both:state", "once:state"], "a GRU has none"
    assert {name: len(each) for name, each in found["apart"].items()} == {"once": 1, "both": 2}
    assert max(difference for each in found["apart"].values() for difference in each) < 1e-5
    assert min(found["largest"].values()) > 1.2, "beyond the results, which are up to 1"


def test_a_normalisation_is_in_the_weights_of_a_layer_without_an_activation_between_them(found: dict[str, Any]) -> None:
    """hls4ml makes a layer of the activation, so that the two are not one behind the other."""
    assert found["folds"]["linear"] == {"d": {"weight": [0.5], "bias": [0.5]}, "n": {}}
    assert found["folds"]["relu"] == {"d": {"weight": [1.0], "bias": [1.0]}, "n": {"scale": [0.5], "bias": [0.0]}}


def test_weights_have_hls4mls_names_in_each_direction(found: dict[str, Any]) -> None:
    assert found["weights"]["once"] == {"weight": [3, 16], "recurrent_weight": [4, 16], "bias": [16]}
    of_gru = {"weight": [4, 6], "recurrent_weight": [2, 6], "bias": [6], "recurrent_bias": [6]}
    assert found["weights"]["gated"] == {
        f"{side}_{name}": shape for side in ("forward", "backward") for name, shape in of_gru.items()
    }
