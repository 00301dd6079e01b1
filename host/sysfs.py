# SPDX-License-Identifier: Apache-2.0
"""Small files below /sys: read with care, because a driver, or what stands in for one, may put anything there."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

SYSFS = Path("/sys")
ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
#: the driver cards are bound to once XRT's kernel modules are loaded
DRIVER = "xocl"

_NUMBER = re.compile(r"-?[0-9]{1,18}")
#: a sysfs attribute of a number or a label is far shorter
_MOST_BYTES = 128
#: sysfs gives no more of any attribute
PAGE_BYTES = 4096
_MOST_ENTRIES = 1024


def card_addresses(sysfs: Path = SYSFS) -> list[str]:
    """The PCI addresses of all cards, in XRT's order: those it has ready come first. Never raises."""
    driver = sysfs / "bus" / "pci" / "drivers" / DRIVER
    addresses = [name for name in names(driver) if ADDRESS.fullmatch(name)]
    return sorted(addresses, key=lambda name: (not is_ready(driver / name), name))


def card_directory(address: str, sysfs: Path = SYSFS) -> Path | None:
    """Where the card hangs on the bus; None where there is none, or `address` is no PCI address."""
    return resolved(sysfs / "bus" / "pci" / "devices" / address, sysfs) if ADDRESS.fullmatch(address) else None


def is_ready(entry: Path) -> bool:
    """Whether the driver has a card ready, which XRT counts before those it has not. No such file: it has not."""
    try:
        with (entry / "ready").open("rb") as file:
            return int(file.read(16).decode("ascii", "replace"), 0) != 0
    except (OSError, ValueError):
        return False


def below(directory: Path, folder: str, prefix: str) -> list[Path]:
    """The card's directories of such names, none of them outside of it."""
    entries = sorted(name for name in names(directory / folder) if name.startswith(prefix))
    return [path for name in entries if (path := resolved(directory / folder / name, directory)) is not None]


def names(directory: Path) -> list[str]:
    """What is in it; nothing where it cannot be read."""
    try:
        with os.scandir(directory) as entries:
            return [entry.name for entry, _ in zip(entries, range(_MOST_ENTRIES), strict=False)]
    except OSError:
        return []


def resolved(path: Path, root: Path) -> Path | None:
    """Where the path leads, when that is below `root`: a card's own entry is a link to where it hangs on the bus."""
    try:
        real = path.resolve(strict=True)
        return real if real.is_relative_to(root.resolve()) else None
    except (OSError, RuntimeError):
        return None


def number(path: Path, root: Path) -> int | None:
    content = text(path, root)
    return int(content) if content is not None and _NUMBER.fullmatch(content) else None


def text(path: Path, root: Path, most_bytes: int = _MOST_BYTES) -> str | None:
    """A small regular file below `root`; a pipe or a device in its place is not opened."""
    real = resolved(path, root)
    if real is None:
        return None
    try:
        if not stat.S_ISREG(real.stat().st_mode):
            return None
        descriptor = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            return os.read(descriptor, most_bytes).decode("ascii", "replace").strip()
        finally:
            os.close(descriptor)
    except OSError:
        return None
