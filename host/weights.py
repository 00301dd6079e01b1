# SPDX-License-Identifier: Apache-2.0
"""The weights of a kernel that loads them at run time: the file weights.bin, in one buffer object per compute unit.

::

    weights.bin --> size, sha256 --> buffer object in w's bank --> card;  its address is argument w of every run

A kernel loads the weights again after a reset, and in a run whose w differs from the previous run's. It reads no weights while
no run is in flight. New weights must therefore never be at the address of the unit's last ones, which the kernel would consider
loaded already. Each model and version on a unit has its weights there, but equal weights are stored once. They are freed when
no model uses them any more, or when the unit is closed.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hypersonic.firmware.kernel.registers import WEIGHTS_BEATS
from hypersonic.firmware.kernel.registers import W as W_REGISTER
from hypersonic.firmware.publish.content import digest
from hypersonic.host.compute_unit import BufferObject, ComputeUnit, UnitWeights
from hypersonic.host.errors import DeviceError, WeightsError, XclbinMismatchError

#: the index of the kernel's argument for xrtRunSetArg; kernels without weights have no argument with this index
W = 3

_BEAT_BYTES = 64
_PIECE_BYTES = 1 << 20


class Described(Protocol):
    """The part of a Manifest that describes the weights."""

    @property
    def model(self) -> str:
        """The model's name, for messages."""
        ...

    @property
    def weights_bytes(self) -> int:
        """Size of weights.bin; 0 when the kernel reads no weights from memory."""
        ...

    @property
    def weights_sha256(self) -> str:
        """SHA-256 of weights.bin, 64 hex digits; empty without one."""
        ...


@dataclass(frozen=True)
class WeightsFile:
    """A weights file, with the size and the SHA-256 that it had when it was read."""

    path: Path
    size_bytes: int
    sha256: str


def find_weights(manifest: Described, path: Path) -> WeightsFile | None:
    """The weights that the manifest describes; None where it describes none. Raises WeightsError when the file differs."""
    if not manifest.weights_bytes:
        return None
    what = f"the kernel of {manifest.model!r} reads its weights from it"
    file = read_weights(path, manifest.weights_bytes, what)
    if file.sha256 != manifest.weights_sha256:
        raise WeightsError(
            f"{path} has sha256 {file.sha256}, expected {manifest.weights_sha256} as in the manifest of {manifest.model!r}: "
            "it was changed, or is from another build: copy the whole version directory, or publish the model again"
        )
    return file


def expected_bytes(unit: ComputeUnit) -> int:
    """The size in bytes of the weights that the unit reads, from its registers. Raises DeviceError."""
    return unit.read_register(WEIGHTS_BEATS) * _BEAT_BYTES


def load_weights(unit: ComputeUnit, file: WeightsFile) -> BufferObject:
    """The buffer object with the file's contents in the bank of w, for argument w of every run of the unit, which closes it.

    Raises XclbinMismatchError when the unit reads more bytes than the file has, WeightsError when the file has changed since it
    was read, OSError, BufferObjectError (the bank is full).
    """
    if (there := unit.weights.get(file.sha256)) is not None:
        there.users += 1
        return there.buffer
    _check_size(unit, file)
    buffer = _allocate(unit, file.size_bytes)
    try:
        _fill(buffer.array, file)
        buffer.sync_to_device(file.size_bytes)
    except BaseException:
        buffer.close()
        raise
    unit.weights[file.sha256] = UnitWeights(buffer)
    return buffer


def release_weights(unit: ComputeUnit, file: WeightsFile) -> None:
    """End one use of weights, whose runs are over. A unit out of service keeps them: its run may still read them."""
    there = unit.weights.get(file.sha256)
    if there is None or unit.closed:
        return
    there.users -= 1
    if there.users <= 0 and unit.in_service:
        del unit.weights[file.sha256]
        there.buffer.close()


def read_weights(path: Path, size_bytes: int, what: str) -> WeightsFile:
    """The file's size and hash.

    The size is checked before the file is read.

    Args:
        what: why the file is needed, for messages.

    Raises:
        WeightsError: When the file cannot be read or does not have size_bytes bytes.
    """
    try:
        there = path.stat().st_size
        if there == size_bytes:
            return WeightsFile(path, *digest(path))
    except OSError as error:
        raise WeightsError(
            f"{path} cannot be read ({error.strerror}): {what}, {size_bytes} bytes: it must be next to model.xclbin; copy the "
            "whole version directory, or publish the model again"
        ) from error
    raise WeightsError(
        f"{path} is {there} bytes, expected {size_bytes}: {what}; it was cut short, or is from another build: copy the whole "
        "version directory, or publish the model again"
    )


def _check_size(unit: ComputeUnit, file: WeightsFile) -> None:
    expected = expected_bytes(unit) if unit.tells else file.size_bytes
    if not 0 < expected <= file.size_bytes:
        raise XclbinMismatchError(
            f"compute unit {unit.name} reads {expected} bytes of weights, {file.path} has {file.size_bytes}: they are not from "
            "the same build: publish the model again"
        )


def _allocate(unit: ComputeUnit, size_bytes: int) -> BufferObject:
    buffer = unit.allocate(size_bytes, W)
    if buffer.address != _last_address(unit):
        return buffer
    try:
        return unit.allocate(size_bytes, W)  # at another address, because that one is still allocated
    finally:
        buffer.close()


def _last_address(unit: ComputeUnit) -> int | None:
    """The argument w of the unit's last run, of any process; None where registers cannot be read."""
    try:
        return unit.read_register(W_REGISTER) | unit.read_register(W_REGISTER + 4) << 32
    except DeviceError:
        return None


def _fill(array: NDArray[np.uint8], file: WeightsFile) -> None:
    """Read the file directly into the buffer's host side. Raises WeightsError when it has changed since it was hashed."""
    sha256 = hashlib.sha256()
    with file.path.open("rb") as source:
        for start in range(0, file.size_bytes, _PIECE_BYTES):
            piece = array[start : start + _PIECE_BYTES].data
            source.readinto(piece)
            sha256.update(piece)
    if sha256.hexdigest() != file.sha256:
        raise WeightsError(f"{file.path} was changed while it was loaded, or cut short: load the model again")
