# SPDX-License-Identifier: Apache-2.0
"""Weights drawn from a seed: on their grids, and a last layer that reads what random features know."""

from __future__ import annotations

import numpy as np

from hypersonic.hls.zoo.seeded import fit_last, on_grid


def test_numbers_end_on_their_types_grid_and_inside_its_range() -> None:
    values = np.array([-3.0, -0.26, -0.0156, 0.0156, 0.016, 0.26, 3.0])
    np.testing.assert_array_equal(
        on_grid(values, (6, 1)), np.array([-1.0, -0.25, -0.0, 0.0, 0.03125, 0.25, 0.96875], np.float32)
    )


def test_the_last_layer_is_fitted_with_each_rows_weight() -> None:
    rng = np.random.default_rng(3)
    features = rng.normal(size=(400, 5)).astype(np.float32)
    truth = features @ np.array([0.5, -1.0, 0.25, 0.0, 2.0]) + 7.0
    wrong = truth.copy()
    wrong[200:] += 50.0  # which count for nothing
    weights = np.where(np.arange(400) < 200, 1.0, 1e-9)
    kernel, bias = fit_last(features, wrong, weights, (16, 6), ridge=1e-9)
    np.testing.assert_allclose(kernel[:, 0], [0.5, -1.0, 0.25, 0.0, 2.0], atol=1e-3)
    np.testing.assert_allclose(bias, [7.0], atol=1e-2)
