# SPDX-License-Identifier: Apache-2.0
"""The toolchains by the name that a platform's file gives in `build`."""

from __future__ import annotations

from collections.abc import Mapping

from hypersonic.firmware.platform import Flow, Platform
from hypersonic.firmware.toolchains.f2.build import find_f2
from hypersonic.firmware.toolchains.toolchain import CardOptions, Find, Toolchain
from hypersonic.firmware.toolchains.vitis.build import find_vitis

_FIND: Mapping[Flow, Find] = {Flow.XRT: find_vitis, Flow.F2_HDK: find_f2}


def find_toolchain(platform: Platform, core: str, options: CardOptions) -> Toolchain:
    """Find the tools that build for this card. The arguments and errors are those of Find."""
    return _FIND[platform.flow](platform, core, options)
