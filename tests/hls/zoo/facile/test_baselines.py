# SPDX-License-Identifier: Apache-2.0
"""The in-time sum and the template fit, against exact answers and on events."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls as scipy_nnls

from hypersonic.hls.zoo.facile import baselines, events, report


def ideal_rows(energy_gev: np.ndarray, arrival_ns: float = 0.0) -> np.ndarray:
    """Rows without noise, photo-statistics or digitisation."""
    rows = np.zeros((len(energy_gev), 18), np.float32)
    rows[:, 2] = events.NOMINAL_GAIN * 1.1
    pulse = events.slice_fractions(np.full(len(energy_gev), arrival_ns))
    rows[:, 3:11] = energy_gev[:, None] / rows[:, 2:3] * pulse + events.PEDESTAL_FC
    return rows


def test_template_fit_returns_the_energy_of_a_clean_pulse() -> None:
    energy = np.geomspace(1.0, 400.0, 20)
    # the rows are float32, and a least-squares fit amplifies their rounding; 3e-8 was seen
    np.testing.assert_allclose(baselines.template_fit(ideal_rows(energy)), energy, rtol=1e-6)


def test_in_time_sum_of_a_clean_pulse_is_within_the_containment_of_the_jitter() -> None:
    energy = np.geomspace(1.0, 400.0, 20)
    # it divides by the mean containment over the jitter of the arrival; a pulse without jitter is 0.13 % above it
    np.testing.assert_allclose(baselines.in_time_sum(ideal_rows(energy)), energy, rtol=5e-3)


def test_template_fit_separates_the_bunch_crossing_before() -> None:
    energy = np.full(5, 50.0)
    piled = ideal_rows(energy)
    piled[:, 3:11] += ideal_rows(energy, -25.0)[:, 3:11] - events.PEDESTAL_FC
    np.testing.assert_allclose(baselines.template_fit(piled), energy, rtol=1e-6)  # for float32 rows, as above
    assert (baselines.in_time_sum(piled) > 70.0).all()


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1))
def test_nnls_equals_the_general_solver(seed: int) -> None:
    rng = np.random.default_rng(seed)
    templates, data = rng.random((3, 8)), rng.normal(0.5, 1.0, (6, 8))
    root = np.tril(rng.normal(0.0, 0.3, (6, 8, 8))) + np.eye(8)
    weight = root @ root.transpose(0, 2, 1)
    solution = baselines.nnls(templates, data, weight)
    for i in range(len(data)):
        expected = scipy_nnls(root[i].T @ templates.T, root[i].T @ data[i])[0]
        np.testing.assert_allclose(solution[i], expected, atol=1e-8)


def test_baselines_are_unbiased_on_events() -> None:
    sample = events.log_flat_events(2, 11)
    for row in report.resolution_table(report.baselines(sample.rows), sample.energy):
        if row.low_gev >= 5.0:
            assert abs(row.bias) < 0.05, row
            assert row.sigma68 < 0.1, row


def test_in_time_sum_reaches_the_photo_electron_limit() -> None:
    sample = events.log_flat_events(2, 12)
    (row,) = report.resolution_table({"sum": baselines.in_time_sum(sample.rows)}, sample.energy, bins=((10.0, 30.0),))
    assert row.sigma68 == pytest.approx(1.0 / np.sqrt(17.0 * events.PE_PER_GEV), rel=0.2)
