# SPDX-License-Identifier: Apache-2.0
"""Compares the releases of XRT's library and of the host's driver. AMD ships both as one package and tests them only together.

In a container, the library comes from the image and the driver from the host, so they often differ.
"""

from __future__ import annotations

from pathlib import Path

from hypersonic.firmware.target import Target
from hypersonic.host.card_facts import driver_version
from hypersonic.host.errors import DeviceError
from hypersonic.host.library import load_library
from hypersonic.host.sysfs import DRIVER, SYSFS
from hypersonic.host.version import text


def release_differs(library: str | None, driver: str | None) -> bool:
    """Return whether two versions such as 2.16.204 are of different releases. False if one of them is not known."""
    return bool(library and driver) and _release(library or "") != _release(driver or "")


def release_warning(root: Path = SYSFS) -> str:
    """Return what is wrong with XRT's library and the loaded driver, and what to do; "" if they match.

    Also "" if the driver is not loaded, if there is no library, or if its version is not known: a model for a card then says
    what is missing. The library is loaded only if the driver is. Never raises.
    """
    driver = driver_version(root)
    if driver is None:
        return ""
    try:
        loaded = load_library(Target.HW)
    except DeviceError:
        return ""
    version = text(loaded.version) if loaded.version else None
    if version is None or not release_differs(version, driver):
        return ""
    return (
        f"XRT's library is {version} ({loaded.file or loaded.path}), but the host's driver {DRIVER} is {driver}: install both "
        f"from one package. In a container, use an image with XRT {_release(driver)}; on the host, install the driver of XRT "
        f"{_release(version)}"
    )


def _release(version: str) -> str:
    return ".".join(version.split(".")[:2])
