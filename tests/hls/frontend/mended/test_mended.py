# SPDX-License-Identifier: Apache-2.0
"""Layers that hls4ml 1.3.0 does not convert, or converts to other numbers, compute what the framework does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.session import run_keras_2

pytestmark = pytest.mark.whole

HERE = Path(__file__).resolve().parent

#: of the outputs' numbers and weights that are rounded
NEAR = 0.005

BITS = ("signs", "signs_behind", "signs_too", "greatest_sign")
PRODUCTS = ("padded_bits", "padded_product_of_bits", "moved_bits", "signs_read", "curve_of_bits", "biased_bits")
CAPPED = ("relu6", "relu_to_6", "relu_to_6_inside", "relu_to_6_of_steps")


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    written = tmp_path_factory.mktemp("mended")
    run_keras_2(HERE / "mended_session.py", written)
    return written


@pytest.fixture(scope="module", params=["io_parallel", "io_stream"])
def found(request: pytest.FixtureRequest, directory: Path) -> dict[str, Any]:
    """Name of the output -> (worst difference, span of the answers, the numbers of the C++ if they are few)."""
    return dict(json.loads((directory / f"{request.param}.json").read_text()))


def check(found: dict[str, Any], names: tuple[str, ...], most: float) -> None:
    for name in names:
        if name in found:  # some have no C++ in io_stream
            worst, span, _ = found[name]
            assert worst <= most, f"{name}: {worst} of {span}"
            assert span > 10 * most, f"{name}: every answer is the same"


def test_padding_is_never_the_maximum_of_numbers_that_are_all_positive(found: dict[str, Any]) -> None:
    check(found, ("padded_maximum", "padded_maximum_1d"), 0)


def test_padding_goes_to_the_convolution_that_has_it_and_not_to_another_reader_of_the_stream(found: dict[str, Any]) -> None:
    check(found, ("padded_copy", "padded_copy_of_an_image"), 0.02)


def test_a_relu_to_6_is_computed_wherever_it_stands(found: dict[str, Any]) -> None:
    check(found, CAPPED, NEAR)


def test_an_option_that_is_1_in_the_file_is_true(found: dict[str, Any]) -> None:
    check(found, ("switches",), NEAR)


def test_a_global_pooling_without_types_does_not_wrap(found: dict[str, Any]) -> None:
    check(found, ("mean", "mean_1d", "greatest"), NEAR)


def test_the_sums_of_a_recurrent_layer_do_not_wrap(found: dict[str, Any]) -> None:
    """hls4ml's tables of sigmoid and tanh have a step of 1/64 and 1/128."""
    check(found, ("long_sums", "quantised_cell"), 0.04)


def test_the_sums_of_a_layer_normalisation_do_not_wrap(found: dict[str, Any]) -> None:
    """The sum of six numbers around 7 is beyond the default type; the table of 1 / sqrt(variance) has a step of 1/1024."""
    check(found, ("normal_sums",), 0.2)


def test_binary_outputs_are_minus_1_and_1(found: dict[str, Any]) -> None:
    check(found, BITS, 0)
    assert [found[name][2] for name in BITS] == 4 * [[-1, 1]]


def test_bits_are_minus_1_and_1_to_every_layer(found: dict[str, Any]) -> None:
    check(found, PRODUCTS, 0)


def test_a_normalisation_that_others_read_too_is_not_merged_with_a_binary_activation(found: dict[str, Any]) -> None:
    check(found, ("shared_normal",), NEAR)


def test_a_model_of_one_layer_is_surveyed(directory: Path) -> None:
    (pooling,) = json.loads((directory / "facts.json").read_text())["pooling"]
    assert pooling["numbers"]["greatest"] > 0


def test_the_numbers_of_an_lstm_are_those_of_its_cell_state_too(directory: Path) -> None:
    """The state grows towards tanh(1) * sigmoid(1) / (1 - sigmoid(1)), 2.07, and its result stays below 1."""
    _, counting = json.loads((directory / "facts.json").read_text())["counting"]
    assert 1.5 < counting["numbers"]["greatest"] < 2.2


def test_the_survey_has_the_weights_that_a_convolution_with_a_normalisation_has_together(directory: Path) -> None:
    """1.5 and 0 times 1 / sqrt(4 + 0.001), plus 0.25."""
    (folded,) = json.loads((directory / "facts.json").read_text())["folded"]
    assert folded["weights"]["weight"]["least"] == pytest.approx(0.75, rel=1e-3)
    assert folded["weights"]["bias"]["least"] == pytest.approx(0.25, rel=1e-3)


def test_a_transposed_convolution_has_the_size_and_the_answers_of_keras(directory: Path) -> None:
    found = json.loads((directory / "transposed.json").read_text())
    assert len(found) > 100
    assert {name: worst for name, worst in found.items() if worst > 1e-5} == {}
