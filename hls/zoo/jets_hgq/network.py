# SPDX-License-Identifier: Apache-2.0
"""The tagger of the hls4ml tutorial, 16-64-32-32-5, in layers of HGQ2 that learn a bit width for each weight and activation.

Layers, sizes and method are those of arXiv:2405.00645; the jets are this zoo's toys.
"""

from __future__ import annotations

from typing import Any

from hypersonic.hls.zoo import hgq_2
from hypersonic.hls.zoo.jets import observables, shower

UNITS = (64, 32, 32)


def network() -> Any:
    """Build the network: observables (n, 16) -> logits (n, 5)."""
    keras = hgq_2.keras()
    from hgq.layers import QDense

    with hgq_2.widths():
        given = keras.Input((len(observables.OBSERVABLES),), name="observables")
        x = given
        for i, units in enumerate(UNITS):
            x = QDense(units, activation="relu", name=f"dense{i}")(x)
        logits = QDense(len(shower.CLASSES), name="logits")(x)
    return keras.Model(given, logits, name="jets_hgq")
