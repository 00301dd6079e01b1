# SPDX-License-Identifier: Apache-2.0
"""The emulations by the way in which cards are driven."""

from __future__ import annotations

from collections.abc import Mapping

from hypersonic.firmware.platform import Flow, Platform
from hypersonic.firmware.target import Target
from hypersonic.sim.card import f2, xrt
from hypersonic.sim.card.emulation import Emulation

_EMULATIONS: Mapping[Flow, Emulation] = {Flow.XRT: xrt, Flow.F2_HDK: f2}


def emulation_of(platform: Platform, target: Target) -> Emulation:
    """The emulation of this card."""
    return _EMULATIONS[Flow.XRT if target is Target.SW_EMU else platform.flow]
