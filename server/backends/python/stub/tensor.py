# SPDX-License-Identifier: Apache-2.0
"""Tensor: a named array, as models receive and return it; and Triton's datatypes as numpy types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hypersonic.server.backends.python.stub import dlpack
from hypersonic.server.backends.python.stub.errors import TritonModelException
from hypersonic.server.core.datatype import DATATYPES
from hypersonic.server.core.inference.strings import pack_strings, walk_strings

Array = np.ndarray[Any, np.dtype[Any]]

#: wire names in the order of Triton's enumeration, which begins with TYPE_INVALID
NAMES = ("", *DATATYPES)
_CODES = {name: code for code, name in enumerate(NAMES)}
#: wire name -> numpy type; numpy does not have BF16
NUMPY = {name: np.dtype(datatype.numpy) for name, datatype in DATATYPES.items() if name != "BF16"}
_DATATYPE_OF = {dtype: name for name, dtype in NUMPY.items()}
#: the same with BF16, whose elements are their bits as uint16
_TYPES = {**NUMPY, "BF16": np.dtype(np.uint16)}
_NO_BF16 = "Tensor dtype is BF16 and cannot be converted to NumPy. Use to_dlpack() and from_dlpack() instead."


def datatype_of(dtype: np.dtype[Any]) -> str:
    """Return the wire name of a numpy type. Raises TritonModelException with Triton's text."""
    name = "BYTES" if dtype.kind == "S" else _DATATYPE_OF.get(dtype)
    if name is None:
        raise TritonModelException("NumPy dtype is not supported.")
    return name


class Tensor:
    """An input or output. Arrays of inputs are views of the server's memory while the model executes."""

    __slots__ = ("_array", "_datatype", "_load", "_name", "_shape")

    def __init__(self, name: str, array: Array) -> None:
        """Raise TypeError for wrong arguments, TritonModelException for an empty name or a type that Triton does not have."""
        if not isinstance(name, str) or not isinstance(array, np.ndarray):
            raise TypeError(f"Tensor(name: str, array: numpy.ndarray): got {type(name).__name__}, {type(array).__name__}")
        if not name:
            raise TritonModelException("Tensor name cannot be an empty string.")
        self._name = name
        self._datatype = datatype_of(array.dtype)
        self._shape: tuple[int, ...] = array.shape
        self._array: Array | None = array
        self._load: Callable[[], Array] | None = None

    @classmethod
    def received(cls, name: str, datatype: str, shape: tuple[int, ...], load: Callable[[], Array]) -> Tensor:
        """Return a tensor from the server.

        Args:
            load: creates the array when the model asks for it.
        """
        tensor = cls.__new__(cls)
        tensor._name, tensor._datatype, tensor._shape, tensor._load, tensor._array = name, datatype, shape, load, None
        return tensor

    def name(self) -> str:
        """Return the name, as in the model's configuration."""
        return self._name

    def shape(self) -> list[int]:
        """Return the shape, with the batch dimension."""
        return list(self._shape)

    def triton_dtype(self) -> int:
        """Return Triton's number of the datatype, as triton_to_numpy_type() takes it."""
        return _CODES[self._datatype]

    def is_cpu(self) -> bool:
        """Return True: this server gives models no GPU memory."""
        return True

    def as_numpy(self) -> Array:
        """Return the array, the same object at each call; BYTES as an array of bytes objects.

        Raises TritonModelException for BF16.
        """
        if self._datatype == "BF16":
            raise TritonModelException(_NO_BF16)
        return self.elements()

    def elements(self) -> Array:
        """Return the array as as_numpy() does; for BF16, the bits as uint16."""
        if self._array is None:
            assert self._load is not None
            self._array = self._load()
            self._load = None
        return self._array

    def to_dlpack(self) -> object:
        """Return a DLPack capsule of the tensor, of version 0. Raises TritonModelException for BYTES."""
        return self.__dlpack__()

    def __dlpack__(self, **keywords: Any) -> object:
        """Return a DLPack capsule: version 1 if max_version=(1, 0) is given, as in the array API standard."""
        if self._datatype == "BYTES":
            raise TritonModelException("DLPack does not have support for string tensors.")
        return dlpack.give(self.elements(), bfloat16=self._datatype == "BF16", **keywords)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)  # kDLCPU

    @classmethod
    def from_dlpack(cls, name: str, exporter: object) -> Tensor:
        """Return a tensor that shares the exporter's memory.

        Args:
            exporter: a capsule, or an object with __dlpack__; in CPU memory, in C order.

        Raises:
            TritonModelException: Otherwise.
        """
        if not name:
            raise TritonModelException("Tensor name cannot be an empty string.")
        datatype, array = dlpack.take(exporter, _TYPES)
        return cls.received(name, datatype, array.shape, lambda: array)


class Packed:
    """A tensor to be sent.

    Attributes:
        data: its bytes, in C order and little endian.
    """

    __slots__ = ("data", "datatype", "name", "shape", "size_bytes")

    def __init__(self, tensor: Tensor) -> None:
        array = tensor.elements()
        self.name = tensor.name()
        self.datatype = NAMES[tensor.triton_dtype()]
        self.shape = array.shape
        self.data = _bytes_of(array)
        self.size_bytes = len(self.data)


def _bytes_of(array: Array) -> memoryview:
    if array.dtype.kind in "OS":
        return memoryview(serialize_byte_tensor(array) or b"")
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data if array.size else memoryview(b"")


def serialize_byte_tensor(input_tensor: Array) -> bytes | tuple[()] | None:
    """Return each element as a 4-byte little-endian length and its bytes, in C order.

    Text is encoded as UTF-8, other objects as their text. As in Triton, the result is () for an empty array and None for an
    array of neither objects nor bytes.
    """
    if not input_tensor.size:
        return ()
    if input_tensor.dtype.kind not in "OS":
        return None
    items = input_tensor.ravel(order="C").tolist()
    return pack_strings(item if isinstance(item, bytes) else str(item) for item in items)


def deserialize_bytes_tensor(encoded_tensor: bytes | memoryview) -> Array:
    """Return a flat array of bytes objects: the inverse of serialize_byte_tensor().

    Raises TritonModelException if the last element is truncated.
    """
    view = memoryview(encoded_tensor)
    items: list[bytes] = []
    for start, stop in walk_strings(view):
        if stop > len(view):
            raise TritonModelException(f"a BYTES tensor of {len(view)} bytes ends amid its element {len(items)}")
        items.append(bytes(view[start:stop]))
    array = np.empty(len(items), np.object_)
    array[:] = items
    return array


def unpack(datatype: str, shape: tuple[int, ...], data: Array | memoryview) -> Array:
    """Convert bytes to an array, without a copy except for BYTES.

    Args:
        data: flat uint8.
    """
    if datatype == "BYTES":
        return deserialize_bytes_tensor(data.data if isinstance(data, np.ndarray) else data).reshape(shape)
    flat = data if isinstance(data, np.ndarray) else np.frombuffer(data, np.uint8)
    return flat.view(_TYPES[datatype]).reshape(shape)
