# SPDX-License-Identifier: Apache-2.0
"""A transformer encoder for sets of particles, in layers of HGQ2 that learn a bit width for each weight and activation.

The kind of network is that of arXiv:2510.24784: pt, eta and phi of each particle, no positional encoding, multi-head attention
and a feed-forward layer with residual connections, the mean over all particles, and a dense head. The sizes are ours.
"""

from __future__ import annotations

from typing import Any

from hypersonic.hls.zoo import hgq_2
from hypersonic.hls.zoo.jets import constituents, shower
from hypersonic.hls.zoo.jets_transformer.events import PARTICLES

WIDTH = 16  # numbers that describe a particle inside
HEADS, KEY = 2, 4


def network() -> Any:
    """Build the network: particles (n, 8, 3) -> logits (n, 5)."""
    keras = hgq_2.keras()
    from hgq.layers import QAdd, QDense, QEinsumDense, QGlobalAveragePooling1D, QMultiHeadAttention

    def dense(name: str, relu: bool = True) -> Any:
        return QEinsumDense("bpi,ij->bpj", (PARTICLES, WIDTH), bias_axes="j", activation="relu" if relu else None, name=name)

    with hgq_2.widths():
        given = keras.Input((PARTICLES, len(constituents.SET_FEATURES)), name="particles")
        x = dense("embedding")(given)
        x = QAdd(name="attended")([x, QMultiHeadAttention(HEADS, KEY, name="attention")(x, x)])
        x = QAdd(name="fed")([x, dense("feed1", relu=False)(dense("feed0")(x))])
        mean = QGlobalAveragePooling1D(name="mean")(x)
        hidden = QDense(2 * WIDTH, activation="relu", name="hidden")(mean)
        logits = QDense(len(shower.CLASSES), name="logits")(hidden)
    return keras.Model(given, logits, name="jets_transformer")
