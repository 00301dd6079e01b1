# SPDX-License-Identifier: Apache-2.0
"""Opening a card: the driver is chosen by the platform of the xclbin, and the Device is made with it.

To add a driver (driver.py), choose it in choose_driver, by the Flow of the xclbin's platform.
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
from hypersonic.host.usage import CardUsage

#: the module of the simulated F2 card; imported only when an xclbin for one is opened
F2_EMULATION = "hypersonic.sim.f2_card"


def open_device(xclbin: Path, index: int = 0, usage: CardUsage | None = None) -> Device:
    """Open card `index` with the file `xclbin`, whose target and platform determine the driver. usage: the card's counters.

    Raises XclbinError when the file is not an xclbin, LibraryNotFoundError, DeviceNotFoundError, DeviceBusyError,
    XclbinMismatchError (the card has another shell, or another process loaded an xclbin).
    """
    contents = Xclbin.read(xclbin)
    return Device(choose_driver(contents), contents, xclbin, index, usage)


def card_set(contents: Xclbin) -> str:
    """The set of cards that can take this xclbin: equal indices in different sets are different cards."""
    if contents.target is not Target.SW_EMU and _is_f2(contents):
        return f"F2 {'card' if contents.target is Target.HW else 'simulation'}"
    return "emulated card" if contents.target.emulated else "card"


def choose_driver(contents: Xclbin) -> Driver:
    """The driver for this xclbin: the F2 driver for platforms without XRT, otherwise the XRT library or its emulation.

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
        raise LibraryNotFoundError(f"the simulated F2 card cannot be loaded: {error}") from error
    return opener
