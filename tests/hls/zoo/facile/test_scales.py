# SPDX-License-Identifier: Apache-2.0
"""FACILE's rewriting for the fabric: the same function, powers of two, and no dead start goes unnoticed."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hypersonic.hls.zoo.facile import events, recipe, report, scales
from hypersonic.hls.zoo.facile.scales import Dense, Network


def random_network(seed: int) -> Network:
    rng = np.random.default_rng(seed)
    sizes = (18, 31, 11, 3, 1)

    def layer(n_in: int, n_out: int) -> Dense:
        spread = 10.0 ** rng.uniform(-2, 2, n_in)
        return Dense(rng.normal(size=(n_in, n_out)), rng.normal(size=n_out), spread, rng.normal(size=n_in))

    return tuple(layer(n_in, n_out) for n_in, n_out in pairwise(sizes))


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1))
def test_folding_and_equalising_do_not_change_the_function(seed: int) -> None:
    network, x = random_network(seed), np.random.default_rng(seed).uniform(-1.0, 1.0, (200, 18))
    expected = scales.forward(network, x)[-1]
    tolerance = 1e-9 * max(1.0, float(np.abs(expected).max()))
    np.testing.assert_allclose(scales.forward(scales.fold(network), x)[-1], expected, atol=tolerance)
    np.testing.assert_allclose(scales.forward(scales.equalise(network, x), x)[-1], expected, atol=tolerance)


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1))
def test_equalised_batch_norms_are_powers_of_two_and_outputs_stay_below_one(seed: int) -> None:
    x = np.random.default_rng(seed).uniform(-1.0, 1.0, (200, 18))
    network = scales.equalise(random_network(seed), x)
    for layer, output in zip(network[:-1], scales.forward(network, x), strict=False):
        mantissa, exponent = np.frexp(layer.scale)
        assert (mantissa == 0.5).all()
        assert (np.abs(exponent - 1) <= scales.LARGEST_SHIFT).all()
        assert not layer.shift.any()
        assert output.max() < 1.0


def test_shipped_float_network_survives_equalising() -> None:
    rows = events.gate_rows()
    x = np.ldexp(rows.astype(np.float64), np.array(scales.INPUT_EXPONENTS))
    network = scales.equalise(report.float_network(), x)
    np.testing.assert_allclose(scales.predict(network, rows), report.float_predict(rows), rtol=1e-9, atol=1e-9)
    assert max(float(np.abs(layer.kernel).max()) for layer in network[:-1]) < 1.0


def test_a_network_is_read_as_it_was_written(tmp_path: Path) -> None:
    network = report.float_network()
    scales.save(network, tmp_path / "network.npz")
    for layer, again in zip(network, scales.load(tmp_path / "network.npz"), strict=True):
        np.testing.assert_array_equal(layer.kernel, again.kernel)
        np.testing.assert_array_equal(layer.shift, again.shift)


def test_a_start_is_close_to_the_energy_before_its_first_step() -> None:
    sample = recipe.training_sample(1, 1, 3)
    network = recipe.initial_network(sample, 5)
    assert [layer.kernel.shape for layer in network] == [(18, 31), (31, 11), (11, 3), (3, 1)]
    reco = np.ldexp(scales.forward(network, sample.x)[-1][:, 0], -scales.OUTPUT_EXPONENT)
    (row,) = report.resolution_table({"start": reco}, sample.target[:, 0], bins=((100.0, 500.0),))
    assert abs(row.bias) < 0.1
    assert row.sigma68 < 0.15


def test_a_dead_bottleneck_is_detected_and_a_living_one_is_not() -> None:
    sample = recipe.training_sample(1, 0, 3)
    alive = recipe.initial_network(sample, 5)
    dead = (*alive[:2], Dense(-np.abs(alive[2].kernel), np.full(3, -1e3), alive[2].scale, 0.0 * alive[2].shift), alive[3])
    assert not recipe.is_dead(scales.forward(alive, sample.x[:1000])[-1])
    assert recipe.is_dead(scales.forward(dead, sample.x[:1000])[-1])
    assert recipe.is_dead(np.full((10, 1), 0.3))
