# SPDX-License-Identifier: Apache-2.0
"""Reads rows from numpy's files: one array in a .npy, or one for each tensor by name in a .npz. The files are not trusted."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.errors import ConversionError

SUFFIXES = (".npy", ".npz")


class RowsError(ConversionError):
    """A file of rows cannot be used. The message gives the file, what it holds, and what is expected."""


@dataclass(frozen=True)
class Wanted:
    """A tensor whose rows are read.

    Attributes:
        names: any of them may be its name in a .npz.
        shape: of one row, as it is served.
        channels_first: the model's file has the last axis first, and rows may have either layout.
    """

    names: tuple[str, ...]
    shape: tuple[int, ...]
    channels_first: bool = False

    @property
    def own(self) -> tuple[int, ...]:
        """The shape of one row in the model's file."""
        return (self.shape[-1], *self.shape[:-1]) if self.channels_first else self.shape

    def is_own(self, rows: NDArray[Any]) -> bool:
        """Return whether rows have the layout of the model's file, and not that in which the tensor is served.

        With channels first, True if both layouts have the same shape. Rows of elements without axes are as they are served.
        """
        return self.channels_first and rows.shape[1:] == self.own


def is_rows_file(text: str) -> bool:
    """Return whether a text names a file of rows by its suffix."""
    return Path(text).suffix in SUFFIXES


def read_rows(file: Path, wanted: Sequence[Wanted]) -> tuple[NDArray[np.float32], ...]:
    """Return the rows of a file, float32 (rows, elements) for each tensor of `wanted`.

    A .npy holds the rows of the only tensor, `(rows, *shape)`, `(rows, *own)` or (rows, elements); a .npz holds an array for
    each by name, or one array of any name for a single tensor. Any real or integer dtype is taken. Raises RowsError, and
    OSError for a file that cannot be opened.
    """
    return rows_and_layout(file, wanted)[0]


def rows_and_layout(file: Path, wanted: Sequence[Wanted]) -> tuple[tuple[NDArray[np.float32], ...], list[str]]:
    """Return the rows as read_rows does, and the names of the tensors whose rows have the layout of the model's file.

    Raises as read_rows does.
    """
    arrays = list(_by_tensor(file, read_arrays(file), wanted))
    rows = tuple(_rows(file, array, tensor) for array, tensor in zip(arrays, wanted, strict=True))
    if len({len(each) for each in rows}) > 1:
        counts = ", ".join(f"{tensor.names[0]} {len(each)}" for tensor, each in zip(wanted, rows, strict=True))
        raise RowsError(f"{file} holds different numbers of rows: {counts}; give each input the same number")
    return rows, [tensor.names[0] for tensor, array in zip(wanted, arrays, strict=True) if tensor.is_own(array)]


def read_arrays(file: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays of a .npz by name, or the one of a .npy under "". Raises RowsError and OSError as read_rows does."""
    if file.suffix not in SUFFIXES:
        raise RowsError(f"{file} is not a file of rows: expected .npy (numpy.save) or .npz (numpy.savez)")
    try:
        loaded = np.load(file, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return {"": loaded}
        with loaded:
            return {name: loaded[name] for name in loaded.files}
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise RowsError(f"{file} does not hold arrays of numbers that numpy can read: {error}") from error


def _by_tensor(file: Path, arrays: Mapping[str, NDArray[Any]], wanted: Sequence[Wanted]) -> Sequence[NDArray[Any]]:
    if len(wanted) == 1 and len(arrays) == 1:
        return list(arrays.values())
    names = ", ".join(tensor.names[0] for tensor in wanted)
    if "" in arrays:
        raise RowsError(f"{file} holds one array, the model has {names}: write a .npz with an array for each by name")
    found = [next((arrays[name] for name in tensor.names if name in arrays), None) for tensor in wanted]
    if any(array is None for array in found):
        raise RowsError(f"{file} holds the arrays {', '.join(arrays) or 'none'}, expected {names}")
    return [array for array in found if array is not None]


def _rows(file: Path, array: NDArray[Any], tensor: Wanted) -> NDArray[np.float32]:
    name, size = tensor.names[0], prod(tensor.shape)
    if array.dtype.kind not in "fiub":
        raise RowsError(f"{file}: rows of {name} have dtype {array.dtype}, expected real numbers or integers, such as float32")
    if size == 1 and array.ndim == 1:
        array = array[:, None]
    if array.ndim < 2 or array.shape[1:] not in (tensor.shape, tensor.own, (size,)) or not len(array):
        listed = [f"(rows, {', '.join(map(str, shape))})" for shape in dict.fromkeys((tensor.own, tensor.shape))]
        layouts = f"{listed[0]} as in the model's file, or {listed[1]} as it is served," if listed[1:] else listed[0]
        raise RowsError(f"{file}: rows of {name} have shape {array.shape}, expected {layouts} with 1 or more rows")
    if tensor.is_own(array):
        array = np.moveaxis(array, 1, -1)
    with np.errstate(over="ignore"):
        rows = np.ascontiguousarray(array.reshape(len(array), size), dtype=np.float32)
    wrong = np.argwhere(~np.isfinite(rows))
    if len(wrong):
        raise RowsError(
            f"{file}: row {wrong[0][0]} of {name} holds {array.reshape(len(array), size)[tuple(wrong[0])]} at place "
            f"{wrong[0][1]}, expected finite numbers within float32"
        )
    return rows
