# SPDX-License-Identifier: Apache-2.0
"""FACILE v2 in QKeras. The float model and the loss are FACILE's (hls/zoo/facile/network.py)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hypersonic.hls.zoo.facile import network as facile_network
from hypersonic.hls.zoo.facile.network import BIAS_BITS
from hypersonic.hls.zoo.facile.scales import Dense, Network
from hypersonic.hls.zoo.facile_v2 import recipe


class Bits(NamedTuple):
    """Widths of the kernels (each layer has its own binary point) and of the ReLU outputs, which are 0 to 1."""

    weight: int
    activation: int


#: for layers that share multipliers: fits the two inputs of a DSP48E2's multiplier
SHARED = Bits(16, 18)
#: for the unrolled core, in which every weight becomes adders of its own
UNROLLED = Bits(8, 12)


def quantised_model(network: Network, bits: Bits = SHARED) -> Any:
    """Build the equalised network with QKeras' quantisers: `bits` for kernels and ReLU outputs, 20 for the output (+-1)."""

    def types(layer: Dense) -> tuple[tuple[int, int], tuple[int, int]]:
        return (bits.weight, recipe.integer_bits(layer.kernel)), (BIAS_BITS, 1 + recipe.integer_bits(layer.bias))

    name = "facile_v2" if bits == SHARED else "facile_v2_da"
    return facile_network.quantised_model(network, name, 1, types, bits.activation)


def predict(model: Any, rows: ArrayLike) -> NDArray[np.float64]:
    """Return the energies (n,) in GeV that a quantised model gives for rows (n, 47) in wire units."""
    return facile_network.energies(model, recipe.network_inputs(rows))
