# SPDX-License-Identifier: Apache-2.0
"""Which XRT library drives a target: the installed one for a card, the emulated card's own for the emulation targets.

$HYPERSONIC_XRT_LIBRARY overrides both: a path, or a name the dynamic loader finds.
"""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from hypersonic.firmware.platform import Target
from hypersonic.host.errors import DeviceError, LibraryNotFoundError
from hypersonic.host.xrt import Library

OVERRIDE = "HYPERSONIC_XRT_LIBRARY"
#: found through the dynamic loader where XRT is a package of the system
SONAME = "libxrt_coreutil.so.2"
#: exports the same C functions over a simulated kernel; imported only when an emulation target asks for it
EMULATION = "hypersonic.sim.library"
#: the driver cards are bound to once XRT's kernel modules are loaded
SYSFS_DRIVER = Path("/sys/bus/pci/drivers/xocl")


@dataclass(frozen=True)
class DeviceInfo:
    """One card `hypersonic devices` can name. index: what open_device takes; None where there is nothing to open."""

    index: int | None
    name: str
    targets: tuple[Target, ...]
    state: str


def load_library(target: Target) -> Library:
    """The library for this target. Raises LibraryNotFoundError, which says what to install or set."""
    return Library(library_path(target))


def library_path(target: Target) -> str:
    """Its path or soname. For the emulation targets this builds the emulated card when it is not built yet."""
    if override := os.environ.get(OVERRIDE):
        return override
    return _emulation_path(target) if target.emulated else _installed_path()


def _emulation_path(target: Target) -> str:
    try:
        return str(importlib.import_module(EMULATION).library_path())
    except (ImportError, OSError, RuntimeError) as error:
        raise LibraryNotFoundError(f"the emulated card for target {target} cannot be made: {error}") from error


def _installed_path() -> str:
    """XRT's setup.sh sets XILINX_XRT; a Debian package needs neither that nor a path."""
    roots = [Path(root) for root in (os.environ.get("XILINX_XRT"), "/opt/xilinx/xrt") if root]
    candidates = (root / "lib" / name for root in roots for name in (SONAME, "libxrt_coreutil.so"))
    return next((str(path) for path in candidates if path.is_file()), SONAME)


def devices(driver: Path = SYSFS_DRIVER) -> str:
    """What `hypersonic devices` prints: a line per card, without a last newline."""
    heads = ("index", "card", "targets", "state")
    lines = [heads, *(_columns(device) for device in find_devices(driver))]
    widths = [max(len(line[column]) for line in lines) for column in range(3)]
    return "\n".join("  ".join([*map(str.ljust, line[:3], widths), line[3]]) for line in lines)


def _columns(device: DeviceInfo) -> tuple[str, str, str, str]:
    index = "-" if device.index is None else str(device.index)
    return index, device.name, ", ".join(device.targets), device.state


def find_devices(driver: Path = SYSFS_DRIVER) -> tuple[DeviceInfo, ...]:
    """Every card there is, real ones first, and the emulated one. Opens none; never raises: what is missing is a state."""
    return (*_cards(driver), _emulated_card())


def _cards(driver: Path) -> tuple[DeviceInfo, ...]:
    only = (Target.HW,)
    try:
        library = load_library(Target.HW)
    except DeviceError as error:
        return (DeviceInfo(None, "no card", only, f"XRT is not installed: {error}"),)
    addresses = sorted(driver.glob("*:*:*.*"), key=lambda entry: (not is_ready(entry), entry)) if driver.is_dir() else []
    if not addresses:
        state = f"XRT is installed ({library.path}), but no card is bound to its driver {driver.name}"
        return (DeviceInfo(None, "no card", only, state),)
    return tuple(DeviceInfo(index, _shell(entry), only, f"at {entry.name}") for index, entry in enumerate(addresses))


def is_ready(entry: Path) -> bool:
    """Whether the driver has a card ready, which XRT counts before those it has not. No such file: it has not."""
    try:
        with (entry / "ready").open("rb") as file:
            return int(file.read(16).decode("ascii", "replace"), 0) != 0
    except (OSError, ValueError):
        return False


def _shell(entry: Path) -> str:
    """The platform on the card, as the driver tells it."""
    for path in sorted(entry.glob("rom*/VBNV")):
        try:
            return path.read_text(errors="replace").strip()
        except OSError:
            continue
    return "unknown shell"


def _emulated_card() -> DeviceInfo:
    targets = (Target.SW_EMU, Target.HW_EMU)
    try:
        found = find_spec(EMULATION) is not None
    except ImportError:
        found = False
    if not found:
        return DeviceInfo(None, "emulated card", targets, f"{EMULATION} is not installed")
    return DeviceInfo(0, "emulated card", targets, "takes the platform of the xclbin it is given")
