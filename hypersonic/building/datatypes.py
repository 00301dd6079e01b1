# SPDX-License-Identifier: Apache-2.0
"""Other datatypes on the wire for a model's inputs and outputs."""

from __future__ import annotations

from dataclasses import replace

from hypersonic.hls.row import Row


def set_datatypes(rows: tuple[Row, Row], datatypes: tuple[str, str]) -> tuple[Row, Row]:
    """Return the inputs and outputs with other datatypes on the wire. The network itself does not change.

    Args:
        rows: inputs and outputs.
        datatypes: for all inputs and for all outputs; "" keeps them.

    Raises:
        SpecMismatchError: For a datatype that does not fit a tensor.
    """
    x, y = (_set_datatype(row, datatype) for row, datatype in zip(rows, datatypes, strict=True))
    return x, y


def _set_datatype(row: Row, datatype: str) -> Row:
    return Row(tuple(
        replace(tensor, datatype=datatype, wire=None) if datatype not in ("", tensor.datatype) else tensor
        for tensor in row.tensors
    ))  # fmt: skip
