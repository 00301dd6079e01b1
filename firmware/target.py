# SPDX-License-Identifier: Apache-2.0
"""The targets that a kernel can be built for."""

from __future__ import annotations

from enum import StrEnum


class Target(StrEnum):
    """The target of a build, spelled as v++ spells it."""

    SW_EMU = "sw_emu"  # the model's compiled C++ behind a C++ shell
    HW_EMU = "hw_emu"  # the Verilated kernel
    HW = "hw"  # a card

    @property
    def emulated(self) -> bool:
        """True for the targets that need no card."""
        return self is not Target.HW
