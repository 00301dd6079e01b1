# SPDX-License-Identifier: Apache-2.0
"""PYNQ on Alveo-class cards and in emulation: importing this makes the cards XRT drives devices of PYNQ.

    import pynq
    import hypersonic.host.pynq

    overlay = pynq.Overlay("facile.xclbin")
    x = pynq.allocate((16000, 18), "f4", target=overlay.bank0)
    y = pynq.allocate((16000, 1), "f4", target=overlay.bank0)
    x.sync_to_device()
    overlay.facile_1.call(x, y, 16000)
    y.sync_from_device()

PYNQ 4.0 pins grpcio 1.64 and numpy below 2, which the server does not take: it lives in an environment of its own.
"""

from __future__ import annotations

import pynq

from hypersonic.host.pynq.buffer import Buffer
from hypersonic.host.pynq.card import Bank, Card
from hypersonic.host.pynq.kernel import Handle, Kernel

__all__ = ["Bank", "Buffer", "Card", "Handle", "Kernel"]


def _join_devices() -> None:
    """PYNQ looks for devices once: when it did before this import, ours come after those it found."""
    devices = pynq.Device.__dict__.get("_devices")
    if devices is not None and not any(isinstance(device, Card) for device in devices):
        devices.extend(Card._probe_())


_join_devices()
