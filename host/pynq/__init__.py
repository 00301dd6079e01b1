# SPDX-License-Identifier: Apache-2.0
"""PYNQ on Alveo cards and in emulation: importing this module adds the cards that XRT drives to PYNQ's devices.

::

    import pynq
    import hypersonic.host.pynq

    overlay = pynq.Overlay("facile.xclbin")
    x = pynq.allocate((16000, 18), "f4", target=overlay.bank0)
    y = pynq.allocate((16000, 1), "f4", target=overlay.bank0)
    x.sync_to_device()
    overlay.facile_1.call(x, y, 16000)
    y.sync_from_device()

PYNQ 4.0 requires grpcio 1.64 and numpy below 2, with which the server does not work, so it needs an environment of its own.
"""

from __future__ import annotations

import pynq

from hypersonic.host.pynq.buffer import Buffer
from hypersonic.host.pynq.card import Bank, Card
from hypersonic.host.pynq.kernel import Handle, Kernel

__all__ = ["Bank", "Buffer", "Card", "Handle", "Kernel"]


def _join_devices() -> None:
    """Add the cards to PYNQ's devices if PYNQ has looked for devices already, which it does only once."""
    devices = pynq.Device.__dict__.get("_devices")
    if devices is not None and not any(isinstance(device, Card) for device in devices):
        devices.extend(Card._probe_())


_join_devices()
