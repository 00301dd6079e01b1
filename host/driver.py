# SPDX-License-Identifier: Apache-2.0
"""What host/device.py asks of the thing below it: XRT's calls (host/xrt.py), or the same calls over registers (host/f2)."""

from __future__ import annotations

import importlib
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hypersonic.firmware.platform import PLATFORMS, Flow, Target
from hypersonic.firmware.xclbin.container import Xclbin
from hypersonic.host.errors import LibraryNotFoundError
from hypersonic.host.f2.driver import F2Driver, OpenCard, open_bar_card
from hypersonic.host.library import load_library
from hypersonic.host.xrt import Handle

#: a simulated F2 card; imported only when a container for one is opened
F2_EMULATION = "hypersonic.sim.f2_card"


class Driver(Protocol):
    """Cards, the compute units, buffer objects and runs on them, by handles. Any thread; errors are host/errors.py's.

    The calls are explained in host/xrt.py. reset: what people have to do so that a card on which a run hangs can be used again.
    """

    @property
    def reset(self) -> str: ...

    def open_device(self, index: int) -> Handle: ...

    def close_device(self, device: Handle) -> None: ...

    def load_xclbin(self, device: Handle, path: str) -> None: ...

    def xclbin_uuid(self, device: Handle) -> str: ...

    def open_kernel(self, device: Handle, uuid: str, name: str) -> Handle: ...

    def close_kernel(self, kernel: Handle) -> None: ...

    def group_id(self, kernel: Handle, argument: int) -> int: ...

    def read_register(self, kernel: Handle, offset: int) -> int: ...

    def write_register(self, kernel: Handle, offset: int, value: int) -> None: ...

    def allocate(self, device: Handle, size_bytes: int, group: int) -> Handle: ...

    def map_buffer(self, buffer: Handle, size_bytes: int) -> NDArray[np.uint8]: ...

    def buffer_address(self, buffer: Handle) -> int: ...

    def sync(self, buffer: Handle, direction: int, size_bytes: int, offset: int) -> int: ...

    def free_buffer(self, buffer: Handle) -> None: ...

    def open_run(self, kernel: Handle) -> Handle: ...

    def set_buffer(self, run: Handle, argument: int, buffer: Handle) -> None: ...

    def set_scalar(self, run: Handle, argument: int, value: int) -> None: ...

    def start(self, run: Handle) -> None: ...

    def wait(self, run: Handle, timeout_ms: int) -> int: ...

    def state(self, run: Handle) -> int: ...

    def close_run(self, run: Handle) -> None: ...


def driver_for(contents: Xclbin) -> Driver:
    """What drives a card with this container on it: registers where the platform has no XRT, else XRT or its emulation.

    Raises LibraryNotFoundError.
    """
    if contents.target is Target.SW_EMU or not _is_f2(contents):
        return load_library(contents.target)
    return F2Driver(open_bar_card if contents.target is Target.HW else _simulated_f2())


def _is_f2(contents: Xclbin) -> bool:
    return any(platform.vbnv == contents.vbnv for platform in PLATFORMS.values() if platform.flow is Flow.F2_HDK)


def _simulated_f2() -> OpenCard:
    try:
        opener: OpenCard = importlib.import_module(F2_EMULATION).open_card
    except ImportError as error:
        raise LibraryNotFoundError(f"the simulated F2 card cannot be made: {error}") from error
    return opener
