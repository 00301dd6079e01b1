# SPDX-License-Identifier: Apache-2.0
"""What Linux tells of an F2 card without opening it: who made what is on it, its link, the IOMMU before it.

    <sysfs>/bus/pci/devices/<address>/device                 as the image registered it, or as the shell does without one
                                      current_link_speed     "16.0 GT/s PCIe"
                                      current_link_width     "8"
                                      numa_node              -1 where there is but one
                                      iommu_group/type       "identity" where it does not translate

What image it is, its clocks and its temperature only AWS' own tools tell.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hypersonic.host import sysfs
from hypersonic.host.f2.bar import DEVICES, card_addresses

_OURS = f"{DEVICES[0]:#06x}"


@dataclass(frozen=True)
class F2Facts:
    """index: what open_device takes, and AWS' slot. None: not known. device_id: 0xf010 is an image of this project."""

    index: int
    address: str
    device_id: str | None
    link_speed: str | None
    link_lanes: int | None
    numa_node: int | None
    iommu: str | None

    @property
    def status(self) -> str:
        """What has to be mended first."""
        if self.iommu not in (None, "identity"):
            return f"not usable: the IOMMU before it translates ({self.iommu}); boot with iommu=pt"
        if self.device_id != _OURS:
            return "ready: no image on it that registers as ours; loading a model loads its image"
        return "ready: an image of this project is on it, or one that registers as such"

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "simulated": False, "targets": ["hw"], "status": self.status}

    def rows(self) -> dict[str, str]:
        """Label -> value for people; empty where nothing is known."""
        link = f"{self.link_speed} x{self.link_lanes}" if self.link_speed and self.link_lanes else ""
        slot = f"`fpga-describe-local-image -S {self.index} -M` tells its image, clocks and power"
        return {"status": self.status, "PCI device": self.device_id or "", "PCIe": link, "more": slot}


def read_f2_cards(root: Path = sysfs.SYSFS) -> tuple[F2Facts, ...]:
    """Every F2 card of this machine, in the order of AWS' slots. Never raises."""
    return tuple(_facts(index, address, root) for index, address in enumerate(card_addresses(root)))


def _facts(index: int, address: str, root: Path) -> F2Facts:
    entry = root / "bus" / "pci" / "devices" / address
    return F2Facts(
        index,
        address,
        sysfs.text(entry / "device", root),
        sysfs.text(entry / "current_link_speed", root),
        sysfs.number(entry / "current_link_width", root),
        sysfs.number(entry / "numa_node", root),
        sysfs.text(entry / "iommu_group" / "type", root),
    )
