# SPDX-License-Identifier: Apache-2.0
"""DLPack, versions 0 and 1: other libraries' tensors as arrays, and arrays for other libraries, without a copy.

numpy's own interface supports other producers only partly, and lacks bfloat16, so the structures of dlpack.h are read here. A
bfloat16 tensor is an array of its bits, uint16.
"""

from __future__ import annotations

import ctypes
import sys
import weakref
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from hypersonic.server.backends.python.stub.errors import TritonModelException

Array = np.ndarray[Any, np.dtype[Any]]

#: the values of DLDeviceType for memory that this process can read: kDLCPU, kDLCUDAHost
_HOST = (1, 3)
_NEWEST_MAJOR = 1
_READ_ONLY = 1
#: (DLDataTypeCode, bits) -> wire name
_NAMES = {
    (6, 8): "BOOL", (1, 8): "UINT8", (1, 16): "UINT16", (1, 32): "UINT32", (1, 64): "UINT64", (0, 8): "INT8", (0, 16): "INT16",
    (0, 32): "INT32", (0, 64): "INT64", (2, 16): "FP16", (2, 32): "FP32", (2, 64): "FP64", (4, 16): "BF16",
}  # fmt: skip
_BFLOAT_CODE = 4
_NOT_CONTIGUOUS = "DLPack tensor is not contiguous. Only contiguous DLPack tensors that are stored in C-Order are supported."
_NO_TENSOR = (
    "Provided tensor is not supported. Tensor must be a DLPack capsule or have `__dlpack__` and `__dlpack_device__` attributes"
)


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )  # fmt: skip


class _Managed(ctypes.Structure):
    _fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64), ("tensor", _Tensor),
    )  # fmt: skip


#: name of an unused capsule -> its structure, and the name that marks it as used
_CAPSULES: dict[bytes, tuple[Any, bytes]] = {
    b"dltensor": (_Managed, b"used_dltensor"),
    b"dltensor_versioned": (_Versioned, b"used_dltensor_versioned"),
}
_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def _of_python(name: str, result: Any, *arguments: Any) -> Callable[..., Any]:
    """Return a function of Python's C interface with this signature."""
    function = ctypes.PyDLL(None)[name]
    function.restype, function.argtypes = result, arguments
    return function


_get_name = _of_python("PyCapsule_GetName", ctypes.c_char_p, ctypes.py_object)
_get_pointer = _of_python("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
_set_name = _of_python("PyCapsule_SetName", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)


def take(exporter: Any, types: dict[str, np.dtype[Any]]) -> tuple[str, Array]:
    """Return the wire name of a tensor's datatype, and the tensor as an array; the memory is released with the array.

    Args:
        exporter: a capsule, or an object with __dlpack__.
        types: wire name -> numpy type.

    Raises:
        TritonModelException: After releasing the memory, for a tensor that is not in CPU memory, not in C order, or of a
            datatype that Triton does not have.
    """
    capsule = exporter if type(exporter).__name__ == "PyCapsule" else _asked_of(exporter)
    name = _get_name(capsule) or b""
    if name not in _CAPSULES:
        raise TritonModelException("from_dlpack: the capsule was taken before" if name.startswith(b"used") else _NO_TENSOR)
    kind, used = _CAPSULES[name]
    managed = kind.from_address(_get_pointer(capsule, name))
    _set_name(capsule, used)
    try:
        datatype, shape, size_bytes = _checked(managed, types)
    except TritonModelException:
        _give_back(managed.deleter, ctypes.addressof(managed))
        raise
    return datatype, _array(managed, size_bytes).view(types[datatype]).reshape(shape)


def _asked_of(exporter: Any) -> Any:
    """Return a capsule of the newest version that the producer supports. Raises TritonModelException."""
    if not hasattr(exporter, "__dlpack__") or not hasattr(exporter, "__dlpack_device__"):
        raise TritonModelException(_NO_TENSOR)
    _check_device(int(exporter.__dlpack_device__()[0]))
    try:
        for keywords in ({"max_version": (_NEWEST_MAJOR, 0)}, {"stream": None}):
            try:
                return exporter.__dlpack__(**keywords)
            except TypeError:  # an older producer, which does not accept this keyword
                continue
        return exporter.__dlpack__()
    except (BufferError, TypeError, ValueError, RuntimeError) as error:
        raise TritonModelException(f"from_dlpack: the exporter does not provide the tensor: {error}") from error


def _check_device(device: int) -> None:
    if device not in _HOST:
        raise TritonModelException(f"DLDevice type {device} is not support by Python backend.")


def _checked(managed: Any, types: dict[str, np.dtype[Any]]) -> tuple[str, list[int], int]:
    """Return datatype, shape and size in bytes. Raises TritonModelException."""
    if isinstance(managed, _Versioned) and managed.major > _NEWEST_MAJOR:
        raise TritonModelException(
            f"from_dlpack: the tensor is of DLPack version {managed.major}, expected at most {_NEWEST_MAJOR}"
        )
    tensor = managed.tensor
    _check_device(tensor.device_type)
    datatype = _NAMES.get((tensor.code, tensor.bits))
    if datatype is None or tensor.lanes != 1:
        what = f"code {tensor.code}, {tensor.bits} bits, {tensor.lanes} lanes"
        raise TritonModelException(f"from_dlpack: the tensor has {what}, which is not a Triton datatype")
    shape = tensor.shape[: tensor.ndim] if tensor.ndim else []
    if any(dim < 0 for dim in shape):
        raise TritonModelException(f"from_dlpack: the tensor has shape {shape}")
    size_bytes = prod(shape) * types[datatype].itemsize
    if size_bytes > sys.maxsize:
        raise TritonModelException(f"from_dlpack: the tensor has shape {shape}, more than memory can hold")
    if tensor.strides and not _contiguous(shape, tensor.strides[: tensor.ndim]):
        raise TritonModelException(_NOT_CONTIGUOUS)
    return datatype, shape, size_bytes


def _contiguous(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Return whether the strides are those of C order. The stride of a dimension with one element has no meaning."""
    expected = 1
    for dim, stride in zip(reversed(shape), reversed(strides), strict=True):
        if dim != 1 and stride != expected:
            return 0 in shape
        expected *= dim
    return True


def _array(managed: Any, size_bytes: int) -> Array:
    """Return the tensor's bytes, which are released with the last view of them."""
    tensor = managed.tensor
    if not size_bytes:
        _give_back(managed.deleter, ctypes.addressof(managed))
        return np.empty(0, np.uint8)
    block = (ctypes.c_uint8 * size_bytes).from_address(tensor.data + tensor.byte_offset)
    weakref.finalize(block, _give_back, managed.deleter, ctypes.addressof(managed)).atexit = False
    array: Array = np.frombuffer(memoryview(block), np.uint8)
    if isinstance(managed, _Versioned) and managed.flags & _READ_ONLY:
        array.flags.writeable = False
    return array


def _give_back(deleter: int | None, address: int) -> None:
    if deleter:
        _DELETER(deleter)(address)


def give(array: Array, *, bfloat16: bool = False, max_version: tuple[int, int] | None = None, **keywords: Any) -> object:
    """Return a capsule that holds the array.

    Args:
        bfloat16: True if the elements are the bits of bfloat16 numbers.
        keywords: those of __dlpack__.

    Raises:
        BufferError: For what numpy cannot do, such as another device.
        RuntimeError: For what numpy cannot do, such as another device.
        ValueError: For what numpy cannot do, such as another device.
    """
    if max_version is not None:
        keywords["max_version"] = max_version
    elif not array.flags.writeable:  # version 0 has no read-only flag
        array = array.copy()
    capsule: object = array.__dlpack__(**keywords)
    if bfloat16:
        name = _get_name(capsule)
        tensor = _CAPSULES[name][0].from_address(_get_pointer(capsule, name)).tensor
        tensor.code = _BFLOAT_CODE
    return capsule
