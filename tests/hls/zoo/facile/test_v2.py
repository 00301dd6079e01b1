# SPDX-License-Identifier: Apache-2.0
"""FACILE v2: its row layout, its rewriting with powers of two, and what ships, in the fabric's numbers by numpy."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import h5py
import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from hypersonic.hls.fixed import FixedPoint
from hypersonic.hls.zoo.facile import events as facile_events
from hypersonic.hls.zoo.facile import report as facile_report
from hypersonic.hls.zoo.facile import scales
from hypersonic.hls.zoo.facile.recipe import HELD_OUT_SEED
from hypersonic.hls.zoo.facile.scales import Dense
from hypersonic.hls.zoo.facile_v2 import events, network, recipe, report

ZOO = Path(network.__file__).parents[1]
DESCRIPTIONS = {name: yaml.safe_load((ZOO / name / f"{name}.yaml").read_text()) for name in ("facile_v2", "facile_v2_da")}
BITS = {"facile_v2": network.SHARED, "facile_v2_da": network.UNROLLED}
LAYERS = len(recipe.UNITS) + 1


def shipped(file: h5py.File, i: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    dense = file["model_weights"][f"dense{i}"][f"dense{i}"]
    return dense["kernel:0"][:].astype(np.float64), dense["bias:0"][:].astype(np.float64)


def fixed_point_predict(rows: NDArray[np.float32], name: str = "facile_v2") -> NDArray[np.float64]:
    """Rows (n, 47) -> GeV (n,) with every quantiser of the fabric; float64 holds each sum exactly."""
    description = DESCRIPTIONS[name]
    precision = FixedPoint.parse(description["input"]["precision"])
    z = precision.to_float(precision.from_float(recipe.network_inputs(rows)))
    with h5py.File(ZOO / name / f"{name}.h5") as file:
        z = z * file["model_weights"]["bn0"]["bn0"]["gamma:0"][:].astype(np.float64)
        for i in range(LAYERS):
            kernel, bias = shipped(file, i)
            z = z @ kernel + bias
            if i < LAYERS - 1:
                top = 2.0 ** BITS[name].activation
                z = np.clip(np.rint(z * top), 0.0, top - 1.0) / top
    output = FixedPoint.parse(description["output"]["precision"])
    return np.ldexp(output.to_float(output.from_float(z))[:, 0], -description["output"]["scale_exponents"][0])


def test_rows_are_the_published_layout() -> None:
    sample = facile_events.physics_events(1, 3)
    rows = events.rows_of(sample)
    assert rows.shape == (16_000, 47)
    assert rows.dtype == np.float32
    assert len(events.FEATURES) == len(events.INPUT_EXPONENTS) == 47
    column = dict(zip(events.FEATURES, rows.T, strict=True))
    np.testing.assert_array_equal(column["iphi"], sample.rows[:, 1])
    np.testing.assert_array_equal(column["gain"], sample.rows[:, 2])
    np.testing.assert_array_equal(rows[:, 2:10], sample.rows[:, 3:11])
    np.testing.assert_array_equal(rows[:, 10:17] @ np.arange(1, 8), sample.rows[:, 11:] @ np.arange(1, 8))
    np.testing.assert_array_equal(rows[:, 17:] @ np.arange(30), np.abs(sample.rows[:, 0]))
    np.testing.assert_array_equal(rows[:, 17:].sum(axis=1), 1.0)
    assert events.gate_rows().shape == (2000, 47)


@pytest.mark.parametrize("name", DESCRIPTIONS)
def test_what_ships_has_the_published_size_and_lies_on_its_grids(name: str) -> None:
    count = 4 * 47  # of the batch norm
    with h5py.File(ZOO / name / f"{name}.h5") as file:
        listed = json.loads(file.attrs["model_config"])["config"]["layers"]
        layers = {layer["config"]["name"]: layer["config"] for layer in listed}
        for i, (n_in, n_out) in enumerate(pairwise((47, *recipe.UNITS, 1))):
            kernel, bias = shipped(file, i)
            assert kernel.shape == (n_in, n_out)
            count += kernel.size + bias.size
            for values, what in ((kernel, "kernel"), (bias, "bias")):
                quantiser = layers[f"dense{i}"][f"{what}_quantizer"]["config"]
                assert what == "bias" or quantiser["bits"] == BITS[name].weight
                steps = np.ldexp(values, quantiser["bits"] - 1 - quantiser["integer"])
                np.testing.assert_array_equal(steps, np.rint(steps))
                assert np.abs(steps).max() < 2 ** (quantiser["bits"] - 1)
        gamma = file["model_weights"]["bn0"]["bn0"]["gamma:0"][:]
    assert count == recipe.PARAMETERS == 36_229
    assert (np.frexp(gamma)[0] == 0.5).all()
    assert (np.abs(np.log2(gamma)) <= scales.LARGEST_SHIFT).all()


@settings(max_examples=10)
@given(st.integers(0, 2**32 - 1))
def test_equalising_does_not_change_the_function_and_keeps_outputs_below_one(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1.0, 1.0, (200, 47))
    network = tuple(
        Dense(
            rng.normal(size=(n, m)) * 10.0 ** rng.uniform(-1, 1, m),
            rng.normal(size=m),
            10.0 ** rng.uniform(-1, 1, n),
            rng.normal(size=n),
        )
        for n, m in pairwise((47, *recipe.UNITS, 1))
    )
    expected = scales.forward(network, x)[-1]
    equalised = recipe.equalise(network, x)
    outputs = scales.forward(equalised, x)
    np.testing.assert_allclose(outputs[-1], expected, atol=1e-9 * max(1.0, float(np.abs(expected).max())))
    assert all(output.max() < 1.0 for output in outputs[:-1])
    assert (np.frexp(equalised[0].scale)[0] == 0.5).all()
    assert all((layer.scale == 1.0).all() for layer in equalised[1:])


def test_a_start_is_close_to_the_energy_before_its_first_step() -> None:
    sample = recipe.training_sample(1, 1, 3)
    network = recipe.initial_network(sample, 5)
    reco = np.ldexp(scales.forward(network, sample.x)[-1][:, 0], -scales.OUTPUT_EXPONENT)
    (row,) = facile_report.resolution_table({"start": reco}, sample.target[:, 0], bins=((100.0, 500.0),))
    assert abs(row.bias) < 0.1
    assert row.sigma68 < 0.15


@pytest.fixture(scope="module")
def table() -> dict[tuple[str, float], facile_report.Resolution]:
    sample = facile_events.log_flat_events(3, HELD_OUT_SEED + 200)
    rows = events.rows_of(sample)
    predictions = {
        "float": report.float_predict(rows),
        "fixed": fixed_point_predict(rows),
        "fixed, 8 bits": fixed_point_predict(rows, "facile_v2_da"),
        **facile_report.baselines(sample.rows),
    }
    return {(row.method, row.low_gev): row for row in facile_report.resolution_table(predictions, sample.energy)}


@pytest.mark.parametrize("low_gev", [2.0, 5.0, 10.0, 30.0, 100.0])
def test_fixed_point_is_unbiased_and_as_good_as_float(
    table: dict[tuple[str, float], facile_report.Resolution], low_gev: float
) -> None:
    fixed, floating = table["fixed", low_gev], table["float", low_gev]
    assert abs(fixed.bias) < 0.03
    assert fixed.sigma68 < 1.05 * floating.sigma68
    if low_gev >= 10.0:
        assert fixed.sigma68 < table["in-time sum", low_gev].sigma68


@pytest.mark.parametrize("low_gev", [2.0, 5.0, 10.0, 30.0, 100.0])
def test_eight_bits_are_unbiased_and_nearly_as_good(
    table: dict[tuple[str, float], facile_report.Resolution], low_gev: float
) -> None:
    fixed = table["fixed, 8 bits", low_gev]
    assert abs(fixed.bias) < 0.03
    assert fixed.sigma68 < 1.15 * table["float", low_gev].sigma68


@pytest.mark.parametrize("name", DESCRIPTIONS)
def test_empty_channels_stay_empty_and_absurd_ones_saturate(name: str) -> None:
    sample = facile_events.physics_events(1, HELD_OUT_SEED + 220)
    (row,) = facile_report.empty_channels({"fixed": fixed_point_predict(events.rows_of(sample), name)}, sample.energy)
    assert row.quantile68_gev < 0.1
    rows = np.repeat(events.gate_rows()[:1], 3, axis=0)
    rows[0, 2:10], rows[1, 2:10], rows[2, 1] = np.inf, -np.inf, 1e30
    assert np.isfinite(fixed_point_predict(rows, name)).all()


def test_reuse_factors_are_ones_hls4ml_has_and_layers_take_100_clocks_at_most() -> None:
    options = DESCRIPTIONS["facile_v2"]["hls4ml"]["LayerName"]
    for i, (n_in, n_out) in enumerate(pairwise((47, *recipe.UNITS, 1))):
        reuse = options[f"dense{i}"]["ReuseFactor"]
        assert reuse <= 100
        assert n_in * n_out % reuse == 0
        assert reuse <= n_in or reuse % n_in == 0
