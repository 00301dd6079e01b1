# SPDX-License-Identifier: Apache-2.0
"""Models that Keras 3 has saved: rebuilt in Keras 2 with the same layers and the same answers, or refused by name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hypersonic.hls.build import convert_model
from hypersonic.hls.errors import ConversionError
from hypersonic.hls.frontend.description import describe
from hypersonic.hls.frontend.keras.rebuild import in_keras_2
from hypersonic.hls.frontend.saved import is_keras_3
from tests.support.session import run_session

pytestmark = pytest.mark.whole("hls", "requirements.lock")


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("keras_3")
    run_session(Path(__file__).with_name("rebuild_session.py"), where)
    return where


@pytest.fixture(scope="module")
def results(directory: Path) -> dict[str, object]:
    return dict(json.loads((directory / "results.json").read_text()))


def test_layers_keep_their_names_and_the_model_its_answers(results: dict[str, object]) -> None:
    """The session compares the answers."""
    assert results["by_default"] == ["input_layer", "dense", "batch_normalization", "dropout", "dense_1"]
    assert results["dictionaries"] == ["a", "b", "subtract_3", "first", "second"]
    for name, layers in (
        ("operations", 11),
        ("sequential", 3),
        ("images", 11),
        ("series", 8),
        ("hard", 5),
        ("branches", 13),
        ("indices", 4),
        ("half_precision", 3),
        ("attention", 6),
    ):
        kept = results[name]
        assert isinstance(kept, list), kept
        assert len(kept) == layers


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("operation", "layer 'expm1': the operation expm1 with a tensor (batch, 4) has no layer in Keras 2"),
        ("reciprocal", "layer 'true_divide_1': the operation truedivide with a constant, a tensor (batch, 4) has no layer"),
        ("batch_as_axis", "with a tensor (batch, 8, 5), a tensor (batch, 5) has no layer in Keras 2"),
        ("unbuilt", "has no input shape; begin it with keras.Input(shape=...)"),
        ("eight_bits", "its dtype policy is int8_from_float32, expected one of numbers"),
        ("masked", "it is called with use_causal_mask, expected query, value and key only"),
        ("newer_layer", "layer 'rms_normalization': Keras 3's layer RMSNormalization has no layer in Keras 2"),
        ("altered", "rebuilt in Keras 2 it differs from Keras 3 by "),
        ("damaged", "damaged.keras does not hold a model that Keras 3."),
    ],
)
def test_what_keras_2_cannot_compute_is_refused_by_name(results: dict[str, object], model: str, message: str) -> None:
    assert message in str(results[model])


def test_a_saved_model_is_converted(directory: Path) -> None:
    file = directory / "by_default.keras"
    file.with_suffix(".yaml").write_text(
        'name: kept\ninput: {precision: "ap_fixed<16,4>"}\noutput: {precision: "ap_fixed<32,14>"}\n'
        'hls4ml: {Model: {Precision: {default: "ap_fixed<24,12>"}}}\n'
    )
    project, _ = convert_model(describe(str(file)), core="csim")
    (figures,) = project.report["gate"]["outputs"].values()
    assert figures["max_abs_difference"] < 0.01 * (figures["greatest"] - figures["least"])


def test_a_refusal_of_the_other_process_is_one_error(directory: Path) -> None:
    with pytest.raises(ConversionError, match="layer 'expm1': the operation"):
        in_keras_2(directory / "operation.keras")


@pytest.mark.parametrize("content", [b"", b"PK\x05\x06" + bytes(18), b"not a model"])
@pytest.mark.parametrize("suffix", [".keras", ".h5"])
def test_a_file_that_is_no_model_is_not_one_of_keras_3(tmp_path: Path, suffix: str, content: bytes) -> None:
    file = tmp_path / f"model{suffix}"
    file.write_bytes(content)
    assert not is_keras_3(file)
    assert not is_keras_3(tmp_path / f"missing{suffix}")
