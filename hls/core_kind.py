# SPDX-License-Identifier: Apache-2.0
"""How a network can be computed: the kinds of cores, by the words that users and files have for them."""

from __future__ import annotations

from enum import StrEnum


class CoreKind(StrEnum):
    """How a network is computed, by the word that --core, core.json, manifests and reports have for it."""

    DA = "da"  # adders, a row a clock (hls/da)
    RF = "rf"  # layers that share multipliers, in hls/rf
    HLS = "hls"  # what Vitis HLS makes of the HLS project (firmware/bitstream/hls_core.py)
    CSIM = "csim"  # hls4ml's C++, compiled: simulation only
    BENCH = "bench"  # of our own benches, which no model becomes

    @property
    def has_rtl(self) -> bool:
        """Whether there is a Core of it."""
        return self is not CoreKind.CSIM

    @property
    def needs_vitis(self) -> bool:
        """Whether only the vendor's tools make it, of the project that csim is compiled of."""
        return self is CoreKind.HLS

    @property
    def is_own_rtl(self) -> bool:
        """Whether this project writes a network's RTL itself, and any open tool reads it."""
        return self in (CoreKind.DA, CoreKind.RF)


#: what --core takes
CORE_CHOICES = tuple(kind for kind in CoreKind if kind is not CoreKind.BENCH)

#: of those, what hls/convert.py makes
CONVERTED = tuple(kind for kind in CORE_CHOICES if not kind.needs_vitis)
