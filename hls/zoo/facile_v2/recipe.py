# SPDX-License-Identifier: Apache-2.0
"""FACILE v2's training sample, the initial weights, and the rescaling by powers of two. Only numpy."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hypersonic.hls.zoo.facile import events as facile_events
from hypersonic.hls.zoo.facile import recipe, scales
from hypersonic.hls.zoo.facile.events import SLICES
from hypersonic.hls.zoo.facile.recipe import Sample
from hypersonic.hls.zoo.facile.scales import Dense, Network
from hypersonic.hls.zoo.facile_v2.events import FEATURES, INPUT_EXPONENTS, rows_of

Float = NDArray[np.float64]

UNITS = (200, 100, 50, 20, 10, 5)
PARAMETERS = 36_229  # 36 041 in the dense layers, 188 in the batch norm
_TRAINING_SEED = 100
_HIGHEST_GEV = 650.0  # beyond full scale, so that the network does not learn where the training energies end
_CHARGE = slice(2, 2 + SLICES)
_FIRST_SLOPES = 40  # units of the first layer with a threshold near zero energy
_SLACK, _SWEEPS = 6, 20  # output bits that a unit may give up; rounds, enough for the shifts to converge


def training_sample(log_flat: int, physics: int, seed: int) -> Sample:
    """Generate the training sample; as in FACILE, log-flat events cover all energies and physics events the real occupancy."""
    flat = facile_events.log_flat_events(log_flat, _TRAINING_SEED + seed, high_gev=_HIGHEST_GEV)
    real = facile_events.physics_events(physics, _TRAINING_SEED + seed)
    x = np.concatenate([network_inputs(rows_of(event)).astype(np.float32) for event in (flat, real)])
    energy = np.concatenate([flat.energy, real.energy]).astype(np.float64)
    weight = np.where(energy == 0.0, 0.5, 1.0)
    bins = np.searchsorted(recipe.BIAS_EDGES_GEV, energy)
    return Sample(x, np.stack([energy, recipe.sigma_gev(energy), weight, bins], axis=1).astype(np.float32))


def network_inputs(rows: ArrayLike) -> Float:
    """Return the network inputs (n, 47) for rows (n, 47) in wire units."""
    return np.asarray(np.ldexp(np.asarray(rows, np.float64), np.array(INPUT_EXPONENTS)))


def predict(network: Network, rows: ArrayLike) -> Float:
    """Return the energies (n,) in GeV for rows (n, 47) in wire units."""
    return np.asarray(np.ldexp(scales.forward(network, network_inputs(rows))[-1][:, 0], -scales.OUTPUT_EXPONENT))


# ---- initial weights -----------------------------------------------------------------------------------------------------


def initial_network(sample: Sample, seed: int) -> Network:
    """Return the initial weights: a first layer set by physics, one unit per later layer for the energy, the rest random.

    Every layer has a batch norm that normalises its inputs. All but the first are for training only: scales.fold absorbs them.
    """
    rng = np.random.default_rng(seed)
    layers = [_first_layer(sample.x, rng)]
    hidden = np.maximum(layers[0](sample.x.astype(np.float64)), 0.0)
    for units in UNITS[1:]:
        layers.append(recipe.he_uniform(hidden, units, 0.1, rng))
        recipe.carry_energy(layers[-1], hidden, sample.target)
        hidden = np.maximum(layers[-1](hidden), 0.0)
    return (*layers, recipe.last_layer(hidden, sample.target))


def _first_layer(x: NDArray[np.float32], rng: np.random.Generator) -> Dense:
    """Return units relu(charge - threshold + c * gain deviation): FACILE's first layer (facile/recipe.py) with more units."""
    count = UNITS[0]
    thresholds = np.concatenate([np.full(_FIRST_SLOPES, -0.02), np.geomspace(0.2, 450.0, count - _FIRST_SLOPES)])  # GeV
    fc = np.ldexp(1.0, -INPUT_EXPONENTS[_CHARGE.start])  # charge in fC for which the network's input is 1
    kernel = rng.normal(0.0, 0.02, (len(FEATURES), count))
    in_time = np.array([-0.2, -0.2, -0.2, 1.0, 1.0, 0.6, 0.0, 0.0])
    spread = np.array([0.12, 0.12, 0.12, 0.25, 0.25, 0.25, 0.12, 0.12])
    template = in_time[:, None] + rng.normal(0.0, 1.0, (SLICES, count)) * spread[:, None]
    kernel[_CHARGE] = template * facile_events.NOMINAL_GAIN * fc
    kernel[1] = (
        rng.normal(0.0, 1.0, count) * np.maximum(thresholds, 0.1) / np.ldexp(facile_events.NOMINAL_GAIN, INPUT_EXPONENTS[1])
    )
    centre = np.asarray(x.mean(axis=0), np.float64)
    centre[_CHARGE] = facile_events.PEDESTAL_FC / fc
    unit = 1.0 / np.maximum(thresholds, 1.0)
    kernel, bias = kernel * unit, (-(centre @ kernel) - thresholds) * unit
    mean: Float = np.asarray(x.mean(axis=0), np.float64)
    deviation: Float = np.asarray(x.std(axis=0) + 1e-3, np.float64)
    return Dense(kernel * deviation[:, None], np.asarray(bias + mean @ kernel), 1.0 / deviation, -mean / deviation)


# ---- powers of two -------------------------------------------------------------------------------------------------------


def equalise(network: Network, x: ArrayLike, *, largest_weight: float = 1.0, headroom: float = 0.8) -> Network:
    """Return the same function with ReLU outputs in 0 to 1, scaled by powers of two only; just the first batch norm remains.

    Each ReLU unit is scaled so that its largest output over x (n, 47) stays below headroom. The first batch norm scales the
    features so that the first kernel's rows use +-largest_weight. Units then give up to _SLACK bits of their outputs where that
    makes the weights before and after them similar in size. Without this step the largest weight is 150, and 16 bits are too
    few for the small ones.
    """
    folded = scales.fold(network)
    largest = [output.max(axis=0) for output in scales.forward(folded, x)]
    pending, layers = np.zeros(folded[0].kernel.shape[0], np.int64), []
    for i, layer in enumerate(folded):
        peak = np.where(largest[i] > 0.0, largest[i], headroom)
        unit = np.zeros(len(peak), np.int64) if i == len(folded) - 1 else np.floor(np.log2(headroom / peak)).astype(np.int64)
        kernel = np.ldexp(layer.kernel, unit - pending[:, None])
        rows = scales.row_exponents(kernel, largest_weight).astype(np.int64) if i == 0 else np.zeros(len(kernel), np.int64)
        scaled = np.ldexp(kernel, -rows[:, None])
        layers.append(Dense(scaled, np.ldexp(layer.bias, unit), np.ldexp(1.0, rows), layer.shift))
        pending = unit
    return _balanced(tuple(layers))


def _balanced(network: Network) -> Network:
    """Shift hidden units after the first layer down by up to _SLACK bits to even out the kernels before and after them."""
    kernels, biases = [layer.kernel for layer in network], [layer.bias for layer in network]
    shifts = [np.zeros(len(bias), np.int64) for bias in biases]
    for _ in range(_SWEEPS):
        for i in range(1, len(network) - 1):
            before, after = np.abs(kernels[i]).max(axis=0), np.abs(kernels[i + 1]).max(axis=1)
            wanted = np.rint(0.5 * np.log2(np.maximum(after, 1e-9) / np.maximum(before, 1e-9))).astype(np.int64)
            shift = np.clip(shifts[i] + wanted, -_SLACK, 0) - shifts[i]
            shifts[i] = shifts[i] + shift
            kernels[i], biases[i] = np.ldexp(kernels[i], shift), np.ldexp(biases[i], shift)
            kernels[i + 1] = np.ldexp(kernels[i + 1], -shift[:, None])
    parts = zip(kernels, biases, network, strict=True)
    return tuple(Dense(kernel, bias, layer.scale, layer.shift) for kernel, bias, layer in parts)


def integer_bits(values: ArrayLike) -> int:
    """Return the number of integer bits, without the sign, that hold all values with a margin of 2 %."""
    return max(0, int(np.ceil(np.log2(np.abs(np.asarray(values)).max() * 1.02))))
