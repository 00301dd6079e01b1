# SPDX-License-Identifier: Apache-2.0
"""hls4ml's Embedding reads table[index] and never looks whether there is such a row: a client's category would read past the
table. Tables are filled up to all that the index's type can say, with the last row."""

from __future__ import annotations

from typing import Any

import numpy as np

#: rows of the largest table that is filled up
_MAX_ROWS = 1 << 16


def fill_embeddings(graph: Any) -> None:
    """Give each Embedding of a ModelGraph, whose index is an unsigned integer, a row for every index."""
    for layer in graph.get_layers():
        if layer.class_name != "Embedding":
            continue
        index = layer.get_input_variable().type.precision
        rows, table = 1 << min(int(index.width), 32), layer.weights["embeddings"]
        missing = rows - len(table.data)
        if not index.signed and missing > 0 and rows <= _MAX_ROWS:
            table.data = np.concatenate([table.data, np.repeat(table.data[-1:], missing, axis=0)])
            table.shape, table.data_length = list(table.data.shape), table.data.size
            layer.set_attr("vocab_size", rows)
