# SPDX-License-Identifier: Apache-2.0
"""FACILE's training sample, the initial weights, and the test for a dead network. Only numpy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hypersonic.hls.zoo.facile import events, scales
from hypersonic.hls.zoo.facile.scales import Dense, Network

Float = NDArray[np.float64]

HELD_OUT_SEED = 7_000  # results are quoted on events of this seed and above, which are not trained on
_TRAINING_SEED = 100
#: beyond full scale, so that the network does not learn where the training energies end
_HIGHEST_GEV = 650.0

UNITS = (31, 11, 3)
#: edges, in GeV, of the bins of true energy in which the loss takes a batch's mean residual
BIAS_EDGES_GEV = np.geomspace(0.25, _HIGHEST_GEV, 24)
BIAS_BINS = len(BIAS_EDGES_GEV) + 1
_EMPTY_WEIGHT = 0.5


@dataclass(frozen=True)
class Sample:
    """Training data, float32.

    Attributes:
        x: network inputs (n, features).
        target: (n, 4): energy and sigma in GeV, weight, bias bin.
    """

    x: NDArray[np.float32]
    target: NDArray[np.float32]


def sigma_gev(energy_gev: ArrayLike) -> Float:
    """Return the resolution in GeV that residuals are divided by: noise, photo-electron statistics and a constant term."""
    energy = np.asarray(energy_gev, np.float64)
    return np.sqrt(0.1**2 + 0.18**2 * energy + (0.015 * energy) ** 2)


def training_sample(log_flat: int, physics: int, seed: int) -> Sample:
    """Generate the training sample.

    Args:
        log_flat, physics: as for sample_of.
    """
    return sample_of(log_flat, physics, seed, lambda event: np.ldexp(event.rows, np.array(scales.INPUT_EXPONENTS)))


def sample_of(log_flat: int, physics: int, seed: int, inputs: Callable[[events.Events], NDArray[np.floating]]) -> Sample:
    """Generate a training sample.

    Args:
        inputs: gives the network's.
        log_flat: number of events that cover all energies evenly.
        physics: number of events with the occupancy of real ones.
    """
    flat = events.log_flat_events(log_flat, _TRAINING_SEED + seed, high_gev=_HIGHEST_GEV)
    real = events.physics_events(physics, _TRAINING_SEED + seed)
    x = np.concatenate([inputs(event).astype(np.float32) for event in (flat, real)])
    energy = np.concatenate([flat.energy, real.energy]).astype(np.float64)
    weight = np.where(energy == 0.0, _EMPTY_WEIGHT, 1.0)
    bins = np.searchsorted(BIAS_EDGES_GEV, energy)
    target = np.stack([energy, sigma_gev(energy), weight, bins], axis=1)
    return Sample(x, target.astype(np.float32))


def initial_network(sample: Sample, seed: int) -> Network:
    """Return the initial weights: a first layer set by physics, one unit per later layer for the energy, the rest random."""
    rng = np.random.default_rng(seed)
    thresholds = np.concatenate([np.full(7, -0.02), np.geomspace(0.3, 450.0, UNITS[0] - 7)])
    charge = slice(events.FIRST_CHARGE, events.FIRST_DEPTH)
    return grown(first_layer(sample.x, thresholds, charge, scales.INPUT_EXPONENTS, rng), UNITS[1:], sample, rng)


def grown(first: Dense, units: Sequence[int], sample: Sample, rng: np.random.Generator) -> Network:
    """Return a network with this first layer, and layers of so many units behind it.

    Batch norms and the last layer are fitted to the data, so that the network starts close to the in-time sum.
    """
    layers, hidden = [first], np.maximum(first(sample.x.astype(np.float64)), 0.0)
    for count in units:
        layers.append(he_uniform(hidden, count, 0.1, rng))
        carry_energy(layers[-1], hidden, sample.target)
        hidden = np.maximum(layers[-1](hidden), 0.0)
    return (*layers, last_layer(hidden, sample.target))


def carry_energy(layer: Dense, x: Float, target: NDArray[np.float32]) -> None:
    """Set the layer's first unit, in place, to the best linear estimate of the energy (in units of 128 GeV) plus 0.1.

    Args:
        x: the layer's inputs (n, n_in).
        target: Sample.target.
    """
    energy, sigma = (target[:, i].astype(np.float64) / 128.0 for i in (0, 1))
    design = np.column_stack([x * layer.scale + layer.shift, np.ones(len(x))]) / sigma[:, None]
    normal = design.T @ design
    ridge = np.diag(np.append(np.full(x.shape[1], 1e-6 * np.trace(normal) / len(normal)), 0.0))
    solution = np.linalg.solve(normal + ridge, design.T @ (energy / sigma))
    layer.kernel[:, 0] = solution[:-1]
    layer.bias[0] = solution[-1] + 0.1


def first_layer(
    x: NDArray[np.float32],
    thresholds: Float,
    charge: slice,
    exponents: Sequence[int],
    rng: np.random.Generator,
    least_deviation: float = 0.0,
) -> Dense:
    """Return units relu(charge - threshold + c * gain deviation), one for each threshold in GeV.

    A ReLU network has to approximate the product of charge and gain piecewise: between two thresholds the sum of units with
    different c is a plane in charge and gain. Random templates around the in-time pulse make the units sensitive to different
    arrival times.

    Args:
        charge: columns of the time slices, behind that of the gain.
        exponents: of each column (scales.py).
        least_deviation: added to that of each input.
    """
    count, gain_column = len(thresholds), charge.start - 1
    fc = np.ldexp(1.0, -exponents[charge.start])  # charge in fC for which the network's input is 1
    kernel = rng.normal(0.0, 0.02, (len(exponents), count))
    in_time = np.array([-0.2, -0.2, -0.2, 1.0, 1.0, 0.6, 0.0, 0.0])
    spread = np.array([0.12, 0.12, 0.12, 0.25, 0.25, 0.25, 0.12, 0.12])
    template = in_time[:, None] + rng.normal(0.0, 1.0, (events.SLICES, count)) * spread[:, None]
    kernel[charge] = template * events.NOMINAL_GAIN * fc
    gain = np.ldexp(events.NOMINAL_GAIN, exponents[gain_column])
    kernel[gain_column] = rng.normal(0.0, 1.0, count) * np.maximum(thresholds, 0.1) / gain
    centre = np.asarray(x.mean(axis=0), np.float64)
    centre[charge] = events.PEDESTAL_FC / fc
    bias = -(centre @ kernel) - thresholds
    unit = 1.0 / np.maximum(thresholds, 1.0)
    kernel, bias = kernel * unit, bias * unit
    mean: Float = np.asarray(x.mean(axis=0), np.float64)
    deviation: Float = np.asarray(x.std(axis=0) + least_deviation, np.float64)
    shifted = np.asarray(bias + mean @ kernel, np.float64)
    return Dense(np.asarray(kernel * deviation[:, None], np.float64), shifted, 1.0 / deviation, -mean / deviation)


def he_uniform(x: Float, units: int, bias: float, rng: np.random.Generator) -> Dense:
    """Return a layer with a he_uniform kernel and a batch norm that normalises x (n, n_in).

    Args:
        bias: of every unit; a positive one keeps ReLU units alive.
    """
    limit = np.sqrt(6.0 / x.shape[1])
    deviation = x.std(axis=0) + 1e-3
    kernel = rng.uniform(-limit, limit, (x.shape[1], units))
    return Dense(kernel, np.full(units, bias), 1.0 / deviation, -x.mean(axis=0) / deviation)


def last_layer(x: Float, target: NDArray[np.float32]) -> Dense:
    """Fit the output layer by weighted least squares, so that the energy scale is right before the first step.

    Args:
        x: the layer's inputs (n, n_in).
        target: Sample.target.
    """
    energy, sigma = (np.ldexp(target[:, i].astype(np.float64), scales.OUTPUT_EXPONENT) for i in (0, 1))
    design = np.column_stack([x, np.ones(len(x))]) / sigma[:, None]
    solution: Float = np.asarray(np.linalg.lstsq(design, energy / sigma, rcond=None)[0], np.float64)
    ones = np.ones(x.shape[1])
    return Dense(solution[:-1, None], solution[-1:], ones, 0.0 * ones)


def is_dead(output: ArrayLike) -> bool:
    """Return whether a network's outputs (n, 1) are constant, which happens when no ReLU unit of its bottleneck ever fires."""
    values = np.asarray(output, np.float64)
    return bool(np.ptp(values) <= 1e-6 * max(1e-30, float(np.abs(values).max())))
