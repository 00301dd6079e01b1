# SPDX-License-Identifier: Apache-2.0
"""A DLPack producer of our own: any header, and a count of how often its memory was given back."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

#: DLDataTypeCode
INT, UINT, FLOAT, BFLOAT, COMPLEX, BOOL = 0, 1, 2, 4, 5, 6
CPU, CUDA, CUDA_HOST = 1, 2, 3
READ_ONLY = 1


class DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )  # fmt: skip


class Managed(ctypes.Structure):
    _fields_ = (("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64), ("tensor", DLTensor),
    )  # fmt: skip


_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_NEW = ctypes.PyDLL(None)["PyCapsule_New"]
_NEW.restype, _NEW.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_POINTER = ctypes.PyDLL(None)["PyCapsule_GetPointer"]
_POINTER.restype, _POINTER.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)


class Producer:
    """Exports `data`, read as (code, bits). released: how often the deleter was called. versioned: which protocol it speaks.

    newest: the major version that it claims. Capsules that nobody takes are nobody's: this producer is for consumers' tests.
    """

    def __init__(
        self, data: np.ndarray, code: int, bits: int, shape: Sequence[int], *, strides: Sequence[int] | None = None,
        device: int = CPU, lanes: int = 1, versioned: bool = False, flags: int = 0, newest: int = 1, offset: int = 0,
    ) -> None:  # fmt: skip
        self.released = 0
        self.device = device
        self.asked: list[dict[str, Any]] = []
        self._versioned = versioned
        self._data = data
        self._dims = (ctypes.c_int64 * len(shape))(*shape)
        self._strides = None if strides is None else (ctypes.c_int64 * len(strides))(*strides)
        self._deleter = _DELETER(self._release)
        self._managed = Versioned() if versioned else Managed()
        self._managed.deleter = ctypes.cast(self._deleter, ctypes.c_void_p).value
        if isinstance(self._managed, Versioned):
            self._managed.major, self._managed.flags = newest, flags
        tensor = self._managed.tensor
        tensor.data, tensor.byte_offset, tensor.device_type, tensor.ndim = data.ctypes.data, offset, device, len(shape)
        tensor.code, tensor.bits, tensor.lanes = code, bits, lanes
        tensor.shape = ctypes.cast(self._dims, ctypes.POINTER(ctypes.c_int64))
        if self._strides is not None:
            tensor.strides = ctypes.cast(self._strides, ctypes.POINTER(ctypes.c_int64))

    def _release(self, _: int | None) -> None:
        self.released += 1

    def capsule(self) -> object:
        name = b"dltensor_versioned" if self._versioned else b"dltensor"
        return _NEW(ctypes.addressof(self._managed), name, None)

    def __dlpack__(self, **keywords: Any) -> object:
        self.asked.append(keywords)
        if not self._versioned and keywords.keys() - {"stream"}:
            raise TypeError("an old producer")
        return self.capsule()

    def __dlpack_device__(self) -> tuple[int, int]:
        return (self.device, 0)


def header(capsule: object) -> dict[str, Any]:
    """The header of a capsule made by another library."""
    versioned = "versioned" in repr(capsule)
    at = _POINTER(capsule, b"dltensor_versioned" if versioned else b"dltensor")
    managed: Any = (Versioned if versioned else Managed).from_address(at)
    tensor = managed.tensor
    return {
        "versioned": versioned,
        "flags": managed.flags if versioned else 0,
        "type": (tensor.code, tensor.bits, tensor.lanes),
        "shape": tensor.shape[: tensor.ndim],
        "device": (tensor.device_type, tensor.device_id),
        "address": (tensor.data or 0) + tensor.byte_offset,
    }
