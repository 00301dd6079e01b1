# SPDX-License-Identifier: Apache-2.0
"""The resolution report, and what the shipped float network must reach."""

from __future__ import annotations

import numpy as np
import pytest

from hypersonic.hls.zoo.facile import events, recipe, report


def test_bias_and_sigma68_of_a_gaussian_response() -> None:
    rng = np.random.default_rng(5)
    true = rng.uniform(10.0, 30.0, 200_000)
    (row,) = report.resolution_table({"gauss": true * rng.normal(1.02, 0.05, true.shape)}, true, bins=((10.0, 30.0),))
    assert row.channels == 200_000
    assert row.bias == pytest.approx(0.02, abs=1e-3)
    assert row.sigma68 == pytest.approx(0.05, rel=0.02)


def test_bins_are_half_open_and_bins_without_channels_are_left_out() -> None:
    true = np.array([0.5, 0.99, 1.0, 5.0])
    table = report.resolution_table({"exact": true}, true, bins=((0.5, 1.0), (1.0, 2.0), (2.0, 5.0), (5.0, 10.0)))
    assert [(row.low_gev, row.channels) for row in table] == [(0.5, 2), (1.0, 1), (5.0, 1)]
    assert all(row.bias == 0.0 and row.sigma68 == 0.0 for row in table)


def test_the_required_bins_are_reported() -> None:
    assert {(0.5, 1.0), (2.0, 5.0), (10.0, 30.0), (30.0, 100.0), (100.0, 500.0)} <= set(report.BINS_GEV)


def test_empty_channels_are_those_without_energy() -> None:
    true = np.concatenate([np.zeros(1000), np.ones(10)])
    reco = np.concatenate([np.linspace(0.0, 1.0, 1000), np.full(10, 9.0)])
    (row,) = report.empty_channels({"linear": reco}, true)
    assert row.channels == 1000
    assert row.quantile68_gev == pytest.approx(0.68, abs=2e-3)
    assert row.quantile99_gev == pytest.approx(0.99, abs=2e-3)
    assert report.empty_channels({"linear": reco[-10:]}, true[-10:]) == []


def test_a_prediction_of_the_wrong_length_is_named() -> None:
    with pytest.raises(ValueError, match="csim: 3 energies, expected 4"):
        report.resolution_table({"csim": np.ones(3)}, np.ones(4))


def test_rendered_table_has_a_line_per_method_and_a_column_per_bin() -> None:
    true = np.array([0.0, 0.7, 20.0, 21.0])
    predictions = {"float": true + 0.1, "in-time sum": true}
    text = report.render(report.resolution_table(predictions, true), report.empty_channels(predictions, true))
    head, *lines = text.splitlines()
    assert "0.5-1" in head
    assert "10-30" in head
    assert "empty" in head
    assert [line.split("  ")[0] for line in lines] == ["float", "in-time sum"]
    assert "+0.143 / 0.000" in lines[0]


def test_shipped_float_network_is_unbiased_and_better_than_the_in_time_sum() -> None:
    sample = events.log_flat_events(4, recipe.HELD_OUT_SEED + 50)
    predictions = {"float": report.float_predict(sample.rows), **report.baselines(sample.rows)}
    table = report.resolution_table(predictions, sample.energy)
    cells = {(row.method, row.low_gev): row for row in table}
    for low in (2.0, 5.0, 10.0, 30.0, 100.0):
        assert abs(cells["float", low].bias) < 0.03, cells["float", low]
    for low in (10.0, 30.0, 100.0):
        assert cells["float", low].sigma68 < cells["in-time sum", low].sigma68


def test_shipped_float_network_holds_its_ground_to_full_scale() -> None:
    sample = events.log_flat_events(2, recipe.HELD_OUT_SEED + 60, low_gev=400.0)
    (row,) = report.resolution_table({"float": report.float_predict(sample.rows)}, sample.energy, bins=((400.0, 500.0),))
    assert abs(row.bias) < 0.03
    assert row.sigma68 < 0.03


def test_shipped_float_network_keeps_empty_channels_near_zero() -> None:
    sample = events.physics_events(2, recipe.HELD_OUT_SEED + 70)
    (row,) = report.empty_channels({"float": report.float_predict(sample.rows)}, sample.energy)
    assert row.quantile68_gev < 0.1
    assert abs(row.mean_gev) < 0.1
