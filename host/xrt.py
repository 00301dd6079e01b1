# SPDX-License-Identifier: Apache-2.0
"""XRT's C API through ctypes: a Driver with all optional protocols, whose calls raise errors instead of returning codes.

Source: xrt/xrt_device.h, xrt/xrt_bo.h, xrt/xrt_kernel.h, which have not changed since XRT 2.11. ctypes releases the GIL around
each call, so that many threads can wait, each for its run. Handles are XRT's pointers; nothing here stores one.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from ctypes import c_char_p, c_int, c_size_t, c_uint, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.host.driver import Handle, RunState
from hypersonic.host.errors import (
    BufferObjectError,
    ComputeUnitNotFoundError,
    DeviceError,
    DeviceNotFoundError,
    LibraryNotFoundError,
    RunError,
    failure,
)
from hypersonic.host.version import OLDEST, Version, file_version, text

#: the flags of a buffer object with one copy in host memory and one on the card
NORMAL = 0

_Uuid = ctypes.c_ubyte * 16

#: name -> (result, arguments); xrtRunSetArg is variadic, and only its two fixed arguments are declared
_PROTOTYPES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "xrtDeviceOpen": (c_void_p, (c_uint,)),
    "xrtDeviceClose": (c_int, (c_void_p,)),
    "xrtDeviceLoadXclbinFile": (c_int, (c_void_p, c_char_p)),
    "xrtDeviceGetXclbinUUID": (c_int, (c_void_p, _Uuid)),
    "xrtPLKernelOpen": (c_void_p, (c_void_p, _Uuid, c_char_p)),
    "xrtPLKernelOpenExclusive": (c_void_p, (c_void_p, _Uuid, c_char_p)),
    "xrtKernelArgGroupId": (c_int, (c_void_p, c_int)),
    "xrtKernelArgOffset": (c_uint32, (c_void_p, c_int)),
    "xrtKernelReadRegister": (c_int, (c_void_p, c_uint32, ctypes.POINTER(c_uint32))),
    "xrtKernelWriteRegister": (c_int, (c_void_p, c_uint32, c_uint32)),
    "xrtKernelClose": (c_int, (c_void_p,)),
    "xrtBOAlloc": (c_void_p, (c_void_p, c_size_t, c_uint64, c_uint32)),
    "xrtBOMap": (c_void_p, (c_void_p,)),
    "xrtBOAddress": (c_uint64, (c_void_p,)),
    "xrtBOSize": (c_size_t, (c_void_p,)),
    "xrtBOSync": (c_int, (c_void_p, c_int, c_size_t, c_size_t)),
    "xrtBOFree": (c_int, (c_void_p,)),
    "xrtRunOpen": (c_void_p, (c_void_p,)),
    "xrtRunSetArg": (c_int, (c_void_p, c_int)),
    "xrtRunStart": (c_int, (c_void_p,)),
    "xrtRunWaitFor": (c_int, (c_void_p, c_uint)),
    "xrtRunState": (c_int, (c_void_p,)),
    "xrtRunClose": (c_int, (c_void_p,)),
}


class Library:
    """A loaded XRT library, real or emulated. Like XRT's C API, it may be shared between threads."""

    reset = "reset the card (`xrt-smi reset`; `xbutil reset` before XRT 2.18)"
    version: Version | None  # None where the library has none, such as the emulated card's

    def __init__(self, path: str) -> None:
        """Raises LibraryNotFoundError when `path` cannot be loaded, is not an XRT library, or is too old."""
        self.path = path
        try:
            self._library = ctypes.CDLL(path, use_errno=True)
        except OSError as error:
            raise _unusable(path, str(error)) from error
        #: the file that the dynamic loader has loaded
        self.file = _loaded_file(self._library)
        self.version = _version(self._library, self.file)
        if self.version and self.version < OLDEST:
            raise _unusable(path, f"it is XRT {text(self.version)}, expected {text(OLDEST)} or newer")
        try:
            # bound once, because they are called thousands of times per second
            self._calls = {name: self._declare(name, *prototype) for name, prototype in _PROTOTYPES.items()}
        except AttributeError as error:
            raise _unusable(path, f"{error} (its version: {text(self.version) if self.version else 'unknown'})") from error

    def _declare(self, name: str, result: Any, arguments: tuple[Any, ...]) -> Callable[..., Any]:
        function = getattr(self._library, name)
        function.restype, function.argtypes = result, arguments
        return function  # type: ignore[no-any-return]

    def open_device(self, index: int) -> Handle:
        """Open card `index` in XRT's numbering. Raises DeviceNotFoundError, DeviceBusyError."""
        return self._handle(DeviceNotFoundError, f"card {index} cannot be opened", "xrtDeviceOpen", index)

    def close_device(self, device: Handle) -> None:
        """Close the card. Raises DeviceError."""
        self._check(DeviceError, "the card cannot be closed", "xrtDeviceClose", device)

    def load_xclbin(self, device: Handle, path: str) -> str:
        """Load an xclbin file, and return the uuid of the xclbin on the card. Raises DeviceError, or by errno another error of
        host/errors.py."""
        self._check(DeviceError, f"xclbin {path} cannot be loaded", "xrtDeviceLoadXclbinFile", device, path.encode())
        return self.xclbin_uuid(device)

    def xclbin_uuid(self, device: Handle) -> str:
        """The uuid of the xclbin on the card, 32 hex digits. Raises DeviceError."""
        uuid = _Uuid()
        self._check(DeviceError, "the card does not tell its xclbin", "xrtDeviceGetXclbinUUID", device, uuid)
        return bytes(uuid).hex()

    def open_kernel(self, device: Handle, uuid: str, name: str) -> Handle:
        """Open a compute unit exclusively, because XRT allows access to registers only then.

        Raises ComputeUnitNotFoundError.

        Args:
            name: "kernel:{compute_unit}".
        """
        what = f"compute unit {name} cannot be opened"
        raw = _Uuid.from_buffer_copy(bytes.fromhex(uuid))
        return self._handle(ComputeUnitNotFoundError, what, "xrtPLKernelOpenExclusive", device, raw, name.encode())

    def close_kernel(self, kernel: Handle) -> None:
        """Close the compute unit. Raises DeviceError."""
        self._check(DeviceError, "the compute unit cannot be closed", "xrtKernelClose", kernel)

    def group_id(self, kernel: Handle, argument: int) -> int:
        """The memory bank for buffer objects of this argument. Raises ComputeUnitNotFoundError."""
        ctypes.set_errno(0)
        group: int = self._calls["xrtKernelArgGroupId"](kernel, argument)
        if group < 0:
            raise failure(ComputeUnitNotFoundError, f"argument {argument} has no memory bank", _cause(group))
        return group

    def argument_offset(self, kernel: Handle, argument: int) -> int:
        """The offset of the argument's register, in bytes of s_axi_control."""
        offset: int = self._calls["xrtKernelArgOffset"](kernel, argument)
        return offset

    def read_register(self, kernel: Handle, offset: int) -> int:
        """The 32-bit register at that offset of s_axi_control. Raises DeviceError."""
        value = c_uint32()
        what = f"register {offset:#x} cannot be read"
        self._check(DeviceError, what, "xrtKernelReadRegister", kernel, offset, ctypes.byref(value))
        return value.value

    def write_register(self, kernel: Handle, offset: int, value: int) -> None:
        """Write the 32-bit register at that offset of s_axi_control. Raises DeviceError."""
        self._check(DeviceError, f"register {offset:#x} cannot be written", "xrtKernelWriteRegister", kernel, offset, value)

    def allocate(self, device: Handle, size_bytes: int, group: int) -> Handle:
        """A buffer object in memory bank `group`. Raises BufferObjectError."""
        what = f"a buffer object of {size_bytes} bytes in memory {group} cannot be allocated"
        return self._handle(BufferObjectError, what, "xrtBOAlloc", device, size_bytes, NORMAL, group)

    def map_buffer(self, buffer: Handle, size_bytes: int) -> NDArray[np.uint8]:
        """The buffer object's host memory, (size_bytes,) uint8, not a copy; it must not be used after free_buffer. Raises
        BufferObjectError."""
        address = self._handle(BufferObjectError, "a buffer object cannot be mapped", "xrtBOMap", buffer)
        return np.ctypeslib.as_array((ctypes.c_uint8 * size_bytes).from_address(address))

    def buffer_address(self, buffer: Handle) -> int:
        """The buffer object's address on the card."""
        address: int = self._calls["xrtBOAddress"](buffer)
        return address

    def sync(self, buffer: Handle, direction: int, size_bytes: int, offset: int) -> int:
        """Copy part of a buffer object. Returns 0, or XRT's error code, which is an errno where XRT gives one."""
        ctypes.set_errno(0)
        code: int = self._calls["xrtBOSync"](buffer, direction, size_bytes, offset)
        return _cause(code) if code else 0

    def free_buffer(self, buffer: Handle) -> None:
        """Free the buffer object. Raises BufferObjectError."""
        self._check(BufferObjectError, "a buffer object cannot be freed", "xrtBOFree", buffer)

    def open_run(self, kernel: Handle) -> Handle:
        """A run of the compute unit. Raises RunError."""
        return self._handle(RunError, "a run cannot be opened", "xrtRunOpen", kernel)

    def set_buffer(self, run: Handle, argument: int, buffer: Handle) -> None:
        """Set a pointer argument. Raises BufferObjectError."""
        what = f"argument {argument} does not take the buffer object: is it in the right memory bank?"
        self._check(BufferObjectError, what, "xrtRunSetArg", run, argument, c_void_p(buffer))

    def set_scalar(self, run: Handle, argument: int, value: int) -> None:
        """Set a scalar argument.

        Raises RunError.

        Args:
            value: 32 bits, unsigned.
        """
        ctypes.set_errno(0)
        code = self._calls["xrtRunSetArg"](run, argument, c_uint32(value))
        if code:
            raise failure(RunError, f"argument {argument} does not take {value}", _cause(code))

    def start(self, run: Handle) -> None:
        """Start the run, without waiting for it. Raises RunError, or by errno another error of host/errors.py."""
        ctypes.set_errno(0)
        code = self._calls["xrtRunStart"](run)
        if code:
            raise failure(RunError, "a run cannot be started", _cause(code))

    def wait(self, run: Handle, timeout_ms: int) -> int:
        """The run's state (RunState) once it has ended, or its present state after timeout_ms."""
        state: int = self._calls["xrtRunWaitFor"](run, timeout_ms)
        if state == RunState.TIMEOUT:
            # some releases of XRT return this when the call times out; the run's own state shows whether the run has ended so
            state = self._calls["xrtRunState"](run)
        return state

    def close_run(self, run: Handle) -> None:
        """Close the run. Raises RunError."""
        self._check(RunError, "a run cannot be closed", "xrtRunClose", run)

    def _handle(self, error: type[DeviceError], what: str, name: str, *arguments: Any) -> Handle:
        ctypes.set_errno(0)
        handle: Handle | None = self._calls[name](*arguments)
        if not handle:
            raise failure(error, what, ctypes.get_errno())
        return handle

    def _check(self, error: type[DeviceError], what: str, name: str, *arguments: Any) -> None:
        ctypes.set_errno(0)
        code = self._calls[name](*arguments)
        if code:
            raise failure(error, what, _cause(code))


def _cause(code: int) -> int:
    """The errno of a failed call, -1 if there is none: some functions of XRT return -1 or 1 and set errno, others return the
    errno itself."""
    return code if code not in (-1, 1) else ctypes.get_errno() or -1


def _unusable(path: str, why: str) -> LibraryNotFoundError:
    advice = "install XRT (Debian: libxrt1) or set HYPERSONIC_XRT_LIBRARY to another one"
    return LibraryNotFoundError(f"XRT library {path}: {why.removeprefix(f'{path}: ')}; {advice}")


class _SymbolInfo(ctypes.Structure):
    """Dl_info of dlfcn.h."""

    _fields_ = [("file", c_char_p), ("base", c_void_p), ("symbol", c_char_p), ("address", c_void_p)]


def _version(library: ctypes.CDLL, file: Path | None) -> Version | None:
    """The library's version: newer releases have functions for it (experimental/xrt_version.h), for older ones it follows from
    the loaded file. None when neither gives it."""
    try:
        return library.xrtVersionMajor(), library.xrtVersionMinor(), library.xrtVersionPatch()
    except AttributeError:
        return file_version(file) if file else None


def _loaded_file(library: ctypes.CDLL) -> Path | None:
    """The file that the dynamic loader has loaded; None when it is not known."""
    info = _SymbolInfo()
    try:
        known = ctypes.CDLL(None).dladdr(library.xrtDeviceOpen, ctypes.byref(info))
    except AttributeError:
        return None
    return Path(os.fsdecode(info.file)) if known and info.file else None
