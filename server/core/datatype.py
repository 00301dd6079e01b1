# SPDX-License-Identifier: Apache-2.0
"""Triton's datatypes: names, sizes, and the fields of InferTensorContents that hold their values.

Source: the datatype tables of KServe's v2 protocol, and Triton's model_config.proto. FP16 and BF16 can be sent only as raw
contents. A BYTES element is a 4-byte little-endian length, followed by that many bytes.
"""

from __future__ import annotations

from typing import NamedTuple


class Datatype(NamedTuple):
    """One datatype.

    Attributes:
        name: in the protocol.
        enum: in config.pbtxt.
        size_bytes: of one element, 0 = variable.
        contents: its field of InferTensorContents, "" = none.
        numpy: the dtype of raw contents; "<u2" for BF16, which numpy lacks.
    """

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
#: name in the protocol -> datatype
DATATYPES = {datatype.name: datatype for datatype in _TABLE}
#: name in config.pbtxt -> datatype
DATATYPES_BY_ENUM = {datatype.enum: datatype for datatype in _TABLE}
#: field of InferTensorContents -> the widest datatype that it holds (for error messages)
DATATYPES_BY_CONTENTS = {datatype.contents: datatype for datatype in _TABLE if datatype.contents and datatype.size_bytes != 2}
