# SPDX-License-Identifier: Apache-2.0
"""The state of an F2 card in sysfs, without opening the card: the id of its image, its link, the IOMMU in front of it.

::

    <sysfs>/bus/pci/devices/<address>/device                 the image's id, or the shell's without an image
                                      current_link_speed     "16.0 GT/s PCIe"
                                      current_link_width     "8"
                                      numa_node              -1 where there is only one
                                      iommu_group/type       "identity" where it does not translate

Which image it is, its clocks and its temperature can only be read with AWS' own tools.
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
    """The state of one F2 card; None where a fact is not known.

    Attributes:
        index: the argument of open_device, which is AWS' slot.
        device_id: 0xf010 for an image of this project.
    """

    index: int
    address: str
    device_id: str | None
    link_speed: str | None
    link_lanes: int | None
    numa_node: int | None
    iommu: str | None

    @property
    def status(self) -> str:
        """The state of the card in words, with the problem to correct first if there is one."""
        if self.iommu not in (None, "identity"):
            return f"not usable: the IOMMU before it translates ({self.iommu}); boot with iommu=pt"
        if self.device_id != _OURS:
            return "ready: no image on it that registers as ours; loading a model loads its image"
        return "ready: an image of this project is on it, or one that registers as such"

    def to_json(self) -> dict[str, Any]:
        """The facts and the status as a JSON object, for `hypersonic devices`."""
        return {**asdict(self), "simulated": False, "targets": ["hw"], "status": self.status}

    def rows(self) -> dict[str, str]:
        """Label -> value, for the text of `hypersonic devices`; a value is empty where it is not known."""
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
