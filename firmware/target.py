# SPDX-License-Identifier: Apache-2.0
"""The target of a build."""

from __future__ import annotations

from enum import StrEnum


class Target(StrEnum):
    """The target of a build, spelled as v++ spells it."""

    SW_EMU = "sw_emu"  # the model's compiled C++ behind a C++ shell
    HW_EMU = "hw_emu"  # the Verilated kernel
    HW = "hw"  # a card

    @property
    def emulated(self) -> bool:
        return self is not Target.HW
