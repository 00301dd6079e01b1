# SPDX-License-Identifier: Apache-2.0
"""An xclbin -> the driver of its platform, and a Device on it.

A third driver (driver.py) is chosen here, in choose_driver: by the Flow of the platform that the xclbin is for.
"""

from __future__ import annotations

import importlib
from pathlib import Path

from hypersonic.firmware.platform import PLATFORMS, Flow
from hypersonic.firmware.target import Target
from hypersonic.firmware.xclbin.container import Xclbin
from hypersonic.host.device import Device
from hypersonic.host.driver import Driver
from hypersonic.host.errors import LibraryNotFoundError
from hypersonic.host.f2.driver import F2Driver, OpenAccess, open_bar
from hypersonic.host.library import load_library

#: a simulated F2 card; imported only when a container for one is opened
F2_EMULATION = "hypersonic.sim.f2_card"


def open_device(xclbin: Path, index: int = 0) -> Device:
    """Open card `index` with the file `xclbin`; the xclbin's own target and platform pick what drives it.

    Raises XclbinError when the file is none, LibraryNotFoundError, DeviceNotFoundError, DeviceBusyError,
    XclbinMismatchError (another shell, or another xclbin got loaded) or ComputeUnitOutOfServiceError (a run hangs on it).
    """
    contents = Xclbin.read(xclbin)
    return Device(choose_driver(contents), contents, xclbin, index)


def choose_driver(contents: Xclbin) -> Driver:
    """The driver of a card with this container on it: registers where the platform has no XRT, else XRT or its emulation.

    Raises LibraryNotFoundError.
    """
    if contents.target is Target.SW_EMU or not _is_f2(contents):
        return load_library(contents.target)
    return F2Driver(open_bar if contents.target is Target.HW else _simulated_f2())


def _is_f2(contents: Xclbin) -> bool:
    return any(platform.vbnv == contents.vbnv for platform in PLATFORMS.values() if platform.flow is Flow.F2_HDK)


def _simulated_f2() -> OpenAccess:
    try:
        opener: OpenAccess = importlib.import_module(F2_EMULATION).open_card
    except ImportError as error:
        raise LibraryNotFoundError(f"the simulated F2 card cannot be made: {error}") from error
    return opener
