# SPDX-License-Identifier: Apache-2.0
"""How far the results of one layer are from the trained model's."""

from __future__ import annotations

from dataclasses import dataclass

from hypersonic.hls.closeness.difference import relative


@dataclass(frozen=True)
class LayerTrace:
    """How far a layer's results are from the trained model's, on all traced rows.

    Attributes:
        name: the model's, or hls4ml's for a layer that it adds.
        kind: input, or hls4ml's class.
        type: of the result.
        least, greatest: of the trained model's results.
        low, high: the ends of the type.
        outside: the share of the trained model's results beyond these.
        rms: of the difference.
        spread: the standard deviation of the trained model's results, or their magnitude if they do not vary.
        step: of the type.
    """

    name: str
    kind: str
    type: str
    least: float
    greatest: float
    low: float
    high: float
    outside: float
    rms: float
    spread: float
    step: float

    @property
    def share(self) -> float:
        """The difference's rms over the spread; infinity where there is a difference and no spread."""
        return relative(self.rms, self.spread)
