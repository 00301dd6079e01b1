# SPDX-License-Identifier: Apache-2.0
"""The codes of a channel, 11 bytes, and the tables that turn them into FACILE's numbers.

The charge of an ADC code is the QIE11's law (its data sheet, as in facile/events.py: qie_edges): 4 ranges of 64 codes, each
range 8 times as coarse as the one before. In the first range, 16 codes are 1 unit of 3.1 fC wide, 20 are 2, 21 are 4 and 7 are
8 units. A code stands for the centre of its bin.

A gain code has 8 bits. The upper 7 are the channel's calibration: its gain in GeV/fC, in steps of 0.625 % around the nominal
one; with steps of 1.25 % the energies above 30 GeV are more than 1 % wider than facile's. The low bit selects the table of
charges: the chip's current divider, which is assumed to pass all or an eighth of the charge, so that a code stands for 1
or 8 times the charge. These settings are a choice of this model; the events of facile have the first.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.packing.layout import Field, Packing
from hypersonic.hls.zoo.facile.events import FIRST_CHARGE, FIRST_DEPTH, NOMINAL_GAIN, SLICES, gate_rows, qie_edges

Float = NDArray[np.float64]

#: the step of log(gain), and the code of the nominal gain
GAIN_STEP, _NOMINAL_CODE = 0.00625, 64
_SETTINGS_BITS = 1


def gains() -> Float:
    """Return the gain of each gain code (256,), in GeV/fC."""
    calibration = np.arange(256) >> _SETTINGS_BITS
    return np.asarray(NOMINAL_GAIN * np.exp(GAIN_STEP * (calibration - _NOMINAL_CODE)))


def charges() -> Float:
    """Return the charge of each ADC code for each setting of the divider (2, 256), in fC."""
    edges = qie_edges()
    return np.asarray(8.0 ** np.arange(1 << _SETTINGS_BITS)[:, None] * ((edges[:-1] + edges[1:]) / 2))


def _table(numbers: Float) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(row) for row in np.atleast_2d(numbers).tolist())


#: the layout that facile_adc.yaml describes
PACKING = Packing((
    Field("ieta", 6, signed=True),
    Field("iphi", 7),
    Field("gain", 8, table=_table(gains())),
    Field("adc", 8, SLICES, table=_table(charges()), select="gain"),
    Field("depth", 3, one_hot=7, first=1),
))  # fmt: skip


def packed(channels: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Return facile's channels (n, 18) float32 as rows of codes (n, 11) uint8; each charge must be that of a code."""
    depth = channels[:, FIRST_DEPTH:]
    adc = np.searchsorted(qie_edges(), channels[:, FIRST_CHARGE:FIRST_DEPTH], side="right") - 1
    calibration = np.rint(np.log(channels[:, 2] / NOMINAL_GAIN) / GAIN_STEP).astype(np.int64) + _NOMINAL_CODE
    codes = {
        "ieta": channels[:, 0].astype(np.int64)[:, None],
        "iphi": channels[:, 1].astype(np.int64)[:, None],
        "gain": calibration.clip(0, 127)[:, None] << _SETTINGS_BITS,
        "adc": adc.clip(0, 255),
        "depth": np.where(depth.any(axis=1), depth.argmax(axis=1) + 1, 0)[:, None],
    }
    return PACKING.pack(codes)


def channels_of(rows: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return rows of codes (n, 11) as facile's channels (n, 18) float32, in GeV/fC and fC."""
    return PACKING.numbers(rows).astype(np.float32)


def packed_gate_rows() -> NDArray[np.uint8]:
    """Return the rows (4000, 11) on which a conversion is compared with its network: facile's."""
    return packed(gate_rows())
