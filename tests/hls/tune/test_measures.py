# SPDX-License-Identifier: Apache-2.0
"""The types that `hypersonic tune` changes in a YAML, and its measure of a loss."""

from __future__ import annotations

import argparse

import numpy as np
import pytest

from hypersonic.arguments import parse_count, parse_loss
from hypersonic.hls.tune.labels import Labels
from hypersonic.hls.tune.measures import bits_of, groups_of, loss_of, narrowed, supported

DESCRIBED = {
    "name": "own",
    "inputs": {"x": {"precision": "ap_fixed<16,6,AP_RND_CONV,AP_SAT>"}, "z": {"precision": "ap_fixed<24,10>"}},
    "output": {"datatype": "FP32", "precision": "ap_ufixed<16,0>"},
    "hls4ml": {
        "Model": {"Precision": {"default": "ap_fixed<16,6>"}},
        "LayerName": {
            "dense": {"Precision": {"weight": "ap_fixed<16,1>", "bias": "ap_fixed<18,-2>"}},
            "relu": {"Precision": {"result": "ap_ufixed<16,5,AP_RND,AP_SAT>"}},
            "softmax": {"Precision": {"accum": "ap_ufixed<20,3>"}, "exp_table_t": "ap_ufixed<18,1>"},
        },
    },
}

ALL = np.arange(4)
CLASSES = Labels(0, "y", np.array([[0.0], [1], [2], [1]]), np.array([0, 1, 2, 1]))
NUMBERS = Labels(0, "y", np.array([[0.0], [2.0], [4.0], [6.0]]))


def test_types_are_grouped_by_layer_and_tables_are_left_alone() -> None:
    groups = groups_of(DESCRIBED)
    assert [group.name for group in groups] == ["input x", "input z", "output", "weights of dense", "result of relu"]
    assert bits_of(DESCRIBED, groups) == {
        "input x": 16, "input z": 24, "output": 16, "weights of dense": 18, "result of relu": 16,
    }  # fmt: skip


def test_a_narrower_type_keeps_its_integer_bits_and_modes() -> None:
    groups = groups_of(DESCRIBED)
    changed = narrowed(DESCRIBED, groups, {"input x": 5, "weights of dense": 20, "result of relu": -4})
    assert changed["inputs"]["x"]["precision"] == "ap_fixed<11,6,AP_RND_CONV,AP_SAT>"
    assert changed["inputs"]["z"]["precision"] == "ap_fixed<24,10>"
    layers = changed["hls4ml"]["LayerName"]
    assert layers["dense"]["Precision"] == {"weight": "ap_fixed<2,1,AP_TRN,AP_WRAP>", "bias": "ap_fixed<2,-2,AP_TRN,AP_WRAP>"}
    assert layers["relu"]["Precision"] == {"result": "ap_ufixed<20,5,AP_RND,AP_SAT>"}
    assert layers["softmax"] == DESCRIBED["hls4ml"]["LayerName"]["softmax"]  # type: ignore[index]
    assert DESCRIBED["inputs"]["x"]["precision"] == "ap_fixed<16,6,AP_RND_CONV,AP_SAT>"  # type: ignore[index]


def test_a_reuse_factor_that_hls4mls_cpp_does_not_support_is_left_out() -> None:
    factors = {"a": 4, "b": 4, "c": 4, "d": 4}
    assert supported(factors, {"a": (1, 2, 4), "b": (1, 2, 3, 6), "c": ()}) == {"a": 4, "b": 0, "c": 4, "d": 4}


def test_a_loss_of_accuracy_is_relative_and_a_gain_is_none() -> None:
    trained = np.eye(3)[[0, 1, 2, 0]]
    worse = np.eye(3)[[0, 1, 1, 0]]
    assert loss_of((worse,), (trained,), (CLASSES,), ALL) == pytest.approx(1 / 3)
    assert loss_of((trained,), (worse,), (CLASSES,), ALL) == 0
    assert loss_of((worse,), (trained,), (CLASSES,), ALL[:2]) == 0


def test_a_loss_of_numbers_is_the_growth_of_their_rms_difference_from_the_labels() -> None:
    trained = NUMBERS.values + 1.0
    assert loss_of((NUMBERS.values - 1.5,), (trained,), (NUMBERS,), ALL) == pytest.approx(0.5)
    assert loss_of((NUMBERS.values,), (trained,), (NUMBERS,), ALL) == 0


def test_without_labels_the_loss_is_the_difference_over_the_spread_of_the_worst_output() -> None:
    trained = (np.array([[0.0], [2.0], [0.0], [2.0]]), np.array([[0.0], [20.0], [0.0], [20.0]]))
    answers = (trained[0] + 0.1, trained[1] + 0.1)
    assert loss_of(answers, trained, (), ALL) == pytest.approx(0.1)


@pytest.mark.parametrize(("text", "loss"), [("1%", 0.01), ("0.5", 0.005), ("0", 0.0), ("20 %", 0.2)])
def test_a_loss_is_given_in_per_cent(text: str, loss: float) -> None:
    assert parse_loss(text) == pytest.approx(loss)


@pytest.mark.parametrize("text", ["", "%", "-1%", "100", "nan", "much"])
def test_another_loss_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="expected a number of per cent from 0 to 100, such as 1%"):
        parse_loss(text)


@pytest.mark.parametrize("text", ["0", "-1", "many", ""])
def test_a_number_of_candidates_is_a_whole_number_above_0(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="expected a whole number above 0"):
        parse_count(text)
