# SPDX-License-Identifier: Apache-2.0
"""The protocols of an accelerator driver, and the nouns that they speak of: handles, states of a run.

    Driver        what each has: Devices (open and load), Buffers (memory), Runs
    Registers     } what some have besides. A driver that has none of one leaves its methods out;
    Banks         } device.py looks once, when it opens a card (optional_calls), and does without
    Addresses     }
    Copies        }

A third accelerator: write a class with Driver's methods and those of the optional protocols that it has (host/xrt.py by a C
library, host/f2/driver.py by registers), give its platforms a Flow (firmware/platform.py), and let opening.py choose it.

Handles are numbers that only their driver understands. All methods may be called by any thread; errors are host/errors.py's.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from hypersonic.host.errors import RunError, failure

Handle = int


class RunState(IntEnum):
    """ert_cmd_state."""

    NEW = 1
    QUEUED = 2
    RUNNING = 3
    COMPLETED = 4
    ERROR = 5
    ABORT = 6
    SUBMITTED = 7
    TIMEOUT = 8
    NORESPONSE = 9
    SKERROR = 10
    SKCRASHED = 11


#: states a run leaves again by itself
PENDING = frozenset({RunState.NEW, RunState.QUEUED, RunState.RUNNING, RunState.SUBMITTED})


def run_state(state: int) -> RunState:
    """Raises RunError for what is no ert_cmd_state."""
    try:
        return RunState(state)
    except ValueError as error:
        raise failure(RunError, f"a run cannot be waited for: its state is {state}", state) from error


#: xclBOSyncDirection
TO_DEVICE, FROM_DEVICE = 0, 1


class Devices(Protocol):
    """Cards and their compute units. reset: what people have to do so that a card on which a run hangs can be used again."""

    @property
    def reset(self) -> str: ...

    def open_device(self, index: int) -> Handle: ...

    def close_device(self, device: Handle) -> None: ...

    def load_xclbin(self, device: Handle, path: str) -> str:
        """Put it on the card; returns the uuid of what is on the card then, 32 hex digits."""
        ...

    def open_kernel(self, device: Handle, uuid: str, name: str) -> Handle:
        """name: "kernel:{compute_unit}". For this process alone."""
        ...

    def close_kernel(self, kernel: Handle) -> None: ...


class Buffers(Protocol):
    """Memory that host and card share, or that has a side on each."""

    def allocate(self, device: Handle, size_bytes: int, group: int) -> Handle:
        """group: the memory bank; an index of the xclbin's group_memories."""
        ...

    def map_buffer(self, buffer: Handle, size_bytes: int) -> NDArray[np.uint8]:
        """The host side, no copy; must not be used after free_buffer."""
        ...

    def free_buffer(self, buffer: Handle) -> None: ...


class Runs(Protocol):
    """Runs of a compute unit: arguments that are set once, started again and again."""

    def open_run(self, kernel: Handle) -> Handle: ...

    def set_buffer(self, run: Handle, argument: int, buffer: Handle) -> None: ...

    def set_scalar(self, run: Handle, argument: int, value: int) -> None:
        """value: 32 bit, unsigned."""
        ...

    def start(self, run: Handle) -> None: ...

    def wait(self, run: Handle, timeout_ms: int) -> int:
        """The run's state (RunState) once it has ended, or the present one after timeout_ms."""
        ...

    def close_run(self, run: Handle) -> None: ...


class Driver(Devices, Buffers, Runs, Protocol):
    """The methods that every driver has."""


@runtime_checkable
class Registers(Protocol):
    """A compute unit's 32-bit registers. Without: nobody sees whether a unit hangs, its busy clocks count 0, and a card with a
    hung run is not given back."""

    def read_register(self, kernel: Handle, offset: int) -> int: ...

    def write_register(self, kernel: Handle, offset: int, value: int) -> None: ...


@runtime_checkable
class Banks(Protocol):
    """The memory bank of a pointer argument. Without: the one that the xclbin names."""

    def group_id(self, kernel: Handle, argument: int) -> int: ...


@runtime_checkable
class Addresses(Protocol):
    """Where a buffer is on the card. Without: nobody is told, and a kernel whose registers can be read loads no weights."""

    def buffer_address(self, buffer: Handle) -> int: ...


@runtime_checkable
class Copies(Protocol):
    """Buffers with a side on the host and one on the card. Without: both sides are one."""

    def sync(self, buffer: Handle, direction: int, size_bytes: int, offset: int) -> int:
        """0, or an errno. Does not raise, because the caller knows what to say."""
        ...


@dataclass(frozen=True)
class OptionalCalls:
    """The driver itself as each optional protocol that it has, None for those that it has not."""

    registers: Registers | None = None
    banks: Banks | None = None
    addresses: Addresses | None = None
    copies: Copies | None = None


def optional_calls(driver: Driver) -> OptionalCalls:
    """The abilities that the driver has besides a Driver's methods."""
    return OptionalCalls(
        registers=driver if isinstance(driver, Registers) else None,
        banks=driver if isinstance(driver, Banks) else None,
        addresses=driver if isinstance(driver, Addresses) else None,
        copies=driver if isinstance(driver, Copies) else None,
    )
