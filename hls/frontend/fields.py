# SPDX-License-Identifier: Apache-2.0
"""Reads the fields of a packed row, and the tables that turn codes into numbers, from an input's YAML.

input::

  fields:                                          # in the order of the network's elements
    - {name: ieta, bits: 6, signed: true}          # a number: fraction: 2 puts two bits right of the binary point
    - {name: gain, bits: 8, table: gains.npy}      # a number for each code of up to 12 bits: a list, a .npy file from the
                                                   # YAML's directory, or module:function, which gives an array
    - {name: adc, bits: 8, count: 8, table: charges.npy, select: gain}   # (selections, codes): gain's low bits select
    - {name: depth, bits: 3, one_hot: 7, first: 1} # 7 elements, the first of them for code 1
    - {name: spare, bits: 4, input: false}         # bits that are not given to the network

or `datatype: UINT8` or `UINT16` with one `table` for all elements of the input.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.frontend.checks import DescriptionError, integer, mapping
from hypersonic.hls.packing.layout import (
    MAX_BITS,
    MAX_COUNT,
    MAX_ENTRIES,
    MAX_FIELDS,
    MAX_FRACTION,
    MAX_ONE_HOT,
    Field,
    Packing,
    PackingError,
)
from hypersonic.hls.spec import DATATYPES, PACKED

#: keys of an input's YAML that describe packed rows
KEYS = {"fields", "table"}

_FIELD_KEYS = {"name", "bits", "count", "signed", "fraction", "table", "select", "one_hot", "first", "input"}
_LIMITS = {
    "bits": (1, MAX_BITS),
    "count": (1, MAX_COUNT),
    "fraction": (-MAX_FRACTION, MAX_FRACTION),
    "one_hot": (1, MAX_ONE_HOT),
    "first": (0, 1 << MAX_BITS),
}


def packed_datatype(where: str, side: dict[str, Any]) -> str:
    """Return the datatype of an input with fields or a table: UINT8, or UINT16 for a table that asks for it.

    Raises DescriptionError for both fields and a table, and for any other datatype.
    """
    if side.keys() >= KEYS:
        raise DescriptionError(
            f"{where} has both fields and table, expected one of them: a table for a field stands in the field"
        )
    default, allowed = (PACKED[0], PACKED[:1]) if "fields" in side else (None, PACKED)
    datatype = side.get("datatype", default)
    if datatype not in allowed or side.get("wire"):
        got = f"{datatype} with wire" if side.get("wire") else datatype
        key = "fields" if "fields" in side else "table"
        raise DescriptionError(f"{where}: {key} with datatype {got}, expected {' or '.join(allowed)} without wire")
    if "fields" in side and side.get("shape"):
        raise DescriptionError(f"{where}: fields with a shape, expected none: the shape on the wire is the bytes of a row")
    return str(datatype)


def table_references(packed: Any) -> list[str]:
    """Return the files and functions that an input's tables come from.

    Args:
        packed: its fields, or its table.
    """
    tables = [field.get("table") for field in packed if isinstance(field, dict)] if isinstance(packed, list) else [packed]
    return [table for table in tables if isinstance(table, str)]


def read_packing(where: str, packed: dict[str, Any], datatype: str, size: int, directory: Path) -> Packing:
    """Return the layout of an input's rows.

    Raises DescriptionError. Modules beside the model must be importable.

    Args:
        where: the file and the input, for messages.
        packed: the YAML's `fields` or `table`.
        size: the network's elements.
        directory: of the YAML.
    """
    try:
        if "table" in packed:
            bits = DATATYPES[datatype].bits
            table = _table(f"{where}.table", packed["table"], directory)
            return Packing((Field("codes", bits, size, table=table),))
        packing = Packing(tuple(_fields(f"{where}.fields", packed["fields"], directory)))
    except PackingError as error:
        raise DescriptionError(f"{where}: {error}") from error
    if packing.size != size:
        each = ", ".join(f"{field.name} {field.size}" for field in packing.fields)
        raise DescriptionError(f"{where}: the fields become {packing.size} elements ({each}), the network takes {size}")
    return packing


def _fields(where: str, values: Any, directory: Path) -> list[Field]:
    if not isinstance(values, list) or not 1 <= len(values) <= MAX_FIELDS:
        raise DescriptionError(f"{where} is {values!r:.80}, expected a list of 1 to {MAX_FIELDS} fields")
    return [_field(f"{where}[{i}]", value, directory) for i, value in enumerate(values)]


def _field(where: str, value: Any, directory: Path) -> Field:
    content = mapping(where, value, _FIELD_KEYS)
    for key, kind in (("name", str), ("select", str), ("signed", bool), ("input", bool)):
        if not isinstance(content.get(key, kind()), kind) or (key == "name" and key not in content):
            wanted = {"name": "a text", "select": "the name of a field"}.get(key, "true or false")
            raise DescriptionError(f"{where}.{key} is {content.get(key)!r}, expected {wanted}")
    numbers = {key: integer(f"{where}.{key}", content[key], *limits) for key, limits in _LIMITS.items() if key in content}
    if "bits" not in numbers:
        raise DescriptionError(f"{where}.bits is missing, expected 1 to {MAX_BITS}")
    return Field(
        name=content["name"],
        signed=content.get("signed", False),
        table=_table(f"{where}.table", content["table"], directory) if "table" in content else (),
        select=content.get("select", ""),
        is_input=content.get("input", True),
        **numbers,
    )


def _table(where: str, source: Any, directory: Path) -> tuple[tuple[float, ...], ...]:
    array = _array(where, source, directory)
    if array.dtype.kind not in "fiu" or array.ndim not in (1, 2) or not 1 <= array.size <= MAX_ENTRIES:
        raise DescriptionError(
            f"{where} is an array of {array.dtype} of shape {array.shape}, expected numbers of shape (codes,) or (selections, "
            f"codes), at most {MAX_ENTRIES}"
        )
    return tuple(tuple(row) for row in np.atleast_2d(array.astype(np.float64)).tolist())


def _array(where: str, source: Any, directory: Path) -> NDArray[Any]:
    try:
        if isinstance(source, str) and source.endswith(".npy"):
            return np.asarray(np.load(directory / source, allow_pickle=False))
        if isinstance(source, str) and all(source.partition(":")):
            module, _, function = source.partition(":")
            return np.asarray(getattr(import_module(module), function)())
        if isinstance(source, list):
            return np.asarray(source)
    except Exception as error:  # the function and the file are the user's
        raise DescriptionError(f"{where} is {source!r:.80}, which gives no table: {type(error).__name__}: {error}") from error
    raise DescriptionError(f"{where} is {source!r:.80}, expected a list of numbers, a .npy file or module:function")
