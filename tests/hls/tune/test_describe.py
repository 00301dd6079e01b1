# SPDX-License-Identifier: Apache-2.0
"""The YAML that `hypersonic new` writes, from surveys made by hand. tests/end_to_end/own builds a real one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from hypersonic import cli
from hypersonic.hls.core_kind import CoreKind
from hypersonic.hls.fixed import FixedPoint
from hypersonic.hls.frontend.description import read_description
from hypersonic.hls.frontend.survey import LayerSurvey, Numbers, Survey, TensorSurvey
from hypersonic.hls.tune.describe import describe_model, type_for

DENSE = LayerSurvey(
    "dense", "dense_relu", "Dense", ("accum", "bias", "result", "weight"), True,
    {"weight": Numbers(-3.0, 2.0, 0.1), "bias": Numbers(0.0, 0.5, 0.5)}, 90, "", "relu", False, 8, Numbers(0, 60, 1), None,
)  # fmt: skip
LAST = replace(DENSE, name="last", result="last", activation="linear", is_output=True, classes=1)
SOFTMAX = replace(LAST, result="last_softmax", activation="softmax", classes=5, before=Numbers(-9.0, 9.0, 0.1))
X, Y = TensorSurvey("input_1", (10,), Numbers(-300.0, 900.0, 0.5)), TensorSurvey("last", (1,), Numbers(-1.0, 5.0, 5.0), "last")
FOUND = Survey((X,), (Y,), (DENSE, LAST), 1000)


def read(directory: Path, found: Survey, rows: str | None = "rows.npy", stem: str = "own") -> tuple[dict[str, object], str]:
    file = directory / f"{stem}.keras"
    text = describe_model(file, found, rows)
    file.with_suffix(".yaml").write_text(text)
    read_description(file)
    return yaml.safe_load(text), text


@pytest.mark.parametrize(
    ("numbers", "fine", "unsigned", "expected"),
    [
        (Numbers(-1.0, 1.0, 1.0), False, False, "ap_fixed<16,2>"),
        (Numbers(0.0, 3.0, 1.0), False, True, "ap_ufixed<16,2>"),
        (Numbers(0.0, 3.0, 1.0), False, False, "ap_fixed<16,3>"),
        (Numbers(-0.1, 0.1, 0.1), False, False, "ap_fixed<16,-2>"),
        (Numbers(0.0, 0.0, 0.0), True, True, "ap_ufixed<16,0>"),
        (Numbers(-300.0, 900.0, 0.5), True, False, "ap_fixed<21,12>"),
        (Numbers(-300.0, 900.0, 1e-9), True, False, "ap_fixed<24,12>"),
    ],
)
def test_a_type_holds_the_numbers_with_room_and_resolves_the_smallest(
    numbers: Numbers, fine: bool, unsigned: bool, expected: str
) -> None:
    text = type_for(numbers, modes="", fine=fine, unsigned=unsigned)
    assert text == expected
    kind = FixedPoint.parse(text)
    low, high = (float(kind.to_float(raw)) for raw in (kind.min_raw, kind.max_raw))
    assert low <= numbers.least <= numbers.greatest <= high


def test_types_come_from_the_numbers_in_the_rows(tmp_path: Path) -> None:
    value, text = read(tmp_path, FOUND)
    assert value["input"] == {"name": "input_1", "precision": "ap_fixed<21,12,AP_RND_CONV,AP_SAT>", "datatype": "FP32"}
    assert value["output"] == {"name": "last", "precision": "ap_fixed<16,4,AP_RND_CONV,AP_SAT>", "datatype": "FP32"}
    assert value["hls4ml"]["LayerName"] == {  # type: ignore[index]
        "dense": {"Precision": {"weight": "ap_fixed<16,3>", "bias": "ap_fixed<16,1>"}},
        "dense_relu": {"Precision": {"result": "ap_ufixed<16,7,AP_RND,AP_SAT>"}},
        "last": {"Precision": {"weight": "ap_fixed<16,3>", "bias": "ap_fixed<16,1>"}},
    }
    assert value["gate"] == {"rows": "rows.npy"}
    assert "1,000 rows of rows.npy" in text
    assert "-300 to 900 in the rows" in text


def test_without_rows_types_are_a_guess_except_those_of_weights(tmp_path: Path) -> None:
    bare = Survey((replace(X, numbers=None),), (replace(Y, numbers=None),), (replace(DENSE, numbers=None), LAST), 0)
    value, text = read(tmp_path, bare, None)
    assert value["input"]["precision"] == "ap_fixed<16,6,AP_RND_CONV,AP_SAT>"  # type: ignore[index]
    layers = value["hls4ml"]["LayerName"]  # type: ignore[index]
    assert layers["dense_relu"]["Precision"]["result"] == "ap_fixed<16,6,AP_RND,AP_SAT>"
    assert layers["dense"]["Precision"]["weight"] == "ap_fixed<16,3>"
    assert "gate" not in value
    assert "# gate:" in text


def test_small_dense_networks_are_unrolled_and_others_share_multipliers(tmp_path: Path) -> None:
    assert read_after(tmp_path, FOUND) is CoreKind.DA
    normalised = replace(DENSE, name="bn", result="bn", kind="BatchNormalization", activation="")
    assert read_after(tmp_path, replace(FOUND, layers=(normalised, DENSE, LAST))) is CoreKind.DA
    for layer in (SOFTMAX, replace(LAST, kind="Conv2D"), replace(LAST, count=100_000)):
        assert read_after(tmp_path, replace(FOUND, layers=(DENSE, layer))) is CoreKind.RF
    value, _ = read(tmp_path, replace(FOUND, layers=(DENSE, replace(LAST, kind="Conv1D", count=100_000))))
    assert value["hls4ml"]["IOType"] == "io_stream"  # type: ignore[index]
    assert value["hls4ml"]["Model"]["ReuseFactor"] == 256  # type: ignore[index]


def read_after(directory: Path, found: Survey) -> CoreKind:
    read(directory, found)
    return read_description(directory / "own.keras").core


def test_a_softmax_has_tables_that_do_not_wrap_and_its_output_is_a_probability(tmp_path: Path) -> None:
    value, _ = read(tmp_path, replace(FOUND, layers=(DENSE, SOFTMAX)))
    assert value["output"]["precision"] == "ap_ufixed<16,0,AP_RND_CONV,AP_SAT>"  # type: ignore[index]
    layers = value["hls4ml"]["LayerName"]  # type: ignore[index]
    assert layers["last"]["Precision"]["result"] == "ap_fixed<16,5,AP_RND,AP_SAT>"
    assert layers["last_softmax"]["inv_inp_t"] == "ap_ufixed<20,4>"


def test_types_of_quantisers_are_left_to_them(tmp_path: Path) -> None:
    quantised = tuple(replace(layer, automatic=("accum",), result_automatic=False) for layer in (DENSE, LAST))
    value, _ = read(tmp_path, replace(FOUND, layers=quantised))
    assert "LayerName" not in value["hls4ml"]  # type: ignore[operator]
    assert "precision" not in value["output"]  # type: ignore[operator]


def test_several_inputs_stand_by_name(tmp_path: Path) -> None:
    value, _ = read(tmp_path, replace(FOUND, inputs=(X, replace(X, name="on", shape=(2, 2)))))
    assert list(value["inputs"]) == ["input_1", "on"]  # type: ignore[call-overload]


@pytest.mark.parametrize("stem", ["module", "2021-12 best_model!!", "a" * 60, "..."])
def test_any_file_name_gives_a_name_that_a_kernel_can_have(tmp_path: Path, stem: str) -> None:
    read(tmp_path, FOUND, stem=stem)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("own.pt", "own.pt has the suffix '.pt', expected a model file: .h5, .keras, .onnx"),
        ("none.keras", "none.keras does not exist"),
        ("own.keras", "own.yaml exists; --force replaces it, --output writes another file"),
    ],
)
def test_a_wrong_file_is_refused_before_anything_is_loaded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, words: str
) -> None:
    for file in ("own.keras", "own.pt", "own.yaml"):
        (tmp_path / file).write_text("")
    assert cli.main(["new", str(tmp_path / name)]) == 2
    assert words in capsys.readouterr().err
    assert (tmp_path / "own.yaml").read_text() == ""
