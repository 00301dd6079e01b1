# SPDX-License-Identifier: Apache-2.0
"""What FACILE v2 is trained on, where it starts from, and its rewriting with powers of two. numpy only."""

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
PARAMETERS = 36_229  # 36 041 of the dense layers, 188 of the batch norm
_TRAINING_SEED = 100
_HIGHEST_GEV = 650.0  # beyond full scale, so that the network does not learn where the training energies end
_CHARGE = slice(2, 2 + SLICES)
_FIRST_SLOPES = 40  # units that see energies near zero
_SLACK, _SWEEPS = 6, 20  # bits of their outputs that units may give; rounds until nothing moves


def training_sample(log_flat: int, physics: int, seed: int) -> Sample:
    """Log-flat events for every energy, physics events for the channels most events are made of."""
    flat = facile_events.log_flat_events(log_flat, _TRAINING_SEED + seed, high_gev=_HIGHEST_GEV)
    real = facile_events.physics_events(physics, _TRAINING_SEED + seed)
    x = np.concatenate([network_inputs(rows_of(event)).astype(np.float32) for event in (flat, real)])
    energy = np.concatenate([flat.energy, real.energy]).astype(np.float64)
    weight = np.where(energy == 0.0, 0.5, 1.0)
    bins = np.searchsorted(recipe.BIAS_EDGES_GEV, energy)
    return Sample(x, np.stack([energy, recipe.sigma_gev(energy), weight, bins], axis=1).astype(np.float32))


def network_inputs(rows: ArrayLike) -> Float:
    """Rows (n, 47) as on the wire -> network's inputs."""
    return np.asarray(np.ldexp(np.asarray(rows, np.float64), np.array(INPUT_EXPONENTS)))


def predict(network: Network, rows: ArrayLike) -> Float:
    """Rows as on the wire (n, 47) -> energies (n,) in GeV."""
    return np.asarray(np.ldexp(scales.forward(network, network_inputs(rows))[-1][:, 0], -scales.OUTPUT_EXPONENT))


# ---- where training starts -----------------------------------------------------------------------------------------------


def initial_network(sample: Sample, seed: int) -> Network:
    """First layer by physics, the energy through one unit of each later layer, he_uniform for the rest.

    Every layer has a batch norm that normalises what the network puts in: for training only, fold() takes all but the first.
    """
    rng = np.random.default_rng(seed)
    layers = [_first_layer(sample.x, rng)]
    hidden = np.maximum(layers[0](sample.x.astype(np.float64)), 0.0)
    for units in UNITS[1:]:
        layers.append(_he_uniform(hidden, units, rng))
        _carry(layers[-1], hidden, sample.target)
        hidden = np.maximum(layers[-1](hidden), 0.0)
    return (*layers, _last_layer(hidden, sample.target))


def _first_layer(x: NDArray[np.float32], rng: np.random.Generator) -> Dense:
    """Units relu(charge - threshold + c * gain deviation), thresholds log-spaced over three decades: as FACILE's, but more."""
    count = UNITS[0]
    thresholds = np.concatenate([np.full(_FIRST_SLOPES, -0.02), np.geomspace(0.2, 450.0, count - _FIRST_SLOPES)])  # GeV
    fc = np.ldexp(1.0, -INPUT_EXPONENTS[_CHARGE.start])  # of network input 1
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


def _he_uniform(x: Float, units: int, rng: np.random.Generator) -> Dense:
    limit = np.sqrt(6.0 / x.shape[1])
    deviation = x.std(axis=0) + 1e-3
    kernel = rng.uniform(-limit, limit, (x.shape[1], units))
    return Dense(kernel, np.full(units, 0.1), 1.0 / deviation, -x.mean(axis=0) / deviation)


def _carry(layer: Dense, x: Float, target: NDArray[np.float32]) -> None:
    """Make the layer's first unit the best linear estimate of the energy from x (n, n_in), in units of 128 GeV, plus 0.1."""
    energy, sigma = (target[:, i].astype(np.float64) / 128.0 for i in (0, 1))
    design = np.column_stack([x * layer.scale + layer.shift, np.ones(len(x))]) / sigma[:, None]
    normal = design.T @ design
    ridge = np.diag(np.append(np.full(x.shape[1], 1e-6 * np.trace(normal) / len(normal)), 0.0))
    solution = np.linalg.solve(normal + ridge, design.T @ (energy / sigma))
    layer.kernel[:, 0] = solution[:-1]
    layer.bias[0] = solution[-1] + 0.1


def _last_layer(x: Float, target: NDArray[np.float32]) -> Dense:
    """Weighted least squares: the energy scale is right before the first step."""
    energy, sigma = (np.ldexp(target[:, i].astype(np.float64), scales.OUTPUT_EXPONENT) for i in (0, 1))
    design = np.column_stack([x, np.ones(len(x))]) / sigma[:, None]
    solution: Float = np.asarray(np.linalg.lstsq(design, energy / sigma, rcond=None)[0], np.float64)
    ones = np.ones(x.shape[1])
    return Dense(solution[:-1, None], solution[-1:], ones, 0.0 * ones)


# ---- powers of two -------------------------------------------------------------------------------------------------------


def equalise(network: Network, x: ArrayLike, *, largest_weight: float = 1.0, headroom: float = 0.8) -> Network:
    """The same function with ReLU outputs inside 0..1, by powers of two only; only the first batch norm is left.

    Each ReLU unit is scaled so that its largest output over x (n, 47) stays below headroom; the first batch norm scales the
    features so that the first kernel's rows use +-largest_weight. Then units give up to _SLACK bits of their outputs where
    that brings the weights before and behind them to one size: without it the largest is 150, and 16 bits are too few for the
    others.
    """
    folded = scales.fold(network)
    largest = [output.max(axis=0) for output in scales.forward(folded, x)]
    pending, layers = np.zeros(folded[0].kernel.shape[0], np.int64), []
    for i, layer in enumerate(folded):
        peak = np.where(largest[i] > 0.0, largest[i], headroom)
        unit = np.zeros(len(peak), np.int64) if i == len(folded) - 1 else np.floor(np.log2(headroom / peak)).astype(np.int64)
        kernel = np.ldexp(layer.kernel, unit - pending[:, None])
        rows = _row_exponents(kernel, largest_weight) if i == 0 else np.zeros(len(kernel), np.int64)
        scaled = np.ldexp(kernel, -rows[:, None])
        layers.append(Dense(scaled, np.ldexp(layer.bias, unit), np.ldexp(1.0, rows), layer.shift))
        pending = unit
    return _balanced(tuple(layers))


def _balanced(network: Network) -> Network:
    """Shifts of the hidden units behind the first, a few bits downwards at most, that even out kernels."""
    kernels, biases = [layer.kernel for layer in network], [layer.bias for layer in network]
    given = [np.zeros(len(bias), np.int64) for bias in biases]
    for _ in range(_SWEEPS):
        for i in range(1, len(network) - 1):
            before, behind = np.abs(kernels[i]).max(axis=0), np.abs(kernels[i + 1]).max(axis=1)
            wanted = np.rint(0.5 * np.log2(np.maximum(behind, 1e-9) / np.maximum(before, 1e-9))).astype(np.int64)
            shift = np.clip(given[i] + wanted, -_SLACK, 0) - given[i]
            given[i] = given[i] + shift
            kernels[i], biases[i] = np.ldexp(kernels[i], shift), np.ldexp(biases[i], shift)
            kernels[i + 1] = np.ldexp(kernels[i + 1], -shift[:, None])
    parts = zip(kernels, biases, network, strict=True)
    return tuple(Dense(kernel, bias, layer.scale, layer.shift) for kernel, bias, layer in parts)


def _row_exponents(kernel: Float, largest_weight: float) -> NDArray[np.int64]:
    """Smallest e per row with max |row| * 2**-e < largest_weight, within scales.LARGEST_SHIFT; rows of zeros keep theirs."""
    largest = np.abs(kernel).max(axis=1)
    exponents = np.floor(np.log2(np.where(largest > 0.0, largest, largest_weight / 2) / largest_weight)) + 1.0
    return np.clip(exponents, -scales.LARGEST_SHIFT, scales.LARGEST_SHIFT).astype(np.int64)


def integer_bits(values: ArrayLike) -> int:
    """Bits left of the binary point, the sign beside, that hold every value and a little more."""
    return max(0, int(np.ceil(np.log2(np.abs(np.asarray(values)).max() * 1.02))))
