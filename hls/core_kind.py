# SPDX-License-Identifier: Apache-2.0
"""The kinds of cores, by the names that users and files have for them."""

from __future__ import annotations

from enum import StrEnum


class CoreKind(StrEnum):
    """How a network is computed. The value is its name in --core, core.json, manifests and reports."""

    DA = "da"  # unrolled into adders, one row per clock (hls/da)
    RF = "rf"  # layers that share multipliers (hls/rf)
    HLS = "hls"  # RTL that Vitis HLS generates from the HLS project (firmware/toolchains/vitis/hls_core.py)
    CSIM = "csim"  # hls4ml's C++, compiled: simulation only
    BENCH = "bench"  # test cores of this project's own benches; no model is built as one

    @property
    def has_rtl(self) -> bool:
        """True for every kind but CSIM: there is a Core, and so RTL."""
        return self is not CoreKind.CSIM

    @property
    def needs_vitis(self) -> bool:
        """True if only the vendor's tools can generate the core; they read the same HLS project that csim is compiled from."""
        return self is CoreKind.HLS

    @property
    def is_own_rtl(self) -> bool:
        """True if this project writes the network's RTL itself, so that open tools can simulate it."""
        return self in (CoreKind.DA, CoreKind.RF)


#: the kinds that --core accepts
CORE_CHOICES = tuple(kind for kind in CoreKind if kind is not CoreKind.BENCH)

#: those of them that hls/convert.py writes
CONVERTED = tuple(kind for kind in CORE_CHOICES if not kind.needs_vitis)
