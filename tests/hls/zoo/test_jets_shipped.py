# SPDX-License-Identifier: Apache-2.0
"""The jet tagger that ships: in the fabric's numbers by numpy, converted by hls4ml, held to the float network's quality."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
import yaml
from numpy.typing import NDArray

from hypersonic.hls.build import build_project
from hypersonic.hls.csim.compiled import Csim, compile_csim
from hypersonic.hls.fixed import FixedPoint
from hypersonic.hls.zoo.jets import events, network, report

pytestmark = pytest.mark.whole

ZOO = Path(network.__file__).parents[1]
DESCRIPTIONS = {name: yaml.safe_load((ZOO / name / f"{name}.yaml").read_text()) for name in ("jets", "jets_logits")}


@pytest.fixture(scope="module")
def held_out() -> events.Jets:
    return events.jets(6000, events.HELD_OUT_SEED + 100)


def fixed_point_logits(rows: NDArray[np.float32], file_name: str) -> NDArray[np.float64]:
    """Rows (n, 16) -> logits (n, 5) with every quantiser of the fabric; float64 holds each sum exactly."""
    z = events.network_inputs(rows).astype(np.float64)
    relu = FixedPoint(
        network.ACTIVATION_BITS,
        network.ACTIVATION_INTEGER,
        signed=False,
        rounding=events.INPUT.rounding,
        overflow=events.INPUT.overflow,
    )
    logit = FixedPoint.parse(DESCRIPTIONS["jets_logits"]["output"]["precision"])
    with h5py.File(ZOO / file_name) as file:
        for i in range(4):
            dense = file["model_weights"][f"dense{i}"][f"dense{i}"]
            z = z @ dense["kernel:0"][:].astype(np.float64) + dense["bias:0"][:]
            grid = relu if i < 3 else logit
            z = grid.to_float(grid.from_float(z))
    return z


def test_constants_that_ship_are_on_the_grids_of_their_types() -> None:
    with h5py.File(ZOO / "jets" / "jets.h5") as file:
        for i in range(4):
            dense = file["model_weights"][f"dense{i}"][f"dense{i}"]
            kernel = np.ldexp(dense["kernel:0"][:], network.WEIGHT_BITS - network.WEIGHT_INTEGER - 1)
            bias = np.ldexp(dense["bias:0"][:], network.BIAS_BITS - network.BIAS_INTEGER - 1)
            np.testing.assert_array_equal(kernel, np.rint(kernel))
            np.testing.assert_array_equal(bias, np.rint(bias))
            assert np.abs(kernel).max() <= 2 ** (network.WEIGHT_BITS - 1)


def test_the_network_is_the_tutorial_s() -> None:
    with h5py.File(ZOO / "jets" / "jets.h5") as file:
        shapes = [file["model_weights"][f"dense{i}"][f"dense{i}"]["kernel:0"].shape for i in range(4)]
    assert shapes == [(16, 64), (64, 32), (32, 32), (32, 5)]
    assert sum(n * m + m for n, m in shapes) == network.PARAMETERS


def test_both_files_hold_the_same_network(held_out: events.Jets) -> None:
    one, other = (fixed_point_logits(held_out.rows[:200], name) for name in ("jets/jets.h5", "jets_logits/jets_logits.h5"))
    np.testing.assert_array_equal(one, other)


def test_fixed_point_tags_as_well_as_float(held_out: events.Jets) -> None:
    outputs = {"float": report.float_predict(held_out.rows), "fixed": fixed_point_logits(held_out.rows, "jets/jets.h5")}
    floating, fixed = report.tagging(outputs, held_out.label)
    assert min(floating.auc) > 0.85
    assert fixed.accuracy > floating.accuracy - 0.01
    exponential = np.exp(outputs["fixed"])
    probability = {"fixed": exponential / exponential.sum(axis=1, keepdims=True)}
    for one, other in zip(report.tagging(probability, held_out.label)[0].auc, floating.auc, strict=True):
        assert one > other - 0.005


def test_the_descriptions_say_what_the_training_assumes() -> None:
    for description in DESCRIPTIONS.values():
        assert FixedPoint.parse(description["input"]["precision"]) == events.INPUT
        assert tuple(description["input"]["scale_exponents"]) == events.INPUT_EXPONENTS
    logits = FixedPoint.parse(DESCRIPTIONS["jets_logits"]["output"]["precision"])
    widened = FixedPoint.parse(DESCRIPTIONS["jets"]["hls4ml"]["LayerName"]["widened"]["Precision"]["result"])
    assert (logits.width, logits.integer) == (network.LOGIT_BITS, network.LOGIT_INTEGER + 1)
    assert (widened.fraction, widened.integer) == (logits.fraction, logits.integer + 1)


def test_converted_tagger_tells_its_classes_apart(held_out: events.Jets, tmp_path: Path) -> None:
    project, _ = build_project("jets", tmp_path / "jets", core="csim")
    assert project.report["gate"]["quantised_max_abs_difference"] < 0.01
    csim = Csim(compile_csim(project), project)
    raw = csim.predict_raw(project.inputs.to_raw([held_out.rows]))
    probability = project.outputs.tensors[0].fixed.to_float(raw)
    assert np.ptp(probability, axis=1).max() > 0.9
    assert (np.ptp(probability, axis=1) > 0.0).all()
    np.testing.assert_allclose(probability.sum(axis=1), 1.0, atol=0.02)
    floating, fixed = report.tagging({"float": report.float_predict(held_out.rows), "csim": probability}, held_out.label)
    for one, other in zip(fixed.auc, floating.auc, strict=True):
        assert one > other - 0.005


def test_absurd_jets_get_probabilities_all_the_same(tmp_path: Path) -> None:
    project, _ = build_project("jets", tmp_path / "jets", core="csim")
    rows = np.repeat(events.gate_rows()[:1], 4, axis=0)
    rows[0], rows[1], rows[2, 14], rows[3] = np.inf, -np.inf, 1e30, 0.0
    raw = Csim(compile_csim(project), project).predict_raw(project.inputs.to_raw([rows]))
    np.testing.assert_allclose(project.outputs.tensors[0].fixed.to_float(raw).sum(axis=1), 1.0, atol=0.02)


def test_area_under_curve_of_known_scores() -> None:
    assert report.area_under_curve([0.1, 0.4, 0.35, 0.8], [False, False, True, True]) == 0.75
    assert report.area_under_curve([1.0, 1.0, 1.0], [True, False, False]) == 0.5
    assert report.area_under_curve([0.0, 1.0], [True, False]) == 0.0


def test_outputs_of_another_number_of_jets_are_named() -> None:
    with pytest.raises(ValueError, match=r"csim: outputs have shape \(3, 5\), expected \(4, 5\)"):
        report.tagging({"csim": np.zeros((3, 5))}, np.zeros(4, np.int64))
