# SPDX-License-Identifier: Apache-2.0
"""The shipped facile.h5 in the fabric's types, computed with numpy, is as good as the float network."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
import yaml
from numpy.typing import NDArray

from hypersonic.hls.fixed import FixedPoint
from hypersonic.hls.zoo.facile import events, network, recipe, report, scales
from hypersonic.hls.zoo.seeded import on_grid

SHIPPED = Path(scales.__file__).parent
DESCRIPTION = yaml.safe_load((SHIPPED / "facile.yaml").read_text())


def fixed_point_predict(rows: NDArray[np.float32]) -> NDArray[np.float64]:
    """Rows (n, 18) -> GeV (n,) with every quantiser of the fabric; float64 holds each sum exactly."""
    x = np.ldexp(rows.astype(np.float64), np.array(DESCRIPTION["input"]["scale_exponents"]))
    precision = FixedPoint.parse(DESCRIPTION["input"]["precision"])
    z = precision.to_float(precision.from_float(x))
    with h5py.File(SHIPPED / "facile.h5") as file:
        weights = file["model_weights"]
        for i in range(4):
            dense = weights[f"dense{i}"][f"dense{i}"]
            kernel = on_grid(dense["kernel:0"][:], (network.WEIGHT_BITS, 1)).astype(np.float64)
            bias = on_grid(dense["bias:0"][:], (network.BIAS_BITS, 3)).astype(np.float64)
            scale = 1.0 if i == 3 else weights[f"bn{i}"][f"bn{i}"]["gamma:0"][:].astype(np.float64)
            z = (z * scale) @ kernel + bias
            if i < 3:
                top = 2.0**network.ACTIVATION_BITS
                z = np.clip(np.rint(z * top), 0.0, top - 1.0) / top
    output = FixedPoint.parse(DESCRIPTION["output"]["precision"])
    return np.ldexp(output.to_float(output.from_float(z))[:, 0], -DESCRIPTION["output"]["scale_exponents"][0])


@pytest.fixture(scope="module")
def table() -> dict[tuple[str, float], report.Resolution]:
    sample = events.log_flat_events(8, recipe.HELD_OUT_SEED + 100)
    predictions = {
        "float": report.float_predict(sample.rows),
        "fixed": fixed_point_predict(sample.rows),
        **report.baselines(sample.rows),
    }
    return {(row.method, row.low_gev): row for row in report.resolution_table(predictions, sample.energy)}


@pytest.mark.parametrize("low_gev", [2.0, 5.0, 10.0, 30.0, 100.0])
def test_fixed_point_is_unbiased_and_within_5_percent_of_float(
    table: dict[tuple[str, float], report.Resolution], low_gev: float
) -> None:
    fixed, floating = table["fixed", low_gev], table["float", low_gev]
    assert abs(fixed.bias) < 0.03
    assert fixed.sigma68 < 1.05 * floating.sigma68


@pytest.mark.parametrize("low_gev", [10.0, 30.0, 100.0])
def test_fixed_point_beats_the_in_time_sum(table: dict[tuple[str, float], report.Resolution], low_gev: float) -> None:
    assert table["fixed", low_gev].sigma68 < table["in-time sum", low_gev].sigma68


def test_full_scale_does_not_wrap() -> None:
    sample = events.log_flat_events(1, recipe.HELD_OUT_SEED + 110, low_gev=450.0)
    hit = sample.energy > 450.0
    assert fixed_point_predict(sample.rows)[hit].min() > 350.0


def test_absurd_inputs_saturate() -> None:
    rows = np.repeat(events.gate_rows()[:1], 4, axis=0)
    rows[0, 3:11], rows[1, 3:11], rows[2, 2], rows[3, 3:11] = np.inf, 1e30, 1e30, -np.inf
    assert np.isfinite(fixed_point_predict(rows)).all()


def test_empty_channels_stay_empty() -> None:
    sample = events.physics_events(2, recipe.HELD_OUT_SEED + 120)
    (row,) = report.empty_channels({"fixed": fixed_point_predict(sample.rows)}, sample.energy)
    assert row.quantile68_gev < 0.1
    assert abs(row.mean_gev) < 0.1


def test_batch_norms_that_ship_are_exact_powers_of_two() -> None:
    with h5py.File(SHIPPED / "facile.h5") as file:
        for i in range(3):
            norm = {name: values[:] for name, values in file["model_weights"][f"bn{i}"][f"bn{i}"].items()}
            assert (np.frexp(norm["gamma:0"])[0] == 0.5).all()
            assert (np.abs(np.log2(norm["gamma:0"])) <= scales.LARGEST_SHIFT).all()
            assert (norm["moving_variance:0"] == 1.0).all()
            assert not norm["beta:0"].any()
            assert not norm["moving_mean:0"].any()


def test_the_description_says_what_the_training_assumes() -> None:
    assert FixedPoint.parse(DESCRIPTION["input"]["precision"]) == network.INPUT
    assert tuple(DESCRIPTION["input"]["scale_exponents"]) == scales.INPUT_EXPONENTS
    assert DESCRIPTION["output"]["scale_exponents"] == [scales.OUTPUT_EXPONENT]
    assert FixedPoint.parse(DESCRIPTION["output"]["precision"]).width == network.OUTPUT_BITS
    for i in range(3):
        scale = FixedPoint.parse(DESCRIPTION["hls4ml"]["LayerName"][f"bn{i}"]["Precision"]["scale"])
        assert scale.fraction >= scales.LARGEST_SHIFT
        assert scale.to_float([scale.max_raw])[0] >= 2.0**scales.LARGEST_SHIFT
