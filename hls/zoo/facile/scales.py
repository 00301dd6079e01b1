# SPDX-License-Identifier: Apache-2.0
"""FACILE's float network as plain arrays, and its exact rewriting with powers of two for the fabric.

The network is batch norm - dense 31 - batch norm - dense 11 - batch norm - dense 3 - dense 1, ReLU after the first three.
Every batch norm precedes a dense layer, so the part of it that is not a power of two can be moved into that layer's weights
exactly. What remains is a shift of each feature's binary point, which costs only wires.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hypersonic.hls.zoo.facile import events

Float = NDArray[np.float64]

#: network input = wire value * 2**exponent, which keeps every feature within +-2 (ieta 29, iphi 72, 2e-3 GeV/fC, 355 pC, 1)
INPUT_EXPONENTS = (-5, -6, 10, *([-18] * events.SLICES), *([0] * 7))
#: network output = energy in GeV * 2**exponent; 1 is 1024 GeV
OUTPUT_EXPONENT = -10
#: largest shift of a batch norm, in either direction, for which facile.yaml's type of the scales has room
LARGEST_SHIFT = 8


@dataclass(frozen=True)
class Dense:
    """One dense layer with the batch norm before it: y = (x * scale + shift) @ kernel + bias, ReLU after all but the last.

    kernel (n_in, n_out); bias (n_out,); scale and shift (n_in,). All float64.
    """

    kernel: Float
    bias: Float
    scale: Float
    shift: Float

    def __call__(self, x: Float) -> Float:
        """Return y (n, n_out) before any ReLU, for x (n, n_in)."""
        return np.asarray((x * self.scale + self.shift) @ self.kernel + self.bias)


Network = tuple[Dense, ...]


def forward(network: Network, x: ArrayLike) -> list[Float]:
    """Return each layer's output, after ReLU where it has one, for network inputs x (n, features). The last is (n, 1)."""
    outputs = [np.asarray(x, np.float64)]
    for layer in network[:-1]:
        outputs.append(np.maximum(layer(outputs[-1]), 0.0))
    return [*outputs[1:], network[-1](outputs[-1])]


def predict(network: Network, rows: ArrayLike) -> Float:
    """Return the energies (n,) in GeV for rows (n, 18) in wire units."""
    x = np.ldexp(np.asarray(rows, np.float64), np.array(INPUT_EXPONENTS))
    return np.asarray(np.ldexp(forward(network, x)[-1][:, 0], -OUTPUT_EXPONENT))


def save(network: Network, path: Path) -> None:
    """Write an .npz with kernel, bias, scale and shift of each layer in float32, the precision they were trained in."""
    fields = ("kernel", "bias", "scale", "shift")
    arrays = {f"{field}{i}": getattr(layer, field).astype(np.float32) for i, layer in enumerate(network) for field in fields}
    np.savez(path, **arrays)


def load(path: Path) -> Network:
    """Read a network that save() wrote."""
    with np.load(path) as stored:
        return from_arrays(stored)


def from_arrays(stored: Mapping[str, NDArray[np.float32]]) -> Network:
    """Return the network whose arrays save() named kernel0, bias0, scale0, shift0, kernel1, ..."""
    fields = ("kernel", "bias", "scale", "shift")
    count = sum(name.startswith("kernel") for name in stored)
    return tuple(Dense(*(stored[f"{field}{i}"].astype(np.float64) for field in fields)) for i in range(count))


def fold(network: Network) -> Network:
    """Return the same function with identity batch norms: each dense layer absorbs the scale and shift before it."""
    return tuple(
        Dense(
            layer.scale[:, None] * layer.kernel,
            layer.bias + layer.shift @ layer.kernel,
            np.ones(len(layer.scale)),
            np.zeros(len(layer.scale)),
        )
        for layer in network
    )


def equalise(
    network: Network, x: ArrayLike, *, largest_weight: float = 1.0, headroom: float = 0.8, norms: int | None = None
) -> Network:
    """Return the same function with ReLU outputs in 0 to 1 and kernels within +-largest_weight, scaled by powers of two only.

    Each ReLU unit is scaled so that its largest output over x (n, 18) stays below headroom. Each batch norm scales its features
    back so that the kernel's rows use the available range. Shifts are zero. ReLU commutes with positive scales, so only the
    binary points change.

    Args:
        norms: only so many batch norms, from the first on, scale features; by default all.
    """
    folded = fold(network)
    largest = [output.max(axis=0) for output in forward(folded, x)]
    pending = np.zeros(folded[0].kernel.shape[0])  # exponents by which the inputs of this layer were scaled
    layers = []
    for i, layer in enumerate(folded):
        kernel = np.ldexp(layer.kernel, -pending.astype(int)[:, None])
        unit = np.zeros(kernel.shape[1]) if i == len(folded) - 1 else _exponent_below(headroom, largest[i])
        rows = np.zeros(len(kernel))
        if norms is None or i < norms:
            rows = row_exponents(np.ldexp(kernel, unit.astype(int)), largest_weight)
        scaled = np.ldexp(kernel, unit.astype(int) - rows.astype(int)[:, None])
        layers.append(Dense(scaled, np.ldexp(layer.bias, unit.astype(int)), np.ldexp(1.0, rows.astype(int)), layer.shift))
        pending = unit
    return tuple(layers)


def _exponent_below(limit: float, largest: Float) -> Float:
    """Return the largest e per unit with largest * 2**e <= limit, and 0 for a unit that never fires."""
    return np.floor(np.log2(limit / np.where(largest > 0.0, largest, limit)))


def row_exponents(kernel: Float, largest_weight: float) -> Float:
    """Return the smallest e per row with max |row| * 2**-e < largest_weight, within +-LARGEST_SHIFT; 0 for rows of zeros."""
    largest = np.abs(kernel).max(axis=1)
    exponents = np.floor(np.log2(np.where(largest > 0.0, largest, largest_weight / 2) / largest_weight)) + 1.0
    return np.clip(exponents, -LARGEST_SHIFT, LARGEST_SHIFT)
