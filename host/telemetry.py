# SPDX-License-Identifier: Apache-2.0
"""Temperature and power of a card, from XRT's files in sysfs. A figure is absent where its file is absent.

::

    <sysfs>/bus/pci/drivers/xocl/<address>                      a card: XRT numbers those that are `ready` first, by address
    <sysfs>/bus/pci/devices/<address>/drm/renderD<N>            its node is /dev/dri/renderD<N>; without it, XRT skips the card
    <sysfs>/bus/pci/devices/<address>/xmc.<...>/serial_num      the serial number, in hwmon_sdm.<...> on Versal cards
    <sysfs>/bus/pci/devices/<address>/hwmon/hwmon<N>/
        temp<N>_input, temp<N>_label                            1/1000 degree Celsius
        power1_input                                            microwatts
    <sysfs>/bus/pci/devices/<address>/xmc.<...>/
        xmc_fpga_temp, xmc_hbm_temp, xmc_dimm_temp0, ...        degrees Celsius, where there is no hwmon
        xmc_power                                               microwatts
        max_power                                               a level: 0, 1, 2 = 75, 150, 225 W

Source: XRT's kernel driver, xocl/subdev/xmc.c, and the XRT tools that read these files. As in those tools, a sensor that reads
0 counts as absent. This has not been used on a card yet: the tests use a directory tree written after those sources.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from hypersonic.host.sysfs import SYSFS, below, card_directory, names, number, text

_INPUT = re.compile(r"temp([0-9]{1,3})_input")
_LABEL = re.compile(r"[^A-Za-z0-9]+")
_SERIAL = re.compile(r"[0-9A-Za-z]{6,32}")
#: file -> the sensor's name in hwmon
_XMC_TEMPERATURES = {
    "xmc_fpga_temp": "fpga", "xmc_hbm_temp": "hbm", "xmc_vccint_temp": "vccint",
    "xmc_se98_temp0": "pcb_top_front", "xmc_se98_temp1": "pcb_top_rear", "xmc_se98_temp2": "pcb_btm_front",
    **{f"xmc_dimm_temp{n}": f"dimm{n}" for n in range(4)}, **{f"xmc_cage_temp{n}": f"qspf_{n}" for n in range(4)},
}  # fmt: skip
#: beginnings of labels of settings, which are not measured: the targets of clock scaling, the fan's trigger
_SETTINGS = ("cs_target", "tcrit")
_POWER_LEVELS_W = (75.0, 150.0, 225.0)
#: the plausible range of a sensor; a value outside of it does not come from a sensor
_LEAST_C, _MOST_C, _MOST_W = -60.0, 250.0, 5000.0
#: age in seconds from which a reading is discarded
_STALE_S = 60.0


class Telemetry(NamedTuple):
    """One reading of a card's sensors.

    Attributes:
        temperatures_c: sensor -> degrees Celsius. A power is None where it is not known.
    """

    temperatures_c: Mapping[str, float] = MappingProxyType({})
    power_w: float | None = None
    power_limit_w: float | None = None


NOTHING = Telemetry()


def serial_number(address: str, sysfs: Path = SYSFS) -> str | None:
    """The serial number of the card at that PCI address; None when it does not report a plausible one. Never raises."""
    directory = card_directory(address, sysfs)
    if directory is None:
        return None
    monitors = [*below(directory, "", "xmc."), *below(directory, "", "hwmon_sdm.")]
    serials = (text(path / "serial_num", directory) or "" for path in monitors)
    return next((serial for serial in serials if _SERIAL.fullmatch(serial) and len(set(serial)) > 1), None)


def read_telemetry(address: str, sysfs: Path = SYSFS) -> Telemetry:
    """A reading of the card at that PCI address. It blocks for as long as the card's driver does. Never raises: a figure that
    cannot be read is absent."""
    directory = card_directory(address, sysfs)
    if directory is None:
        return NOTHING
    monitors = below(directory, "hwmon", "hwmon")
    microblazes = below(directory, "", "xmc.")
    temperatures = _first(_hwmon_temperatures(path, directory) for path in monitors) or _first(
        _xmc_temperatures(path, directory) for path in microblazes
    )
    power = [_watts(path / "power1_input", directory) for path in monitors] + [
        _watts(path / "xmc_power", directory) for path in microblazes
    ]
    limits = [_power_limit(path, directory) for path in microblazes]
    return Telemetry(
        temperatures or {},
        next((value for value in power if value is not None), None),
        next((value for value in limits if value is not None), None),
    )


class CardSensors:
    """One card's telemetry, read on request and by one thread at a time, so that a driver that hangs delays callers little."""

    def __init__(self, read: Callable[[], Telemetry], patience_s: float = 0.25) -> None:
        """Create a CardSensors.

        Args:
            read: reads the card.
            patience_s: how long a caller waits for a new reading before it is given the last one.
        """
        self._read = read
        self._patience_s = patience_s
        self._lock = threading.Lock()
        self._last = NOTHING
        self._at: float | None = None
        self._done: threading.Event | None = None

    def latest(self, max_age_s: float) -> Telemetry:
        """A reading not older than max_age_s, if the driver delivers one in time; otherwise the last one. NOTHING when the last
        one is older than a minute. Any thread."""
        with self._lock:
            if self._age_s() < max_age_s:
                return self._last
            if self._done is None:
                self._done = threading.Event()
                threading.Thread(target=self._renew, args=(self._done,), name="card-sensors", daemon=True).start()
            done = self._done
        done.wait(self._patience_s)
        with self._lock:
            return self._last if self._age_s() < max(max_age_s, _STALE_S) else NOTHING

    def _age_s(self) -> float:
        return float("inf") if self._at is None else time.monotonic() - self._at

    def _renew(self, done: threading.Event) -> None:
        try:
            reading = self._read()
            with self._lock:
                self._last, self._at = reading, time.monotonic()
        finally:
            with self._lock:
                self._done = None
            done.set()


def _first(readings: Iterator[dict[str, float]]) -> dict[str, float] | None:
    return next((temperatures for temperatures in readings if temperatures), None)


def _hwmon_temperatures(monitor: Path, directory: Path) -> dict[str, float]:
    temperatures: dict[str, float] = {}
    for match in filter(None, map(_INPUT.fullmatch, sorted(names(monitor)))):
        label = text(monitor / f"temp{match[1]}_label", directory) or f"temp{match[1]}"
        sensor = _LABEL.sub("_", label).strip("_").lower()[:32].removesuffix("_temp")
        celsius = _celsius(number(monitor / match[0], directory), 1000)
        if sensor and celsius is not None and not sensor.startswith(_SETTINGS):
            temperatures.setdefault(sensor, celsius)
    return temperatures


def _xmc_temperatures(microblaze: Path, directory: Path) -> dict[str, float]:
    temperatures = {sensor: _celsius(number(microblaze / file, directory), 1) for file, sensor in _XMC_TEMPERATURES.items()}
    return {sensor: celsius for sensor, celsius in temperatures.items() if celsius is not None}


def _celsius(value: int | None, per_degree: int) -> float | None:
    return value / per_degree if value and _LEAST_C <= value / per_degree <= _MOST_C else None


def _watts(path: Path, directory: Path) -> float | None:
    value = number(path, directory)
    return value / 1e6 if value and 0 < value / 1e6 <= _MOST_W else None


def _power_limit(microblaze: Path, directory: Path) -> float | None:
    level = number(microblaze / "max_power", directory)
    return _POWER_LEVELS_W[level] if level is not None and 0 <= level < len(_POWER_LEVELS_W) else None
