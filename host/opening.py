# SPDX-License-Identifier: Apache-2.0
"""Opening a card: the driver is chosen by the platform of the xclbin, and the Device is made with it.

To add a driver (driver.py), add it to _DRIVERS, by the Flow of the xclbin's platform.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
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

#: the card_set of F2 cards
F2_CARD = "F2 card"
#: the module of the simulated F2 card; imported only when an xclbin for one is opened
F2_EMULATION = "hypersonic.sim.card.f2_simulation"


def open_device(xclbin: Path, index: int = 0, usage: CardUsage | None = None) -> Device:
    """Open card `index` with the file `xclbin`, whose target and platform determine the driver.

    Args:
        usage: the card's counters.

    Raises:
        XclbinError: When the file is not an xclbin.
        LibraryNotFoundError: When the driver's library is missing.
        DeviceNotFoundError: When there is no card of that index.
        DeviceBusyError: When the card is in use with another xclbin, or this process was not given it.
        XclbinMismatchError: When the card has another shell, or another process loaded an xclbin.
    """
    contents = Xclbin.read(xclbin, image=False)
    return Device(choose_driver(contents), contents, xclbin, index, usage)


def card_set(contents: Xclbin) -> str:
    """The set of cards that can take this xclbin: equal indices in different sets are different cards."""
    card = F2_CARD if _flow(contents) is Flow.F2_HDK else "card"
    return f"emulated {card}" if contents.target.emulated else card


def choose_driver(contents: Xclbin) -> Driver:
    """The driver for this xclbin: the XRT library, the F2 driver, or the emulation of either. Raises LibraryNotFoundError."""
    return _DRIVERS[_flow(contents)](contents.target)


def _flow(contents: Xclbin) -> Flow:
    """How the card of this xclbin is driven. Shells that are not known have XRT; sw_emu is the same for every platform."""
    flows = {platform.vbnv: platform.flow for platform in PLATFORMS.values()}
    return Flow.XRT if contents.target is Target.SW_EMU else flows.get(contents.vbnv, Flow.XRT)


def _f2_driver(target: Target) -> Driver:
    return F2Driver(open_bar if target is Target.HW else _simulated_f2())


_DRIVERS: Mapping[Flow, Callable[[Target], Driver]] = {Flow.XRT: load_library, Flow.F2_HDK: _f2_driver}


def _simulated_f2() -> OpenAccess:
    try:
        opener: OpenAccess = importlib.import_module(F2_EMULATION).open_card
    except ImportError as error:
        raise LibraryNotFoundError(f"the simulated F2 card cannot be loaded: {error}") from error
    return opener
