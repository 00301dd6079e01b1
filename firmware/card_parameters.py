# SPDX-License-Identifier: Apache-2.0
"""The parameters of an fpga model's config.pbtxt that are whole numbers: their defaults and bounds, for both servers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

#: slots per compute unit, and so the runs that a server has in flight on it
SLOTS = 2

#: the most rows in one slot, the timeout of a run and the polling interval for a lost card, in ms; a server takes them where
#: config.pbtxt has no such parameter
SLOT_ROWS, TIMEOUT_MS, RETRY_MS = 16_384, 10_000, 10_000
_INT32 = (1 << 31) - 1


class CardParameter(NamedTuple):
    """One of them.

    Attributes:
        absent: the value where config.pbtxt has none.
        means: the most in words, "" = the number says enough.
    """

    absent: int
    least: int
    most: int
    means: str = ""


#: XRT takes milliseconds as 32 bits
CARD_PARAMETERS: Mapping[str, CardParameter] = {
    "slots": CardParameter(SLOTS, 1, 64),
    "slot_rows": CardParameter(SLOT_ROWS, 1, _INT32),
    "timeout_ms": CardParameter(TIMEOUT_MS, 1, _INT32, "24.8 days"),
    "retry_ms": CardParameter(RETRY_MS, 1, _INT32, "24.8 days"),
}
