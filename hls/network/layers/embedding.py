# SPDX-License-Identifier: Apache-2.0
"""Embeddings, which replace each index by a row of a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hypersonic.hls.fixed import Constants
from hypersonic.hls.network.attributes import constants, refuse
from hypersonic.hls.network.base import OneInput, Tensor
from hypersonic.hls.network.layer_type import LayerType
from hypersonic.hls.network.raw import Integers, cast_all, raw_array


@dataclass(frozen=True, eq=False)
class Embedding(OneInput):
    """Replacement of each x, an integer below the vocabulary, by a row of the table; nnet_embed.h.

    Attributes:
        table: (vocabulary, n_out) raw integers of y's type.
    """

    table: Constants


def _read(layer: Any, x: Tensor, y: Tensor) -> Embedding:
    flat, n_out = constants(layer, "embeddings"), int(layer.get_attr("n_out"))
    if x.precision.fraction != 0 or x.precision.signed:
        raise refuse(
            layer, f"its input is {x.precision}: give it an unsigned type of whole numbers, as ap_ufixed<4,4> for 16 words"
        )
    words = raw_array(cast_all(flat, y.precision), y.precision.width).reshape(-1, n_out)
    return Embedding(layer.name, x, y, Constants(words, y.precision.fraction))


# ---------------------------------------------------------------- what it computes
def _evaluate(layer: Embedding, x: Integers) -> Integers:
    return layer.table.raw.astype(object)[np.minimum(x, len(layer.table.raw) - 1).astype(np.int64)]


LAYER = LayerType(Embedding, _evaluate, readers={"Embedding": _read})
