# SPDX-License-Identifier: Apache-2.0
"""System shared memory: regions that clients on this host register, read as inputs and written as outputs.

Clients own the memory and can truncate it at any moment. A server that maps it is killed by SIGBUS when they do, so nothing is
mapped here: inputs are read by pread into the server's own memory, and outputs are written by pwrite. A region that has shrunk
gives a short read, which fails that client's request only; checking its size beforehand would be a race. The cost is one copy
per tensor, which is needed in any case, because a client may change its memory while a request is being processed.

A descriptor is closed when nothing refers to it any more, so requests that use a region can finish after it was unregistered.
"""

from __future__ import annotations

import os
import stat
import threading
import weakref
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import NamedTuple, TypeVar

from hypersonic.server.core.inference.answer import Output
from hypersonic.server.core.inference.parameters import ParameterValue
from hypersonic.server.errors import (
    AlreadyExistsError,
    BudgetError,
    InvalidRequestError,
    NotFoundError,
    SharedMemoryError,
    UnsupportedError,
)
from hypersonic.server.limits.admission import Held

#: the directory in which Linux keeps POSIX shared memory
DIRECTORY = "/dev/shm"  # noqa: S108 - not a temporary file: the directory of shm_open(3)
#: keys that belong to others: the python backends of Triton and of this server, and semaphores
RESERVED_PREFIXES = ("triton_python_backend_shm_region_", "hypersonic_", "sem.")
_NAME_MAX_BYTES = 255  # of one path component, limits.h
_IOV_MAX = 1024  # pieces of one pwritev, limits.h
_NO_PARAMETERS: Mapping[str, ParameterValue] = {}
_Regions = TypeVar("_Regions")


class Region(NamedTuple):
    """A registered region: `size_bytes` from `offset` of the shared memory object `key`."""

    name: str
    key: str
    offset: int
    size_bytes: int


class _File:
    """An open shared memory object, closed with its last reference."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        weakref.finalize(self, os.close, descriptor)

    @property
    def size_bytes(self) -> int:
        return os.fstat(self.descriptor).st_size


class Span:
    """Part of a registered region. It stays usable after the region has been unregistered."""

    __slots__ = ("_file", "_start", "region", "size_bytes")

    def __init__(self, file: _File, region: str, start: int, size_bytes: int) -> None:
        """Describe `size_bytes` from byte `start` of the file."""
        self._file = file
        self._start = start
        self.region = region
        self.size_bytes = size_bytes

    def read(self) -> memoryview:
        """Return a copy of the bytes. Raises SharedMemoryError (INTERNAL) if the client has truncated the object."""
        if self._file.size_bytes < self._start + self.size_bytes:  # saves the allocation; the read below decides
            raise self._truncated()
        data = memoryview(bytearray(self.size_bytes))
        done = 0
        while done < self.size_bytes:
            count = self._transfer(os.preadv, [data[done:]], done)
            if count == 0:
                raise self._truncated()
            done += count
        return data.toreadonly()

    def write(self, name: str, output: Output) -> Mapping[str, ParameterValue]:
        """Write an output tensor here.

        Returns the parameters that the answer carries for it: none, as in Triton.

        Args:
            name: the output's name, for the error.

        Raises:
            SharedMemoryError: (INTERNAL) if the output does not fit, or if the client has truncated the object.
        """
        if output.size_bytes > self.size_bytes:
            raise SharedMemoryError(
                f"shared memory size specified with the request for output '{name}' ({self.size_bytes} bytes) should be at "
                f"least {output.size_bytes} bytes to hold the results"
            )
        if self._file.size_bytes < self._start + output.size_bytes:  # pwrite would extend the object again
            raise self._truncated()
        self._write([memoryview(chunk).cast("B") for chunk in output.chunks if len(chunk)])
        return _NO_PARAMETERS

    def _write(self, chunks: Sequence[memoryview]) -> None:
        done = 0
        while chunks:
            count = self._transfer(os.pwritev, chunks[:_IOV_MAX], done)
            if count == 0:
                raise self._truncated()
            done += count
            chunks = _after(chunks, count)

    def _transfer(self, call: object, pieces: Sequence[memoryview], done: int) -> int:
        try:
            return int(call(self._file.descriptor, pieces, self._start + done))  # type: ignore[operator]
        except OSError as error:
            raise SharedMemoryError(
                f"shared memory region '{self.region}' cannot be read or written: {error.strerror}"
            ) from error

    def _truncated(self) -> SharedMemoryError:
        return SharedMemoryError(
            f"shared memory region '{self.region}' is shorter than when it was registered; expected "
            f"{self.size_bytes} bytes at byte {self._start} of its object: keep the object's size while it is registered"
        )


def _after(chunks: Sequence[memoryview], count: int) -> Sequence[memoryview]:
    """Return the rest of the chunks after the first `count` bytes."""
    for index, chunk in enumerate(chunks):
        if count < len(chunk):
            return [*chain([chunk[count:]], chunks[index + 1 :])]
        count -= len(chunk)
    return ()


class SharedMemory:
    """The regions of all clients, by name. Any thread may use it.

    Args:
        max_regions: the most regions at a time, since each holds a descriptor.
        max_read_bytes: the largest input, whatever its region's size (a sparse object costs its owner no memory); 0 = no limit.
    """

    def __init__(self, *, max_regions: int = 1024, max_read_bytes: int = 2**31, directory: str = DIRECTORY) -> None:
        self._max_regions = max_regions
        self._max_read_bytes = max_read_bytes
        self._directory = directory
        self._lock = threading.Lock()
        self._regions: dict[str, tuple[Region, _File]] = {}

    def register(self, name: str, key: str, offset: int, size_bytes: int) -> None:
        """Register a region. Raises, with Triton's text where there is one:

        AlreadyExistsError for a name in use, InvalidRequestError for no name, a reserved key or a range outside the object,
        SharedMemoryError if the object cannot be opened, and BudgetError if max_regions are registered.
        """
        if not name:
            raise InvalidRequestError("'region name' is necessary to register system shared memory region")
        with self._lock:
            self._check_room(name)
        file = self._open(name, key)
        if offset < 0 or size_bytes <= 0 or offset + size_bytes > file.size_bytes:
            raise InvalidRequestError(f"failed to register shared memory region '{name}': invalid args")
        with self._lock:
            self._check_room(name)
            self._regions[name] = (Region(name, key, offset, size_bytes), file)

    def _check_room(self, name: str) -> None:
        if name in self._regions:
            raise AlreadyExistsError(f"shared memory region '{name}' already in manager")
        if len(self._regions) >= self._max_regions:
            raise BudgetError(
                f"{len(self._regions)} shared memory regions are registered, which is as many as this server holds; "
                "unregister those that are not used"
            )

    def _open(self, name: str, key: str) -> _File:
        component = key.lstrip("/")  # as shm_open does
        for prefix in RESERVED_PREFIXES:
            if component.startswith(prefix):
                raise InvalidRequestError(
                    f"cannot register shared memory region '{name}' with key '{key}' as the key contains the reserved prefix "
                    f"'{prefix}'"
                )
        cannot = SharedMemoryError(f"Unable to open shared memory region: '{key}'")
        if not _is_component(component):
            raise cannot
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # the last flag: opening a FIFO must not block
        try:
            file = _File(os.open(f"{self._directory}/{component}", flags))
        except OSError as error:
            raise cannot from error
        if not stat.S_ISREG(os.fstat(file.descriptor).st_mode):
            raise cannot
        return file

    def unregister(self, name: str = "") -> None:
        """Forget one region, or all of them for ""; an unknown name is not an error, as in Triton."""
        with self._lock:
            if name:
                self._regions.pop(name, None)
            else:
                self._regions.clear()

    def status(self, name: str = "") -> tuple[Region, ...]:
        """Return one region, or all of them in order of name for "". Raises NotFoundError."""
        with self._lock:
            if name and name not in self._regions:
                raise NotFoundError(f"Unable to find system shared memory region: '{name}'")
            entries = [self._regions[name]] if name else [self._regions[key] for key in sorted(self._regions)]
            return tuple(region for region, _ in entries)

    def span(self, name: str, offset: int, size_bytes: int) -> Span:
        """Return part of a region, from `offset` bytes after its start.

        Raises NotFoundError for an unknown region and InvalidRequestError for a range outside it, with Triton's texts.
        """
        with self._lock:
            entry = self._regions.get(name)
        if entry is None:
            raise NotFoundError(f"Unable to find shared memory region: '{name}'")
        region, file = entry
        if not 0 <= offset < region.size_bytes:
            raise InvalidRequestError(f"Invalid offset for shared memory region: '{name}'")
        if size_bytes <= 0 or offset + size_bytes > region.size_bytes:
            raise InvalidRequestError(f"Invalid offset + byte size for shared memory region: '{name}'")
        return Span(file, name, region.offset + offset, size_bytes)

    def read(self, name: str, offset: int, size_bytes: int) -> memoryview:
        """Return a copy of these bytes. Raises as span() and Span.read() do, and BudgetError above max_read_bytes."""
        span = self.span(name, offset, size_bytes)
        if self._max_read_bytes and size_bytes > self._max_read_bytes:
            raise BudgetError(
                f"an input of {size_bytes} bytes in shared memory region '{name}' exceeds the {self._max_read_bytes} bytes "
                "that this server reads at once"
            )
        return span.read()


def allowed(regions: _Regions | None) -> _Regions:
    """Return the regions; raise UnsupportedError (UNIMPLEMENTED) for None, which means clients' shared memory is not
    allowed."""
    if regions is None:
        raise UnsupportedError("Client shared memory is disabled. Start the server with '--allow-client-shm=true' to enable.")
    return regions


class HeldRegions:
    """The regions as one request uses them: the bytes that it reads from them count against its budget."""

    def __init__(self, regions: SharedMemory, held: Held) -> None:
        self._regions = regions
        self._held = held

    def read(self, name: str, offset: int, size_bytes: int) -> memoryview:
        """Read as SharedMemory.read does. Raises BudgetError before memory is allocated."""
        self._held.take(self.span(name, offset, size_bytes).size_bytes)
        return self._regions.read(name, offset, size_bytes)

    def span(self, name: str, offset: int, size_bytes: int) -> Span:
        """Return as SharedMemory.span does."""
        return self._regions.span(name, offset, size_bytes)


def _is_component(name: str) -> bool:
    """Return whether `name` names a file directly inside a directory."""
    try:
        size_bytes = len(name.encode())
    except UnicodeEncodeError:
        return False
    return 0 < size_bytes <= _NAME_MAX_BYTES and name not in (".", "..") and "/" not in name and "\0" not in name
