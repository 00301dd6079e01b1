# SPDX-License-Identifier: Apache-2.0
"""Triton's datatypes: wire name, size, and the field of InferTensorContents that carries each one typed.

Source: the datatype tables of KServe's v2 protocol and Triton's model_config.proto. FP16 and BF16 travel raw only; a BYTES
element is a 4-byte little-endian length and that many bytes.
"""

from __future__ import annotations

from typing import NamedTuple


class Datatype(NamedTuple):
    """name: on the wire. enum: in config.pbtxt. size_bytes: of one element, 0 = variable. contents: typed field, "" = none."""

    name: str
    enum: str
    size_bytes: int
    contents: str
    numpy: str


_TABLE = (
    Datatype("BOOL", "TYPE_BOOL", 1, "bool_contents", "?"),
    Datatype("UINT8", "TYPE_UINT8", 1, "uint_contents", "u1"),
    Datatype("UINT16", "TYPE_UINT16", 2, "uint_contents", "<u2"),
    Datatype("UINT32", "TYPE_UINT32", 4, "uint_contents", "<u4"),
    Datatype("UINT64", "TYPE_UINT64", 8, "uint64_contents", "<u8"),
    Datatype("INT8", "TYPE_INT8", 1, "int_contents", "i1"),
    Datatype("INT16", "TYPE_INT16", 2, "int_contents", "<i2"),
    Datatype("INT32", "TYPE_INT32", 4, "int_contents", "<i4"),
    Datatype("INT64", "TYPE_INT64", 8, "int64_contents", "<i8"),
    Datatype("FP16", "TYPE_FP16", 2, "", "<f2"),
    Datatype("FP32", "TYPE_FP32", 4, "fp32_contents", "<f4"),
    Datatype("FP64", "TYPE_FP64", 8, "fp64_contents", "<f8"),
    Datatype("BYTES", "TYPE_STRING", 0, "bytes_contents", "O"),
    Datatype("BF16", "TYPE_BF16", 2, "", "<u2"),
)
#: by wire name
DATATYPES = {datatype.name: datatype for datatype in _TABLE}
#: by the name in config.pbtxt
DATATYPES_BY_ENUM = {datatype.enum: datatype for datatype in _TABLE}
#: the typed field -> the widest datatype it carries (for messages)
DATATYPES_BY_CONTENTS = {datatype.contents: datatype for datatype in _TABLE if datatype.contents and datatype.size_bytes != 2}
