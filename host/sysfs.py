# SPDX-License-Identifier: Apache-2.0
"""Reading small files below /sys. They are treated as hostile input, because a driver may put anything there."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

SYSFS = Path("/sys")
ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
#: the driver to which cards are bound once XRT's kernel modules are loaded
DRIVER = "xocl"

_RENDER_NODE = re.compile(r"renderD[0-9]{1,4}")
_NUMBER = re.compile(r"-?[0-9]{1,18}")
#: far more than the size of a sysfs attribute with a number or a label
_MOST_BYTES = 128
#: the largest sysfs attribute
PAGE_BYTES = 4096
_MOST_ENTRIES = 1024


def card_addresses(sysfs: Path = SYSFS) -> list[str]:
    """The PCI addresses of the cards that this process was given, in XRT's order: ready cards first, then by address.

    A container sees the sysfs of all cards of its host, but the device nodes of its own cards only. XRT does not number the
    others. Never raises.
    """
    driver = sysfs / "bus" / "pci" / "drivers" / DRIVER
    addresses = [name for name in bound_addresses(sysfs) if has_device_node(driver / name, sysfs)]
    return sorted(addresses, key=lambda name: (not is_ready(driver / name), name))


def bound_addresses(sysfs: Path = SYSFS) -> list[str]:
    """The PCI addresses of all cards of the host, also of those that this process was not given. Never raises."""
    return [name for name in names(sysfs / "bus" / "pci" / "drivers" / DRIVER) if ADDRESS.fullmatch(name)]


def has_device_node(entry: Path, sysfs: Path = SYSFS) -> bool:
    """False if the card's render node, which `entry`/drm names, is not below /dev (the folder `dev` beside `sysfs`). A card
    that has no render node now, as while it is reset, counts as one that has."""
    nodes = [name for name in names(entry / "drm") if _RENDER_NODE.fullmatch(name)]
    return not nodes or any((sysfs.parent / "dev" / "dri" / name).exists() for name in nodes)


def card_directory(address: str, sysfs: Path = SYSFS) -> Path | None:
    """The card's directory in sysfs; None when there is no such card, or `address` is not a PCI address."""
    return resolved(sysfs / "bus" / "pci" / "devices" / address, sysfs) if ADDRESS.fullmatch(address) else None


def is_ready(entry: Path) -> bool:
    """True if the driver reports the card as ready; False without that file. XRT numbers ready cards before the others."""
    try:
        with (entry / "ready").open("rb") as file:
            return int(file.read(16).decode("ascii", "replace"), 0) != 0
    except (OSError, ValueError):
        return False


def below(directory: Path, folder: str, prefix: str) -> list[Path]:
    """The subdirectories of directory/folder whose names begin with `prefix`, without links that lead out of `directory`."""
    entries = sorted(name for name in names(directory / folder) if name.startswith(prefix))
    return [path for name in entries if (path := resolved(directory / folder / name, directory)) is not None]


def names(directory: Path) -> list[str]:
    """The names of the entries of a directory; empty when it cannot be read."""
    try:
        with os.scandir(directory) as entries:
            return [entry.name for entry, _ in zip(entries, range(_MOST_ENTRIES), strict=False)]
    except OSError:
        return []


def resolved(path: Path, root: Path) -> Path | None:
    """The path with its links resolved; None when it does not exist or is not below `root`. Entries of cards are links."""
    try:
        real = path.resolve(strict=True)
        return real if real.is_relative_to(root.resolve()) else None
    except (OSError, RuntimeError):
        return None


def number(path: Path, root: Path) -> int | None:
    """The decimal number in a small file below `root`; None when there is no such file or it holds something different."""
    content = text(path, root)
    return int(content) if content is not None and _NUMBER.fullmatch(content) else None


def text(path: Path, root: Path, most_bytes: int = _MOST_BYTES) -> str | None:
    """The stripped text of a small regular file below `root`, cut to most_bytes; None when it cannot be read.

    A pipe or a device in its place is not opened.
    """
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
