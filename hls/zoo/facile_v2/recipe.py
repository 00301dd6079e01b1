# SPDX-License-Identifier: Apache-2.0
"""FACILE v2's training sample, the initial weights, and the rescaling by powers of two. Only numpy."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hypersonic.hls.zoo.facile import recipe, scales
from hypersonic.hls.zoo.facile.events import SLICES
from hypersonic.hls.zoo.facile.recipe import Sample
from hypersonic.hls.zoo.facile.scales import Dense, Network
from hypersonic.hls.zoo.facile_v2.events import INPUT_EXPONENTS, rows_of

Float = NDArray[np.float64]

UNITS = (200, 100, 50, 20, 10, 5)
PARAMETERS = 36_229  # 36 041 in the dense layers, 188 in the batch norm
_CHARGE = slice(2, 2 + SLICES)
_FIRST_SLOPES = 40  # units of the first layer with a threshold near zero energy
_SLACK, _SWEEPS = 6, 20  # output bits that a unit may give up; rounds, enough for the shifts to converge


def training_sample(log_flat: int, physics: int, seed: int) -> Sample:
    """Generate the training sample.

    Args:
        log_flat, physics: as for FACILE's sample_of.
    """
    return recipe.sample_of(log_flat, physics, seed, lambda event: network_inputs(rows_of(event)))


def network_inputs(rows: ArrayLike) -> Float:
    """Return the network inputs (n, 47) for rows (n, 47) in wire units."""
    return np.asarray(np.ldexp(np.asarray(rows, np.float64), np.array(INPUT_EXPONENTS)))


def predict(network: Network, rows: ArrayLike) -> Float:
    """Return the energies (n,) in GeV for rows (n, 47) in wire units."""
    return np.asarray(np.ldexp(scales.forward(network, network_inputs(rows))[-1][:, 0], -scales.OUTPUT_EXPONENT))


# ---- initial weights -----------------------------------------------------------------------------------------------------


def initial_network(sample: Sample, seed: int) -> Network:
    """Return FACILE's initial weights (facile/recipe.py) for more units.

    Every layer has a batch norm that normalises its inputs. All but the first are for training only: scales.fold absorbs them.
    """
    rng = np.random.default_rng(seed)
    thresholds = np.concatenate([np.full(_FIRST_SLOPES, -0.02), np.geomspace(0.2, 450.0, UNITS[0] - _FIRST_SLOPES)])
    first = recipe.first_layer(sample.x, thresholds, _CHARGE, INPUT_EXPONENTS, rng, least_deviation=1e-3)
    return recipe.grown(first, UNITS[1:], sample, rng)


# ---- powers of two -------------------------------------------------------------------------------------------------------


def equalise(network: Network, x: ArrayLike) -> Network:
    """Return the same function with ReLU outputs in 0 to 1, scaled by powers of two only; just the first batch norm remains.

    Units give up to _SLACK bits of their outputs where that makes the weights before and after them similar in size. Without
    this step the largest weight is 150, and 16 bits are too few for the small ones.

    Args:
        x: (n, 47), as for scales.equalise.
    """
    return _balanced(scales.equalise(network, x, norms=1))


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
