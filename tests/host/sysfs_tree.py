# SPDX-License-Identifier: Apache-2.0
"""A made-up sysfs tree with cards and their sensors, following the source of XRT's driver."""

from __future__ import annotations

from pathlib import Path

from hypersonic.host.telemetry import Telemetry, read_telemetry

CARD = "0000:3b:00.1"


#: as xocl/subdev/xmc.c registers them: the file, what it reads, and what it is called
HWMON = {
    "name": "xilinx_u250_gen3x16_xdma_4_1_202210_1_user",
    "temp1_input": "38000", "temp1_label": "PCB TOP FRONT",
    "temp4_input": "71000", "temp4_label": "FPGA TEMP",
    "temp5_input": "40000", "temp5_label": "TCRIT TEMP",
    "temp6_input": "48000", "temp6_label": "DIMM0 TEMP",
    "temp10_input": "0", "temp10_label": "HBM TEMP",
    "temp15_input": "85000", "temp15_label": "CS_TARGET_TEMP",
    "in0_input": "12110", "in0_label": "12V PEX",
    "power1_input": "27345678", "power1_label": "POWER",
    "power2_input": "200000000", "power2_label": "CS_TARGET_POWER",
}  # fmt: skip


XMC = {"xmc_fpga_temp": "70", "xmc_dimm_temp0": "47", "xmc_hbm_temp": "0", "xmc_power": "26000000", "max_power": "2"}


class MadeUp:
    """A sysfs with cards that hang somewhere below /sys/devices, as real ones do."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for entry in ("bus/pci/devices", "bus/pci/drivers/xocl", "devices/pci0000:3a"):
            (root / entry).mkdir(parents=True)

    def card(self, address: str = CARD, ready: str = "1") -> Path:
        place = self.root / "devices/pci0000:3a" / address
        place.mkdir()
        (place / "ready").write_text(f"{ready}\n")
        for entry in ("devices", "drivers/xocl"):
            (self.root / "bus/pci" / entry / address).symlink_to(place)
        return place

    def render_node(self, number: int, address: str = CARD, *, given: bool = True) -> None:
        """given: this process has the card's device node; a container has sysfs of cards that it was not given too."""
        (self.root / "devices/pci0000:3a" / address / "drm" / f"renderD{number}").mkdir(parents=True)
        nodes = self.root.parent / "dev" / "dri"
        nodes.mkdir(parents=True, exist_ok=True)
        if given:
            (nodes / f"renderD{number}").touch()

    def read(self, address: str = CARD) -> Telemetry:
        return read_telemetry(address, self.root)


def fill(directory: Path, files: dict[str, str]) -> None:
    directory.mkdir(parents=True)
    for name, text in files.items():
        (directory / name).write_text(f"{text}\n")
